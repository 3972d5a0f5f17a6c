#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The clock, and waiting: on the clock, and on a counter that another thread moves. Waits end early
 * when *stop becomes true. */

int64_t exec_now_ns(void);     /* CLOCK_MONOTONIC */
int64_t exec_cpu_ns(void);     /* processor time of the calling thread */

/* Busy, and idle, until the clock shows t. Sleeping ends with a short spin, so both are exact to
 * well under a microsecond on a core of their own. */
void exec_spin_until(int64_t t_ns, const atomic_bool *stop);
void exec_sleep_until(int64_t t_ns, const atomic_bool *stop);

/* A number that only grows (and wraps); writers wake those who wait for it to reach a value. What
 * was written before a move is seen by those whose wait saw it. */
struct exec_counter {
    _Atomic uint32_t value;
    _Atomic uint32_t n_waiting;
};

void exec_counter_set(struct exec_counter *c, uint32_t value);
void exec_counter_add(struct exec_counter *c, uint32_t delta);
bool exec_counter_reached(struct exec_counter *c, uint32_t target);
/* Wait until value - target >= 0 (as int32). false: stopped, or the clock passed deadline_ns
 * (INT64_MAX = none). */
bool exec_counter_wait(struct exec_counter *c, uint32_t target, int64_t deadline_ns,
                       const atomic_bool *stop);
void exec_counter_wake(struct exec_counter *c); /* make waiters look at *stop */
