/* Collectives over shared memory: members walk the pulls of exec/cpu/thread_collective_steps.h.
 *
 * Ranges travel in chunks of CHUNK_BYTES, so that a chunk travels on while the next is still being
 * added. Order. Each member counts the pulls it has finished, chunk by chunk, in `progress` (never
 * reset: an op begins at the value that the ops before it left, the same on all members): pull q of
 * chunk k in phase p of an op with c chunks and w pulls is number (p c + k) w + q + 1. A pull waits
 * until the member that it reads has come as far as the script says. No member leaves before its
 * readers have. Entries are kept for two ops: to enter op t+2 a member must have seen all members
 * enter t+1, that is finish t.
 *
 * All-to-all: block j of member i and block i of member j change places, in the hands of one of
 * the two: of the pair (i, i + d modulo n) the first, for d < n/2; for d = n/2 the smaller. No
 * other pair touches these blocks. */
#include "exec/cpu/thread_group.h"

#include "exec/backend/element.h"
#include "exec/cpu/clock_wait.h"
#include "shared/base/arena.h"

enum { CHUNK_BYTES = 256 * 1024, SWAP_BYTES = 4096, LINE = 64, MAX_POSTS = 8 };

struct entry { /* what a member brought to an op */
    struct exec_message m;
    enum lw_op_kind op;
    int64_t at_ns;
};

struct post { /* a send that waits for its receiver */
    const void *mem;
    int64_t bytes, at_ns;
    int64_t met_ns; /* when both were there: the receiver says so before it counts it as taken */
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

struct exec_group {
    struct exec_shape shape;
    int32_t n;
    struct exec_pace pace;
    const atomic_bool *stop;
    struct member *members; /* [n] */
    struct box *boxes;      /* [n * n], sender major */
    bool owns;              /* members and boxes are this process's own */
    struct exec_pull *pulls;    /* [n][n_pulls] of each member's current phase */
    int32_t n_pulls;
};

/* One op as one member walks it. */
struct walk {
    struct exec_group *group;
    struct member *self;
    const struct entry *mine;
    struct exec_script script;
    int32_t i;
    uint32_t turn;        /* ops before this one */
    int64_t size, chunks; /* element size; chunks per phase */
};

int64_t exec_group_shared_bytes(int32_t n)
{
    return (int64_t)n * (int64_t)sizeof(struct member) +
           (int64_t)n * n * (int64_t)sizeof(struct box);
}

static enum lw_status fill(struct exec_group *g, void *shared, struct lw_err *err)
{
    g->n_pulls = exec_script_most_pulls(&g->shape);
    g->owns = !shared;
    g->members = shared ? shared : lw_calloc(1, (size_t)exec_group_shared_bytes(g->n));
    g->pulls = lw_calloc((size_t)g->n * (size_t)g->n_pulls, sizeof *g->pulls);
    if (!g->members || !g->pulls)
        return lw_fail_nomem(err);
    g->boxes = (struct box *)(void *)(g->members + g->n);
    return LW_OK;
}

enum lw_status exec_group_new(const struct exec_shape *shape, struct exec_pace pace,
                              const atomic_bool *stop, void *shared, struct exec_group **group,
                              struct lw_err *err)
{
    struct exec_group *g;

