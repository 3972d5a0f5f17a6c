#ifndef FAKE_ENV_H
#define FAKE_ENV_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What the fake libraries share: settings from the environment, waiting, a log. */

enum { FAKE_FIRST_MIG = 1000 }; /* number of MIG-0 */

/* A setting is read once, where it is asked for: it is the same as long as the process runs. An
 * empty one is as if it were not there. */
static inline const char *fake_env_kept(const char **kept, const char *name)
{
    const char *s = __atomic_load_n(kept, __ATOMIC_ACQUIRE);

    if (!s) {
        s = getenv(name);
        s = strdup(s ? s : "");
        __atomic_store_n(kept, s, __ATOMIC_RELEASE);
    }
    return s;
}

#define FAKE_ENV(name)              \
    ({                              \
        static const char *kept;    \
        fake_env_kept(&kept, name); \
    })

static inline int64_t fake_int(const char *s, int64_t otherwise)
{
    return *s ? strtoll(s, NULL, 10) : otherwise;
}

#define fake_env_int(name, otherwise) fake_int(FAKE_ENV(name), otherwise)

/* Where a log named by a setting is, opened once; -1 = none is asked for. */
static inline int fake_log_fd(const char *path)
{
    static int fd = -2;
    int now = __atomic_load_n(&fd, __ATOMIC_ACQUIRE);

    if (now == -2) {
        now = *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
        __atomic_store_n(&fd, now, __ATOMIC_RELEASE);
    }
    return now;
}

/* "a:b:c" with up to three fields; missing numbers are -1. false: not set. */
struct fake_spec {
    char word[64];
    int64_t a, b, c;
};

static inline int fake_spec_read(const char *s, struct fake_spec *spec)
{
    long long a = -1, b = -1, c = -1;

    if (!*s)
        return 0;
    *spec = (struct fake_spec){.a = -1, .b = -1, .c = -1};
    if (sscanf(s, "%63[^:0-9]:%lld:%lld:%lld", spec->word, &a, &b, &c) < 1)
        sscanf(s, "%lld:%lld:%lld", &a, &b, &c);
    spec->a = a, spec->b = b, spec->c = c;
    return 1;
}

#define fake_env_spec(name, spec) fake_spec_read(FAKE_ENV(name), spec)

static inline int64_t fake_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void fake_sleep_us(int64_t us)
{
    struct timespec t = {us / 1000000, us % 1000000 * 1000};

    if (us > 0)
        nanosleep(&t, NULL);
}

/* Waits a little, longer after many tries. */
static inline void fake_doze(int64_t n_tries)
{
    fake_sleep_us(n_tries < 20 ? 20 : n_tries < 120 ? 200 : 2000);
}

/* A delay below max_us: a function of the seed and a counter. */
static inline int64_t fake_delay_us(int64_t max_us, uint64_t n)
{
    uint64_t x = (n + (uint64_t)fake_env_int("FAKE_GPU_SEED", 1) * 1000003u) *
                 UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 32;
    return max_us > 0 ? (int64_t)(x % (uint64_t)max_us) : 0;
}

#endif
