/* Rows of a simulation, packed. A block holds the three times of ROWS neighbouring rows as whole
 * numbers of `width` bytes, counted from its base: the clock of the simulation when the first of
 * them starts, before which no row of the block does anything. 4 bytes hold 4.29 ms, 5 bytes 1.1 s.
 * A block to which a larger number comes is written anew with as many bytes as that needs. A block
 * begins with the bytes that the one before it needs, because neighbours take about as long.
 *
 * Invariants: all times of a block are base + the stored number, where sums wrap, so that 8 bytes
 * hold every time; of all_in the number is one more, and 0 says that it is not known. Numbers are
 * stored with the lowest byte first. Rooms of blocks that grew are used again. */
#include "shared/timeline/packed_rows.h"

#include <assert.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/plan/op.h"
#include "shared/plan/plan.h"

enum { ROWS = 64, TIMES = 3, LEAST_WIDTH = 4, MOST_WIDTH = 8, NEAR = 32 };

enum { START, ALL_IN, END };

struct block {
    lw_ps base;
    unsigned char *at;     /* [ROWS][TIMES] numbers of `width` bytes, and room to write 8 at the
                            * last one; NULL: nothing is put yet */
    uint8_t width, needed; /* needed: of the largest number so far */
};

struct lw_packed_rows {
    struct lw_plan plan; /* as it was given: of its tables */
    int64_t n_rows, n_runs;
    struct lw_packed_run *runs; /* [n_runs + 1]: the last begins at n_rows */
    int32_t *near;              /* the run of each NEAR-th row */
    struct block *blocks;
    unsigned char *unused[MOST_WIDTH + 1]; /* rooms by width: each begins with the next one */
    struct lw_arena arena;
};

/* --- making --- */

enum lw_status lw_packed_new(const struct lw_plan *plan, int64_t n_runs, int64_t n_rows,
                             struct lw_packed_rows **out, struct lw_err *err)
{
    struct lw_packed_rows *p;

    LW_TRY(lw_timeline_fits(n_rows, LEAST_WIDTH * TIMES + 1, err));
    LW_NEW(p, 1, err);
    p->plan = *plan;
    p->n_rows = n_rows;
    p->n_runs = n_runs;
    p->runs = lw_arena_alloc(&p->arena, n_runs + 1, sizeof *p->runs);
    p->near = lw_arena_alloc(&p->arena, n_rows / NEAR + 1, sizeof *p->near);
    p->blocks = lw_arena_alloc(&p->arena, n_rows / ROWS + 1, sizeof *p->blocks);
    if (!p->runs || !p->near || !p->blocks || n_runs > INT32_MAX) {
        lw_packed_free(p);
        return lw_fail_nomem(err);
    }
    p->runs[n_runs].first = n_rows;
    *out = p;
    return LW_OK;
}

struct lw_packed_run *lw_packed_run_at(struct lw_packed_rows *p, int64_t run)
{
    return &p->runs[run];
}

void lw_packed_runs_done(struct lw_packed_rows *p)
{
    int32_t run = 0;

    for (int64_t row = 0; row < p->n_rows; row += NEAR) {
        while (p->runs[run + 1].first <= row)
            run++;
        p->near[row / NEAR] = run;
    }
}

void lw_packed_free(struct lw_packed_rows *p)
{
    if (!p)
        return;
    lw_arena_free(&p->arena);
    lw_free(p);
}

/* --- numbers --- */

static uint64_t low_first(uint64_t v)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v : __builtin_bswap64(v);
}

static uint64_t mask_of(int width)
{
    return UINT64_MAX >> (64 - 8 * width);
}

static unsigned char *place_of(const struct block *b, int64_t row, int which)
{
    return b->at + (row % ROWS * TIMES + which) * b->width;
}

static uint64_t load(const unsigned char *at, int width)
{
    uint64_t v;

    memcpy(&v, at, sizeof v);
    return low_first(v) & mask_of(width);
}

static void save(unsigned char *at, int width, uint64_t number)
{
    uint64_t v;

    memcpy(&v, at, sizeof v);
    v = low_first((low_first(v) & ~mask_of(width)) | number);
    memcpy(at, &v, sizeof v);
}

static int width_for(uint64_t number)
{
    int bytes = number ? (71 - __builtin_clzll(number)) / 8 : 1;

    return bytes < LEAST_WIDTH ? LEAST_WIDTH : bytes;
}

/* --- putting --- */

static unsigned char *take_room(struct lw_packed_rows *p, int width)
{
    unsigned char *at = p->unused[width];

    if (!at)
        return lw_arena_alloc(&p->arena, 1, (size_t)(ROWS * TIMES * width) + sizeof(uint64_t));
    memcpy(&p->unused[width], at, sizeof at);
    return at;
}

