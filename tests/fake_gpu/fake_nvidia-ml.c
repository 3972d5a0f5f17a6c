/* A test fixture, not NVML: what exec/nccl/device_state.c reads, for the fake driver's devices.
 * Reading k of a process (1, 2, ...): SM clock 1000 + 10 k MHz, memory 2000, 300 + k W, 50 C,
 * throttled by the power cap when k is even. FAKE_NVML=none: it knows no device. */
#include <pthread.h>
#include <stdint.h>

#include "tests/fake_gpu/fake_env.h"

static unsigned n_readings;

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
    const char *how = getenv("FAKE_NVML");

    *device = &n_readings;
    return strncmp(uuid, "GPU-", 4) != 0 || strlen(uuid) != 40 || (how && strcmp(how, "none") == 0);
}

int nvmlDeviceGetClockInfo(void *device, int which, unsigned *mhz) /* the first of a reading */
{
    unsigned *n = device;

    if (which == 1)
        ++*n;
    *mhz = which == 1 ? 1000 + 10 * *n : 2000;
    return 0;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    *milliwatts = 1000 * (300 + *(unsigned *)device);
    return 0;
}

int nvmlDeviceGetTemperature(void *device, int which, unsigned *celsius)
{
    (void)device;
    *celsius = 50;
    return which;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons)
{
    *reasons = *(unsigned *)device % 2 == 0 ? 4 : 1; /* 1: idle, which slows nothing */
    return 0;
}
