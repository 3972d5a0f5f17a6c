/* Groups of ranks with equal bars. Ranks are compared with each group bar by bar, which ends at the
 * first difference, so a rank that is unlike all groups costs little. */
#include "analysis/draw/equal_ranks.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

#include <stdlib.h>
#include <string.h>

struct equal_group {
    int64_t from, to; /* its bars */
    int32_t stage;
    int32_t *ranks;
    int64_t n_ranks, capacity;
    int64_t n_with_bars; /* the ranks in front: no rank after them has had bars of its own */
};

static bool equal(const struct equal_bar *a, const struct equal_bar *b)
{
    const struct picture_bar *x = &a->bar, *y = &b->bar;

    return a->stage == b->stage && a->stream == b->stream && x->start == y->start &&
           x->end == y->end && x->all_in == y->all_in && x->ready == y->ready &&
           x->kind == y->kind && x->look == y->look && x->bucket == y->bucket &&
           x->micro_batch == y->micro_batch && x->bytes == y->bytes;
}

static bool is_like(const struct equal_ranks *a, const struct equal_group *g)
{
    if (g->to - g->from != a->n_bars - a->pending)
        return false;
    for (int64_t i = 0; i < g->to - g->from; i++)
        if (!equal(&a->bars[g->from + i], &a->bars[a->pending + i]))
            return false;
    return true;
}

static enum lw_status join(struct equal_group *g, int32_t rank, struct lw_err *err)
{
    LW_ROOM(g->ranks, g->capacity, g->n_ranks + 1, err);
    g->ranks[g->n_ranks++] = rank;
    return LW_OK;
}

static enum lw_status join_with_bars(struct equal_group *g, int32_t rank, struct lw_err *err)
{
    LW_TRY(join(g, rank, err));
    g->n_with_bars = g->n_ranks;
    return LW_OK;
}

/* The bars of one rank are complete. */
static enum lw_status close_rank(struct equal_ranks *a, struct lw_err *err)
{
    if (a->pending == a->n_bars)
        return LW_OK;
    for (int64_t i = 0; i < a->n_groups; i++)
        if (is_like(a, &a->groups[i])) {
            a->n_bars = a->pending;
            return join_with_bars(&a->groups[i], a->rank, err);
        }
    if (a->n_groups >= a->max_groups) {
        a->n_left_out++;
        a->n_bars = a->pending;
        return LW_OK;
    }
    LW_ROOM(a->groups, a->group_capacity, a->n_groups + 1, err);
    struct equal_group *g = &a->groups[a->n_groups++];
    *g = (struct equal_group){.from = a->pending, .to = a->n_bars,
                              .stage = a->bars[a->pending].stage};
    a->pending = a->n_bars;
    return join_with_bars(g, a->rank, err);
}

enum lw_status equal_ranks_add(struct equal_ranks *a, const struct equal_bar *b,
                               struct lw_err *err)
{
    if (b->rank != a->rank)
        LW_TRY(close_rank(a, err));
    LW_ROOM(a->bars, a->capacity, a->n_bars + 1, err);
    a->rank = b->rank;
    a->bars[a->n_bars++] = *b;
    a->n_stages = b->stage >= a->n_stages ? b->stage + 1 : a->n_stages;
    return LW_OK;
}

enum lw_status equal_ranks_same(struct equal_ranks *a, int32_t rank, int32_t like,
                                struct lw_err *err)
{
    LW_TRY(close_rank(a, err));
    for (int64_t i = 0; i < a->n_groups; i++)
        for (int64_t k = 0; k < a->groups[i].n_with_bars; k++)
            if (a->groups[i].ranks[k] == like)
                return join(&a->groups[i], rank, err);
    a->n_left_out++;
    return LW_OK;
}

LW_COMPARATOR(by_rank, int32_t, *a, *b)

LW_COMPARATOR(by_stage, struct equal_group, a->stage, b->stage, a->ranks[0], b->ranks[0])

