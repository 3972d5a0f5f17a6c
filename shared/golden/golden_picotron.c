/* picotron's recorded cases: where gradients lie (kind "assign" with "bucket_size"), and what a
 * script of marks, waits and resets does (kind "launch"). */
#include <string.h>

#include "shared/bucket/bucket_picotron.h"
#include "shared/golden/golden_case.h"

struct input {
    int64_t *numel, capacity;
    bool *trainable;
    int32_t n;
    struct lw_picotron_place *places;
};

static enum lw_status read_input(struct lw_golden_case *c, struct input *in, struct lw_err *err)
{
    int32_t *trainable, n_trainable;

    LW_TRY(lw_golden_list(c, "numel", 0, INT64_MAX, &in->numel, &in->n, err));
    LW_TRY(lw_golden_int(c, "bucket_size", 0, INT64_MAX, &in->capacity, err));
    LW_TRY(lw_golden_indices(c, "trainable", 0, 1, &trainable, &n_trainable, err));
    if (trainable && n_trainable != in->n)
        return lw_fail(err, LW_EFORMAT, "trainable: %d flags for %d parameters", n_trainable,
                       in->n);
    LW_TAKE(c->arena, in->trainable, in->n, err);
    LW_TAKE(c->arena, in->places, in->n, err);
    for (int32_t i = 0; i < in->n; i++)
        in->trainable[i] = !trainable || trainable[i];
    return LW_OK;
}

/* The capacity follows from cap_mb and grad_bytes where the case tells them. */
static enum lw_status check_capacity(struct lw_golden_case *c, const struct input *in,
                                     struct lw_err *err)
{
    int64_t mib, bytes, elements;

    if (!lw_value_get(c->root, "cap_mb"))
        return LW_OK;
    LW_TRY(lw_golden_int(c, "cap_mb", 0, INT64_MAX, &mib, err));
    LW_TRY(lw_golden_int(c, "grad_bytes", 1, 8, &bytes, err));
    LW_TRY(lw_picotron_capacity(mib, bytes == 2 ? LW_BF16 : LW_F32, true, &elements, err));
    if (bytes != 2 && bytes != 4)
        return lw_fail(err, LW_ENO, "grad_bytes: computed 2 or 4, the case says %lld",
                       (long long)bytes);
    if (elements != in->capacity)
        return lw_fail(err, LW_ENO, "bucket_size: computed %lld, the case says %lld",
                       (long long)elements, (long long)in->capacity);
    return LW_OK;
}

static enum lw_status expect_places(struct lw_golden_case *c, const struct input *in,
                                    const struct lw_bucketing *b, struct lw_err *err)
{
    struct lw_text t = {0};

    lw_text_open(&t);
    for (int32_t i = 0; i < in->n; i++) {
        const struct lw_picotron_place *p = &in->places[i];
        lw_text_item(&t, p->bucket < 0 ? "null" : "[%lld,%lld,%d]", (long long)p->start,
                     (long long)p->end, p->bucket);
    }
    lw_text_close(&t);
    LW_TRY(lw_golden_expect(c, "location", &t, err));
    lw_text_open(&t);
    for (int32_t k = 0; k < b->n_buckets; k++) {
        bool empty = b->first[k] == b->first[k + 1];
        int64_t size = empty ? 0 : in->places[b->items[b->first[k + 1] - 1]].end;
        lw_text_item(&t, "%lld", (long long)size);
    }
    lw_text_close(&t);
    LW_TRY(lw_golden_expect(c, "bucket_sizes", &t, err));
    lw_text_open(&t);
    for (int32_t k = 0; k < b->n_buckets; k++)
        lw_text_item(&t, "%d", b->first[k + 1] - b->first[k]);
    lw_text_close(&t);
    return lw_golden_expect(c, "bucket_param_count", &t, err);
}

enum lw_status lw_golden_picotron(struct lw_golden_case *c, struct lw_err *err)
{
    struct input in = {0};
    struct lw_bucketing b;

