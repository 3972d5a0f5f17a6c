/* Arbitrary bytes as a Kineto trace, through every reader of it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/bucket/bucket.h"
#include "shared/json/json.h"
#include "traces/kineto/import_kineto.h"
#include "traces/replay/to_replay.h"
#include "traces/steps/device_figures.h"
#include "traces/steps/host_bound.h"
#include "traces/steps/step_phases.h"
#include "traces/workload/to_cluster.h"
#include "traces/workload/to_workload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void convert(struct traces_source *s)
{
    struct traces_choice choice = {.step = -1};
    struct traces_coverage coverage;
    struct lw_workload w;
    struct lw_cluster c;
    struct lw_err err;

    for (int parallel = 0; parallel < 2; parallel++) {
        s->parallel = parallel;
        if (lw_workload_from_traces(s, 1, &choice, &w, &coverage, &err) == LW_OK)
            lw_workload_free(&w);
    }
    if (lw_cluster_from_traces(s, 1, &(struct traces_memory){1e9, "fuzz"}, &c, &err) == LW_OK)
        lw_cluster_free(&c);
}

/* The same trace as two ranks of a run, so that everything over ranks is met too. */
static void replay(const struct traces_source *s)
{
    static const struct lw_bucket_request buckets = {.policy = LW_BUCKET_C10D_2,
                                                     .cap_bytes = 1 << 20, .first_bytes = -1};
    struct traces_replay_choice choice = {0};
    struct traces_source two[2] = {*s, *s};
    struct traces_replay r;
    struct lw_err err;

    two[1].trace.rank = s->trace.rank >= 0 ? -1 : 1;
    for (int n = 1; n <= 2; n++)
        if (traces_replay_build(two, n, &choice, &r, &err) == LW_OK)
            traces_replay_free(&r);
        else if (err.code == LW_EPLAN)
            abort(); /* a replay is a plan that its check passes */
    choice.buckets = &buckets;
    if (traces_replay_build(two, 1, &choice, &r, &err) == LW_OK)
        traces_replay_free(&r);
}

/* Takes the trace over. */
static void read_figures(struct lw_trace *t)
{
    struct traces_source s = {.file = "fuzz", .trace = *t};
    struct lw_inspection inspection;
    struct lw_err err;

    if (lw_inspect(&s.trace, NULL, &inspection, &err) == LW_OK) {
        struct traces_host_bound host_bound;
        if (traces_host_bound_find(&s.trace, &inspection, NULL, &host_bound, &err) == LW_OK)
            traces_host_bound_free(&host_bound);
        lw_inspection_free(&inspection);
    }
    if (lw_steps_find(&s.trace, &s.steps, &err) == LW_OK) {
        convert(&s);
        replay(&s);
    }
    traces_source_free(&s);
}

/* Salvaging accepts all that is read strictly, and gives the same rows. */
static void read_as(const uint8_t *data, size_t size, bool salvage, struct lw_trace *t, bool *read)
{
    struct lw_trace_reading options = {.salvage = salvage, .shapes = true};
    char *text = calloc(size + LW_JSON_PADDING, 1);
    struct lw_err err;

    if (!text)
        abort();
    if (size > 0)
        memcpy(text, data, size);
    *read = lw_kineto_parse("fuzz", text, size, &options, t, &err) == LW_OK;
    free(text);
}

/* Read in parts, each on a thread, a text gives the rows that one reader gives, here sorted. */
static void read_in_parts(const uint8_t *data, size_t size, bool whole, const struct lw_trace *t)
{
    struct lw_trace_reading options = {.alone = true, .shapes = true};
    char *text = calloc(size + LW_JSON_PADDING, 1);
    struct lw_trace parts;
    struct lw_err err;

    if (!text)
        abort();
    memcpy(text, data, size);
    lw_kineto_parts(size / 3 + 1);
    bool read = lw_kineto_parse("fuzz", text, size, &options, &parts, &err) == LW_OK;
    lw_kineto_parts(0);
    free(text);
    if (read != whole)
        abort();
    if (!read)
        return;
    if (lw_trace_sort(&parts, &err) != LW_OK)
        abort();
    if (parts.n != t->n || parts.n_events != t->n_events || parts.strings.n != t->strings.n)
        abort();
    for (int64_t i = 0; i < t->n; i++)
        if (parts.start_ns[i] != t->start_ns[i] || parts.name[i] != t->name[i] ||
            parts.track[i] != t->track[i] || parts.link[i] != t->link[i])
            abort();
    lw_trace_free(&parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lw_trace strict, t;
    struct lw_err err;
    bool whole, read;

    read_as(data, size, false, &strict, &whole);
    if (whole && lw_trace_sort(&strict, &err) != LW_OK)
        abort();
    read_as(data, size, true, &t, &read);
    if (whole && (!read || strict.n != t.n || strict.n_events != t.n_events || t.damage >= 0))
        abort();
    if (read && !whole && t.damage < 0)
        abort();
    if (size > 200 && size % 4 == 0)
        read_in_parts(data, size, whole, &strict);
    if (whole)
        lw_trace_free(&strict);
    if (read && lw_trace_sort(&t, &err) == LW_OK)
        read_figures(&t);
    else if (read)
        lw_trace_free(&t);
    if (lw_alloc_live() != 0)
        abort();
    return 0;
}
