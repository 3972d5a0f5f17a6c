/* A counting sort of messages by channel. Channels are few where messages are many, so they are
 * found in one small hash table, and the messages are placed without comparing any two. While they
 * are added, channels are numbered as they are met and at[] counts their sends and receives. */
#include "shared/check/message_channels.h"

#include "shared/base/arena.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

LW_COMPARATOR(compare_channels, struct lw_channel, a->comm, b->comm, a->from, b->from, a->to, b->to)

/* Where the channel is, or would be, in a table that is never full. */
static int32_t *place(const struct lw_channels *c, int32_t comm, int32_t from, int32_t to)
{
    uint64_t at = ((uint64_t)(uint32_t)from << 32 | (uint32_t)to) * UINT64_C(0x9e3779b97f4a7c15);

    at = (at ^ (uint32_t)comm) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    for (;; at++) {
        int32_t *slot = &c->table[at & (uint64_t)(c->size - 1)];
        const struct lw_channel *x = &c->v[*slot - 1];
        if (*slot == 0 || (x->comm == comm && x->from == from && x->to == to))
            return slot;
    }
}

static enum lw_status fill_table(struct lw_channels *c, int64_t size, struct lw_err *err)
{
    int32_t *table;

    LW_NEW(table, size, err);
    lw_free(c->table);
    c->table = table;
    c->size = size;
    for (int32_t i = 0; i < c->n; i++)
        *place(c, c->v[i].comm, c->v[i].from, c->v[i].to) = i + 1;
    return LW_OK;
}

/* At most half full. */
static enum lw_status add_channel(struct lw_channels *c, int32_t comm, int32_t from, int32_t to,
                                  struct lw_err *err)
{
    LW_ROOM(c->v, c->capacity, c->n + 1, err);
    if (2 * ((int64_t)c->n + 1) > c->size)
        LW_TRY(fill_table(c, c->size > 0 ? 2 * c->size : 64, err));
    int32_t *slot = place(c, comm, from, to);
    c->v[c->n++] = (struct lw_channel){comm, from, to, 0, {0, 0}};
    *slot = c->n;
    return LW_OK;
}

enum lw_status lw_channels_add_to(struct lw_channels *c, int32_t channel, bool received,
                                  int32_t op, struct lw_err *err)
{
    LW_ROOM(c->added, c->added_capacity, c->n_added + 1, err);
    c->added[c->n_added++] = (struct lw_added_message){op, received ? ~channel : channel};
    c->v[channel].at[received]++;
    return LW_OK;
}

enum lw_status lw_channels_add(struct lw_channels *c, int32_t comm, int32_t from, int32_t to,
                               bool received, int32_t op, int32_t *channel, struct lw_err *err)
{
    *channel = c->size > 0 ? *place(c, comm, from, to) - 1 : -1;
    if (*channel < 0) {
        *channel = c->n;
        LW_TRY(add_channel(c, comm, from, to, err));
    }
    return lw_channels_add_to(c, *channel, received, op, err);
}

/* at[] are where the ops of each channel go next, and in the end where they end. */
static void place_ops(struct lw_channels *c, const int32_t *channel_of)
{
    int64_t n = 0;

    for (int32_t i = 0; i < c->n; i++) {
        struct lw_channel *x = &c->v[i];
        int64_t n_sent = x->at[0], n_received = x->at[1];
        x->first = x->at[0] = n;
        x->at[1] = n + n_sent;
        n += n_sent + n_received;
    }
    for (int64_t i = 0; i < c->n_added; i++) {
        int32_t channel = c->added[i].channel;
        bool received = channel < 0;
        c->ops[c->v[channel_of[received ? ~channel : channel]].at[received]++] = c->added[i].op;
    }
}

enum lw_status lw_channels_settle(struct lw_channels *c, struct lw_err *err)
{
    int32_t *channel_of; /* [n]: number of the channel that was met as this one */

    LW_NEW(channel_of, c->n, err);
    c->ops = lw_alloc((size_t)c->n_added * sizeof *c->ops);
    if (!c->ops) {
        lw_free(channel_of);
        return lw_fail_nomem(err);
    }
    for (int32_t i = 0; i < c->n; i++)
        c->v[i].first = i;
    lw_sort(c->v, c->n, compare_channels);
    for (int32_t i = 0; i < c->n; i++)
        channel_of[c->v[i].first] = i;
    place_ops(c, channel_of);
    lw_free(channel_of);
    lw_free(c->added);
    c->added = NULL;
    return LW_OK;
}

void lw_channels_free(struct lw_channels *c)
{
    lw_free(c->v);
    lw_free(c->ops);
    lw_free(c->added);
    lw_free(c->table);
    *c = (struct lw_channels){0};
}
