/* Recorded partitions: ColossalAI's (kinds "uniform" and "balanced") and the table that compares
 * several systems with the optimum (partition.csv). */
#include <string.h>

#include "shared/golden/golden_case.h"
#include "shared/partition/partition.h"

static enum lw_status expect_parts(struct lw_golden_case *c, const struct lw_partitioning *p,
                                   struct lw_err *err)
{
    struct lw_text t = {0};

    lw_text_open(&t);
    for (int32_t s = 0; s < p->n_stages; s++) {
        lw_text_open(&t);
        for (int32_t k = 0; k < p->n_chunks; k++) {
            const struct lw_range *r = lw_partition_part(p, s, k);
            lw_text_item(&t, "[%d,%d]", r->begin, r->end);
        }
        lw_text_close(&t);
    }
    lw_text_close(&t);
    LW_TRY(lw_golden_expect(c, "parts", &t, err));
    lw_text_add(&t, p->warned_empty ? "true" : "false");
    return lw_golden_expect(c, "warned_empty_stage", &t, err);
}

/* `made` is what the policy returned: its one refusal here is the reference system's assertion that
 * items divide into chunks. */
static enum lw_status expect_answer(struct lw_golden_case *c, enum lw_status made,
                                    struct lw_partitioning *p, struct lw_err *err)
{
    if (made == LW_EINVAL)
        return lw_golden_expect_error(c, "AssertionError", "parts warned_empty_stage", err);
    LW_TRY(made);
    enum lw_status status = lw_golden_expect_error(c, NULL, "", err);
    if (status == LW_OK)
        status = expect_parts(c, p, err);
    lw_partition_free(p);
    return status;
}

static enum lw_status read_shape(struct lw_golden_case *c, int32_t *stages, int32_t *chunks,
                                 struct lw_err *err)
{
    LW_TRY(lw_golden_int32(c, "stages", 1, 1 << 16, stages, err));
    return lw_golden_int32(c, "chunks", 1, 1 << 10, chunks, err);
}

enum lw_status lw_golden_uniform(struct lw_golden_case *c, struct lw_err *err)
{
    struct lw_partitioning p;
    int32_t items, stages, chunks;

    LW_TRY(lw_golden_int32(c, "items", 0, INT32_MAX, &items, err));
    LW_TRY(read_shape(c, &stages, &chunks, err));
    enum lw_status made = lw_partition_uniform(items, stages, chunks, &p, err);
    return expect_answer(c, made, &p, err);
}

enum lw_status lw_golden_balanced(struct lw_golden_case *c, struct lw_err *err)
{
    struct lw_partitioning p;
    int64_t *weights, total;
    int32_t n, stages, chunks;

    LW_TRY(lw_golden_list(c, "weights", 0, INT64_MAX, &weights, &n, err));
    LW_TRY(read_shape(c, &stages, &chunks, err));
    LW_TRY(lw_partition_check_weights(weights, n, &total, err));
    enum lw_status made = lw_partition_colossal(weights, n, stages, chunks, &p, err);
    return expect_answer(c, made, &p, err);
}

struct row {
    int64_t *weights;
    int32_t n, k;
};

static enum lw_status read_row(struct lw_golden_case *c, struct row *r, struct lw_err *err)
{
    LW_TRY(lw_golden_list(c, "weights", 0, INT64_MAX, &r->weights, &r->n, err));
    LW_TRY(lw_golden_expect_number(c, "n", r->n, err));
    return lw_golden_int32(c, "k", 1, 1 << 16, &r->k, err);
}

/* Boundaries "0;11;22", or stages "0-13,20-22|13-20,22-25"; freed. */
static enum lw_status expect_cuts(struct lw_golden_case *c, const char *title, bool boundaries,
                                  struct lw_partitioning *p, struct lw_err *err)
{
    struct lw_text t = {0};

    lw_text_add(&t, boundaries ? "0" : "");
    for (int32_t s = 0; s < p->n_stages; s++)
        for (int32_t k = 0; k < p->n_chunks; k++) {
            const struct lw_range *r = lw_partition_part(p, s, k);
            if (boundaries)
                lw_text_add(&t, ";%d", r->end);
            else
                lw_text_add(&t, "%s%d-%d", k ? "," : s ? "|" : "", r->begin, r->end);
        }
    lw_partition_free(p);
    return lw_golden_expect(c, title, &t, err);
}

static enum lw_status check_deepspeed(struct lw_golden_case *c, const struct row *r,
                                      struct lw_err *err)
{
    struct lw_partitioning p;
    int64_t heaviest, lightest;

    LW_TRY(lw_partition_deepspeed_uniform(r->n, r->k, &p, err));
    LW_TRY(expect_cuts(c, "deepspeed_uniform", true, &p, err));
    LW_TRY(lw_partition_deepspeed_balanced(r->weights, r->n, r->k, &p, err));
    lw_partition_extremes(&p, r->weights, &heaviest, &lightest);
    LW_TRY(expect_cuts(c, "deepspeed_balanced", true, &p, err));
    LW_TRY(lw_golden_expect_number(c, "deepspeed_balanced_max", heaviest, err));
    return lw_golden_expect_number(c, "deepspeed_balanced_min", lightest, err);
}

/* A cell where the reference system stopped with an assertion: empty, or a word for that. */
static enum lw_status expect_assertion(struct lw_golden_case *c, const char *title,
                                       struct lw_err *err)
{
    static const char *const words[] = {"", "-", "None", "error", "AssertionError"};
    const char *text;

    LW_TRY(lw_golden_cell(c, title, &text, err));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], text) == 0)
            return LW_OK;
    return lw_fail(err, LW_ENO, "%s: computed an assertion, the case says %.60s", title, text);
}

static enum lw_status check_colossal(struct lw_golden_case *c, const struct row *r,
                                     struct lw_err *err)
{
    struct lw_partitioning p;
    int64_t heaviest, lightest;

    LW_TRY(lw_partition_colossal(r->weights, r->n, r->k, 1, &p, err));
    lw_partition_extremes(&p, r->weights, &heaviest, &lightest);
    LW_TRY(expect_cuts(c, "colossal_balanced_chunks1", false, &p, err));
    LW_TRY(lw_golden_expect_number(c, "colossal_balanced_max", heaviest, err));
    enum lw_status status = lw_partition_colossal(r->weights, r->n, r->k, 2, &p, err);
    if (status == LW_EINVAL)
        return expect_assertion(c, "colossal_balanced_chunks2", err);
    LW_TRY(status);
    return expect_cuts(c, "colossal_balanced_chunks2", false, &p, err);
}

enum lw_status lw_golden_partition_row(struct lw_golden_case *c, struct lw_err *err)
{
    struct row r = {0};
    struct lw_partitioning p;
    int64_t bottleneck;

    LW_TRY(read_row(c, &r, err));
    LW_TRY(check_deepspeed(c, &r, err));
    LW_TRY(check_colossal(c, &r, err));
    struct lw_stage_problem q = {
        .n_items = r.n, .work = r.weights, .n_stages = r.k < r.n ? (int32_t)r.k : r.n};
    LW_TRY(lw_partition_exact(&q, &p, &bottleneck, err));
    lw_partition_free(&p);
    return lw_golden_expect_number(c, "optimal_bottleneck", bottleneck, err);
}
