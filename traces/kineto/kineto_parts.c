/* A long text of a Kineto trace in parts, each on a thread. A part begins where an event is
 * likely to. That it does is known once the part before has come to that byte as the beginning of
 * an event: the parts together are then what one reader reads. Otherwise, and after any error, the
 * text is read in one go, which says what is wrong. */
#include "traces/kineto/kineto_reader.h"

#include <string.h>

#include "shared/base/large_pages.h"
#include "shared/base/parallel.h"
#include "shared/json/json.h"
#include "traces/kineto/import_kineto.h"
#include "traces/trace/append_trace.h"

enum { LEAST_PART_BYTES = 16 << 20, MOST_PARTS = 16 };
static size_t least_part_bytes = LEAST_PART_BYTES;

void lw_kineto_parts(size_t bytes)
{
    least_part_bytes = bytes ? bytes : LEAST_PART_BYTES;
}

struct parts {
    const char *name;
    char *text;
    size_t len;
    const struct lw_trace_reading *options;
    int n;
    size_t at[MOST_PARTS + 1]; /* at[n] = 0: the last does not stop */
    struct kineto_reader r[MOST_PARTS];
    struct lw_trace t[MOST_PARTS];
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* The first '{' from `at` on that follows a comma and begins with a key; 0: none. */
static size_t likely_event(const char *text, size_t len, size_t at)
{
    for (const char *p; (p = memchr(text + at, '{', len - at)); at = (size_t)(p - text) + 1) {
        const char *before = p - 1, *after = p + 1;
        while (before > text && is_blank(*before))
            before--;
        while (is_blank(*after))
            after++;
        if (before > text && *before == ',' && *after == '"')
            return (size_t)(p - text);
    }
    return 0;
}

static void choose_parts(struct parts *x)
{
    int want = least_part_bytes < LEAST_PART_BYTES ? MOST_PARTS : lw_n_cores();

    want = want < MOST_PARTS ? want : MOST_PARTS;
    while (want > 1 && x->len / (size_t)want < least_part_bytes)
        want--;
    x->n = 1;
    for (int i = 1; i < want; i++) {
        size_t at = likely_event(x->text, x->len, x->len / (size_t)want * (size_t)i);
        if (at > x->at[x->n - 1])
            x->at[x->n++] = at;
    }
}

static enum lw_status read_part(void *ctx, int i, const struct lw_progress *p, struct lw_err *err)
{
    struct parts *x = ctx;
    struct kineto_reader *r = &x->r[i];
    bool last = i == x->n - 1, of_field = x->text[strspn(x->text, " \n\t\r")] == '{';

    *r = (struct kineto_reader){.trace = &x->t[i], .name = x->name, .len = x->len, .progress = p,
                                .shapes = x->options->shapes, .stop = (int64_t)x->at[i + 1],
                                .mapped = x->options->mapped ? x->text : NULL,
                                .given_back = x->at[i]};
    traces_kineto_set_keys(r);
    lw_trace_init(r->trace);
    LW_TRY(i == 0 ? lw_json_open_unmended(x->name, x->text, x->len, &r->json, err)
                  : lw_json_open_within(x->name, x->text, x->len, x->at[i], of_field, &r->json,
                                        err));
    enum lw_status status =
        i == 0 ? traces_kineto_read_root(r, err) : traces_kineto_read_list(r, err);
    if (status == LW_OK && i > 0 && last && of_field)
        status = traces_kineto_read_fields(r, err);
    if (status == LW_OK)
        status = lw_json_done(r->json, err);
    lw_json_close(r->json);
    if (status == LW_OK && !last && !r->stopped)
        status = lw_fail(err, LW_EFORMAT, "no event begins at byte %zu", x->at[i + 1]);
    return status == LW_OK ? lw_trace_sort(r->trace, err) : status; /* then few runs are left */
}

static bool can_join(const struct parts *x)
{
    for (int i = 1; i < x->n; i++)
        for (int k = 0; k < i; k++)
            if (!lw_trace_can_append(&x->t[k], &x->t[i]))
                return false;
    return true;
}

static enum lw_status join_parts(struct parts *x, struct lw_trace *out, struct lw_err *err)
{
    struct lw_trace *t = &x->t[0];

    t->format = "kineto";
    for (int i = 1; i < x->n; i++) {
        LW_TRY(lw_trace_append(t, &x->t[i], err));
        x->r[0].n_phases += x->r[i].n_phases;
    }
    LW_TRY(traces_kineto_check_kind(&x->r[0], err));
    *out = *t;
    *t = (struct lw_trace){0};
    return LW_OK;
}

/* *done false: it is to be read in one go. */
enum lw_status traces_kineto_parse_parts(const char *name, char *text, size_t len,
                                         const struct lw_trace_reading *options, bool *done,
                                         struct lw_trace *out, struct lw_err *err)
{
    enum lw_status status = LW_OK;
    struct lw_err unused = {0};
    struct parts *x;

    *done = false;
    if (!options || !options->alone || options->salvage || len / 2 < least_part_bytes)
        return LW_OK;
    LW_NEW(x, 1, err);
    *x = (struct parts){.name = name, .text = text, .len = len, .options = options};
    choose_parts(x);
    struct lw_parallel_work work = {read_part, x, x->n, "reading", options->progress, x->n};
    *done = x->n > 1 && lw_parallel(&work, &unused) == LW_OK && can_join(x);
    if (*done) { /* the room of the text is for the rows now */
        lw_alloc_give_back(text, len);
        status = join_parts(x, out, err);
    }
    for (int i = 0; i < x->n; i++)
        lw_trace_free(&x->t[i]);
    lw_free(x);
    return status;
}
