/* One step of each run as bars over time: a row per stream of a rank, under each communication row
 * a black strip where communication is exposed (communication runs and neither compute nor copies
 * do, the definition of shared/timeline.h). A collective is pale until its last member has arrived
 * and moves data from there on; a thin line leads from the moment its data was ready.
 *
 * Bars of one row and colour that follow each other without a visible gap are drawn as one, so the
 * size of a picture depends on its width and not on the number of ops. */
#include <stdlib.h>
#include <string.h>

#include "analysis/plot_style.h"
#include "analysis/sql.h"

enum { WIDTH = 1400, LEFT = 150, RIGHT = 30, CHAR_PX = 7, ROW_PX = 46, TEXT = 48 };

struct bar {
    int32_t row, colour, bucket;
    int64_t bytes;
    lw_ps ready, start, all_in, end;
    bool comm, work; /* communication; compute or copies; neither: host */
    char name[TEXT];
};

struct row {
    int32_t run, rank, stream;
    double y;
    bool comm; /* has communication: the strip goes below */
    char label[TEXT];
};

struct picture {
    struct bar *bars;
    struct row *rows;
    int64_t n_bars, bar_capacity, n_rows, row_capacity;
    lw_ps *step;        /* [n_runs] */
    lw_ps most;         /* the longest step */
    double bottom;
};

static const char bars_text[] =
    "SELECT span.rank, span.stream, coalesce(stream.name, 'stream ' || span.stream), op_kind.name,"
    " op_kind.class, ifnull(op.bucket, -1), ifnull(op.bytes, 0), ready_ps - ?4, start_ps - ?4,"
    " iif(all_in_ps < 0, -1, all_in_ps - ?4), end_ps - ?4"
    " FROM run JOIN span ON span.id BETWEEN run.first_span AND run.last_span AND span.run = run.id"
    " JOIN op_kind ON op_kind.id = span.kind"
    " LEFT JOIN op ON op.plan = run.plan AND op.op = span.op"
    " LEFT JOIN stream ON stream.plan = run.plan AND stream.stream = span.stream"
    " WHERE run.id = ?1 AND span.step = ?2 AND span.rank < ?3 AND end_ps > start_ps"
    "  AND (op_kind.class IN ('compute', 'copy', 'collective', 'p2p') OR op_kind.name = 'host')"
    " ORDER BY span.rank, coalesce(stream.class, '') = 'comm', span.stream, start_ps, span.id";

static enum lw_status add_row(struct picture *pic, int32_t run, struct lw_sql *q,
                              struct lw_err *err)
{
    int32_t rank = (int32_t)lw_sql_int(q, 0), stream = (int32_t)lw_sql_int(q, 1);
    struct row *last = pic->n_rows > 0 ? &pic->rows[pic->n_rows - 1] : NULL;

    if (last && last->run == run && last->rank == rank && last->stream == stream)
        return LW_OK;
    if (lw_reserve(&pic->rows, &pic->row_capacity, pic->n_rows + 1, sizeof *pic->rows) != 0)
        return lw_fail_nomem(err);
    bool first = !last || last->run != run;
    struct row *r = &pic->rows[pic->n_rows++];
    *r = (struct row){.run = run, .rank = rank, .stream = stream};
    r->y = pic->bottom - (first ? 1.5 : last->rank != rank ? 1.3 : 1.0);
    pic->bottom = r->y;
    snprintf(r->label, sizeof r->label, "rank %d %.30s", rank, lw_sql_text(q, 2));
    return LW_OK;
}

static void describe(struct bar *b, const char *kind)
{
    char size[32];

    if (b->bucket >= 0 && b->comm)
        snprintf(b->name, sizeof b->name, "bucket %d, %s", b->bucket,
                 lw_format_bytes(size, b->bytes));
    else
        snprintf(b->name, sizeof b->name, "%.40s", kind);
}

static enum lw_status add_bar(struct picture *pic, int32_t run, struct lw_sql *q,
                              struct lw_err *err)
{
    const char *kind = lw_sql_text(q, 3), *class = lw_sql_text(q, 4);

    LW_TRY(add_row(pic, run, q, err));
    if (lw_reserve(&pic->bars, &pic->bar_capacity, pic->n_bars + 1, sizeof *pic->bars) != 0)
        return lw_fail_nomem(err);
    struct bar *b = &pic->bars[pic->n_bars++];
    *b = (struct bar){
        .row = (int32_t)(pic->n_rows - 1), .bucket = (int32_t)lw_sql_int(q, 5),
        .bytes = lw_sql_int(q, 6), .ready = lw_sql_int(q, 7), .start = lw_sql_int(q, 8),
        .all_in = lw_sql_int(q, 9), .end = lw_sql_int(q, 10),
        .comm = strcmp(class, "collective") == 0 || strcmp(class, "p2p") == 0,
        .work = strcmp(class, "compute") == 0 || strcmp(class, "copy") == 0,
    };
    b->colour = plot_colour(kind, class, b->bucket);
    describe(b, kind);
    if (b->comm)
        pic->rows[pic->n_rows - 1].comm = true;
    return LW_OK;
}

