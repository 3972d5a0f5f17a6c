/* FairScale's recorded cases: a sharded optimizer and what later steps do to it (kind "partition"),
 * and ShardedDataParallel's buckets (kind "sdp_buckets"). */
#include <string.h>

#include "shared/bucket/bucket_sharded.h"
#include "shared/golden/golden_case.h"
#include "shared/shard/shard_oss.h"

struct input {
    struct lw_shard_param *params;
    int32_t n, world;
    int32_t *first, *items, n_groups; /* n_groups 0: one group of all */
    int32_t *list;                    /* [n] scratch: a list of parameters */
};

static enum lw_status read_params(struct lw_golden_case *c, struct input *in, struct lw_err *err)
{
    int64_t *numel;
    int32_t *trainable, *device, n_trainable, n_device;
    enum lw_dtype *dtype;

    LW_TRY(lw_golden_list(c, "numel", 0, INT64_MAX, &numel, &in->n, err));
    LW_TRY(lw_golden_int32(c, "world", 1, 1 << 22, &in->world, err));
    LW_TRY(lw_golden_indices(c, "trainable", 0, 1, &trainable, &n_trainable, err));
    LW_TRY(lw_golden_indices(c, "device", INT32_MIN, INT32_MAX, &device, &n_device, err));
    LW_TRY(lw_golden_dtypes(c, in->n, &dtype, err));
    if ((trainable && n_trainable != in->n) || (device && n_device != in->n))
        return lw_fail(err, LW_EFORMAT, "trainable or device: not one for each of %d parameters",
                       in->n);
    LW_TAKE(c->arena, in->params, in->n, err);
    for (int32_t i = 0; i < in->n; i++)
        in->params[i] = (struct lw_shard_param){numel[i], dtype[i], device ? device[i] : 0,
                                                !trainable || trainable[i]};
    return LW_OK;
}

static enum lw_status read_groups(struct lw_golden_case *c, struct input *in, struct lw_err *err)
{
    const struct lw_value *groups = lw_value_get(c->root, "groups");
    int64_t *members;
    int32_t n, at = 0;

    if (!groups)
        return LW_OK;
    if (groups->type != LW_JSON_ARRAY || groups->n == 0)
        return lw_fail(err, LW_EFORMAT, "groups: expected lists of parameters");
    LW_TAKE(c->arena, in->first, (int64_t)groups->n + 1, err);
    LW_TAKE(c->arena, in->items, in->n, err);
    in->n_groups = groups->n;
    for (int32_t g = 0; g < groups->n; g++) {
        LW_TRY(lw_golden_value_ints(c->arena, &groups->items[g], "groups", 0, INT32_MAX, &members,
                                    &n, err));
        if (n > in->n - at)
            return lw_fail(err, LW_EFORMAT, "groups: more members than parameters");
        for (int32_t k = 0; k < n; k++)
            in->items[at++] = (int32_t)members[k];
        in->first[g + 1] = at;
    }
    return LW_OK;
}

static const char *torch_name(enum lw_dtype t)
{
    static const char *const names[LW_N_DTYPES] = {
        [LW_F32] = "float32", [LW_F64] = "float64", [LW_F16] = "float16", [LW_BF16] = "bfloat16",
        [LW_I64] = "int64",   [LW_I32] = "int32",   [LW_U8] = "uint8",
    };

    return names[t];
}

static void add_partition(const struct lw_oss *o, const struct input *in, struct lw_text *t)
{
    lw_text_open(t);
    for (int32_t r = 0; r < in->world; r++) {
        lw_text_open(t);
        for (int32_t g = 0; g < lw_oss_n_groups(o); g++)
            lw_text_ints(t, in->list, lw_oss_partition(o, r, g, in->list));
        lw_text_close(t);
    }
    lw_text_close(t);
}

static void add_devices(const struct lw_oss *o, const struct input *in, struct lw_text *t)
{
    lw_text_open(t);
    for (int32_t d = 0; d < lw_oss_n_devices(o); d++) {
        lw_text_item(t, "[%d,[", lw_oss_device(o, d));
        for (int32_t r = 0; r < in->world; r++)
            lw_text_ints(t, in->list, lw_oss_of_device(o, d, r, in->list));
        lw_text_add(t, "]]");
    }
    lw_text_close(t);
}

