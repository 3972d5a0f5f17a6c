#pragma once

#include <stdint.h>

/* What other programs take of this machine's processors while a run is measured, from Linux's
 * /proc/stat (proc(5): ticks of all processors by what they did; time stolen by a hypervisor is
 * in it). */
struct exec_machine_load {
    int64_t all_ticks, idle_ticks; /* < 0: not known here */
    int64_t own_ns;                /* processor time of this process */
};

struct exec_machine_load exec_machine_load_now(void);

/* Share of all processors' time that something else took between two readings, 0 to 1; -1: not
 * known, or too short a time for the ticks (less than 50 of them). */
double exec_machine_load_others(const struct exec_machine_load *before,
                                const struct exec_machine_load *after);
