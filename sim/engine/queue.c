/* A monotone radix heap (Ahuja, Mehlhorn, Orlin, Tarjan: Faster algorithms for the shortest path
 * problem, JACM 37(2), 1990), with first-in first-out order among equal times.
 *
 * Invariants. Bucket 0 holds the events at q->now. Bucket b > 0 holds the events whose time differs
 * from q->now in bit b - 1 and in no higher one, so every event of a lower bucket is earlier than
 * every event of a higher one, and equal times are always in one bucket. Within a bucket, events of
 * equal time stand in the order they were pushed.
 *
 * A pop takes the front of bucket 0. When that is empty, the least time of the lowest used bucket
 * becomes q->now and the bucket is dealt out again, front to back: every event lands in a lower,
 * empty bucket, which keeps the order of equal times. An event moves down at most 63 times, in
 * practice a few: O(1) amortised. Buckets keep their memory, so a queue that has grown allocates no
 * more. See docs/design/queue.md. */
#include "sim/engine/queue.h"

#include <assert.h>

#include "shared/base/arena.h"

static inline int bucket_of(lw_ps time, lw_ps now)
{
    uint64_t differs = (uint64_t)time ^ (uint64_t)now;
    return differs ? 64 - __builtin_clzll(differs) : 0;
}

static inline int append(struct sim_queue *q, int b, struct sim_event e)
{
    struct sim_queue_bucket *k = &q->buckets[b];

    if (__builtin_expect(k->n == k->capacity, 0) &&
        lw_reserve(&k->items, &k->capacity, k->n + 1, sizeof *k->items) != 0)
        return -1;
    k->items[k->n++] = e;
    q->used |= UINT64_C(1) << b;
    return 0;
}

int sim_queue_push(struct sim_queue *q, lw_ps time, uint64_t what)
{
    assert(time >= q->now);
    if (append(q, bucket_of(time, q->now), (struct sim_event){time, what}) != 0)
        return -1;
    q->n++;
    return 0;
}

/* Move q->now to the least time of bucket b and deal its events out to the buckets below. */
static int deal(struct sim_queue *q, int b)
{
    struct sim_queue_bucket *k = &q->buckets[b];
    lw_ps least = k->items[0].time;

    for (int64_t i = 1; i < k->n; i++)
        if (k->items[i].time < least)
            least = k->items[i].time;
    q->now = least;
    for (int64_t i = 0; i < k->n; i++)
        if (append(q, bucket_of(k->items[i].time, least), k->items[i]) != 0)
            return -1;
    k->n = 0;
    q->used &= ~(UINT64_C(1) << b);
    return 0;
}

int sim_queue_pop(struct sim_queue *q, struct sim_event *e)
{
    struct sim_queue_bucket *first = &q->buckets[0];

    if (first->n == 0) {
        if (q->used == 0)
            return 0;
        int b = __builtin_ctzll(q->used);
        struct sim_queue_bucket *k = &q->buckets[b];
        if (k->n == 1) { /* nothing to deal: most pops of a short queue end here */
            *e = k->items[0];
            k->n = 0;
            q->used &= ~(UINT64_C(1) << b);
            q->now = e->time;
            q->n--;
            return 1;
        }
        if (deal(q, b) != 0)
            return -1;
    }
    *e = first->items[first->head++];
    if (first->head == first->n) {
        first->head = first->n = 0;
        q->used &= ~UINT64_C(1);
    }
    q->n--;
    return 1;
}

bool sim_queue_more_now(const struct sim_queue *q)
{
    return q->used & 1;
}

void sim_queue_free(struct sim_queue *q)
{
    for (int b = 0; b < SIM_QUEUE_BUCKETS; b++)
        lw_free(q->buckets[b].items);
    *q = (struct sim_queue){0};
}

/* xorshift64* (Vigna, 2016): enough for a load generator. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

int64_t sim_queue_hold(int64_t pending, int64_t n_holds, lw_ps spread, uint64_t seed)
{
    struct sim_queue q = {0};
    struct sim_event e;
    uint64_t state = seed * 2 + 1, mask = 1;
    int64_t sum = 0;

    while ((lw_ps)mask < spread)
        mask = mask * 2 + 1;
    for (int64_t i = 0; i < pending; i++)
        if (sim_queue_push(&q, (lw_ps)(next_random(&state) & mask), (uint64_t)i) != 0)
            sum = -1;
    for (int64_t i = 0; i < n_holds && sum >= 0; i++) {
        if (sim_queue_pop(&q, &e) != 1 ||
            sim_queue_push(&q, e.time + (lw_ps)(next_random(&state) & mask), e.what) != 0)
            sum = -1;
        else
            sum = (sum * 31 + e.time + (int64_t)e.what) & INT64_C(0xffffffffff);
    }
    sim_queue_free(&q);
    return sum;
}