/* What the optimizer is now: the four answers of a case or of one of its steps. */
static enum lw_status expect_snapshot(struct lw_golden_case *c, const struct lw_oss *o,
                                      const struct input *in, struct lw_err *err)
{
    struct lw_text t = {0};

    add_partition(o, in, &t);
    LW_TRY(lw_golden_expect(c, "partition", &t, err));
    add_devices(o, in, &t);
    LW_TRY(lw_golden_expect(c, "per_device", &t, err));
    lw_text_open(&t);
    for (int32_t b = 0; b < lw_oss_n_buffers(o); b++) {
        const struct lw_oss_buffer *x = lw_oss_buffer(o, b);
        lw_text_item(&t, "[%d,%d,%lld", x->device, x->owner, (long long)x->numel);
        lw_text_ints(&t, x->items, x->n_items);
        lw_text_close(&t);
    }
    lw_text_close(&t);
    LW_TRY(lw_golden_expect(c, "buckets", &t, err));
    lw_text_open(&t);
    for (int32_t b = 0; b < lw_oss_n_buffers(o); b++) {
        const struct lw_oss_buffer *x = lw_oss_buffer(o, b);
        lw_text_item(&t, "[\"bcast\",%d,%lld,\"%s\"]", x->owner, (long long)x->numel,
                     torch_name(x->dtype));
    }
    lw_text_close(&t);
    return lw_golden_expect(c, "broadcasts", &t, err);
}

static enum lw_status expect_local(struct lw_golden_case *c, const struct lw_oss *o,
                                   const struct input *in, struct lw_err *err)
{
    struct lw_text t = {0};

    lw_text_open(&t);
    for (int32_t g = 0; g < lw_oss_n_groups(o); g++)
        lw_text_ints(&t, in->list, lw_oss_local(o, 0, g, in->list));
    lw_text_close(&t);
    return lw_golden_expect(c, "local_optim_groups_rank0", &t, err);
}

static enum lw_status add_group(struct lw_golden_case *c, struct lw_oss *o, const struct input *in,
                                const struct lw_value *sizes, struct lw_err *err)
{
    int64_t *numel;
    int32_t n;

    LW_TRY(lw_golden_value_ints(c->arena, sizes, "add_group", 0, INT64_MAX, &numel, &n, err));
    struct lw_shard_param *more;

    LW_TAKE(c->arena, more, n, err);
    for (int32_t i = 0; i < n; i++) /* as the first parameter: the optimizer's default device */
        more[i] = (struct lw_shard_param){numel[i], in->n ? in->params[0].dtype : LW_F32,
                                          in->n ? in->params[0].device : 0, true};
    return lw_oss_add_group(o, more, n, err);
}

static enum lw_status do_step(struct lw_golden_case *c, struct lw_oss *o, const struct input *in,
                              struct lw_err *err)
{
    const struct lw_value *op = lw_value_get(c->root, "op");
    int64_t *wide;
    int32_t n;

    if (!op || op->type != LW_JSON_ARRAY || op->n < 1 || op->items[0].type != LW_JSON_STRING)
        return lw_fail(err, LW_EFORMAT, "op: expected a list that begins with a name");
    const char *name = op->items[0].text;

    if (strcmp(name, "refresh") == 0 && op->n == 1)
        return lw_oss_refresh(o, err);
    if (op->n == 2 && strcmp(name, "add_group") == 0)
        return add_group(c, o, in, &op->items[1], err);
    if (op->n != 2 || (strcmp(name, "freeze") != 0 && strcmp(name, "unfreeze") != 0))
        return lw_fail(err, LW_EFORMAT,
                       "op: '%s' is not known (freeze, unfreeze, refresh, add_group)", name);
    LW_TRY(lw_golden_value_ints(c->arena, &op->items[1], name, 0, INT32_MAX, &wide, &n, err));
    int32_t *params;
    LW_TAKE(c->arena, params, n, err);
    for (int32_t i = 0; i < n; i++)
        params[i] = (int32_t)wide[i];
    return lw_oss_set_trainable(o, params, n, *name == 'u', err);
}

static enum lw_status run_step(struct lw_golden_case *step, struct lw_oss *o, struct input *in,
                               struct lw_err *err)
{
    LW_TRY(lw_golden_known(step,
                           "op partition per_device buckets broadcasts local_optim_groups_rank0",
                           err));
    LW_TRY(do_step(step, o, in, err));
    LW_TAKE(step->arena, in->list, lw_oss_n_params(o), err);
    LW_TRY(expect_snapshot(step, o, in, err));
    return expect_local(step, o, in, err);
}

static enum lw_status run_steps(struct lw_golden_case *c, struct lw_oss *o, struct input *in,
                                struct lw_err *err)
{
    const struct lw_value *steps = lw_value_get(c->root, "steps");

    for (int32_t i = 0; steps && i < steps->n; i++) {
        struct lw_golden_case step = {.arena = c->arena, .root = &steps->items[i]};
        LW_TRY(lw_err_context(err, run_step(&step, o, in, err), "step %d", i));
    }
    return LW_OK;
}

