/* A counting sort of messages by channel. Channels are few where messages are many, so they are
 * found in one small hash table, and the messages are placed without comparing any two. */
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
static enum lw_status make_room(struct lw_channels *c, struct lw_err *err)
{
    LW_ROOM(c->v, c->capacity, c->n + 1, err);
    return 2 * ((int64_t)c->n + 1) <= c->size
               ? LW_OK
               : fill_table(c, c->size > 0 ? 2 * c->size : 64, err);
}

enum lw_status lw_channels_add(struct lw_channels *c, int32_t comm, int32_t from, int32_t to,
                               bool received, int32_t op, struct lw_err *err)
{
    int32_t *slot = c->size > 0 ? place(c, comm, from, to) : NULL;

    if (!slot || *slot == 0) {
        LW_TRY(make_room(c, err));
        slot = place(c, comm, from, to);
        c->v[c->n++] = (struct lw_channel){comm, from, to, 0, {0, 0}};
        *slot = c->n;
    }
    int64_t *at = &c->v[*slot - 1].at[received];
    if (c->ops)
        c->ops[*at] = op;
    ++*at;
    return LW_OK;
}

int64_t lw_channels_messages(const struct lw_channels *c)
{
    int64_t n = 0;

    for (int32_t i = 0; i < c->n; i++)
        n += c->v[i].at[0] + c->v[i].at[1];
    return n;
}

enum lw_status lw_channels_settle(struct lw_channels *c, struct lw_err *err)
{
    int64_t n = 0;

    c->ops = lw_alloc((size_t)lw_channels_messages(c) * sizeof *c->ops);
    if (!c->ops)
        return lw_fail_nomem(err);
    lw_sort(c->v, c->n, compare_channels);
    for (int32_t i = 0; i < c->n; i++) {
        struct lw_channel *x = &c->v[i];
        int64_t n_sent = x->at[0], n_received = x->at[1];
        x->first = x->at[0] = n;
        x->at[1] = n + n_sent;
        n += n_sent + n_received;
    }
    return c->n > 0 ? fill_table(c, c->size, err) : LW_OK;
}

void lw_channels_free(struct lw_channels *c)
{
    lw_free(c->v);
    lw_free(c->ops);
    lw_free(c->table);
    *c = (struct lw_channels){0};
}
