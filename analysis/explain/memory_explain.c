/* `explain --memory`: of a model and a strategy, a plan file, or a stored run. Changes are tried
 * where the request has a model: of a stored run that is the command line that it was made with,
 * as long as it still makes the run's plan. */
#include "analysis/explain/memory_explain.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/explain/memory_print.h"
#include "analysis/store/store.h"
#include "analysis/study/prediction.h"
#include "shared/files/files.h"

enum { MOST_WORDS = 512 };

/* A command line that is parsed more than once: parsing moves its words. */
struct line {
    const struct lw_usage *usage;
    int argc;
    char **argv;
    struct lw_arena room; /* copies: texts of requests stay until all are freed */
};

static int request(void *ctx, struct lw_prediction *s)
{
    struct line *l = ctx;
    char **copy = lw_arena_alloc(&l->room, l->argc + 1, sizeof *copy);

    if (!copy)
        return LW_EXIT_COULD_NOT;
    memcpy(copy, l->argv, (size_t)l->argc * sizeof *copy);
    return lw_prediction_begin(s, l->usage, l->argc, copy);
}

static const struct lw_usage of_sim = {.command = "sim", .synopsis = "", .about = "",
                                       .max_operands = -1};

/* The words of a run's command. NULL, and why: it is none that can be planned again. */
static enum lw_status words_of(const struct lw_run *run, struct line *l, const char **why,
                               struct lw_err *err)
{
    char *text = lw_arena_strdup(&l->room, run->command), *rest = NULL;

    l->argv = lw_arena_alloc(&l->room, MOST_WORDS + 1, sizeof *l->argv);
    if (!text || !l->argv)
        return lw_fail_nomem(err);
    if (strlen(text) + 1 >= sizeof((struct lw_prediction *)NULL)->command)
        *why = "the run's command line was too long to be stored whole";
    for (char *word = strtok_r(text, " ", &rest); word && l->argc < MOST_WORDS;
         word = strtok_r(NULL, " ", &rest))
        l->argv[l->argc++] = word;
    if (l->argc == 0 || strcmp(l->argv[0], "sim") != 0)
        *why = "the run is not a prediction of 'lapwing sim'; give -w and its options to explain "
               "--memory";
    return LW_OK;
}

/* The base of changes: the prediction that the run's command line makes now. */
static enum lw_status predict_again(struct line *l, const struct lw_prediction *s,
                                    struct lw_prediction *again, const char **why,
                                    struct lw_err *err)
{
    struct lw_err fault = {0};

    *again = (struct lw_prediction){.source.silent = true};
    if (request(l, again) >= 0) {
        *why = "the run's command line is not understood any more";
        return LW_OK;
    }
    if (!again->source.workload_file) {
        *why = "the run is of a plan, which holds no model: give -w MODEL and its options to "
               "explain --memory";
        return LW_OK;
    }
    again->no_db = again->quiet = true;
    enum lw_status st = lw_predict(again, &fault);
    if (st == LW_ENOMEM) {
        *err = fault;
        return st;
    }
    if (st != LW_OK) {
        char *text = lw_arena_printf(&l->room, "the run's command line: %s", fault.msg);
        *why = text;
        return text ? LW_OK : lw_fail_nomem(err);
    }
    if (strcmp(again->plan.hash, s->plan.hash) != 0)
        *why = "the run's command line makes another plan now";
    return LW_OK;
}

static enum lw_status find_run(const struct lw_prediction *s, struct lw_arena *room,
                               struct lw_run *run, struct lw_err *err)
{
    struct lw_store *store = NULL;
    enum lw_status st = lw_store_open(s->db, LW_STORE_READ, &store, err);

    if (st == LW_OK)
        st = lw_store_find_run(store, s->run, room, run, err);
    lw_store_close(store);
    return st;
}

static enum lw_status try_of_run(const struct lw_prediction *s, struct lw_memory_report *r,
                                 struct lw_memory_changes_tried *tried, struct lw_arena *room,
                                 struct lw_err *err)
{
    struct line l = {.usage = &of_sim};
    struct lw_prediction again = {0};
    const char *why = NULL;
    struct lw_run run;

    enum lw_status st = find_run(s, &l.room, &run, err);
    if (st == LW_OK)
        st = words_of(&run, &l, &why, err);
    if (st == LW_OK && !why)
        st = predict_again(&l, s, &again, &why, err);
    if (st == LW_OK && !why)
        st = lw_memory_changes_try(&again, request, &l, tried, err);
    if (st == LW_OK && why && !(r->why = lw_arena_strdup(room, why)))
        st = lw_fail_nomem(err);
    lw_prediction_free(&again);
    lw_arena_free(&l.room);
    return st;
}

static enum lw_status try_changes(const struct lw_prediction *s, struct line *l,
                                  struct lw_memory_report *r,
                                  struct lw_memory_changes_tried *tried, struct lw_err *err)
{
    if (s->run)
        return try_of_run(s, r, tried, &l->room, err);
    if (s->source.workload_file)
        return lw_memory_changes_try(s, request, l, tried, err);
    r->why = "a plan file holds no model: give -w MODEL and its options instead";
    return LW_OK;
}

static enum lw_status work(struct lw_prediction *s, struct line *l, struct lw_err *err)
{
    struct lw_memory_story story = {0};
    struct lw_memory_changes_tried tried = {0};
    struct lw_memory_report r = {.s = s, .story = &story, .changes = &tried, .all = s->all};

    LW_TRY(lw_predict(s, err));
    enum lw_status st = lw_memory_story_of(s, &story, err);
    if (st == LW_OK)
        st = try_changes(s, l, &r, &tried, err);
    if (st == LW_OK)
        st = lw_memory_report_print(&r, s->format, stdout, err);
    lw_memory_changes_tried_free(&tried);
    lw_memory_story_free(&story);
    return st;
}

/* RUN as an operand means what --run does; what names a file is a plan. */
static const char *take_operand(struct lw_prediction *s)
{
    const char *first = s->n_operands > 0 ? s->operands[0] : NULL;

    if (!first && !s->source.workload_file && !s->run)
        s->run = "last";
    if (first && !lw_names_file(first)) {
        s->run = first;
        s->n_operands = 0;
    }
    return s->replay.on ? "--memory is of a plan: a replay does not know its memory" : NULL;
}

int lw_memory_explain(const struct lw_usage *usage, int argc, char **argv)
{
    struct lw_prediction s = {0};
    struct line l = {.usage = usage, .argc = argc, .argv = argv};
    struct lw_err err = {0};
    int rc = request(&l, &s);

    if (rc < 0) {
        const char *refused = take_operand(&s);
        s.no_db = true;
        rc = refused ? lw_cli_usage(usage->command, "%s", refused)
                     : lw_cli_end(usage->command, work(&s, &l, &err), &err);
    }
    lw_prediction_free(&s);
    lw_arena_free(&l.room);
    return rc;
}
