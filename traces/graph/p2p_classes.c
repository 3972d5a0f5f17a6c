/* Communicators of messages. Ranks at one distance form cycles r, r + d, r + 2d, ...; neighbours on
 * a cycle get different colours, and the last of a cycle of odd length a third one. */
#include "traces/graph/p2p_classes.h"

#include <stdio.h>

enum lw_status traces_p2p_begin(struct traces_p2p *p, struct lw_builder *b, int32_t n_ranks,
                                struct lw_arena *arena, struct lw_err *err)
{
    *p = (struct traces_p2p){.arena = arena, .b = b, .n_ranks = n_ranks};
    LW_TAKE(arena, p->members, n_ranks, err);
    LW_TAKE(arena, p->of, n_ranks, err);
    for (int32_t r = 0; r < n_ranks; r++)
        p->members[r] = r;
    return LW_OK;
}

static void colour(const struct traces_p2p *p, struct traces_p2p_distance *d)
{
    for (int32_t r = 0; r < p->n_ranks; r++)
        d->colour[r] = UINT8_MAX;
    for (int32_t first = 0; first < p->n_ranks; first++) {
        int32_t n = 0, last = first;
        if (d->colour[first] != UINT8_MAX)
            continue;
        for (int32_t r = first; d->colour[r] == UINT8_MAX; n++) {
            d->colour[r] = n % 2;
            last = r;
            r = (int32_t)(((int64_t)r + d->distance) % p->n_ranks);
        }
        if (n % 2 == 1 && n > 1)
            d->colour[last] = 2;
    }
}

static enum lw_status add_distance(struct traces_p2p *p, int32_t distance, struct lw_err *err)
{
    struct traces_p2p_distance *v = lw_arena_more(p->arena, p->v, p->n, sizeof *v);

    if (!v)
        return lw_fail_nomem(err);
    p->v = v;
    v += p->n;
    *v = (struct traces_p2p_distance){.distance = distance, .comm = {-1, -1, -1}};
    LW_TAKE(p->arena, v->colour, p->n_ranks, err);
    colour(p, v);
    p->of[distance] = ++p->n;
    return LW_OK;
}

static void add_class(struct traces_p2p *p, struct traces_p2p_distance *d, int c)
{
    char name[48];

    snprintf(name, sizeof name, "send +%d.%d", d->distance, c);
    d->send_stream[c] = lw_builder_stream(p->b, name, LW_STREAM_COMM, 0);
    snprintf(name, sizeof name, "receive +%d.%d", d->distance, c);
    d->recv_stream[c] = lw_builder_stream(p->b, name, LW_STREAM_COMM, 0);
    snprintf(name, sizeof name, "messages +%d.%d", d->distance, c);
    d->comm[c] = lw_builder_comm(p->b, name, LW_COMM_RECORDED, LW_REDUCER_AUTO, d->send_stream[c]);
    lw_builder_group(p->b, d->comm[c], p->members, p->n_ranks);
}

enum lw_status traces_p2p_class(struct traces_p2p *p, int32_t from, int32_t to,
                                struct traces_p2p_class *out, struct lw_err *err)
{
    int32_t distance = (int32_t)(((int64_t)to - from + p->n_ranks) % p->n_ranks);

    if (p->of[distance] == 0)
        LW_TRY(add_distance(p, distance, err));
    struct traces_p2p_distance *d = &p->v[p->of[distance] - 1];
    int c = d->colour[from];
    if (d->comm[c] < 0)
        add_class(p, d, c);
    *out = (struct traces_p2p_class){d->comm[c], d->send_stream[c], d->recv_stream[c]};
    return LW_OK;
}
