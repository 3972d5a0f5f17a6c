/* Grids on paper. The drawing is true in time: an action begins in the column of its start and
 * takes as many columns as units of time, the rest of them filled with '-'. */
#include "shared/schedule/grid_print.h"

#include <stdlib.h>
#include <string.h>

#include "shared/json/jsonout.h"
#include "shared/text/table.h"
#include "shared/text/wrap.h"

/* "0F3", or "0F3;3B5" for a unit; returns how many actions it shows. */
static int32_t cell_text(const struct lw_grid *g, int32_t i, char *buf, size_t room)
{
    const struct lw_action *a = &g->actions[i];
    int n = snprintf(buf, room, "%d%c%d", a->stage, lw_action_letter(a->kind), a->micro_batch);

    if (!a->with_next)
        return 1;
    a++;
    snprintf(buf + n, room - (size_t)n, ";%d%c%d", a->stage, lw_action_letter(a->kind),
             a->micro_batch);
    return 2;
}

/* Characters of one unit of time, so that every cell and a blank after it fit. */
static int64_t unit_width(const struct lw_grid *g, const struct lw_grid_times *t)
{
    int64_t width = 2;
    char cell[64];

    for (int32_t i = 0; i < g->first[g->n_ranks];) {
        int32_t at = i;
        i += cell_text(g, i, cell, sizeof cell);
        int64_t span = t->end[at] - t->start[at], need = (int64_t)strlen(cell) + 1;
        if (span > 0 && (need + span - 1) / span > width)
            width = (need + span - 1) / span;
    }
    return width;
}

/* Blanks are written when something follows them, so that lines end with their last mark. */
struct pen {
    FILE *f;
    int64_t blanks;
};

static void draw(struct pen *pen, const char *mark, int64_t columns)
{
    fprintf(pen->f, "%*s%s", (int)pen->blanks, "", mark);
    pen->blanks = columns - (int64_t)strlen(mark);
}

static void draw_idle(struct pen *pen, int64_t units, int64_t width)
{
    for (int64_t k = 0; k < units; k++)
        draw(pen, ".", width);
}

static void draw_rank(const struct lw_grid *g, const struct lw_grid_times *t, int32_t rank,
                      int64_t width, FILE *f)
{
    struct pen pen = {f, 0};
    int64_t now = 0;
    char cell[64];

    for (int32_t i = g->first[rank]; i < g->first[rank + 1];) {
        int32_t at = i;
        i += cell_text(g, i, cell, sizeof cell);
        int64_t columns = (t->end[at] - t->start[at]) * width;
        draw_idle(&pen, t->start[at] - now, width);
        draw(&pen, cell, columns);
        for (; pen.blanks > 1; pen.blanks--)
            fputc('-', f);
        now = t->end[at];
    }
    draw_idle(&pen, t->makespan - now, width);
}

/* Ranks below each other, as many units beside each other as the output has columns for. */
static enum lw_status draw_bands(const struct lw_grid *g, const struct lw_grid_times *t, FILE *f,
                                 struct lw_err *err)
{
    int64_t width = unit_width(g, t);
    int digits = snprintf(NULL, 0, "%d", g->n_ranks - 1);
    int64_t units = (lw_columns_of(f) - (int64_t)strlen("rank ") - digits - 2 + 1) / width;
    int64_t band = width * (units > 1 ? units : 1), longest = 1;

    for (int64_t from = 0; from < longest; from += band) {
        if (from > 0)
            fputc('\n', f);
        for (int32_t r = 0; r < g->n_ranks; r++) {
            char *line = NULL;
            size_t n = 0;
            FILE *whole = open_memstream(&line, &n);
            if (!whole)
                return lw_fail_nomem(err);
            draw_rank(g, t, r, width, whole);
            if (fclose(whole) != 0) {
                free(line);
                return lw_fail_nomem(err);
            }
            longest = (int64_t)n > longest ? (int64_t)n : longest;
            int64_t left = (int64_t)n - from < band ? (int64_t)n - from : band;
            while (left > 0 && line[from + left - 1] == ' ')
                left--;
            fprintf(f, left > 0 ? "rank %*d  %.*s\n" : "rank %*d\n", digits, r,
                    (int)(left > 0 ? left : 0), left > 0 ? line + from : "");
            free(line);
        }
    }
    return LW_OK;
}

