/* Ring collectives over shared memory.
 *
 * The buffer is dealt into n ranges (exec_range), each range into chunks of CHUNK_BYTES, so that a
 * chunk travels on while the next is still being added. One step of the ring: member i takes one
 * range, chunk by chunk, from its left neighbour i-1, and adds it (reduce) or copies it (gather).
 *   all-reduce      n-1 reduce steps, then n-1 gather steps; step g takes range i-g-1 of the reduce
 *                   half and i-(g-(n-1)) of the gather half (indices modulo n)
 *   reduce-scatter  n-1 reduce steps on range i-g-2: member i ends with range i
 *   all-gather      n-1 gather steps on range i-g-1
 *   broadcast       the root's chunks run down the chain root, root+1, ...
 *   reduce          the chain root+1, ..., root adds as it goes
 * The algorithm is the classical one (Patarasso and Yuan, "Bandwidth optimal all-reduce algorithms for
 * clusters of workstations", JPDC 69, 2009).
 *
 * Order. Each member counts the chunks it has finished in `progress` (never reset: an op begins at
 * the value that the ops before it left, the same on all members). Chunk k of step g may be taken when the left
 * neighbour has finished chunk k of its step g-1. Writing over a range is safe: its final value has
 * travelled through every member that read the partial one. Nobody leaves before its right
 * neighbour has taken everything. Entries are kept for two ops: to enter op t+2 a member must have
 * seen everybody enter t+1, that is finish t.
 *
 * Not modelled: tree and hierarchical forms. */
#include "exec/thread_ring.h"

#include <string.h>

#include "exec/element.h"
#include "exec/spin.h"
#include "shared/arena.h"

enum { CHUNK_BYTES = 256 * 1024, LINE = 64, MAX_POSTS = 8 };

struct entry { /* what a member brought to an op */
    struct exec_message m;
    enum lw_op_kind op;
    int64_t at_ns;
};

struct post { /* a send that waits for its receiver */
    const void *mem;
    int64_t bytes;
};

struct member {
    struct exec_counter entered;  /* ops entered */
    struct exec_counter left;     /* ops whose data phase is over */
    struct exec_counter progress; /* chunks finished */
    struct entry entry[2];
    uint32_t n_ops, base;         /* own view; touched by the member alone */
    int64_t link_free_ns;
    char pad[LINE];               /* no two members in one cache line */
};

struct box { /* of an ordered pair */
    struct post post[MAX_POSTS];
    struct exec_counter posted, taken; /* messages so far */
    uint32_t n_sent, n_received;       /* by the sender alone, by the receiver alone */
};

struct exec_ring {
    int32_t n;
    struct exec_pace pace;
    const atomic_bool *stop;
    struct member *members; /* [n] */
    struct box *boxes;      /* [n * n], sender major */
};

/* One op as one member walks it. */
struct walk {
    struct exec_ring *ring;
    struct member *self, *left;
    const struct entry *mine, *theirs; /* own and left neighbour's entry */
    int32_t i;
    int64_t size, chunks; /* element size; chunks per step */
};

enum lw_status exec_ring_new(int32_t n, struct exec_pace pace, const atomic_bool *stop,
                             struct exec_ring **ring, struct lw_err *err)
{
    struct exec_ring *r = lw_calloc(1, sizeof *r);

    if (!r)
        return lw_fail_nomem(err);
    r->n = n;
    r->pace = pace;
    r->stop = stop;
    r->members = lw_calloc((size_t)n, sizeof *r->members);
    r->boxes = lw_calloc((size_t)n * (size_t)n, sizeof *r->boxes);
    if (!r->members || !r->boxes) {
        exec_ring_free(r);
        return lw_fail_nomem(err);
    }
    *ring = r;
    return LW_OK;
}

void exec_ring_free(struct exec_ring *ring)
{
    if (!ring)
        return;
    lw_free(ring->members);
    lw_free(ring->boxes);
    lw_free(ring);
}

static enum lw_status stopped(struct lw_err *err)
{
    return lw_fail(err, LW_EFAILED, "stopped while waiting for another rank");
}

static bool agree(const struct entry *a, const struct entry *b)
{
    return a->op == b->op && a->m.count == b->m.count && a->m.dtype == b->m.dtype &&
           a->m.peer == b->m.peer;
}

static enum lw_status disagree(const struct entry *a, int32_t i, const struct entry *b, int32_t j,
                               struct lw_err *err)
{
    return lw_fail(err, LW_EFAILED,
                   "member %d of the group came with %s of %lld %s (root %d), member %d with %s of "
                   "%lld %s (root %d)",
                   i, lw_op_name(a->op), (long long)a->m.count, lw_dtype_name(a->m.dtype),
                   a->m.peer, j, lw_op_name(b->op), (long long)b->m.count,
                   lw_dtype_name(b->m.dtype), b->m.peer);
}