static bool begin_block(struct lw_packed_rows *p, int64_t block, lw_ps now)
{
    struct block *b = &p->blocks[block];
    int width = block > 0 && b[-1].needed ? b[-1].needed : LEAST_WIDTH;

    *b = (struct block){now, take_room(p, width), (uint8_t)width, LEAST_WIDTH};
    return b->at != NULL;
}

static bool widen(struct lw_packed_rows *p, struct block *b, int width)
{
    struct block wide = {b->base, take_room(p, width), (uint8_t)width, (uint8_t)width};

    if (!wide.at)
        return false;
    for (int64_t row = 0; row < ROWS; row++)
        for (int k = 0; k < TIMES; k++)
            save(place_of(&wide, row, k), width, load(place_of(b, row, k), b->width));
    memcpy(b->at, &p->unused[b->width], sizeof b->at);
    p->unused[b->width] = b->at;
    *b = wide;
    return true;
}

static bool put(struct lw_packed_rows *p, int64_t row, int which, uint64_t number)
{
    struct block *b = &p->blocks[row / ROWS];
    int width = width_for(number);

    if (width > b->width && !widen(p, b, width))
        return false;
    if (width > b->needed)
        b->needed = (uint8_t)width;
    save(place_of(b, row, which), b->width, number);
    return true;
}

static uint64_t since(const struct lw_packed_rows *p, int64_t row, lw_ps time)
{
    return (uint64_t)time - (uint64_t)p->blocks[row / ROWS].base;
}

bool lw_packed_put_all_in(struct lw_packed_rows *p, int64_t row, lw_ps all_in)
{
    assert(all_in == -1 || all_in >= p->blocks[row / ROWS].base);
    return put(p, row, ALL_IN, all_in == -1 ? 0 : since(p, row, all_in) + 1);
}

bool lw_packed_put_end(struct lw_packed_rows *p, int64_t row, lw_ps end)
{
    return put(p, row, END, since(p, row, end));
}

bool lw_packed_put(struct lw_packed_rows *p, int64_t row, lw_ps now, struct lw_times at)
{
    if (!p->blocks[row / ROWS].at && !begin_block(p, row / ROWS, now))
        return false;
    return put(p, row, START, since(p, row, at.start)) &&
           lw_packed_put_all_in(p, row, at.all_in) && lw_packed_put_end(p, row, at.end);
}

/* --- reading --- */

struct lw_times lw_packed_times(const struct lw_packed_rows *p, int64_t row)
{
    const struct block *b = &p->blocks[row / ROWS];
    const unsigned char *at = place_of(b, row, START);
    uint64_t base = (uint64_t)b->base, all_in = load(at + b->width, b->width);

    return (struct lw_times){.start = (lw_ps)(base + load(at, b->width)),
                             .all_in = all_in == 0 ? -1 : (lw_ps)(base + all_in - 1),
                             .end = (lw_ps)(base + load(at + 2 * b->width, b->width))};
}

const struct lw_packed_run *lw_packed_run_of(const struct lw_packed_rows *p, int64_t row,
                                             int64_t *end)
{
    const struct lw_packed_run *run = &p->runs[p->near[row / NEAR]];

    while (run[1].first <= row)
        run++;
    *end = run[1].first;
    return run;
}

uint8_t lw_packed_kind(const struct lw_packed_rows *p, int32_t op)
{
    return lw_op_at(&p->plan, op).kind;
}

int32_t lw_packed_comm(const struct lw_packed_rows *p, int32_t op)
{
    return lw_op_at(&p->plan, op).comm;
}

/* Dependencies done, and handed over by its launch (as soon as ready where the plan has none). */
static void ready_and_issue(const struct lw_packed_rows *p, const struct lw_packed_run *run,
                            const struct lw_op *op, struct lw_span *s)
{
    s->ready = run->begin;
    s->issue = -1;
    for (int32_t d = 0; d < op->n_deps; d++) {
        int32_t dep = p->plan.deps[op->first_dep + d];
        lw_ps end = lw_packed_times(p, run->first + dep - run->first_op).end;
        if (end > s->ready)
            s->ready = end;
        if (lw_packed_kind(p, dep) == LW_OP_LAUNCH && end > s->issue)
            s->issue = end;
    }
    if (s->issue < 0)
        s->issue = s->ready;
}

struct lw_span lw_packed_get(const struct lw_packed_rows *p, int64_t row)
{
    int64_t end;
    const struct lw_packed_run *run = lw_packed_run_of(p, row, &end);
    int32_t index = (int32_t)(run->first_op + row - run->first);
    const struct lw_op *op = LW_OP(&p->plan, index);
    struct lw_times at = lw_packed_times(p, row);
    struct lw_span s = {.step = run->step,
                        .pass = run->pass,
                        .rank = run->rank,
                        .stream = op->stream,
                        .comm = op->comm,
                        .op = index,
                        .kind = op->kind,
                        .start = at.start,
                        .all_in = at.all_in,
                        .end = at.end};

    ready_and_issue(p, run, op, &s);
    return s;
}
