/* The reference's own answers: every case of ../shared/golden/c10d_buckets.jsonl, whose README says
 * how they were made (torch 1.13.1). Where the reference leaves the order of several open buckets
 * to its hash table, these are compared as a set. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/bucket/bucket.h"
#include "shared/io/input.h"
#include "shared/json/json.h"
#include "shared/bucket/reducer.h"

enum { MAX_N = 8192, MAX_ITERS = 16, LIMITS = 16 };

struct golden {
    char id[64], kind[32], reason[64];
    struct lw_grad grads[MAX_N];
    int32_t n, order[MAX_N], n_order, n_limits, n_sparse;
    int64_t limits[LIMITS];
    int32_t first[MAX_N + 1], items[MAX_N], n_buckets, n_items;
    int64_t bucket_limits[MAX_N];
    bool order_defined;
    /* ddp_trace */
    int64_t cap, first_bucket;
    bool find_unused, static_graph;
    int n_iters;
    struct iteration {
        int32_t ready[MAX_N], n_ready, unmarked[MAX_N], n_unmarked;
        bool no_sync, error;
        char *events; /* "R3 L0[1,2] ..." */
    } iters[MAX_ITERS];
};

static int32_t read_ints(struct lw_json *j, int32_t *out)
{
    int32_t n = 0;

    assert_true(lw_json_enter(j, LW_JSON_ARRAY));
    while (lw_json_next(j)) {
        assert_true(n < MAX_N);
        out[n++] = (int32_t)lw_json_int64(j);
    }
    return n;
}

static enum lw_dtype read_dtype(struct lw_json *j)
{
    enum lw_dtype t = LW_F32;
    size_t len;
    struct lw_err err = {0};

    assert_int_equal(lw_dtype_parse(lw_json_string(j, &len), &t, &err), LW_OK);
    return t;
}

static void read_dtypes(struct lw_json *j, struct golden *c)
{
    int32_t n = 0;

    if (lw_json_type(j) == LW_JSON_STRING) {
        enum lw_dtype t = read_dtype(j);
        for (int32_t i = 0; i < MAX_N; i++)
            c->grads[i].dtype = t;
        return;
    }
    assert_true(lw_json_enter(j, LW_JSON_ARRAY));
    while (lw_json_next(j))
        c->grads[n++].dtype = read_dtype(j);
}

static void read_buckets(struct lw_json *j, struct golden *c)
{
    assert_true(lw_json_enter(j, LW_JSON_ARRAY));
    while (lw_json_next(j)) {
        c->n_items += read_ints(j, c->items + c->n_items);
        c->first[++c->n_buckets] = c->n_items;
    }
}

/* ["R",3] -> "R3 ", ["L",0,[1,2]] -> "L0[1,2] " */
static char *read_events(struct lw_json *j)
{
    size_t room = 1 << 20, at = 0, len;
    char *text = malloc(room);

    assert_non_null(text);
    text[0] = 0;
    assert_true(lw_json_enter(j, LW_JSON_ARRAY));
    while (lw_json_next(j)) {
        assert_true(at + 64 < room && lw_json_enter(j, LW_JSON_ARRAY));
        for (int k = 0; lw_json_next(j); k++) {
            if (k == 0) {
                at += (size_t)snprintf(text + at, room - at, "%s", lw_json_string(j, &len));
            } else if (k == 1) {
                at += (size_t)snprintf(text + at, room - at, "%d", (int)lw_json_int64(j));
            } else {
                static int32_t list[MAX_N];
                int32_t n = read_ints(j, list);
                for (int32_t i = 0; i < n; i++)
                    at += (size_t)snprintf(text + at, room - at, "%c%d", i ? ',' : '[', list[i]);
                at += (size_t)snprintf(text + at, room - at, "]");
            }
        }
        at += (size_t)snprintf(text + at, room - at, " ");
    }
    return text;
}

static void read_iteration(struct lw_json *j, struct iteration *it)
{
    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "ready_order"))
            it->n_ready = read_ints(j, it->ready);
        else if (lw_json_key_is(j, "no_sync"))
            it->no_sync = lw_json_bool(j);
        else if (lw_json_key_is(j, "error"))
            it->error = true;
        else if (lw_json_key_is(j, "unmarked"))
            it->n_unmarked = read_ints(j, it->unmarked);
        else if (lw_json_key_is(j, "events"))
            it->events = read_events(j);
    }
}