/* Enter: show what was brought, wait for all, compare. */
static enum lw_status enter(struct exec_ring *r, int32_t i, const struct entry *mine,
                            int64_t *all_in_ns, struct lw_err *err)
{
    struct member *self = &r->members[i];
    uint32_t op = self->n_ops++;
    int64_t last = mine->at_ns;

    self->entry[op & 1] = *mine;
    exec_counter_set(&self->entered, op + 1);
    for (int32_t k = 1; k < r->n; k++) {
        int32_t j = (i + k) % r->n;
        struct member *other = &r->members[j];
        if (!exec_counter_wait(&other->entered, op + 1, INT64_MAX, r->stop))
            return stopped(err);
        const struct entry *theirs = &other->entry[op & 1];
        if (!agree(mine, theirs))
            return disagree(mine, i, theirs, j, err);
        if (theirs->at_ns > last)
            last = theirs->at_ns;
    }
    *all_in_ns = last;
    return LW_OK;
}

/* Hold a chunk back until a link of the chosen speed would have delivered it. */
static void pace(struct walk *w, int64_t bytes)
{
    const struct exec_pace *p = &w->ring->pace;
    int64_t now = exec_now_ns(), *free_ns = &w->self->link_free_ns;

    if (p->bytes_per_s <= 0)
        return;
    *free_ns = (now > *free_ns ? now : *free_ns) + (int64_t)((double)bytes / p->bytes_per_s * 1e9);
    exec_sleep_until(*free_ns + p->latency_ns, w->ring->stop);
}

/* Chunk k of a range of the buffer: elements [*first, *first + *n), none beyond the range's end. */
static void chunk_of(const struct walk *w, int64_t from, int64_t count, int64_t k, int64_t *first,
                     int64_t *n)
{
    int64_t each = CHUNK_BYTES / w->size, begin = k * each;

    *first = from + (begin < count ? begin : count);
    *n = count - begin < each ? count - begin : each;
    if (*n < 0)
        *n = 0;
}

/* Take one range from the left neighbour, chunk by chunk: chunk k when the left one has finished
 * wait_from + k of this op (wait_from < 0: at once), marking mark_from + k of one's own. */
static bool take(struct walk *w, int64_t from, int64_t count, int64_t wait_from, int64_t mark_from,
                 bool add)
{
    uint32_t base = w->self->base;

    for (int64_t k = 0; k < w->chunks; k++) {
        int64_t first, n;
        if (wait_from >= 0 &&
            !exec_counter_wait(&w->left->progress, base + (uint32_t)(wait_from + k + 1), INT64_MAX,
                               w->ring->stop))
            return false;
        chunk_of(w, from, count, k, &first, &n);
        if (n > 0) {
            char *to = (char *)w->mine->m.mem + first * w->size;
            const char *data = (const char *)w->theirs->m.mem + first * w->size;
            if (add)
                exec_add(w->mine->m.dtype, to, data, n);
            else
                memcpy(to, data, (size_t)(n * w->size));
            pace(w, n * w->size);
        }
        exec_counter_set(&w->self->progress, base + (uint32_t)(mark_from + k + 1));
    }
    return true;
}

static int32_t wrap(int64_t a, int32_t n)
{
    return (int32_t)(((a % n) + n) % n);
}

/* n_add reduce steps on ranges i-g-add_shift, then n_copy gather steps on i-g'-copy_shift. */
static bool circulate(struct walk *w, int32_t n_add, int32_t add_shift, int32_t n_copy,
                      int32_t copy_shift)
{
    for (int32_t g = 0; g < n_add + n_copy; g++) {
        bool add = g < n_add;
        int64_t range = add ? (int64_t)w->i - g - add_shift : (int64_t)w->i - (g - n_add) - copy_shift;
        int64_t first, n;
        exec_range(w->mine->m.count, w->ring->n, wrap(range, w->ring->n), &first, &n);
        if (!take(w, first, n, (g - 1) * w->chunks, g * w->chunks, add))
            return false;
    }
    return true;
}

/* Down the chain that begins at `head`: the head has its data at once, the others take it from the
 * left. */
static bool chain(struct walk *w, int32_t head, bool add)
{
    if (w->i == head)
        return true; /* the caller marks all chunks */
    return take(w, 0, w->mine->m.count, 0, 0, add);
}

/* Chunks per step and steps of an op: equal on all members, so that progress stays comparable. */
static int32_t plan_steps(struct walk *w, enum lw_op_kind op)
{
    bool whole = op == LW_OP_BROADCAST || op == LW_OP_REDUCE;
    int32_t n = w->ring->n;
    int64_t first, count = w->mine->m.count, each = CHUNK_BYTES / w->size;

    if (!whole)
        exec_range(count, n, 0, &first, &count); /* the largest range */
    w->chunks = (count + each - 1) / each;
    if (op == LW_OP_BARRIER || n == 1)
        return 0;
    return op == LW_OP_ALL_REDUCE ? 2 * (n - 1) : whole ? 1 : n - 1;
}

