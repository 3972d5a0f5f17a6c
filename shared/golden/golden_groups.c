/* ColossalAI's recorded groups: process groups (kind "groups"), shared modules ("shared_module")
 * and the flat buffers of the gradient handlers ("grad_handlers"). */
#include <stdio.h>

#include "shared/bucket/bucket_colossal.h"
#include "shared/golden/golden_case.h"
#include "shared/groups/groups.h"

static enum lw_status read_grid(struct lw_golden_case *c, struct lw_rank_grid *grid,
                                struct lw_err *err)
{
    int32_t data, pipeline, tensor, world;

    LW_TRY(lw_golden_int32(c, "data", 1, 1 << 22, &data, err));
    LW_TRY(lw_golden_int32(c, "pipeline", 1, 1 << 22, &pipeline, err));
    LW_TRY(lw_golden_int32(c, "tensor", 1, 1 << 22, &tensor, err));
    LW_TRY(lw_golden_int32(c, "world", 1, 1 << 22, &world, err));
    LW_TRY(lw_rank_grid_colossal(world, pipeline, tensor, grid, err));
    if (grid->size[LW_COLOSSAL_DATA] != data)
        return lw_fail(err, LW_EINVAL, "data: %d, %d follows from the other sizes", data,
                       grid->size[LW_COLOSSAL_DATA]);
    return LW_OK;
}

static void add_groups(const struct lw_groups *g, struct lw_text *t)
{
    lw_text_open(t);
    for (int32_t k = 0; k < g->n_groups; k++)
        lw_text_ints(t, g->members + g->first[k], lw_groups_size(g, k));
    lw_text_close(t);
}

static enum lw_status expect_groups(struct lw_golden_case *c, const char *name,
                                    const struct lw_groups *g, struct lw_err *err)
{
    struct lw_text t = {0};
    char field[64];

    add_groups(g, &t);
    snprintf(field, sizeof field, "%s_groups", name);
    LW_TRY(lw_golden_expect(c, field, &t, err));
    lw_text_open(&t);
    for (int32_t r = 0; r < g->n_ranks; r++)
        lw_text_item(&t, "[%d,%d]", g->local_rank[r], g->group_of[r]);
    lw_text_close(&t);
    snprintf(field, sizeof field, "%s_local_rank_and_group", name);
    return lw_golden_expect(c, field, &t, err);
}

enum lw_status lw_golden_groups(struct lw_golden_case *c, struct lw_err *err)
{
    static const char *const names[] = {
        [LW_COLOSSAL_GROUPS_DATA] = "data",
        [LW_COLOSSAL_GROUPS_MODEL] = "model",
        [LW_COLOSSAL_GROUPS_PIPELINE] = "pipeline",
        [LW_COLOSSAL_GROUPS_TENSOR] = "tensor",
    };
    static const char answers[] = "data_groups model_groups pipeline_groups tensor_groups";
    struct lw_rank_grid grid;
    struct lw_groups g;

    enum lw_status shaped = read_grid(c, &grid, err);
    if (shaped == LW_EINVAL && lw_value_get(c->root, "error"))
        return lw_golden_expect_error(c, "AssertionError", answers, err);
    LW_TRY(shaped);
    LW_TRY(lw_golden_expect_error(c, NULL, "", err));
    for (int k = 0; k < 4; k++) {
        LW_TRY(lw_groups_colossal(&grid, (enum lw_colossal_groups)k, &g, err));
        enum lw_status status = expect_groups(c, names[k], &g, err);
        lw_groups_free(&g);
        LW_TRY(status);
    }
    return LW_OK;
}

static enum lw_status expect_shared(struct lw_golden_case *c, const struct lw_groups *g,
                                    const int32_t *stages, struct lw_err *err)
{
    struct lw_text t = {0};
    struct lw_err refusal;

    add_groups(g, &t);
    LW_TRY(lw_golden_expect(c, "subgroups", &t, err));
    lw_text_open(&t);
    for (int32_t r = 0; r < g->n_ranks; r++) {
        int32_t k = g->group_of[r], source;
        lw_text_item(&t, "[%d", r);
        if (k < 0) {
            lw_text_add(&t, ",null,\"not_a_member\"]");
            continue;
        }
        lw_text_ints(&t, g->members + g->first[k], lw_groups_size(g, k));
        if (lw_shared_module_source(g, stages, r, true, &source, &refusal) == LW_OK)
            lw_text_add(&t, ",%d]", source);
        else
            lw_text_add(&t, ",\"IndexError\"]");
    }
    lw_text_close(&t);
    return lw_golden_expect(c, "per_rank", &t, err);
}

