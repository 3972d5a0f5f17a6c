/* Golden files: finds what a file and a case are, hands each case to its checker and counts.
 *
 * Invariants: what a case is follows from its content alone (its "kind" and the fields that go with
 * it, or the table's first columns), never from the file's name, except for a schedule table, which
 * holds nothing but cells; every non-empty line counts as
 * passed or failed; a case's memory is freed before the next. */
#include "shared/golden/golden.h"

#include <stdio.h>
#include <string.h>

#include "shared/golden/golden_case.h"
#include "shared/golden/golden_schedule.h"
#include "shared/io/input.h"

void lw_golden_free(struct lw_golden_result *r)
{
    lw_free(r->failures);
    lw_arena_free(&r->arena);
    *r = (struct lw_golden_result){0};
}

/* JSON cases. Two systems have a kind "assign": a field tells them apart. */
#define C10D_FIELDS \
    "id kind name numel dtype device sparse layout limits order buckets bucket_limits " \
    "open_buckets order_defined error reason"
static const struct {
    const char *kind, *with; /* with: a field it must have; NULL = any */
    lw_golden_check *check;
    const char *fields; /* all that it may have */
} kinds[] = {
    {"assign", "bucket_size", lw_golden_picotron,
     "id kind name numel trainable bucket_size cap_mb grad_bytes location bucket_sizes "
     "bucket_param_count error"},
    {"launch", "bucket_size", lw_golden_picotron_launch,
     "id kind name numel trainable bucket_size script events error"},
    {"assign", "limits", lw_golden_c10d, C10D_FIELDS},
    {"rebuild", "limits", lw_golden_c10d, C10D_FIELDS},
    {"error", "limits", lw_golden_c10d, C10D_FIELDS},
    {"ddp_trace", NULL, lw_golden_c10d_trace,
     "id kind name numel dtype cap_bytes first_bucket_bytes find_unused static_graph "
     "bucket_view iters"},
    {"partition", "world", lw_golden_oss,
     "id kind name numel trainable world groups dtype device partition per_device buckets "
     "broadcasts steps error reason"},
    {"sdp_buckets", NULL, lw_golden_sharded,
     "id kind name numel trainable world dtype device reduce_buffer_size effective_buffer_size "
     "trainable_order bucketed buckets error reason"},
    {"uniform", "items", lw_golden_uniform,
     "id kind name items stages chunks parts warned_empty_stage error"},
    {"balanced", "weights", lw_golden_balanced,
     "id kind name weights stages chunks parts warned_empty_stage error"},
    {"groups", NULL, lw_golden_groups,
     "id kind name error data pipeline tensor world data_groups data_local_rank_and_group "
     "model_groups model_local_rank_and_group pipeline_groups pipeline_local_rank_and_group "
     "tensor_groups tensor_local_rank_and_group"},
    {"shared_module", NULL, lw_golden_shared_module,
     "id kind name data pipeline tensor world pipeline_ranks subgroups per_rank error"},
    {"grad_handlers", NULL, lw_golden_grad_handlers,
     "id kind name params pipeline data shared data_parallel"},
    {"schedule_1f1b", "stages", lw_golden_schedule_1f1b,
     "id kind name stages microbatches forward_only events error"},
    {"schedule_interleaved", "stages", lw_golden_schedule_interleaved,
     "id kind name stages microbatches chunks forward_only events error"},
};

/* CSV tables, known by their first two columns. */
static const struct {
    const char *first, *second, *id; /* id: columns that name a row */
    lw_golden_check *check;
    const char *columns;
} tables[] = {
    {"name", "n", "name k", lw_golden_partition_row,
     "name n k weights deepspeed_uniform deepspeed_balanced deepspeed_balanced_max "
     "deepspeed_balanced_min colossal_balanced_chunks1 colossal_balanced_max "
     "colossal_balanced_chunks2 optimal_bottleneck"},
    {"model", "net", "model net workers", lw_golden_bucketing_row,
     "model net workers alpha_s beta_s_per_B n_layers backward_s sizes tb_us per_layer_end_s "
     "per_layer_groups single_end_s single_groups cap25MiB_first1MiB_end_s "
     "cap25MiB_first1MiB_groups mgwfbp_end_s mgwfbp_groups mgwfbp_layers_per_group "
     "optimal_dp_end_s optimal_dp_groups optimal_dp_layers_per_group"},
    {"model", "machines", "model machines straight", lw_golden_pipedream_row,
     "model machines bandwidth_Bps straight stages_per_level stages single_stage_s "
     "pipeline_stage_s speedup dp_speedup"},
    {"file", "schedule", "file", lw_golden_manifest_row,
     "file schedule p m v n_stages layout n_actions makespan_unit longest_rank_unit "
     "makespan_F10_I11_W7_C2 longest_rank_F10_I11_W7_C2 peak_inflight_until_dgrad "
     "peak_inflight_until_wgrad source note"},
    {"p", "rank", "p rank v_blank_is_none microbatch_group_size m", lw_golden_megatron_row,
     "p rank v_blank_is_none microbatch_group_size m warmup chunk_order_pos_fwd_neg_bwd "
     "schedule_table_mb.chunk"},
};

