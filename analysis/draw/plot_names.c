/* Titles and labels. One run is named whole in the title. Of several, each is labelled by what the
 * user called it, else by what differs among them. */
#include <stdio.h>
#include <string.h>

#include "analysis/draw/plot_style.h"
#include "analysis/store/run_name.h"

static const char *kind_of(const struct lw_run *r)
{
    return r->kind == LW_RUN_SIM    ? "predicted"
           : r->kind == LW_RUN_EXEC ? "measured"
                                    : "recorded";
}

/* The title has the kind of several runs that are all of one, their labels do not. */
static bool are_alike(const struct lw_run *runs, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (runs[i].kind != runs[0].kind)
            return false;
    return n > 1;
}

static const char *make_title(struct lw_arena *a, const struct lw_run *runs, int32_t n,
                              const char *what)
{
    char text[512];
    bool one_workload = runs[0].workload_name[0], alike = are_alike(runs, n);

    for (int32_t i = 1; i < n; i++)
        one_workload &= strcmp(runs[i].workload_name, runs[0].workload_name) == 0;
    if (n == 1)
        snprintf(text, sizeof text, "%s%s: %s", what, runs[0].fits == 0 ? " (does not fit)" : "",
                 runs[0].name);
    else
        snprintf(text, sizeof text, "%s: %d %s%sruns%s%s", what, n, alike ? kind_of(runs) : "",
                 alike ? " " : "", one_workload ? " of " : "",
                 one_workload ? runs[0].workload_name : "");
    return lw_arena_strdup(a, text);
}

static const char *make_label(struct lw_arena *a, const struct lw_run *r, bool alike,
                              const char *differs)
{
    char text[640];
    const char *detail = r->named ? r->name : differs;

    snprintf(text, sizeof text, "run %lld%s%s%s%s%s%s%s%s%s%s", (long long)r->id,
             r->fits == 0 ? " (does not fit)" : lw_run_under_load(r) ? " (under load)" : "",
             alike ? "" : ", ", alike ? "" : kind_of(r),
             detail[0] ? ": " : "", detail, r->backend[0] ? ", on " : "", r->backend,
             r->honesty[0] ? " (" : "", r->honesty, r->honesty[0] ? ")" : "");
    return lw_arena_strdup(a, text);
}

enum lw_status plot_names_make(const struct lw_run *runs, int32_t n,
                               const char *what, struct plot_names *out, struct lw_err *err)
{
    struct plot_names names = {.title = NULL};
    const char **differs = NULL;

    enum lw_status st = lw_run_texts(runs, n, LW_RUN_CHOICES, &names.arena, &differs, err);
    names.runs = lw_arena_alloc(&names.arena, n, sizeof *names.runs);
    names.title = make_title(&names.arena, runs, n, what);
    bool whole = names.runs && names.title, alike = are_alike(runs, n);
    for (int32_t i = 0; st == LW_OK && whole && i < n; i++)
        whole = (names.runs[i] = make_label(&names.arena, &runs[i], alike, differs[i])) != NULL;
    if (st == LW_OK && !whole)
        st = lw_fail_nomem(err);
    if (st != LW_OK) {
        lw_arena_free(&names.arena);
        return st;
    }
    *out = names;
    return LW_OK;
}

void plot_names_free(struct plot_names *names)
{
    lw_arena_free(&names->arena);
    *names = (struct plot_names){.title = NULL};
}
