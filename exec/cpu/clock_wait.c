/* The clock and waiting. Waiting threads sleep in the kernel (futex) and burn no core: on a
 * machine with one core per rank the compute thread needs it. Each sleep is bounded by SLICE_NS,
 * so that a stop is seen even if its wake was missed. The counter uses sequentially consistent
 * atomics: the writer stores, then looks for waiters; the waiter announces itself, then lets the
 * kernel compare. */
#include "exec/cpu/clock_wait.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_NS = 20 * 1000 * 1000, WAKE_EARLY_NS = 60 * 1000 };

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t exec_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t exec_cpu_ns(void)
{
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void exec_spin_until(int64_t t_ns, const atomic_bool *stop)
{
    while (exec_now_ns() < t_ns && !atomic_load_explicit(stop, memory_order_relaxed))
        ;
}

void exec_sleep_until(int64_t t_ns, const atomic_bool *stop)
{
    for (;;) {
        int64_t now = exec_now_ns(), left = t_ns - WAKE_EARLY_NS - now;
        if (left <= 0 || atomic_load(stop))
            break;
        int64_t until = now + (left < SLICE_NS ? left : SLICE_NS);
        struct timespec t = {until / 1000000000, until % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    }
    exec_spin_until(t_ns, stop);
}

static void futex_wake_all(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
}

void exec_counter_wake(struct exec_counter *c)
{
    futex_wake_all(&c->value);
}

void exec_counter_set(struct exec_counter *c, uint32_t value)
{
    atomic_store(&c->value, value);
    if (atomic_load(&c->n_waiting))
        futex_wake_all(&c->value);
}

void exec_counter_add(struct exec_counter *c, uint32_t delta)
{
    atomic_fetch_add(&c->value, delta);
    if (atomic_load(&c->n_waiting))
        futex_wake_all(&c->value);
}

static bool reached(struct exec_counter *c, uint32_t target, uint32_t *seen)
{
    *seen = atomic_load(&c->value);
    return (int32_t)(*seen - target) >= 0;
}

bool exec_counter_reached(struct exec_counter *c, uint32_t target)
{
    uint32_t seen;

    return reached(c, target, &seen);
}

bool exec_counter_wait(struct exec_counter *c, uint32_t target, int64_t deadline_ns,
                       const atomic_bool *stop)
{
    uint32_t seen;
    bool ok;

    if (reached(c, target, &seen))
        return true;
    atomic_fetch_add(&c->n_waiting, 1);
    while (!(ok = reached(c, target, &seen)) && !atomic_load(stop)) {
        int64_t left = SLICE_NS;
        if (deadline_ns != INT64_MAX) {
            left = deadline_ns - exec_now_ns();
            if (left <= 0)
                break;
        }
        futex_wait(&c->value, seen, left < SLICE_NS ? left : SLICE_NS);
    }
    atomic_fetch_sub(&c->n_waiting, 1);
    return ok;
}
