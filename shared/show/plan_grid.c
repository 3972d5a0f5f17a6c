/* lapwing plan --schedule X: the grid of a schedule, or of a user's file, drawn in units of time
 * (F, I and W take 1, B 2, a unit of two actions their sum, transfers nothing). */
#include "shared/text/wrap.h"
#include "shared/show/plan_grid.h"

#include <string.h>

#include "shared/files/files.h"
#include "shared/schedule/grid_print.h"
#include "shared/io/input.h"
#include "shared/lower/lower_grid.h"
#include "shared/schedule/schedule_colossal.h"

static enum lw_status read_durations(const char *text, struct lw_grid_durations *d,
                                     struct lw_err *err)
{
    lw_ps *fields[] = {&d->f, &d->i, &d->w, &d->comm, &d->pair};
    char part[64];
    int k = 0;

    d->pair = 0;
    for (bool more = true; more; k++) {
        size_t n = strcspn(text, ",");
        more = text[n] != '\0';
        if (n == 0 || n >= sizeof part || (more ? k == 4 : k < 3))
            return lw_fail(err, LW_EUSAGE, "--durations: expected four times as F,I,W,C, like "
                                           "10us,11us,7us,2us, or a fifth: of a unit of two");
        memcpy(part, text, n);
        part[n] = '\0';
        LW_TRY(lw_parse_time(part, fields[k], err));
        text += n + more;
    }
    if (k == 5 && d->pair <= 0)
        return lw_fail(err, LW_EUSAGE, "--durations: a unit of two must take more than 0");
    d->b = d->i + d->w;
    return LW_OK;
}

static enum lw_status are_durations(const char *text, struct lw_err *err)
{
    struct lw_grid_durations d;

    return read_durations(text, &d, err);
}

void lw_grid_request_options(struct lw_grid_request *q, struct lw_opt table[LW_GRID_OPTIONS])
{
    const struct lw_opt options[LW_GRID_OPTIONS] = {
        {"schedule-file", 0, LW_OPT_STRING, &q->file, "FILE",
         "grid alone: a schedule of your own as CSV, one line per rank, cells like 0F3"},
        {"lower", 0, LW_OPT_STRING, &q->lower, "messages|shards",
         "grid alone, as csv: with sends and receives, or with at most 3 stages gathered"},
        {"durations", 0, LW_OPT_STRING, &q->durations, "F,I,W,C[,P]",
         "grid alone, with -o: forward, both halves of backward, a message (1us,1us,1us,0us); a "
         "unit of a forward and a backward (the sum of both)",
         .check = are_durations},
    };

    memcpy(table, options, sizeof options);
}

static bool given(const struct lw_plan_source *src, const char *name)
{
    for (int i = 0; i < src->n_given; i++)
        if (strcmp(src->names[i], name) == 0)
            return true;
    return false;
}

bool lw_grid_requested(const struct lw_grid_request *q, const struct lw_plan_source *src)
{
    return q->file || q->lower || q->durations || given(src, "schedule");
}

/* A grid has no place for the rest of a strategy: nothing of it is dropped in silence. */
static enum lw_status only_grid_options(const struct lw_plan_source *src, struct lw_err *err)
{
    static const char *const known[] = {"schedule", "pp", "micro-batches", "chunks",
                                        "micro-batch-group", "drain-every"};
    const size_t n = sizeof known / sizeof *known;

    for (int i = 0; i < src->n_given; i++) {
        size_t k = 0;
        while (k < n && strcmp(src->names[i], known[k]) != 0)
            k++;
        if (k == n)
            return lw_fail(err, LW_EUSAGE,
                           "--%s needs -w FILE: a grid alone takes --schedule, --pp, "
                           "--micro-batches, --chunks, --micro-batch-group and --drain-every",
                           src->names[i]);
    }
    LW_TRY(lw_plan_source_no_model(src, "a grid alone", err));
    if (src->cluster_file || src->strategy_file || src->ranks || src->node_gbps != 0 ||
        src->max_ops || src->device || src->from_device || src->as_recorded)
        return lw_fail(err, LW_EUSAGE,
                       "-c, -s, --ranks, --node-gbps, --max-ops, --device, --from-device and "
                       "--as-recorded need -w FILE: a grid alone has no cluster, no times and no "
                       "strategy");
    return LW_OK;
}