enum lw_status lw_golden_shared_module(struct lw_golden_case *c, struct lw_err *err)
{
    struct lw_rank_grid grid;
    struct lw_groups g;
    int32_t *stages, n;

    LW_TRY(read_grid(c, &grid, err));
    LW_TRY(lw_golden_indices(c, "pipeline_ranks", 0, INT32_MAX, &stages, &n, err));
    if (n < 0)
        return lw_fail(err, LW_EFORMAT, "pipeline_ranks: missing");
    if (n < 2)
        return lw_golden_expect_error(c, "AssertionError", "subgroups per_rank", err);
    LW_TRY(lw_golden_expect_error(c, NULL, "", err));
    LW_TRY(lw_groups_shared_module(&grid, stages, n, &g, err));
    enum lw_status status = expect_shared(c, &g, stages, err);
    lw_groups_free(&g);
    return status;
}

static enum lw_status read_grads(struct lw_golden_case *c, struct lw_colossal_grad **grads,
                                 int32_t *n, struct lw_err *err)
{
    const struct lw_value *params = lw_value_get(c->root, "params");

    if (!params || params->type != LW_JSON_ARRAY)
        return lw_fail(err, LW_EFORMAT, "params: expected a list");
    struct lw_colossal_grad *g;

    LW_TAKE(c->arena, g, params->n, err);
    for (int32_t i = 0; i < params->n; i++) {
        const struct lw_value *p = &params->items[i];
        struct lw_value numel = {.type = LW_JSON_ARRAY, .n = 1}, rest = {.type = LW_JSON_ARRAY};
        int64_t *size, *flags;
        int32_t one;
        if (p->type != LW_JSON_ARRAY || p->n != 5 || p->items[1].type != LW_JSON_STRING)
            return lw_fail(err, LW_EFORMAT,
                           "params[%d]: expected [numel, dtype, trainable, has_grad, group]", i);
        numel.items = p->items;
        rest.items = p->items + 2;
        rest.n = 3;
        LW_TRY(lw_golden_value_ints(c->arena, &numel, "params", 0, INT64_MAX, &size, &one, err));
        LW_TRY(lw_golden_value_ints(c->arena, &rest, "params", -1, INT32_MAX, &flags, &one, err));
        g[i] = (struct lw_colossal_grad){.numel = size[0],
                                         .trainable = flags[0] == 1,
                                         .has_grad = flags[1] == 1,
                                         .shared_group = (int32_t)flags[2]};
        LW_TRY(lw_dtype_parse(p->items[1].text, &g[i].dtype, err));
    }
    *grads = g;
    *n = params->n;
    return LW_OK;
}

static enum lw_status expect_buckets(struct lw_golden_case *c, const char *field,
                                     const struct lw_colossal_buckets *b, struct lw_err *err)
{
    struct lw_text t = {0};

    lw_text_open(&t);
    for (int32_t k = 0; k < b->n_buckets; k++) {
        const struct lw_colossal_bucket *x = &b->buckets[k];
        lw_text_open(&t);
        lw_text_item(&t, x->group < 0 ? "\"data\"" : "%d", x->group);
        lw_text_item(&t, "\"%s\",%lld", lw_dtype_name(x->dtype), (long long)x->numel);
        lw_text_close(&t);
    }
    lw_text_close(&t);
    return lw_golden_expect(c, field, &t, err);
}

enum lw_status lw_golden_grad_handlers(struct lw_golden_case *c, struct lw_err *err)
{
    struct lw_colossal_grad *grads = NULL;
    struct lw_colossal_buckets b;
    int32_t pipeline, data, n = 0;

    LW_TRY(read_grads(c, &grads, &n, err));
    LW_TRY(lw_golden_int32(c, "pipeline", 1, 1 << 22, &pipeline, err));
    LW_TRY(lw_golden_int32(c, "data", 1, 1 << 22, &data, err));
    LW_TRY(lw_bucket_colossal_shared(grads, n, pipeline, &b, err));
    enum lw_status status = expect_buckets(c, "shared", &b, err);
    lw_colossal_buckets_free(&b);
    LW_TRY(status);
    LW_TRY(lw_bucket_colossal_data(grads, n, data, &b, err));
    status = expect_buckets(c, "data_parallel", &b, err);
    lw_colossal_buckets_free(&b);
    return status;
}