static enum lw_status check_value(struct lw_golden_case *c, struct lw_err *err)
{
    const struct lw_value *kind = lw_value_get(c->root, "kind");

    if (!kind || kind->type != LW_JSON_STRING)
        return lw_fail(err, LW_EFORMAT, "missing \"kind\": not a recorded case");
    char lacks[96] = "";
    size_t at = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (strcmp(kinds[k].kind, kind->text) != 0)
            continue;
        if (!kinds[k].with || lw_value_get(c->root, kinds[k].with)) {
            LW_TRY(lw_golden_known(c, kinds[k].fields, err));
            return kinds[k].check(c, err);
        }
        at += (size_t)snprintf(lacks + at, sizeof lacks - at, "%s\"%s\"", at ? " or " : "",
                               kinds[k].with);
    }
    if (at > 0)
        return lw_fail(err, LW_EFORMAT, "a case of kind '%s' needs %s", kind->text, lacks);
    return lw_fail(err, LW_EFORMAT, "unknown kind '%s'", kind->text);
}

/* Count one case by its status; the message of a failure is in *err. */
static enum lw_status count(struct lw_golden_result *r, const char *file, int64_t line,
                            const char *id, enum lw_status status, struct lw_err *err)
{
    struct lw_golden_failure f = {.line = line};

    if (status == LW_OK)
        r->n_passed++;
    if (status == LW_OK || status == LW_ENOMEM)
        return status;
    f.file = lw_arena_strdup(&r->arena, file);
    f.id = lw_arena_strdup(&r->arena, id);
    f.message = lw_arena_strdup(&r->arena, err->msg);
    if (!f.file || !f.id || !f.message)
        return lw_fail_nomem(err);
    LW_ROOM(r->failures, r->cap, r->n_failed + 1, err);
    r->failures[r->n_failed++] = f;
    return LW_OK;
}

static enum lw_status run_line(const char *file, int64_t line, const char *text, size_t len,
                               struct lw_golden_result *r, struct lw_err *err)
{
    struct lw_arena arena = {0};
    struct lw_value root = {0};
    struct lw_golden_case c = {.arena = &arena, .root = &root};
    struct lw_json *j;
    const char *id = "";
    enum lw_status status = lw_json_open("broken JSON", text, len, &j, err);

    if (status == LW_OK) {
        status = lw_value_read(j, &arena, &root, err);
        lw_json_close(j);
    }
    if (status == LW_OK) {
        const struct lw_value *name = lw_value_get(&root, "id");
        id = name && name->type == LW_JSON_STRING ? name->text : "";
        status = check_value(&c, err);
    }
    status = count(r, file, line, id, status, err);
    lw_arena_free(&arena);
    return status;
}

static const char *end_of_line(const char *p, const char *end)
{
    const char *nl = memchr(p, '\n', (size_t)(end - p));

    return nl ? nl : end;
}

static bool blank(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
        p++;
    return p == end;
}

static enum lw_status run_lines(const struct lw_input *in, struct lw_golden_result *r,
                                struct lw_err *err)
{
    const char *end = in->text + in->len;
    int64_t line = 1;

    for (const char *p = in->text, *next; p < end; p = next + 1, line++) {
        next = end_of_line(p, end);
        if (!blank(p, next))
            LW_TRY(run_line(in->name, line, p, (size_t)(next - p), r, err));
    }
    return LW_OK;
}