static void read_word(struct lw_json *j, char *to, size_t room)
{
    size_t len;

    snprintf(to, room, "%s", lw_json_string(j, &len));
}

static void read_case(struct lw_json *j, struct golden *c)
{
    static int32_t ints[MAX_N];

    c->order_defined = true;
    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "id"))
            read_word(j, c->id, sizeof c->id);
        else if (lw_json_key_is(j, "kind"))
            read_word(j, c->kind, sizeof c->kind);
        else if (lw_json_key_is(j, "reason"))
            read_word(j, c->reason, sizeof c->reason);
        else if (lw_json_key_is(j, "numel") && lw_json_enter(j, LW_JSON_ARRAY))
            while (lw_json_next(j))
                c->grads[c->n++].numel = lw_json_int64(j);
        else if (lw_json_key_is(j, "dtype"))
            read_dtypes(j, c);
        else if (lw_json_key_is(j, "limits") && lw_json_enter(j, LW_JSON_ARRAY))
            while (lw_json_next(j))
                c->limits[c->n_limits++] = lw_json_int64(j);
        else if (lw_json_key_is(j, "sparse")) {
            c->n_sparse = read_ints(j, ints);
            for (int32_t i = 0; i < c->n_sparse; i++)
                c->grads[i].sparse = ints[i];
        } else if (lw_json_key_is(j, "device")) {
            int32_t n = read_ints(j, ints);
            for (int32_t i = 0; i < n; i++)
                c->grads[i].device = ints[i];
        } else if (lw_json_key_is(j, "order"))
            c->n_order = read_ints(j, c->order);
        else if (lw_json_key_is(j, "order_defined"))
            c->order_defined = lw_json_bool(j);
        else if (lw_json_key_is(j, "buckets"))
            read_buckets(j, c);
        else if (lw_json_key_is(j, "bucket_limits") && lw_json_enter(j, LW_JSON_ARRAY))
            for (int32_t i = 0; lw_json_next(j); i++)
                c->bucket_limits[i] = lw_json_int64(j);
        else if (lw_json_key_is(j, "cap_bytes"))
            c->cap = lw_json_int64(j);
        else if (lw_json_key_is(j, "first_bucket_bytes"))
            c->first_bucket = lw_json_int64(j);
        else if (lw_json_key_is(j, "find_unused"))
            c->find_unused = lw_json_bool(j);
        else if (lw_json_key_is(j, "static_graph"))
            c->static_graph = lw_json_bool(j);
        else if (lw_json_key_is(j, "iters") && lw_json_enter(j, LW_JSON_ARRAY))
            while (lw_json_next(j)) {
                assert_true(c->n_iters < MAX_ITERS);
                read_iteration(j, &c->iters[c->n_iters++]);
            }
    }
}

/* --- the checks ------------------------------------------------------------------------------- */

static bool same_bucket(const struct golden *c, int32_t i, const struct lw_bucketing *b, int32_t k)
{
    int32_t n = c->first[i + 1] - c->first[i];

    return n == b->first[k + 1] - b->first[k] && c->bucket_limits[i] == b->limit_bytes[k] &&
           memcmp(c->items + c->first[i], b->items + b->first[k], (size_t)n * sizeof *b->items) ==
               0;
}

static void check_assign(const struct golden *c, bool with_order)
{
    struct lw_bucketing b;
    struct lw_err err = {0};

    assert_int_equal(lw_bucket_assign_c10d(c->grads, c->n, with_order ? c->order : NULL, c->limits,
                                           c->n_limits, &b, &err), LW_OK);
    int32_t free_from = c->order_defined ? b.n_buckets : b.n_buckets - b.n_open;
    if (b.n_buckets != c->n_buckets)
        fail_msg("%s: %d buckets, expected %d", c->id, b.n_buckets, c->n_buckets);
    for (int32_t i = 0; i < b.n_buckets; i++) {
        bool found = same_bucket(c, i, &b, i);
        for (int32_t k = free_from; i >= free_from && k < b.n_buckets && !found; k++)
            found = same_bucket(c, i, &b, k);
        if (!found)
            fail_msg("%s: bucket %d differs", c->id, i);
    }
    lw_bucketing_free(&b);
}

