/* Clocks, power and throttling of the device while steps run, from NVML (libnvidia-ml.so.1, opened
 * at run time: it comes with the driver). A thread reads them every SAMPLE_NS. A device that NVML
 * does not know by its UUID, or an instance of MIG, whose clocks NVML does not report, has no
 * samples; then the run has no such figures. */
#include "exec/nccl/nccl_world.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SAMPLE_NS = 100000000, CLOCK_SM = 1, CLOCK_MEMORY = 2, TEMPERATURE_GPU = 0 };

/* nvml.h: nvmlClocksThrottleReason*, those that slow a busy device. */
enum {
    POWER_CAP = 0x4,
    HW_SLOWDOWN = 0x8,
    SW_THERMAL = 0x20,
    HW_THERMAL = 0x40,
    POWER_BRAKE = 0x80,
    SLOWED = POWER_CAP | HW_SLOWDOWN | SW_THERMAL | HW_THERMAL | POWER_BRAKE
};

struct nvml { /* functions of the library; 0 = success */
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_uuid)(const char *uuid, void **device);
    int (*clock)(void *device, int which, unsigned *mhz);
    int (*power)(void *device, unsigned *milliwatts);
    int (*temperature)(void *device, int which, unsigned *celsius);
    int (*throttled)(void *device, unsigned long long *reasons);
};

struct device_watch {
    struct nvml nvml;
    void *library, *device;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the rest */
    pthread_cond_t changed;
    bool ends, active;
    struct exec_device_state seen; /* means are sums meanwhile */
};

static bool find(struct device_watch *d)
{
    static const struct {
        const char *name;
        size_t at;
    } functions[] = {
        {"nvmlInit_v2", offsetof(struct nvml, init)},
        {"nvmlShutdown", offsetof(struct nvml, shutdown)},
        {"nvmlDeviceGetHandleByUUID", offsetof(struct nvml, by_uuid)},
        {"nvmlDeviceGetClockInfo", offsetof(struct nvml, clock)},
        {"nvmlDeviceGetPowerUsage", offsetof(struct nvml, power)},
        {"nvmlDeviceGetTemperature", offsetof(struct nvml, temperature)},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", offsetof(struct nvml, throttled)},
    };

    d->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; d->library && i < sizeof functions / sizeof *functions; i++) {
        void *f = dlsym(d->library, functions[i].name);
        if (!f)
            return false;
        memcpy((char *)&d->nvml + functions[i].at, &f, sizeof f);
    }
    return d->library != NULL;
}

static bool find_device(struct device_watch *d, CUdevice device)
{
    const unsigned char *u;
    char name[64] = "GPU-";
    CUuuid id;
    int at = 4;

    if (cuDeviceGetUuid(&id, device) != CUDA_SUCCESS)
        return false;
    u = (const unsigned char *)id.bytes;
    for (int i = 0; i < 16; i++)
        at += snprintf(name + at, sizeof name - (size_t)at, "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
    return d->nvml.by_uuid(name, &d->device) == 0;
}

static void least(double *to, double value, bool first)
{
    *to = first || value < *to ? value : *to;
}

static void sample(struct device_watch *d)
{
    struct exec_device_state *s = &d->seen;
    unsigned sm = 0, memory = 0, milliwatts = 0, celsius = 0;
    unsigned long long reasons = 0;
    bool first = s->n_readings == 0;

    if (d->nvml.clock(d->device, CLOCK_SM, &sm) ||
        d->nvml.clock(d->device, CLOCK_MEMORY, &memory) ||
        d->nvml.power(d->device, &milliwatts) ||
        d->nvml.temperature(d->device, TEMPERATURE_GPU, &celsius) ||
        d->nvml.throttled(d->device, &reasons))
        return;
    s->n_readings++;
    s->n_throttled += (reasons & SLOWED) != 0;
    s->sm_mhz_mean += sm;
    s->watts_mean += milliwatts / 1e3;
    least(&s->sm_mhz_min, sm, first);
    least(&s->memory_mhz_min, memory, first);
    s->watts_max = milliwatts / 1e3 > s->watts_max ? milliwatts / 1e3 : s->watts_max;
    s->celsius_max = celsius > s->celsius_max ? celsius : s->celsius_max;
}

static void *watch(void *context)
{
    struct device_watch *d = context;
    struct timespec until;

    pthread_mutex_lock(&d->mutex);
    while (!d->ends) {
        if (!d->active) {
            pthread_cond_wait(&d->changed, &d->mutex);
            continue;
        }
        sample(d);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += SAMPLE_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&d->changed, &d->mutex, &until);
    }
    pthread_mutex_unlock(&d->mutex);
    return NULL;
}

enum lw_status nccl_device_watch(struct exec_world *w, struct lw_err *err)
{
    struct device_watch *d;

    LW_NEW(d, 1, err);
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->changed, NULL);
    if (find(d) && d->nvml.init() == 0) {
        if (find_device(d, w->device) && pthread_create(&d->thread, NULL, watch, d) == 0) {
            w->device_watch = d;
            return LW_OK;
        }
        d->nvml.shutdown();
    }
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->mutex);
    lw_free(d);
    return LW_OK;
}

void nccl_device_active(struct exec_world *w, bool active)
{
    struct device_watch *d = w->device_watch;

    if (!d || d->active == active)
        return;
    pthread_mutex_lock(&d->mutex);
    d->active = active;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->mutex);
}

struct exec_device_state nccl_device_state(const struct exec_world *w)
{
    struct device_watch *d = w->device_watch;
    struct exec_device_state s = {0};

    if (!d)
        return s;
    pthread_mutex_lock(&d->mutex);
    s = d->seen;
    pthread_mutex_unlock(&d->mutex);
    if (s.n_readings > 0) {
        s.sm_mhz_mean /= s.n_readings;
        s.watts_mean /= s.n_readings;
    }
    return s;
}

void nccl_device_unwatch(struct exec_world *w)
{
    struct device_watch *d = w->device_watch;

    if (!d)
        return;
    pthread_mutex_lock(&d->mutex);
    d->ends = true;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->mutex);
    pthread_join(d->thread, NULL);
    d->nvml.shutdown();
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->mutex);
    lw_free(d);
    w->device_watch = NULL;
}
