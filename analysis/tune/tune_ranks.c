/* Processes of one launcher, in lock step: each simulates a round of its shard, then all meet. Rank
 * 0 gets from each the best N so far, and what it has simulated since the last meeting; all get the
 * N-th of all processes' best, which prunes from then on. So what a process simulates depends on
 * the number of processes and not on how fast each one is. A process with nothing left waits for
 * the others' rounds.
 *
 * Rank 0 stores what it gets at once: of a job that is killed, rounds that were complete are known.
 * The answer is not made here: rank 0 searches the whole space again, knowing all rows.
 *
 * A row is sent as its struct and the strings that it refers to; processes are of one version of
 * the program and of one kind of machine. */
#include "analysis/tune/tune_ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/store/store_search.h"
#include "analysis/tune/tune_identity.h"
#include "analysis/tune/tune_memo.h"
#include "exec/run/run.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"

enum { N_TEXTS = 5, PIECE_BYTES = 1 << 28 };

struct bytes {
    char *data;
    int64_t n, capacity;
};

struct lw_tune_ranks {
    struct exec_identity id;
    struct exec_rendezvous *r;
    struct lw_tune_memo *whole; /* at rank 0 */
    int64_t n_best;
    struct bytes found;         /* rows since the last meeting */
    struct bytes message;       /* of this meeting */
    struct lw_tune_limit *best; /* [n] at rank 0, of all processes, in the order of ranks */
    int64_t n, capacity;
    bool done, stop;            /* at rank 0: nothing is left anywhere; a signal came to one */
};

/* What a process says, before its best [n_best] and its rows. */
struct said {
    int32_t done, stop;
    int64_t n_best;
};

/* What rank 0 says. */
struct decided {
    struct lw_tune_limit limit;
    int32_t any, over, stop;
};

/* --- rows as bytes --- */

static enum lw_status add(struct bytes *b, const void *data, size_t n, struct lw_err *err)
{
    LW_ROOM(b->data, b->capacity, b->n + (int64_t)n, err);
    memcpy(b->data + b->n, data, n);
    b->n += (int64_t)n;
    return LW_OK;
}

static void texts_of(struct lw_searched *x, const char **text[N_TEXTS])
{
    text[0] = &x->strategy;
    text[1] = &x->command;
    text[2] = &x->why;
    text[3] = &x->interval_of;
    text[4] = &x->alike;
}

static enum lw_status add_row(struct bytes *b, const struct lw_searched *x, struct lw_err *err)
{
    struct lw_searched row = *x, with = *x;
    const char **none[N_TEXTS], **text[N_TEXTS];

    texts_of(&row, none);
    texts_of(&with, text);
    for (int i = 0; i < N_TEXTS; i++)
        *none[i] = NULL;
    row.place = row.front = row.run = 0; /* of the sender's answer */
    row.nth = -1;
    LW_TRY(add(b, &row, sizeof row, err));
    for (int i = 0; i < N_TEXTS; i++)
        LW_TRY(add(b, *text[i], strlen(*text[i]) + 1, err));
    return LW_OK;
}

static enum lw_status learn_rows(struct lw_tune_memo *m, const char *at, const char *end,
                                 struct lw_err *err)
{
    while (at < end) {
        struct lw_searched x;
        const char **text[N_TEXTS];
        bool whole = end - at >= (ptrdiff_t)sizeof x;
        if (whole) {
            memcpy(&x, at, sizeof x);
            at += sizeof x;
        }
        texts_of(&x, text);
        for (int i = 0; whole && i < N_TEXTS; i++) {
            const char *stop = memchr(at, '\0', (size_t)(end - at));
            whole = stop != NULL;
            *text[i] = at;
            at = whole ? stop + 1 : end;
        }
        if (!whole)
            return lw_fail(err, LW_EFAILED, "rows of strategies are cut short");
        LW_TRY(lw_tune_memo_learn(m, &x, err));
    }
    return LW_OK;
}

/* --- the meeting --- */