static enum lw_status read_grid(const struct lw_plan_source *src, const struct lw_grid_request *q,
                                const struct lw_strategy *st, struct lw_grid *g, struct lw_err *err)
{
    struct lw_input in;

    if (given(src, "schedule") && st->schedule != LW_SCHEDULE_CUSTOM)
        return lw_fail(err, LW_EUSAGE,
                       "--schedule %s beside --schedule-file: leave one of them out",
                       lw_schedule_name(st->schedule));
    LW_TRY(lw_input_read(q->file, 0, &in, err));
    enum lw_status status = lw_grid_custom(q->file, in.text, g, err);
    lw_input_free(&in);
    LW_TRY(status);
    if (given(src, "pp") && st->pp != g->n_ranks)
        status = lw_fail(err, LW_EINVAL, "--pp %lld: %s has %d ranks", (long long)st->pp, q->file,
                         g->n_ranks);
    else if (given(src, "micro-batches") && st->micro_batches != g->n_micro_batches)
        status = lw_fail(err, LW_EINVAL, "--micro-batches %lld: %s has %d",
                         (long long)st->micro_batches, q->file, g->n_micro_batches);
    else if (given(src, "chunks"))
        status = lw_fail(err, LW_EUSAGE, "--chunks: the stages of a rank follow from %s", q->file);
    else if (given(src, "drain-every"))
        status = lw_fail(err, LW_EUSAGE, "--drain-every: the order follows from %s", q->file);
    if (status != LW_OK)
        lw_grid_free(g);
    return status;
}

/* Schedules with a fixed number of stages per rank need no --chunks. */
static enum lw_status shape_of(const struct lw_plan_source *src, const struct lw_strategy *st,
                               struct lw_schedule_shape *s, struct lw_err *err)
{
    int32_t fixed = lw_schedule_chunks(st->schedule);

    if (st->schedule == LW_SCHEDULE_CUSTOM)
        return lw_fail(err, LW_EUSAGE, "--schedule custom needs --schedule-file FILE");
    if (st->pp > INT32_MAX || st->micro_batches > INT32_MAX || st->chunks > INT32_MAX)
        return lw_fail(err, LW_EINVAL, "--pp, --micro-batches, --chunks: more than a grid holds");
    *s = (struct lw_schedule_shape){.schedule = st->schedule,
                                    .n_ranks = (int32_t)st->pp,
                                    .n_micro_batches = (int32_t)st->micro_batches,
                                    .n_chunks = (int32_t)st->chunks,
                                    .group = (int32_t)st->micro_batch_group,
                                    .drain_every = (int32_t)st->drain_every};
    if (fixed > 0 && !given(src, "chunks"))
        s->n_chunks = fixed;
    if (s->group > 0 && !lw_schedule_takes_group(st->schedule))
        return lw_fail(err, LW_EUSAGE, "--micro-batch-group is of --schedule interleaved-1f1b, "
                                       "not of %s",
                       lw_schedule_name(st->schedule));
    return LW_OK;
}

/* The tokens of every rank; o = NULL: as text. */
static enum lw_status print_calls(const struct lw_schedule_shape *s, struct lw_jsonout *o,
                                  struct lw_err *err)
{
    bool interleaved = s->schedule == LW_SCHEDULE_COLOSSAL_INTERLEAVED;
    struct lw_colossal_order order;
    enum lw_status st = LW_OK;
    char token[32], before[32];

    LW_TRY(lw_colossal_order(s, false, &order, err));
    if (o)
        lw_jsonout_array(o, "events");
    else
        printf("\nevents; C: combined call (P, N send to previous, next; p, n receive)\n");
    for (int32_t r = 0; r < order.n_ranks && st == LW_OK; r++) {
        struct lw_paragraph line = {0};
        snprintf(before, sizeof before, "rank %d  ", r);
        FILE *f = o ? NULL : lw_paragraph_open(&line, stdout, before);
        if (o)
            lw_jsonout_line_array(o, NULL);
        for (int32_t i = order.first[r]; i < order.first[r + 1]; i++) {
            lw_colossal_token(&order.events[i], interleaved, token);
            if (o)
                lw_jsonout_string(o, NULL, token);
            else
                fprintf(f, "%s ", token);
        }
        if (o)
            lw_jsonout_end(o);
        else
            st = lw_paragraph_close(&line, err);
    }
    if (o)
        lw_jsonout_end(o);
    lw_colossal_free(&order);
    return st;
}