    LW_NEW(g, 1, err);
    g->shape = *shape;
    g->n = shape->n_nodes * shape->per_node;
    g->pace = pace;
    g->stop = stop;
    enum lw_status status = fill(g, shared, err);
    if (status == LW_OK)
        *group = g;
    else
        exec_group_free(g);
    return status;
}

void exec_group_free(struct exec_group *group)
{
    if (!group)
        return;
    if (group->owns)
        lw_free(group->members);
    lw_free(group->pulls);
    lw_free(group);
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
static enum lw_status enter(struct exec_group *g, int32_t i, const struct entry *mine,
                            int64_t *all_in_ns, struct lw_err *err)
{
    struct member *self = &g->members[i];
    uint32_t op = self->n_ops++;
    int64_t last = mine->at_ns;

    self->entry[op & 1] = *mine;
    exec_counter_set(&self->entered, op + 1);
    for (int32_t k = 1; k < g->n; k++) {
        int32_t j = (i + k) % g->n;
        struct member *other = &g->members[j];
        if (!exec_counter_wait(&other->entered, op + 1, INT64_MAX, g->stop))
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

/* Hold what member i read from another one back until a link of the chosen speed would have
 * delivered it. */
static void pace(struct exec_group *g, int32_t i, int32_t from, int64_t bytes)
{
    const struct exec_pace *p = &g->pace;
    int64_t now = exec_now_ns(), *free_ns = &g->members[i].link_free_ns;

    if (p->bytes_per_s <= 0 || (p->node && p->node[from] == p->node[i]))
        return;
    *free_ns = (now > *free_ns ? now : *free_ns) + (int64_t)((double)bytes / p->bytes_per_s * 1e9);
    exec_sleep_until(*free_ns + p->latency_ns, g->stop);
}

static uint32_t number_of(const struct walk *w, int32_t phase, int64_t chunk, int32_t pull)
{
    return w->self->base +
           (uint32_t)((phase * w->chunks + chunk) * w->script.n_pulls + pull + 1);
}

/* Chunk k of a pull, once the member it reads is far enough. */
static bool pull_chunk(struct walk *w, const struct exec_pull *p, int64_t k)
{
    struct member *from = &w->group->members[p->from];
    const struct entry *theirs = &from->entry[w->turn & 1];
    int64_t each = CHUNK_BYTES / w->size, n = p->count - k * each;

    if (n <= 0)
        return true;
    if (p->phase >= 0 &&
        !exec_counter_wait(&from->progress,
                           number_of(w, p->phase, p->whole ? w->chunks - 1 : k, p->pull),
                           INT64_MAX, w->group->stop))
        return false;
    n = n < each ? n : each;
    char *to = (char *)w->mine->m.mem + (p->first + k * each) * w->size;
    const char *data = (const char *)theirs->m.mem + (p->first + k * each) * w->size;
    if (p->add)
        exec_add(w->mine->m.dtype, to, data, n);
    else
        memcpy(to, data, (size_t)(n * w->size));
    pace(w->group, w->i, p->from, n * w->size);
    return true;
}

static bool walk_phase(struct walk *w, int32_t phase)
{
    struct exec_pull *pulls = w->group->pulls + (int64_t)w->i * w->group->n_pulls;

    exec_script_phase(&w->group->shape, w->mine->op, w->mine->m.count, w->mine->m.peer, w->i, phase,
                      pulls);
    for (int64_t k = 0; k < w->chunks; k++)
        for (int32_t q = 0; q < w->script.n_pulls; q++) {
            if (!pull_chunk(w, &pulls[q], k))
                return false;
            exec_counter_set(&w->self->progress, number_of(w, phase, k, q));
        }
    return true;
}

static void swap_bytes(char *a, char *b, int64_t n)
{
    char room[SWAP_BYTES];

    for (int64_t at = 0; at < n; at += SWAP_BYTES) {
        size_t some = (size_t)(n - at < SWAP_BYTES ? n - at : SWAP_BYTES);
        memcpy(room, a + at, some);
        memcpy(a + at, b + at, some);
        memcpy(b + at, room, some);
    }
}

static void swap_blocks(struct walk *w)
{
    int32_t n = w->group->n;
    int64_t bytes = w->mine->m.count / n * w->size;

    for (int32_t d = 1; d < n; d++) {
        int32_t j = (w->i + d) % n;
        const struct entry *theirs = &w->group->members[j].entry[w->turn & 1];
        if (2 * d < n || (2 * d == n && w->i < j))
            swap_bytes((char *)w->mine->m.mem + j * bytes, (char *)theirs->m.mem + w->i * bytes,
                       bytes);
        pace(w->group, w->i, j, bytes);
    }
}

static bool wait_for_readers(struct walk *w)
{
    struct exec_group *g = w->group;
    int32_t reader;

    for (int32_t k = 0; (reader = exec_script_reader(&g->shape, w->mine->op, w->i, k)) >= 0; k++)
        if (!exec_counter_wait(&g->members[reader].left, w->turn + 1, INT64_MAX, g->stop))
            return false;
    return true;
}

static struct entry entry_of(enum lw_op_kind op, const struct exec_message *m)
{
    struct entry mine = {*m, op, exec_now_ns()};

    if (op != LW_OP_BROADCAST && op != LW_OP_REDUCE)
        mine.m.peer = -1;
    return mine;
}

enum lw_status exec_group_meet(struct exec_group *group, int32_t i, enum lw_op_kind op,
                               const struct exec_message *m, int64_t *all_in_ns,
                               struct lw_err *err)
{
    struct entry mine = entry_of(op, m);

    return enter(group, i, &mine, all_in_ns, err);
}

enum lw_status exec_group_run(struct exec_group *group, int32_t i, enum lw_op_kind op,
                              const struct exec_message *m, int64_t *all_in_ns,
                              struct lw_err *err)
{
    struct entry mine = entry_of(op, m);
    struct member *self = &group->members[i];
    struct walk w = {.group = group, .self = self, .mine = &mine, .i = i, .turn = self->n_ops,
                     .size = lw_dtype_size(m->dtype)};

    LW_TRY(enter(group, i, &mine, all_in_ns, err));
    w.script = exec_script_of(&group->shape, op, m->count);
    w.chunks = (w.script.longest + CHUNK_BYTES / w.size - 1) / (CHUNK_BYTES / w.size);
    for (int32_t p = 0; p < w.script.n_phases; p++)
        if (!walk_phase(&w, p))
            return stopped(err);
    if (op == LW_OP_ALL_TO_ALL)
        swap_blocks(&w);
    self->base += (uint32_t)(w.script.n_phases * w.chunks * w.script.n_pulls);
    exec_counter_set(&self->left, w.turn + 1);
    return wait_for_readers(&w) ? LW_OK : stopped(err);
}

static struct box *box_of(struct exec_group *g, int32_t from, int32_t to)
{
    return &g->boxes[(int64_t)from * g->n + to];
}

static enum lw_status post(struct exec_group *g, int32_t i, const struct exec_message *m,
                           struct lw_err *err)
{
    struct box *b = box_of(g, i, m->peer);

    if (b->n_sent - atomic_load(&b->taken.value) >= MAX_POSTS)
        return lw_fail(err, LW_ENOTSUP, "more than %d sends to one peer in one group", MAX_POSTS);
    b->post[b->n_sent % MAX_POSTS] =
        (struct post){m->mem, m->count * lw_dtype_size(m->dtype), exec_now_ns(), 0};
    exec_counter_set(&b->posted, ++b->n_sent);
    return LW_OK;
}

static enum lw_status receive(struct exec_group *g, int32_t i, const struct exec_message *m,
                              int64_t entered_ns, int64_t *all_in_ns, struct lw_err *err)
{
    struct box *b = box_of(g, m->peer, i);
    int64_t bytes = m->count * lw_dtype_size(m->dtype);
    struct post *p = &b->post[b->n_received % MAX_POSTS];

    if (!exec_counter_wait(&b->posted, ++b->n_received, INT64_MAX, g->stop))
        return stopped(err);
    if (p->bytes != bytes)
        return lw_fail(err, LW_EFAILED, "member %d sent %lld bytes, member %d expects "
                                        "%lld", m->peer,
                       (long long)p->bytes, i, (long long)bytes);
    if (bytes > 0) /* an empty message has no memory */
        memcpy(m->mem, p->mem, (size_t)bytes);
    pace(g, i, m->peer, bytes);
    p->met_ns = p->at_ns > entered_ns ? p->at_ns : entered_ns;
    *all_in_ns = p->met_ns > *all_in_ns ? p->met_ns : *all_in_ns;
    exec_counter_set(&b->taken, b->n_received);
    return LW_OK;
}

static enum lw_status wait_taken(struct exec_group *g, int32_t i, const struct exec_message *m,
                                 int64_t *all_in_ns, struct lw_err *err)
{
    struct box *b = box_of(g, i, m->peer);

    if (!exec_counter_wait(&b->taken, b->n_sent, INT64_MAX, g->stop))
        return stopped(err);
    int64_t met_ns = b->post[(b->n_sent - 1) % MAX_POSTS].met_ns;
    *all_in_ns = met_ns > *all_in_ns ? met_ns : *all_in_ns;
    return LW_OK;
}

enum lw_status exec_group_exchange(struct exec_group *group, int32_t i,
                                   const struct exec_transfer *x, int32_t n, int64_t *all_in_ns,
                                   struct lw_err *err)
{
    int64_t entered_ns = *all_in_ns = exec_now_ns();

    for (int32_t k = 0; k < n; k++) {
        const struct exec_message *m = &x[k].message;
        if (m->count < 0 || m->count > PTRDIFF_MAX / lw_dtype_size(m->dtype))
            return lw_fail(err, LW_EINVAL, "member %d: %s of %lld %s is more than memory can hold",
                           i, lw_op_name(x[k].op), (long long)m->count, lw_dtype_name(m->dtype));
    }
    for (int32_t k = 0; k < n; k++)
        if (x[k].op == LW_OP_SEND)
            LW_TRY(post(group, i, &x[k].message, err));
    for (int32_t k = 0; k < n; k++)
        if (x[k].op == LW_OP_RECV)
            LW_TRY(receive(group, i, &x[k].message, entered_ns, all_in_ns, err));
    for (int32_t k = 0; k < n; k++)
        if (x[k].op == LW_OP_SEND)
            LW_TRY(wait_taken(group, i, &x[k].message, all_in_ns, err));
    return LW_OK;
}