LW_COMPARATOR(by_rank, struct lw_tune_limit, a->step, b->step, a->needed, b->needed, a->number,
              b->number)

static enum lw_status take(void *context, int32_t rank, const void *data, int64_t bytes,
                           struct lw_err *err)
{
    struct lw_tune_ranks *k = context;
    const char *at = data;
    struct said s;

    (void)rank;
    if (bytes >= (int64_t)sizeof s)
        memcpy(&s, at, sizeof s);
    if (bytes < (int64_t)sizeof s || s.n_best < 0 || s.n_best > k->n_best ||
        bytes < (int64_t)(sizeof s + (size_t)s.n_best * sizeof *k->best))
        return lw_fail(err, LW_EFAILED, "its best are cut short");
    LW_ROOM(k->best, k->capacity, k->n + s.n_best, err);
    if (s.n_best > 0)
        memcpy(k->best + k->n, at + sizeof s, (size_t)s.n_best * sizeof *k->best);
    k->n += s.n_best;
    k->done &= s.done;
    k->stop |= s.stop;
    return learn_rows(k->whole, at + sizeof s + (size_t)s.n_best * sizeof *k->best, at + bytes,
                      err);
}

static struct decided decide(struct lw_tune_ranks *k)
{
    struct decided d = {.any = k->n >= k->n_best, .over = k->done, .stop = k->stop};

    if (k->n > 0)
        lw_sort(k->best, k->n, by_rank);
    if (d.any)
        d.limit = k->best[k->n_best - 1];
    return d;
}

static enum lw_status meet(void *context, const struct lw_tune_limit *best, int64_t n, bool done,
                           bool *stop, struct lw_tune_limit *limit, bool *any, bool *over,
                           struct lw_err *err)
{
    struct lw_tune_ranks *k = context;
    const struct said s = {done, *stop, n};
    struct decided d = {.any = 0};

    k->n = k->message.n = 0;
    k->done = true;
    k->stop = false;
    LW_TRY(add(&k->message, &s, sizeof s, err));
    if (n > 0)
        LW_TRY(add(&k->message, best, (size_t)n * sizeof *best, err));
    if (k->found.n > 0)
        LW_TRY(add(&k->message, k->found.data, (size_t)k->found.n, err));
    k->found.n = 0;
    LW_TRY(exec_rendezvous_gather(k->r, k->message.data, k->message.n, take, k, err));
    if (k->id.rank == 0)
        d = decide(k);
    LW_TRY(exec_rendezvous_broadcast(k->r, &d, sizeof d, err));
    *stop = d.stop;
    *limit = d.limit;
    *any = d.any;
    *over = d.over;
    return LW_OK;
}

static enum lw_status keep_found(void *context, const struct lw_searched *x, struct lw_err *err)
{
    struct lw_tune_ranks *k = context;

    return add_row(&k->found, x, err);
}

/* --- all of it --- */

enum lw_status lw_tune_ranks_open(const struct exec_identity *id, const struct lw_tune_task *t,
                                  struct lw_tune_ranks **out, struct lw_err *err)
{
    struct exec_agreement same = {.plan_hash = "tune", .backend = "tune", .program = LW_VERSION};
    const char *space, *hash;
    struct lw_arena a = {0};
    struct lw_tune_ranks *k;

    LW_NEW(k, 1, err);
    k->id = *id;
    k->n_best = t->n_best;
    enum lw_status st = lw_tune_identity(t->parts, t->n_parts, &a, &space, &hash, err);
    if (st == LW_OK)
        snprintf(same.settings, sizeof same.settings,
                 "the space of version, model, cluster and lists %.64s;--best %d;--no-bounds %s;",
                 hash, t->n_best, t->no_bounds ? "on" : "off");
    lw_arena_free(&a);
    if (st == LW_OK)
        st = exec_rendezvous_open(id, &same, exec_opening_limit(0), NULL, &k->r, err);
    if (st != LW_OK) {
        lw_tune_ranks_close(k);
        return st;
    }
    exec_rendezvous_limit(k->r, LW_TUNE_RANKS_WAIT_S * INT64_C(1000000000));
    *out = k;
    return LW_OK;
}