/* The step to show, its first start and its length. */
static enum lw_status find_step(struct lw_store *s, const struct lw_plot *p,
                                const struct lw_run *run, int64_t *step, lw_ps *t0, lw_ps *length,
                                struct lw_err *err)
{
    struct lw_sql *q;

    *step = p->step;
    if (p->step < 0) {
        LW_TRY(lw_sql_query(s, &q, err,
                            "SELECT coalesce((SELECT value FROM metric WHERE run = ?1 AND"
                            " name = 'shown_step'), (SELECT n_warmup FROM run WHERE id = ?1))",
                            "l", run->id));
        *step = lw_sql_next(q) ? lw_sql_int(q, 0) : 0;
        LW_TRY(lw_sql_finish(q, err));
    }
    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT count(*), ifnull(min(start_ps), 0), ifnull(max(end_ps), 0)"
                        " FROM run JOIN span ON span.id BETWEEN run.first_span AND run.last_span"
                        "  AND span.run = run.id WHERE run.id = ?1 AND span.step = ?2",
                        "ll", run->id, *step));
    lw_sql_next(q);
    int64_t n = lw_sql_int(q, 0);
    *t0 = lw_sql_int(q, 1);
    *length = lw_sql_int(q, 2) - *t0;
    LW_TRY(lw_sql_finish(q, err));
    if (n > 0)
        return LW_OK;
    return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                      run->n_spans > 0 ? "run %lld has no spans of step %lld"
                                       : "run %lld was stored without spans (lapwing sim stores "
                                         "them with --spans); step %lld cannot be drawn",
                      (long long)run->id, (long long)*step);
}

static enum lw_status read_run(struct lw_store *s, const struct lw_plot *p, int32_t run,
                               struct picture *pic, struct lw_err *err)
{
    int64_t step;
    lw_ps t0;
    struct lw_sql *q;