/* The optimizer of a case. *mixed: it was refused, and is not when all dtypes are alike. */
static enum lw_status make(struct lw_golden_case *c, struct input *in, struct lw_oss **o,
                           bool *mixed, struct lw_err *err)
{
    struct lw_err other;

    *o = NULL;
    *mixed = false;
    LW_TRY(read_params(c, in, err));
    LW_TRY(read_groups(c, in, err));
    LW_TAKE(c->arena, in->list, in->n, err);
    enum lw_status status =
        lw_oss_new(in->params, in->n, in->first, in->items, in->n_groups, in->world, true, o, err);
    if (status != LW_EINVAL)
        return status;
    for (int32_t i = 0; i < in->n; i++)
        in->params[i].dtype = LW_F32;
    *mixed = lw_oss_new(in->params, in->n, in->first, in->items, in->n_groups, in->world, true, o,
                        &other) == LW_OK;
    lw_oss_free(*mixed ? *o : NULL);
    *o = NULL;
    return *mixed ? LW_OK : status;
}

static enum lw_status expect_assertion(struct lw_golden_case *c, const char *reason,
                                       const char *answers, struct lw_err *err)
{
    LW_TRY(lw_golden_expect_error(c, "AssertionError", answers, err));
    return lw_golden_expect_word(c, "reason", reason, err);
}

static enum lw_status expect_no_error(struct lw_golden_case *c, struct lw_err *err)
{
    if (lw_value_get(c->root, "reason"))
        return lw_fail(err, LW_ENO, "reason: computed no error, the case has a reason for one");
    return lw_golden_expect_error(c, NULL, "", err);
}

enum lw_status lw_golden_oss(struct lw_golden_case *c, struct lw_err *err)
{
    struct input in = {0};
    struct lw_oss *o;
    bool mixed;

    LW_TRY(make(c, &in, &o, &mixed, err));
    if (mixed)
        return expect_assertion(c, "dtype_mismatch",
                                "partition per_device buckets broadcasts steps", err);
    enum lw_status status = expect_no_error(c, err);
    if (status == LW_OK)
        status = expect_snapshot(c, o, &in, err);
    if (status == LW_OK)
        status = run_steps(c, o, &in, err);
    lw_oss_free(o);
    return status;
}

static enum lw_status expect_sharded(struct lw_golden_case *c, const struct lw_sharded_buckets *b,
                                     struct lw_err *err)
{
    struct lw_text t = {0};

    LW_TRY(lw_golden_expect_number(c, "effective_buffer_size", b->limit, err));
    lw_text_ints(&t, b->order, b->n_trainable);
    LW_TRY(lw_golden_expect(c, "trainable_order", &t, err));
    lw_text_open(&t);
    for (int32_t k = 0; b->limit > 0 && k < b->n_trainable; k++)
        lw_text_item(&t, "%d", b->bucket_of[k] >= 0);
    lw_text_close(&t);
    LW_TRY(lw_golden_expect(c, "bucketed", &t, err));
    lw_text_open(&t);
    for (int32_t k = 0; k < b->n_buckets; k++) {
        const struct lw_sharded_bucket *x = &b->buckets[k];
        lw_text_item(&t, "[%d,%lld", x->owner, (long long)x->numel);
        lw_text_ints(&t, x->items, x->n_items);
        lw_text_close(&t);
    }
    lw_text_close(&t);
    return lw_golden_expect(c, "buckets", &t, err);
}

/* The reference system's assertion on a bucket without elements, which the default form takes. */
static enum lw_status expect_empty_bucket(struct lw_golden_case *c, const struct lw_oss *o,
                                          const struct input *in, int64_t buffer,
                                          struct lw_err *err)
{
    struct lw_sharded_buckets b;
    struct lw_err other;

    if (lw_bucket_sharded(o, in->params, in->world, buffer, false, &b, &other) != LW_OK)
        return LW_EINVAL;
    enum lw_status status =
        lw_golden_expect_number(c, "effective_buffer_size", b.limit, err);
    lw_sharded_buckets_free(&b);
    LW_TRY(status);
    return expect_assertion(c, "empty_grad_bucket_before_add", "trainable_order bucketed buckets",
                            err);
}

enum lw_status lw_golden_sharded(struct lw_golden_case *c, struct lw_err *err)
{
    static const char answers[] = "effective_buffer_size trainable_order bucketed buckets";
    struct input in = {0};
    struct lw_sharded_buckets b;
    struct lw_oss *o;
    int64_t buffer;
    bool mixed;

    LW_TRY(lw_golden_int(c, "reduce_buffer_size", 0, INT64_MAX, &buffer, err));
    LW_TRY(make(c, &in, &o, &mixed, err));
    if (mixed)
        return expect_assertion(c, "dtype_mismatch", answers, err);
    enum lw_status status = lw_bucket_sharded(o, in.params, in.world, buffer, true, &b, err);
    if (status == LW_OK) {
        status = expect_no_error(c, err);
        if (status == LW_OK)
            status = expect_sharded(c, &b, err);
        lw_sharded_buckets_free(&b);
    } else if (status == LW_EINVAL) {
        status = expect_empty_bucket(c, o, &in, buffer, err);
    }
    lw_oss_free(o);
    return status;
}