/* What rank 0 knows of earlier searches, to `own` of each. */
static enum lw_status share_known(struct lw_tune_ranks *k, struct lw_tune_memo *own,
                                  struct lw_err *err)
{
    struct bytes b = {0};
    int64_t n = 0, all = 0;
    const struct lw_searched *v = k->whole ? lw_tune_memo_all(k->whole, &n) : NULL;
    enum lw_status st = LW_OK;

    for (int64_t i = 0; st == LW_OK && i < n; i++)
        st = add_row(&b, &v[i], err);
    all = b.n;
    if (st == LW_OK)
        st = exec_rendezvous_broadcast(k->r, &all, sizeof all, err);
    if (st == LW_OK && lw_reserve(&b.data, &b.capacity, all + 1, 1) != 0)
        st = lw_fail_nomem(err);
    for (int64_t at = 0; st == LW_OK && at < all; at += PIECE_BYTES)
        st = exec_rendezvous_broadcast(
            k->r, b.data + at, (int32_t)(all - at < PIECE_BYTES ? all - at : PIECE_BYTES), err);
    if (st == LW_OK)
        st = learn_rows(own, b.data, b.data + all, err);
    if (st == LW_OK)
        st = lw_tune_memo_learned(own, err);
    lw_free(b.data);
    return st;
}

static enum lw_status search_shard(struct lw_tune_ranks *k, const struct lw_tune_task *t,
                                   struct lw_tune_memo *own, bool *stopped, struct lw_err *err)
{
    const struct lw_tune_beside beside = {meet, k};
    struct lw_tune_task mine = *t;
    struct lw_tune_result r = {0};

    mine.shard = (struct lw_tune_shard){k->id.rank + 1, k->id.n_ranks};
    mine.memo = own;
    mine.beside = &beside;
    mine.listed = NULL;
    LW_TRY(share_known(k, own, err));
    enum lw_status st = lw_tune(&mine, &r, err);
    *stopped = r.interrupted;
    lw_tune_free(&r);
    return st;
}

enum lw_status lw_tune_ranks_search(struct lw_tune_ranks *k, const struct lw_tune_task *t,
                                    bool *stopped, struct lw_err *err)
{
    const struct lw_tune_memo_request r = {.parts = t->parts, .n_parts = t->n_parts,
                                           .take = keep_found, .context = k};
    struct lw_tune_memo *own = NULL;
    struct lw_err why = {0};
    char words[300];

    *stopped = false;
    k->whole = k->id.rank == 0 ? t->memo : NULL;
    enum lw_status st = lw_tune_memo_open(&r, &own, &why);
    if (st == LW_OK)
        st = search_shard(k, t, own, stopped, &why);
    lw_tune_memo_close(own);
    if (st != LW_OK) {
        snprintf(words, sizeof words, "rank %d: %.280s", k->id.rank, why.msg);
        lw_tune_ranks_stop(k, words);
    }
    if (k->whole && (st == LW_OK || why.code != LW_ENOMEM)) {
        struct lw_err unstored = {0};
        enum lw_status stored = lw_tune_memo_learned(k->whole, &unstored);
        if (st == LW_OK && stored != LW_OK) {
            why = unstored;
            st = stored;
        }
    }
    if (st != LW_OK && err)
        *err = why;
    return st;
}

void lw_tune_ranks_stop(struct lw_tune_ranks *k, const char *why)
{
    exec_rendezvous_abort(k->r, why);
}

bool lw_tune_ranks_speaks(const struct lw_tune_ranks *k)
{
    return k->id.rank == 0 || (k->id.rank == 1 && exec_rendezvous_lost_first(k->r));
}

void lw_tune_ranks_close(struct lw_tune_ranks *k)
{
    if (!k)
        return;
    exec_rendezvous_close(k->r);
    lw_free(k->found.data);
    lw_free(k->message.data);
    lw_free(k->best);
    lw_free(k);
}