/* The two errors of the list itself; that a tensor is sparse in memory has no counterpart here. */
static bool check_error(const struct golden *c)
{
    struct lw_bucketing b;
    struct lw_err err = {0};

    if (strcmp(c->reason, "no-tensors") != 0)
        return false;
    assert_int_equal(lw_bucket_assign_c10d(c->grads, c->n, NULL, c->limits, c->n_limits, &b, &err),
                     LW_EINVAL);
    return true;
}

struct ddp {
    const struct golden *c;
    struct lw_bucket_rules rules;
    struct lw_bucketing buckets;
    struct lw_reducer *reducer;
    int32_t order[MAX_N], n_order; /* collected for the rebuild */
    int n_synchronised;
    bool hash_order;               /* rebuilt with several open buckets: launches not comparable */
};

static void use_buckets(struct ddp *d)
{
    static int32_t bucket_of[MAX_N];
    struct lw_err err = {0};

    for (int32_t b = 0; b < d->buckets.n_buckets; b++)
        for (int32_t i = d->buckets.first[b]; i < d->buckets.first[b + 1]; i++)
            bucket_of[d->buckets.items[i]] = b;
    lw_reducer_free(d->reducer);
    assert_int_equal(lw_reducer_new(d->c->n, bucket_of, d->buckets.n_buckets, LW_LAUNCH_IN_ORDER,
                                    &d->reducer, &err), LW_OK);
}

static void rebuild(struct ddp *d)
{
    struct lw_err err = {0};
    bool seen[MAX_N] = {false};

    for (int32_t i = 0; i < d->n_order; i++)
        seen[d->order[i]] = true;
    for (int32_t i = 0; i < d->c->n; i++) /* unused ones in index order */
        if (!seen[i])
            d->order[d->n_order++] = i;
    lw_bucketing_free(&d->buckets);
    assert_int_equal(
        lw_bucket_rebuilt(&d->rules, d->c->grads, d->c->n, d->order, &d->buckets, &err), LW_OK);
    d->hash_order = d->buckets.n_open > 1;
    use_buckets(d);
}

static size_t put_launches(const struct ddp *d, const int32_t *launches, int32_t n, bool as_zero,
                           char *text, size_t room)
{
    size_t at = 0;

    for (int32_t l = 0; l < n; l++) {
        int32_t b = launches[l];
        at += (size_t)snprintf(text + at, room - at, "L%d", as_zero ? 0 : b);
        for (int32_t i = d->buckets.first[b]; i < d->buckets.first[b + 1]; i++)
            at += (size_t)snprintf(text + at, room - at, "%c%d",
                                   i == d->buckets.first[b] ? '[' : ',', d->buckets.items[i]);
        at += (size_t)snprintf(text + at, room - at, "] ");
    }
    return at;
}

/* One backward through the reducer; text receives its events. */
static void run_iteration(struct ddp *d, const struct iteration *it, char *text, size_t room)
{
    static int32_t launches[MAX_N], unused[MAX_N], late[MAX_N];
    bool used[MAX_N] = {false};
    int32_t n_unused = 0, n_late = 0, n;
    bool synchronised = !it->no_sync;
    bool recording = synchronised && d->rules.first_after_backward && d->n_synchronised == 0;
    struct lw_err err = {0};
    size_t at = 0;

    for (int32_t i = 0; i < it->n_ready; i++)
        used[it->ready[i]] = true;
    for (int32_t i = 0; i < d->c->n; i++)
        if (!used[i] && (d->c->find_unused || d->c->static_graph))
            unused[n_unused++] = i;
    if (synchronised)
        assert_int_equal(lw_reducer_unused(d->reducer, unused, n_unused, &err), LW_OK);
    for (int32_t i = 0; i < it->n_ready; i++) {
        at += (size_t)snprintf(text + at, room - at, "R%d ", it->ready[i]);
        assert_int_equal(lw_reducer_mark(d->reducer, it->ready[i], launches, &n, &err), LW_OK);
        for (int32_t l = 0; recording && l < n; l++)
            late[n_late++] = launches[l];
        if (!recording)
            at += put_launches(d, launches, n, false, text + at, room - at);
    }
    put_launches(d, late, n_late, true, text + at, room - at);
    if (synchronised && ++d->n_synchronised == d->rules.n_initial_passes) {
        memcpy(d->order, it->ready, (size_t)it->n_ready * sizeof *it->ready);
        d->n_order = it->n_ready;
    }
}

