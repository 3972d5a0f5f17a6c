/* Ticks of all processors and of this process, read at one moment: the first line of /proc/stat and
 * the process clock. Where that line cannot be read, the ticks are -1. */
#include "exec/run/machine_load.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { FEWEST_TICKS = 50, STATES = 8 }; /* user, nice, system, idle, iowait, irq, softirq, steal */

struct exec_machine_load exec_machine_load_now(void)
{
    struct exec_machine_load l = {.all_ticks = -1, .idle_ticks = -1};
    long long t[STATES] = {0};
    struct timespec own;
    FILE *f = fopen("/proc/stat", "r");

    int n = f ? fscanf(f, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &t[0], &t[1], &t[2], &t[3],
                       &t[4], &t[5], &t[6], &t[7])
              : 0;
    if (f)
        fclose(f);
    if (n == STATES && clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own) == 0) {
        l.all_ticks = 0;
        for (int i = 0; i < STATES; i++)
            l.all_ticks += t[i];
        l.idle_ticks = t[3] + t[4];
        l.own_ns = (int64_t)own.tv_sec * 1000000000 + own.tv_nsec;
    }
    return l;
}

double exec_machine_load_others(const struct exec_machine_load *before,
                                const struct exec_machine_load *after)
{
    int64_t all = after->all_ticks - before->all_ticks;
    int64_t busy = all - (after->idle_ticks - before->idle_ticks);
    double own = (double)(after->own_ns - before->own_ns) * 1e-9 * (double)sysconf(_SC_CLK_TCK);

    if (before->all_ticks < 0 || after->all_ticks < 0 || all < FEWEST_TICKS)
        return -1;
    return (double)busy > own ? ((double)busy - own) / (double)all : 0;
}
