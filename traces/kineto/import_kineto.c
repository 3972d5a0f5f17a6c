/* Kineto / Chrome JSON into the tables of trace.h, in one pass over the text.
 *
 * Kept: complete events (ph X) of the categories in the table below; flows, instants, metadata,
 * python_function and the device twins of user ranges are only counted. Times are microseconds
 * as decimal text whatever displayTimeUnit says, relative to baseTimeNanoseconds where that is
 * given (it may come after the events, so it is kept apart and never added to a row). Key order
 * is free: what arguments mean depends on name and category, which usually come first; where
 * they do not, everything is collected. Format facts: the traces of HolisticTraceAnalysis
 * (f4d0062), kineto (f329bb5f; its ActivityType names) and param (1e115ff). Not read: stacks,
 * occupancy, memory events, counters. */
#include "traces/kineto/import_kineto.h"
#include "traces/kineto/import_kineto.h"

#include <stdio.h>
#include <string.h>

#include "shared/io/input.h"
#include "shared/json/json.h"
#include "traces/kineto/kineto_reader.h"
#include "traces/kineto/repair_text.h"

static enum lw_status name_salvage(struct lw_err *err, const struct lw_err *why, size_t len)
{
    if (strstr(why->msg, "before the end of the text") || strstr(why->msg, "found the end"))
        return lw_fail(err, why->code,
                       "%s: the file ends after %zu bytes; 'lapwing inspect --salvage' reads the "
                       "events before that",
                       why->msg, len);
    if (err)
        *err = *why;
    return why->code;
}

/* The text with its names mended, if that makes it JSON; *out is set then. */
static enum lw_status parse_mended(const char *name, const char *text, size_t len,
                                   const struct lw_trace_reading *options, struct lw_trace *out,
                                   struct lw_err *err)
{
    struct lw_trace_reading strict = {.progress = options ? options->progress : NULL,
                                      .shapes = options && options->shapes};
    char *copy = lw_calloc(len + LW_JSON_PADDING, 1);

    if (!copy)
        return lw_fail_nomem(err);
    memcpy(copy, text, len);
    int64_t n = traces_repair_text(copy, len);
    enum lw_status status =
        n > 0 ? traces_kineto_parse_once(name, copy, len, &strict, out, err) : LW_EFORMAT;
    lw_free(copy);
    if (status == LW_OK)
        out->n_repaired = n;
    return status;
}

/* A text that is no JSON is mended and read again, if its names are the reason. */
enum lw_status lw_kineto_parse(const char *name, char *text, size_t len,
                               const struct lw_trace_reading *options, struct lw_trace *out,
                               struct lw_err *err)
{
    struct lw_err found = {0}, unused = {0};
    struct lw_trace mended;
    bool done;
    enum lw_status again,
        status = traces_kineto_parse_parts(name, text, len, options, &done, out, err);

    if (done || status != LW_OK)
        return status;
    status = traces_kineto_parse_once(name, text, len, options, out, &found);

    if (status == LW_OK && out->damage < 0)
        return LW_OK;
    if (status != LW_OK && status != LW_EFORMAT) {
        if (err)
            *err = found;
        return status;
    }
    again = parse_mended(name, text, len, options, &mended, &unused);
    if (again == LW_OK) {
        if (status == LW_OK)
            lw_trace_free(out);
        *out = mended;
        return LW_OK;
    }
    if (again == LW_ENOMEM) {
        if (status == LW_OK)
            lw_trace_free(out);
        return lw_fail_nomem(err);
    }
    return status == LW_OK ? LW_OK : name_salvage(err, &found, len);
}

/* Packed data that ends early leaves a text that ends early: both are reported. */
static enum lw_status add_damage(struct lw_trace *t, const struct lw_err *damage,
                                 struct lw_err *err)
{
    char text[2 * sizeof damage->msg];

    if (!damage || damage->code == LW_OK)
        return LW_OK;
    snprintf(text, sizeof text, "%s%s%s", damage->msg, t->damage >= 0 ? "; " : "",
             lw_trace_text(t, t->damage));
    t->damage = traces_strings_add(&t->strings, text, strlen(text));
    return t->damage >= 0 ? LW_OK : lw_fail_nomem(err);
}

/* The process of a host row's thread ("pid/tid"). */
static int process_of(const struct lw_trace *t, int64_t row, const char **text)
{
    *text = lw_trace_text(t, t->track[row]);
    return (int)strcspn(*text, "/");
}

static bool makes_calls(const struct lw_trace *t, const char *process, int len)
{
    for (int64_t i = 0; i < t->n; i++) {
        const char *text;
        if (t->class[i] == LW_ROW_LAUNCH && process_of(t, i, &text) == len &&
            strncmp(text, process, (size_t)len) == 0)
            return true;
    }
    return false;
}

/* Files of several ranks that were joined: two processes that both launch work and both have the
 * same step of their own. */
static enum lw_status check_processes(const char *name, const struct lw_trace *t,
                                      struct lw_err *err)
{
    int64_t first = -1;
    const char *a, *b;

    for (int64_t i = 0; i < t->n; i++) {
        if (!lw_trace_on_host(t, i) || !lw_trace_name_begins(t, i, "ProfilerStep#"))
            continue;
        first = first < 0 ? i : first;
        int n = process_of(t, first, &a), len = process_of(t, i, &b);
        if (t->name[i] != t->name[first] || (n == len && strncmp(a, b, (size_t)n) == 0) ||
            !makes_calls(t, a, n) || !makes_calls(t, b, len))
            continue;
        return lw_fail_at(err, LW_EFORMAT, name, 0,
                          "processes %.*s and %.*s both have their own %s: ranks of a run that "
                          "were merged into one file; give the file of each rank",
                          n, a, len, b, lw_trace_name(t, i));
    }
    return LW_OK;
}

/* A profiler that recorded nothing writes a list all the same. */
static enum lw_status check_empty(const char *name, const struct lw_trace *t, struct lw_err *err)
{
    if (t->n_events == 0)
        return lw_fail_at(err, LW_EFORMAT, name, 0,
                          "its list of events is empty: the profiler recorded nothing. Run whole "
                          "steps while it is active (of a schedule: wait and warmup steps are not "
                          "recorded), and export after it has stopped");
    if (t->n == 0 && t->n_timeless == 0)
        return lw_fail_at(err, LW_EFORMAT, name, 0,
                          "of its %lld events none is an op, a call, a kernel or a range with a "
                          "duration (\"ph\": \"X\"): metadata alone, or not a profile. Record with "
                          "ProfilerActivity.CPU, on a device also CUDA",
                          (long long)t->n_events);
    return LW_OK;
}

enum lw_status lw_kineto_take(struct lw_input *in, const struct lw_err *damage,
                              const struct lw_trace_reading *options, struct lw_trace *out,
                              struct lw_err *err)
{
    struct lw_trace t;
    const char *name = in->name;
    struct lw_trace_reading reading = options ? *options : (struct lw_trace_reading){0};

    reading.mapped = in->mapped;
    enum lw_status status = lw_kineto_parse(name, in->text, in->len, &reading, &t, err);

    lw_input_free(in);
    LW_TRY(status);
    status = add_damage(&t, damage, err);
    if (status == LW_OK)
        status = lw_trace_sort(&t, err);
    if (status == LW_OK)
        status = check_empty(name, &t, err);
    if (status == LW_OK)
        status = check_processes(name, &t, err);
    LW_GIVE(status, out, t, lw_trace_free(&t));
}