static bool move_data(struct walk *w, enum lw_op_kind op)
{
    int32_t n = w->ring->n, root = w->mine->m.peer;

    switch (op) {
    case LW_OP_ALL_REDUCE: return circulate(w, n - 1, 1, n - 1, 0);
    case LW_OP_REDUCE_SCATTER: return circulate(w, n - 1, 2, 0, 0);
    case LW_OP_ALL_GATHER: return circulate(w, 0, 0, n - 1, 1);
    case LW_OP_BROADCAST: return chain(w, root, false);
    default: return chain(w, wrap((int64_t)root + 1, n), true);
    }
}

enum lw_status exec_ring_run(struct exec_ring *ring, int32_t i, enum lw_op_kind op,
                             const struct exec_message *m, int64_t *all_in_ns, struct lw_err *err)
{
    struct entry mine = {*m, op, exec_now_ns()};
    struct member *self = &ring->members[i];
    uint32_t turn = self->n_ops;

    if (op != LW_OP_BROADCAST && op != LW_OP_REDUCE)
        mine.m.peer = -1;
    LW_TRY(enter(ring, i, &mine, all_in_ns, err));
    int32_t l = wrap((int64_t)i - 1, ring->n), r = wrap((int64_t)i + 1, ring->n);
    struct walk w = {.ring = ring, .self = self, .left = &ring->members[l], .mine = &mine, .i = i,
                     .theirs = &ring->members[l].entry[turn & 1],
                     .size = lw_dtype_size(m->dtype)};
    int32_t steps = plan_steps(&w, op);

    if (steps > 0) {
        if (!move_data(&w, op))
            return stopped(err);
        self->base += (uint32_t)steps * (uint32_t)w.chunks;
        exec_counter_set(&self->progress, self->base);
        exec_counter_set(&self->left, turn + 1);
        if (!exec_counter_wait(&ring->members[r].left, turn + 1, INT64_MAX, ring->stop))
            return stopped(err);
    } else {
        exec_counter_set(&self->left, turn + 1);
    }
    return LW_OK;
}

static struct box *box_of(struct exec_ring *r, int32_t from, int32_t to)
{
    return &r->boxes[(int64_t)from * r->n + to];
}

static enum lw_status post(struct exec_ring *r, int32_t i, const struct exec_message *m,
                           struct lw_err *err)
{
    struct box *b = box_of(r, i, m->peer);

    if (b->n_sent - atomic_load(&b->taken.value) >= MAX_POSTS)
        return lw_fail(err, LW_ENOTSUP, "more than %d sends to one peer in one group", MAX_POSTS);
    b->post[b->n_sent % MAX_POSTS] =
        (struct post){m->mem, m->count * lw_dtype_size(m->dtype)};
    exec_counter_set(&b->posted, ++b->n_sent);
    return LW_OK;
}

static enum lw_status receive(struct exec_ring *r, int32_t i, const struct exec_message *m,
                              struct lw_err *err)
{
    struct box *b = box_of(r, m->peer, i);
    int64_t bytes = m->count * lw_dtype_size(m->dtype);
    const struct post *p = &b->post[b->n_received % MAX_POSTS];

    if (!exec_counter_wait(&b->posted, ++b->n_received, INT64_MAX, r->stop))
        return stopped(err);
    if (p->bytes != bytes)
        return lw_fail(err, LW_EFAILED, "member %d sent %lld bytes, member %d wants %lld", m->peer,
                       (long long)p->bytes, i, (long long)bytes);
    memcpy(m->mem, p->mem, (size_t)bytes);
    exec_counter_set(&b->taken, b->n_received);
    return LW_OK;
}

static enum lw_status wait_taken(struct exec_ring *r, int32_t i, const struct exec_message *m,
                                 struct lw_err *err)
{
    struct box *b = box_of(r, i, m->peer);

    return exec_counter_wait(&b->taken, b->n_sent, INT64_MAX, r->stop) ? LW_OK : stopped(err);
}

enum lw_status exec_ring_exchange(struct exec_ring *ring, int32_t i, const struct exec_message *m,
                                  const enum lw_op_kind *op, int32_t n, struct lw_err *err)
{
    for (int32_t k = 0; k < n; k++)
        if (op[k] == LW_OP_SEND)
            LW_TRY(post(ring, i, &m[k], err));
    for (int32_t k = 0; k < n; k++)
        if (op[k] == LW_OP_RECV)
            LW_TRY(receive(ring, i, &m[k], err));
    for (int32_t k = 0; k < n; k++)
        if (op[k] == LW_OP_SEND)
            LW_TRY(wait_taken(ring, i, &m[k], err));
    return LW_OK;
}
