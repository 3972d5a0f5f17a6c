#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/numbers/units.h"

/* The pending events of a simulation. Times never run backwards: an event may not be pushed before
 * the time of the one popped last. Events of equal time leave in the order they were pushed. */
struct sim_event {
    lw_ps time;
    uint64_t what; /* the caller's; not looked at */
};

struct sim_queue_bucket {
    struct sim_event *items;
    int64_t head, n, capacity; /* items[head .. n) are pending; head > 0 only in bucket 0 */
};

enum { SIM_QUEUE_BUCKETS = 64 }; /* times are non-negative int64: 63 bits, and equality */

/* A zeroed queue is a valid empty one at time 0. Fields are the implementation's. */
struct sim_queue {
    lw_ps now;      /* time of the last event popped */
    uint64_t used;  /* bit b: bucket b holds events */
    int64_t n;      /* pending events */
    struct sim_queue_bucket buckets[SIM_QUEUE_BUCKETS];
};

/* 0, or -1 with the queue unchanged when memory runs out. Asserts time >= q->now. */
int sim_queue_push(struct sim_queue *q, lw_ps time, uint64_t what);
/* 1 with the earliest event in *e; 0 when none is pending; -1 when memory runs out (the queue is
 * then only fit to be freed). */
int sim_queue_pop(struct sim_queue *q, struct sim_event *e);
/* Another event is pending at the time of the one popped last. */
bool sim_queue_more_now(const struct sim_queue *q);
void sim_queue_free(struct sim_queue *q);

/* The hold model, the classic load of an event queue: with `pending` events in the queue, pop
 * the least and push it back up to `spread` later, n_holds times. Returns a checksum of what was
 * popped, or -1 without memory. The caller times it. */
int64_t sim_queue_hold(int64_t pending, int64_t n_holds, lw_ps spread, uint64_t seed);