static int64_t busy(const struct lw_grid *g, const struct lw_grid_times *t, int32_t rank)
{
    int64_t sum = 0;

    for (int32_t i = g->first[rank]; i < g->first[rank + 1]; i++)
        if (!g->actions[i].with_next) /* a unit counts once */
            sum += t->end[i] - t->start[i];
    return sum;
}

/* Share of the longest rank's time that the busiest rank does not use (Qi et al., ICLR 2024). */
static double bubble(const struct lw_grid *g, const struct lw_grid_times *t)
{
    int64_t most = 0;

    for (int32_t r = 0; r < g->n_ranks; r++)
        most = busy(g, t, r) > most ? busy(g, t, r) : most;
    return t->longest_rank > 0 ? 1 - (double)most / (double)t->longest_rank : 0;
}

static enum lw_status print_ranks(const struct lw_grid *g, const struct lw_grid_times *t, FILE *f,
                                  struct lw_err *err)
{
    static const char *const titles[] = {">rank",   ">first start",  ">last end",
                                         ">busy",   ">idle between", ">in flight until I",
                                         ">until W"};
    struct lw_table *table = lw_table_new(7, titles);

    for (int32_t r = 0; r < g->n_ranks; r++) {
        int32_t a = g->first[r], b = g->first[r + 1];
        int64_t start = a < b ? t->start[a] : 0, end = a < b ? t->end[b - 1] : 0;
        LW_CELLS(table, r, start, end, busy(g, t, r), end - start - busy(g, t, r),
                 t->peak_until_input[r], t->peak_until_weight[r]);
    }
    return lw_table_end(table, f, 0, err);
}

enum lw_status lw_grid_print_text(const struct lw_grid *g, const struct lw_grid_times *t, FILE *f,
                                  struct lw_err *err)
{
    LW_TRY(draw_bands(g, t, f, err));
    fprintf(f, "\nmakespan %lld units, longest rank %lld units, bubble %.2f %%\n\n",
            (long long)t->makespan, (long long)t->longest_rank, 100 * bubble(g, t));
    return print_ranks(g, t, f, err);
}

static void print_actions(const struct lw_grid *g, const struct lw_grid_times *t, int32_t rank,
                          struct lw_jsonout *o)
{
    lw_jsonout_array(o, "actions");
    for (int32_t i = g->first[rank]; i < g->first[rank + 1]; i++) {
        const struct lw_action *a = &g->actions[i];
        char kind[2] = {lw_action_letter(a->kind), '\0'};
        LW_JSON_ROW(o, NULL, "stage", a->stage, "kind", kind, "micro_batch", a->micro_batch,
                    "start_units", t->start[i], "end_units", t->end[i], "with_next", a->with_next);
    }
    lw_jsonout_end(o);
}

void lw_grid_print_json(const struct lw_grid *g, const struct lw_grid_times *t,
                        struct lw_jsonout *o)
{
    LW_JSON(o, "n_ranks", g->n_ranks, "n_stages", g->n_stages,
            "n_micro_batches", g->n_micro_batches, "makespan_units", t->makespan,
            "longest_rank_units", t->longest_rank, "bubble_fraction", bubble(g, t));
    lw_jsonout_array(o, "ranks");
    for (int32_t r = 0; r < g->n_ranks; r++) {
        lw_jsonout_object(o, NULL);
        LW_JSON(o, "rank", r, "busy_units", busy(g, t, r),
                "peak_in_flight_until_input_gradient", t->peak_until_input[r],
                "peak_in_flight_until_weight_gradient", t->peak_until_weight[r]);
        print_actions(g, t, r, o);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

void lw_lowered_print_csv(const struct lw_lowered *l, FILE *f)
{
    char cell[96];

    for (int32_t r = 0; r < l->n_ranks; r++) {
        for (int32_t i = l->first[r]; i < l->first[r + 1];) {
            if (i > l->first[r])
                fputc(',', f);
            i += lw_lowered_cell(l, i, LW_IR_NAMES, cell, sizeof cell);
            fputs(cell, f);
        }
        fputc('\n', f);
    }
}