/* The cells of one line, in the arena; a quoted cell may hold commas and doubled quotes. */
static enum lw_status split(struct lw_arena *arena, const char *p, const char *end, char ***cells,
                            int32_t *n, struct lw_err *err)
{
    char *copy = lw_arena_strndup(arena, p, (size_t)(end - p));
    int32_t most = 1;

    if (end > p && end[-1] == '\r')
        copy ? copy[end - p - 1] = '\0' : 0;
    for (const char *q = p; q < end; q++)
        most += *q == ',';
    *cells = lw_arena_alloc(arena, most, sizeof **cells);
    if (!copy || !*cells)
        return lw_fail_nomem(err);
    for (*n = 0; *n < most;) {
        bool quoted = *copy == '"';
        char *to = (*cells)[(*n)++] = copy, *from = copy + quoted;
        for (; *from && (quoted || *from != ','); from++) {
            if (quoted && *from == '"' && *++from != '"')
                break;
            *to++ = *from;
        }
        bool last = *from == '\0';
        if (!last && *from != ',')
            return lw_fail(err, LW_EFORMAT, "column %d: text after a closing quote", *n);
        *to = '\0';
        if (last)
            break;
        copy = from + 1;
    }
    return LW_OK;
}

static const char *row_id(struct lw_golden_case *c, const char *columns)
{
    struct lw_text t = {0};
    struct lw_err err;
    const char *cell, *id;

    for (const char *p = columns; *p; p += strcspn(p, " ") + (p[strcspn(p, " ")] == ' ')) {
        char title[32] = "";
        size_t len = strcspn(p, " ");
        memcpy(title, p, len < sizeof title ? len : sizeof title - 1);
        if (lw_golden_cell(c, title, &cell, &err) == LW_OK)
            lw_text_add(&t, "%s%s", t.n ? " " : "", cell);
    }
    id = t.at ? lw_arena_strdup(c->arena, t.at) : NULL;
    lw_text_free(&t);
    return id ? id : "";
}

static enum lw_status run_row(const struct lw_input *in, int64_t line, const char *p,
                              const char *end, size_t table, char *const *titles, int32_t n_titles,
                              struct lw_golden_result *r, struct lw_err *err)
{
    struct lw_arena arena = {0};
    struct lw_golden_case c = {.arena = &arena,
                               .titles = titles,
                               .file = in->name,
                               .n_profiles = r->n_profiles,
                               .profiles = r->profiles,
                               .engine = &r->engine};
    char **cells;
    const char *id = "";
    enum lw_status status = split(&arena, p, end, &cells, &c.n_cells, err);

    c.cells = cells;
    if (status == LW_OK && c.n_cells != n_titles)
        status =
            lw_fail(err, LW_EFORMAT, "%d cells, the table has %d columns", c.n_cells, n_titles);
    if (status == LW_OK) {
        id = row_id(&c, tables[table].id);
        status = lw_golden_known(&c, tables[table].columns, err);
    }
    if (status == LW_OK)
        status = tables[table].check(&c, err);
    status = count(r, in->name, line, id, status, err);
    lw_arena_free(&arena);
    return status;
}

static enum lw_status run_rows(const struct lw_input *in, struct lw_arena *head,
                               struct lw_golden_result *r, struct lw_err *err)
{
    const char *end = in->text + in->len, *next = end_of_line(in->text, end);
    char **titles;
    int32_t n_titles;
    size_t t = 0, n_tables = sizeof tables / sizeof *tables;
    int64_t line = 2;
    enum lw_status status = split(head, in->text, next, &titles, &n_titles, err);

    if (status == LW_ENOMEM)
        return status;
    while (t < n_tables &&
           (status != LW_OK || n_titles < 2 || strcmp(tables[t].first, titles[0]) != 0 ||
            strcmp(tables[t].second, titles[1]) != 0))
        t++;
    if (t == n_tables)
        return count(r, in->name, 1, "",
                     lw_fail(err, LW_EFORMAT,
                             "unknown kind of file: neither JSON lines nor a known table"),
                     err);
    for (const char *p = next + 1; p < end; p = next + 1, line++) {
        next = end_of_line(p, end);
        if (!blank(p, next))
            LW_TRY(run_row(in, line, p, next, t, titles, n_titles, r, err));
    }
    return LW_OK;
}

enum lw_status lw_golden_file(const char *file, struct lw_golden_result *r, struct lw_err *err)
{
    struct lw_input in;
    struct lw_arena head = {0};
    struct lw_err own; /* failures are told by it */

    err = err ? err : &own;
    LW_TRY(lw_input_read(file, 0, &in, err));
    size_t at = strspn(in.text, " \t\r\n");
    enum lw_status status;

    if (at == in.len)
        status = count(r, file, 1, "", lw_fail(err, LW_EFORMAT, "holds no case"), err);
    else if (in.text[at] == '{')
        status = run_lines(&in, r, err);
    else if (lw_golden_is_schedule(file))
        status = count(r, file, 1, "", lw_golden_schedule_file(file, in.text, err), err);
    else
        status = run_rows(&in, &head, r, err);
    lw_arena_free(&head);
    lw_input_free(&in);
    return status;
}