/* Returns how many iterations were compared. */
static int check_trace(const struct golden *c)
{
    struct lw_bucket_request q = {LW_BUCKET_C10D_1_13, c->cap, c->first_bucket, c->find_unused,
                                  c->static_graph, false};
    struct ddp *d = calloc(1, sizeof *d);
    size_t room = 1 << 20;
    char *text = malloc(room);
    struct lw_err err = {0};
    bool rebuilt = false;
    int compared = 0;

    assert_true(d && text);
    d->c = c;
    assert_int_equal(lw_bucket_rules(&q, &d->rules, &err), LW_OK);
    assert_int_equal(lw_bucket_initial(&d->rules, c->grads, c->n, NULL, &d->buckets, &err), LW_OK);
    use_buckets(d);
    for (int i = 0; i < c->n_iters && !d->hash_order; i++) {
        const struct iteration *it = &c->iters[i];
        enum lw_status s = lw_reducer_begin(d->reducer, !it->no_sync, &err);
        if (it->error) {
            static int32_t unmarked[MAX_N];
            assert_int_equal(s, LW_EFAILED);
            assert_int_equal(lw_reducer_unmarked(d->reducer, unmarked, MAX_N), it->n_unmarked);
            assert_memory_equal(unmarked, it->unmarked,
                                (size_t)it->n_unmarked * sizeof *unmarked);
            compared++;
            break;
        }
        assert_int_equal(s, LW_OK);
        if (d->rules.n_rebuilt > 0 && d->n_order > 0 && !rebuilt) {
            rebuild(d);
            rebuilt = true;
            assert_int_equal(lw_reducer_begin(d->reducer, !it->no_sync, &err), LW_OK);
            if (d->hash_order)
                break;
        }
        text[0] = 0;
        run_iteration(d, it, text, room);
        if (strcmp(text, it->events) != 0)
            fail_msg("%s, iteration %d: %s, expected %s", c->id, i, text, it->events);
        compared++;
    }
    lw_reducer_free(d->reducer);
    lw_bucketing_free(&d->buckets);
    free(text);
    free(d);
    return compared;
}

static const char file_name[] = "../shared/golden/c10d_buckets.jsonl";

TEST(every_case_of_the_reference_is_reproduced)
{
    struct lw_input in;
    struct lw_err err = {0};
    int n_assign = 0, n_rebuild = 0, n_error = 0, n_trace = 0, n_iterations = 0, n_skipped = 0;
    struct golden *c = malloc(sizeof *c);

    if (lw_input_read(file_name, 0, &in, &err) != LW_OK) {
        free(c);
        print_message("SKIP golden c10d cases: %s\n", err.msg);
        skip();
    }
    assert_non_null(c);
    for (char *line = in.text, *end; line < in.text + in.len; line = end + 1) {
        end = memchr(line, '\n', (size_t)(in.text + in.len - line));
        end = end ? end : in.text + in.len;
        size_t len = (size_t)(end - line);
        char *copy = calloc(1, len + LW_JSON_PADDING);
        struct lw_json *j;
        if (len == 0) {
            free(copy);
            continue;
        }
        memcpy(copy, line, len);
        memset(c, 0, sizeof *c);
        assert_int_equal(lw_json_open(file_name, copy, len, &j, &err), LW_OK);
        read_case(j, c);
        assert_ok(lw_json_done(j, &err), err);
        lw_json_close(j);
        free(copy);
        if (strcmp(c->kind, "assign") == 0) {
            check_assign(c, false);
            n_assign++;
        } else if (strcmp(c->kind, "rebuild") == 0) {
            check_assign(c, true);
            n_rebuild++;
        } else if (strcmp(c->kind, "error") == 0) {
            n_error += check_error(c);
            n_skipped += !check_error(c);
        } else if (strcmp(c->kind, "ddp_trace") == 0) {
            n_iterations += check_trace(c);
            n_trace++;
        } else {
            fail_msg("%s: unknown kind '%s'", c->id, c->kind);
        }
        for (int i = 0; i < c->n_iters; i++)
            free(c->iters[i].events);
    }
    print_message(
        "%d assign, %d rebuild, %d error, %d ddp_trace (%d iterations); %d errors have no "
        "counterpart\n",
        n_assign, n_rebuild, n_error, n_trace, n_iterations, n_skipped);
    assert_true(n_assign > 0 && n_rebuild > 0 && n_error > 0 && n_trace > 0);
    lw_input_free(&in);
    free(c);
}