static enum lw_status print_csv(const struct lw_grid *g, const char *lower, struct lw_err *err)
{
    struct lw_grid merged = {0};
    struct lw_lowered l = {0};
    enum lw_status status = LW_OK;

    if (lower)
        status = lw_grid_merge(g, &merged, err);
    if (status == LW_OK)
        status = !lower                           ? lw_lower_plain(g, &l, err)
                 : strcmp(lower, "messages") == 0 ? lw_lower_messages(&merged, &l, err)
                                                  : lw_lower_shards(&merged, 3, &l, err);
    if (status == LW_OK)
        lw_lowered_print_csv(&l, stdout);
    lw_lowered_free(&l);
    lw_grid_free(&merged);
    return status;
}

static enum lw_status print_timed(const struct lw_grid *g, const struct lw_schedule_shape *s,
                                  const char *name, enum lw_format format, struct lw_err *err)
{
    static const struct lw_grid_costs unit = {1, 1, 1, 0};
    struct lw_grid_times t;
    enum lw_status status = LW_OK;

    LW_TRY(lw_grid_time(g, &unit, &t, err));
    if (format == LW_FORMAT_JSON) {
        struct lw_jsonout o = {.file = stdout};
        lw_jsonout_object(&o, NULL);
        lw_jsonout_string(&o, "schedule", name);
        lw_grid_print_json(g, &t, &o);
        if (lw_schedule_combines_calls(s->schedule))
            status = print_calls(s, &o, err);
        lw_jsonout_end(&o);
    } else {
        printf("%s: %d ranks, %d stages, %d micro-batches; one column is one unit of time\n"
               "(F, I, W 1 unit, B 2, overlapped pairs 3, transfers 0)\n\n",
               name, g->n_ranks, g->n_stages, g->n_micro_batches);
        status = lw_grid_print_text(g, &t, stdout, err);
        if (status == LW_OK && lw_schedule_combines_calls(s->schedule))
            status = print_calls(s, NULL, err);
    }
    lw_grid_times_free(&t);
    return status;
}

static enum lw_status write_grid(const struct lw_grid *g, const char *name,
                                 enum lw_schedule schedule, const struct lw_grid_durations *d,
                                 const char *out, struct lw_err *err)
{
    struct lw_plan p;

    LW_TRY(lw_grid_plan(g, name, schedule, d, &p, err));
    enum lw_status status = lw_plan_write(&p, out, err);
    lw_plan_free(&p);
    return status;
}

enum lw_status lw_plan_grid(struct lw_plan_source *src, const struct lw_grid_request *q,
                            const char *out, enum lw_format format, struct lw_err *err)
{
    struct lw_grid_durations d = {LW_PS_PER_US, LW_PS_PER_US, LW_PS_PER_US,
                                  2 * LW_PS_PER_US, 0, 0};
    struct lw_schedule_shape s = {.schedule = LW_SCHEDULE_CUSTOM};
    struct lw_strategy st;
    struct lw_grid g;

    LW_TRY(only_grid_options(src, err));
    if (q->lower && format != LW_FORMAT_CSV)
        return lw_fail(err, LW_EUSAGE, "--lower needs --format csv");
    if (q->durations && !out)
        return lw_fail(err, LW_EUSAGE, "--durations needs -o: the grid itself is drawn in units");
    if (q->durations)
        LW_TRY(read_durations(q->durations, &d, err));
    LW_TRY(lw_plan_source_strategy(src, &st, err));
    if (q->file) {
        LW_TRY(read_grid(src, q, &st, &g, err));
    } else {
        LW_TRY(shape_of(src, &st, &s, err));
        LW_TRY(lw_schedule_grid(&s, &g, err));
    }
    const char *name = q->file ? "custom schedule" : lw_schedule_name(s.schedule);
    enum lw_status status = lw_grid_check(&g, err);
    if (status == LW_OK && out)
        status = write_grid(&g, name, s.schedule, &d, out, err);
    if (status == LW_OK && !(out && strcmp(out, "-") == 0)) /* else standard output is the plan */
        status = format == LW_FORMAT_CSV
                     ? print_csv(&g, q->lower, err)
                     : print_timed(&g, &s, q->file ? q->file : name, format, err);
    lw_grid_free(&g);
    return status;
}