    LW_TRY(read_input(c, &in, err));
    LW_TRY(check_capacity(c, &in, err));
    if (in.n == 0) /* the manager looks at the first parameter's device */
        return lw_golden_expect_error(c, "IndexError", "location bucket_sizes bucket_param_count",
                                      err);
    LW_TRY(lw_golden_expect_error(c, NULL, "", err));
    LW_TRY(lw_bucket_picotron(in.numel, in.trainable, in.n, in.capacity, true, &b, in.places, err));
    enum lw_status status = expect_places(c, &in, &b, err);
    lw_bucketing_free(&b);
    return status;
}

/* One step of a script; what it did goes to t. *fault stops the script. */
static enum lw_status run_step(struct lw_picotron *m, const struct lw_value *step,
                               struct lw_text *t, enum lw_picotron_fault *fault, struct lw_err *err)
{
    struct lw_value one = {.type = LW_JSON_ARRAY, .n = 1, .items = step};
    struct lw_arena scratch = {0};
    int64_t *param;
    int32_t n, launched;

    *fault = LW_PICOTRON_OK;
    lw_text_open(t);
    if (step->type == LW_JSON_STRING && strcmp(step->text, "wait") == 0) {
        lw_picotron_wait(m, &n, fault, err);
        for (int32_t b = 0; b < n; b++)
            lw_text_item(t, "[\"W\",%d]", b);
    } else if (step->type == LW_JSON_STRING && strcmp(step->text, "reset") == 0) {
        lw_picotron_reset(m);
    } else {
        enum lw_status status =
            lw_golden_value_ints(&scratch, &one, "script", INT32_MIN, INT32_MAX, &param, &n, err);
        if (status == LW_OK &&
            lw_picotron_mark(m, (int32_t)*param, &launched, fault, err) == LW_OK && launched >= 0)
            lw_text_item(t, "[\"L\",%d]", launched);
        lw_arena_free(&scratch);
        LW_TRY(status);
    }
    lw_text_close(t);
    return LW_OK;
}

static enum lw_status run_script(struct lw_golden_case *c, struct lw_picotron *m,
                                 struct lw_err *err)
{
    static const char *const class_of[] = {
        [LW_PICOTRON_OK] = NULL,
        [LW_PICOTRON_ASSERTION] = "AssertionError",
        [LW_PICOTRON_KEY] = "KeyError",
    };
    const struct lw_value *script = lw_value_get(c->root, "script");
    enum lw_picotron_fault fault = LW_PICOTRON_OK;
    enum lw_status status = LW_OK;
    struct lw_text t = {0};

    if (!script || script->type != LW_JSON_ARRAY)
        return lw_fail(err, LW_EFORMAT, "script: expected a list");
    lw_text_open(&t);
    for (int32_t i = 0; status == LW_OK && i < script->n && fault == LW_PICOTRON_OK; i++)
        status = run_step(m, &script->items[i], &t, &fault, err);
    lw_text_close(&t);
    if (status != LW_OK) {
        lw_text_free(&t);
        return status;
    }
    LW_TRY(lw_golden_expect(c, "events", &t, err));
    if (!lw_value_get(c->root, "error"))
        return lw_fail(err, LW_ENO, "error: missing, null where the script ran through");
    return lw_golden_expect_error(c, class_of[fault], "", err);
}

enum lw_status lw_golden_picotron_launch(struct lw_golden_case *c, struct lw_err *err)
{
    struct input in = {0};
    struct lw_bucketing b;
    struct lw_picotron *m;

    LW_TRY(read_input(c, &in, err));
    LW_TRY(lw_bucket_picotron(in.numel, in.trainable, in.n, in.capacity, true, &b, in.places, err));
    enum lw_status status = lw_picotron_new(&b, in.n, &m, err);
    lw_bucketing_free(&b);
    LW_TRY(status);
    status = run_script(c, m, err);
    lw_picotron_free(m);
    return status;
}