/* "0-3, 8" of sorted ranks; what does not fit ends in "...". */
static void write_ranks(const struct equal_group *g, char *buf, size_t size)
{
    size_t n = 0;

    for (int64_t i = 0, k; i < g->n_ranks; i = k) {
        char piece[32];
        for (k = i + 1; k < g->n_ranks && g->ranks[k] == g->ranks[k - 1] + 1;)
            k++;
        int len = k - i > 1 ? snprintf(piece, sizeof piece, "%s%d-%d", i ? ", " : "", g->ranks[i],
                                       g->ranks[k - 1])
                            : snprintf(piece, sizeof piece, "%s%d", i ? ", " : "", g->ranks[i]);
        if (n + (size_t)len + 6 > size) {
            snprintf(buf + n, size - n, ", ...");
            return;
        }
        n += (size_t)snprintf(buf + n, size - n, "%s", piece);
    }
}

static void write_group(const struct equal_ranks *a, const struct equal_group *g, char *buf)
{
    char stage[24] = "", ranks[26];

    if (a->n_stages > 1)
        snprintf(stage, sizeof stage, "stage %d, ", g->stage);
    write_ranks(g, ranks, sizeof ranks);
    if (g->n_ranks == 1)
        snprintf(buf, PICTURE_TEXT, "%srank %s", stage, ranks);
    else
        snprintf(buf, PICTURE_TEXT, "%sranks %s (%lld)", stage, ranks, (long long)g->n_ranks);
}

static enum lw_status add_row(struct picture *pic, const struct equal_bar *b, int32_t run,
                              int32_t rank, double distance, struct lw_err *err)
{
    LW_ROOM(pic->rows, pic->row_capacity, pic->n_rows + 1, err);
    struct picture_row *r = &pic->rows[pic->n_rows++];
    *r = (struct picture_row){.run = run, .rank = rank, .stream = b->stream};
    r->y = pic->bottom -= distance;
    snprintf(r->label, sizeof r->label, "%s", b->stream_name);
    return LW_OK;
}

static enum lw_status add_group(const struct equal_ranks *a, const struct equal_group *g,
                                int32_t run, double distance, struct picture *pic,
                                struct lw_err *err)
{
    for (int64_t i = g->from; i < g->to; i++) {
        const struct equal_bar *b = &a->bars[i];
        bool first = i == g->from;
        if (first || b->stream != b[-1].stream)
            LW_TRY(add_row(pic, b, run, g->ranks[0], first ? distance : 1.0, err));
        if (first)
            write_group(a, g, pic->rows[pic->n_rows - 1].group);
        LW_ROOM(pic->bars, pic->bar_capacity, pic->n_bars + 1, err);
        pic->bars[pic->n_bars] = b->bar;
        pic->bars[pic->n_bars++].row = (int32_t)(pic->n_rows - 1);
    }
    return LW_OK;
}

enum lw_status equal_ranks_finish(struct equal_ranks *a, int32_t run, struct picture *pic,
                                  struct lw_err *err)
{
    LW_TRY(close_rank(a, err));
    for (int64_t i = 0; i < a->n_groups; i++)
        lw_sort(a->groups[i].ranks, a->groups[i].n_ranks, by_rank);
    lw_sort(a->groups, a->n_groups, by_stage);
    for (int64_t i = 0; i < a->n_groups; i++)
        LW_TRY(add_group(a, &a->groups[i], run, i ? 1.3 : 1.5, pic, err));
    pic->left_out[run] = a->n_left_out;
    pic->bottom -= 0.3;
    return LW_OK;
}

void equal_ranks_free(struct equal_ranks *a)
{
    for (int64_t i = 0; i < a->n_groups; i++)
        lw_free(a->groups[i].ranks);
    lw_free(a->groups);
    lw_free(a->bars);
    *a = (struct equal_ranks){0};
}