    LW_TRY(find_step(s, p, &p->runs[run], &step, &t0, &pic->step[run], err));
    pic->most = pic->step[run] > pic->most ? pic->step[run] : pic->most;
    LW_TRY(lw_sql_query(s, &q, err, bars_text, "llil", p->runs[run].id, step, p->max_ranks, t0));
    enum lw_status st = LW_OK;
    while (st == LW_OK && lw_sql_next(q))
        st = add_bar(pic, run, q, err);
    enum lw_status end = lw_sql_finish(q, st == LW_OK ? err : NULL);
    pic->bottom -= 0.3;
    return st != LW_OK ? st : end;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_box(FILE *f, double unit, lw_ps x0, lw_ps x1, double y0, double y1, int32_t colour)
{
    fprintf(f, "%.6g %.6g %.3f %.3f %d\n", (double)x0 / unit, (double)x1 / unit, y0, y1,
            (int)colour);
}

/* The bar that begins at i, joined with those behind it that look the same; returns the next. */
static int64_t join_bars(const struct picture *pic, int64_t i, lw_ps gap, struct bar *out)
{
    *out = pic->bars[i];
    for (i++; i < pic->n_bars; i++) {
        const struct bar *b = &pic->bars[i];
        bool alike = b->row == out->row && b->colour == out->colour && b->bucket == out->bucket &&
                     !b->comm && !out->comm;
        if (!alike || b->start > out->end + gap)
            break;
        out->end = b->end > out->end ? b->end : out->end;
    }
    return i;
}

static lw_ps pixel(const struct picture *pic)
{
    return pic->most / (WIDTH - LEFT - RIGHT) + 1;
}

static void put_bars(const struct picture *pic, FILE *f, double unit)
{
    struct bar b;

    fputs("$bars << EOD\n", f);
    for (int64_t i = 0; i < pic->n_bars;) {
        i = join_bars(pic, i, pixel(pic) / 2, &b);
        double y = pic->rows[b.row].y;
        lw_ps moves = b.comm && b.all_in > b.start ? b.all_in : b.start;
        if (moves > b.start)
            put_box(f, unit, b.start, moves, y - 0.36, y + 0.36, PLOT_WAIT);
        put_box(f, unit, moves, b.end, y - 0.36, y + 0.36, b.colour);
    }
    fputs("EOD\n", f);
}

static void put_links(const struct picture *pic, FILE *f, double unit)
{
    fputs("$links << EOD\n", f);
    for (int64_t i = 0; i < pic->n_bars; i++) {
        const struct bar *b = &pic->bars[i];
        double y = pic->rows[b->row].y;
        if (b->comm && b->ready >= 0)
            fprintf(f, "%.6g %.3f %.6g %.3f\n", (double)b->ready / unit, y + 0.62,
                    (double)(b->start - b->ready) / unit, -0.26);
    }
    fputs("EOD\n", f);
}

static bool dark(int32_t colour)
{
    return colour == PLOT_BACKWARD || colour == PLOT_COMM_ODD;
}

/* What fits into the bar: its name, "b3", or nothing. */
static void put_labels(const struct picture *pic, FILE *f, double unit, bool plain)
{
    struct bar b;
    char brief[TEXT];

    fputs("$labels << EOD\n", f);
    for (int64_t i = 0; i < pic->n_bars && !plain;) {
        i = join_bars(pic, i, pixel(pic) / 2, &b);
        int64_t room = (b.end - b.start) / pixel(pic) / CHAR_PX;
        snprintf(brief, sizeof brief, b.bucket >= 0 && b.comm ? "b%d" : "", b.bucket);
        const char *text = room > (int64_t)strlen(b.name) ? b.name
                           : room > (int64_t)strlen(brief) ? brief : "";
        if (!text[0])
            continue;
        fprintf(f, "%.6g %.3f ", (double)(b.start + b.end) / 2 / unit, pic->rows[b.row].y);
        plot_text(f, text);
        fprintf(f, " %d\n", dark(b.colour) ? 0xffffff : 0);
    }
    fputs("EOD\n", f);
}

struct edge {
    lw_ps at;
    int32_t comm, work; /* +1 opens, -1 closes */
};

static int by_time(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Strips of one rank: where communication is open and no work is. edges[2 * n] is room. */
static lw_ps put_exposed_of(const struct picture *pic, FILE *f, double unit, int64_t from,
                            int64_t to, struct edge *edges)
{
    int64_t n = 0;
    double y = 0;
    lw_ps since = -1, total = 0;

    for (int64_t i = from; i < to; i++) {
        const struct bar *b = &pic->bars[i];
        if (!b->comm && !b->work)
            continue;
        edges[n++] = (struct edge){b->start, b->comm, b->work};
        edges[n++] = (struct edge){b->end, -(int)b->comm, -(int)b->work};
        y = b->comm ? pic->rows[b->row].y : y;
    }
    qsort(edges, (size_t)n, sizeof *edges, by_time);
    int64_t comm = 0, work = 0;
    for (int64_t i = 0; i < n; i++) {
        comm += edges[i].comm;
        work += edges[i].work;
        if (i + 1 < n && edges[i + 1].at == edges[i].at)
            continue;
        bool exposed = comm > 0 && work == 0;
        if (exposed && since < 0)
            since = edges[i].at;
        if (!exposed && since >= 0) {
            put_box(f, unit, since, edges[i].at, y - 0.5, y - 0.38, PLOT_EXPOSED);
            total += edges[i].at - since;
            since = -1;
        }
    }
    return total;
}

static enum lw_status put_exposed(const struct picture *pic, FILE *f, double unit,
                                  struct lw_err *err)
{
    struct edge *edges = lw_calloc((size_t)pic->n_bars * 2 + 1, sizeof *edges);

    if (!edges)
        return lw_fail_nomem(err);
    fputs("$exposed << EOD\n", f);
    for (int64_t i = 0, from = 0; i < pic->n_bars; i++) {
        const struct row *row = &pic->rows[pic->bars[i].row];
        const struct row *next = i + 1 < pic->n_bars ? &pic->rows[pic->bars[i + 1].row] : NULL;
        if (next && next->run == row->run && next->rank == row->rank)
            continue;
        put_exposed_of(pic, f, unit, from, i + 1, edges);
        from = i + 1;
    }
    fputs("EOD\n", f);
    lw_free(edges);
    return LW_OK;
}

/* Above each run's rows: which run, how long. At the end of its step: a line. */
static void put_headings(const struct picture *pic, const struct lw_plot *p, FILE *f,
                         struct plot_unit unit)
{
    for (int64_t i = 0; i < pic->n_rows; i++) {
        const struct row *r = &pic->rows[i];
        if (i > 0 && pic->rows[i - 1].run == r->run)
            continue;
        int64_t last = i;
        while (last + 1 < pic->n_rows && pic->rows[last + 1].run == r->run)
            last++;
        const struct lw_run *run = &p->runs[r->run];
        double x = (double)pic->step[r->run] / unit.ps;
        fprintf(f, "set label %d ", (int)r->run + 1);
        plot_run_text(f, run);
        fprintf(f, ". \". This step %.4g %s\"", x, unit.name);
        if (run->exposed_comm >= 0)
            fprintf(f, ". \", exposed communication %.3g %s\"",
                    (double)run->exposed_comm / unit.ps, unit.name);
        fprintf(f, " at graph 0, first %.3f left offset 0.5,0%s\n", r->y + 0.78,
                p->terminal == LW_TERMINAL_DUMB ? "" : " font ',11'");
        fprintf(f, "set arrow %d from %.6g,%.3f to %.6g,%.3f nohead linecolor rgb '#404040' "
                   "dashtype 2\n", (int)r->run + 1, x, r->y + 0.5, x, pic->rows[last].y - 0.55);
    }
}

static void put_axes(const struct picture *pic, FILE *f, struct plot_unit unit)
{
    fprintf(f, "set xlabel 'time from the start of the step [%s]'\n", unit.name);
    fprintf(f, "set xrange [0:%.6g]\nset yrange [%.3f:%.3f]\nset ytics (", 
            (double)pic->most / unit.ps * 1.02, pic->bottom - 0.4, 0.0);
    for (int64_t i = 0; i < pic->n_rows; i++) {
        fputs(i ? ", " : "", f);
        plot_text(f, pic->rows[i].label);
        fprintf(f, " %.3f", pic->rows[i].y);
    }
    fputs(")\nset grid noytics\n", f);
}

static void put_key(FILE *f, const char *title, int32_t colour)
{
    fprintf(f, ", \\\n  NaN with boxes linecolor rgb '#%06x' title '%s'", (unsigned)colour, title);
}

static void put_plot(const struct picture *pic, FILE *f, bool plain)
{
    bool copies = false;

    for (int64_t i = 0; i < pic->n_bars; i++)
        copies = copies || pic->bars[i].colour == PLOT_OTHER;
    fputs("plot $bars using (($1+$2)/2):(($3+$4)/2):1:2:3:4:5 with boxxyerror "
          "linecolor rgb variable notitle, \\\n"
          "  $exposed using (($1+$2)/2):(($3+$4)/2):1:2:3:4:5 with boxxyerror "
          "linecolor rgb variable notitle", f);
    if (!plain)
        fputs(", \\\n  $links using 1:2:3:4 with vectors nohead linecolor rgb '#606060' "
              "linewidth 0.7 notitle, \\\n"
              "  $labels using 1:2:3:4 with labels font ',9' textcolor rgb variable notitle", f);
    put_key(f, "forward", PLOT_FORWARD);
    put_key(f, "backward", PLOT_BACKWARD);
    put_key(f, "optimizer", PLOT_OPTIMIZER);
    if (copies)
        put_key(f, "copies, host, other", PLOT_OTHER);
    put_key(f, "waiting for the last rank", PLOT_WAIT);
    put_key(f, "even bucket moves", PLOT_COMM_EVEN);
    put_key(f, "odd bucket moves", PLOT_COMM_ODD);
    put_key(f, "exposed communication", PLOT_EXPOSED);
    fputs("\n", f);
}

static enum lw_status put_script(const struct picture *pic, const struct lw_plot *p, FILE *f,
                                 struct lw_err *err)
{
    struct plot_unit unit = plot_unit_for(pic->most);
    bool plain = p->terminal == LW_TERMINAL_DUMB;
    int height = 150 + (int)(-pic->bottom * ROW_PX);

    plot_begin(p, f, WIDTH, height, "One training step, stream by stream");
    plot_key_below(p, f, height);
    put_headings(pic, p, f, unit);
    put_axes(pic, f, unit);
    put_bars(pic, f, unit.ps);
    put_links(pic, f, unit.ps);
    put_labels(pic, f, unit.ps, plain);
    LW_TRY(put_exposed(pic, f, unit.ps, err));
    put_plot(pic, f, plain);
    return LW_OK;
}

enum lw_status plot_timeline(struct lw_store *s, const struct lw_plot *p, FILE *f,
                             struct lw_err *err)
{
    struct picture pic = {0};
    struct lw_arena a = {0};
    enum lw_status st = LW_OK;

    pic.step = lw_arena_alloc(&a, p->n_runs, sizeof *pic.step);
    if (!pic.step)
        st = lw_fail_nomem(err);
    for (int32_t i = 0; i < p->n_runs && st == LW_OK; i++)
        st = read_run(s, p, i, &pic, err);
    if (st == LW_OK)
        st = put_script(&pic, p, f, err);
    lw_free(pic.bars);
    lw_free(pic.rows);
    lw_arena_free(&a);
    return st;
}
