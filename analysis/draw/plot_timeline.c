/* One step of each run as bars over time, for gnuplot: a row per stream of a rank, under each
 * communication row a black strip where communication is exposed. A collective is pale until its
 * last member has arrived and moves data from there on; a thin line leads from the moment its data
 * was ready.
 *
 * Bars of one row and kind that follow each other without a gap are drawn as one, and those thinner
 * than a pixel in as many pixels as they add up to (slivers.h), so the size of a picture depends on
 * its width and not on the number of ops, and its areas are to scale. */
#include <string.h>

#include "analysis/draw/slivers.h"
#include "analysis/draw/step_bars.h"
#include "analysis/draw/plot_style.h"

enum { WIDTH = 1400, RIGHT = 26, CHAR_PX = 7, ROW_PX = 44, MOST_PX = 16000,
       ROW_TEXT = 2 * PICTURE_TEXT + 4 };

/* What the functions here share. */
struct sheet {
    const struct picture *pic;
    const struct lw_plot *p;
    const struct plot_names *names;
    FILE *f;
    struct plot_unit unit;
    struct plot_key keys[N_LOOKS];
    int n_keys;
    int width, left; /* pixels */
};

/* Of a bar's label: a figure takes 7.6 pixels, and a W before it 11.9. */
enum { LABEL_PX = 8, LABEL_GAP = 6 };

static lw_ps pixel(const struct sheet *s)
{
    return s->pic->most / (s->width - s->left - RIGHT) + 1;
}

static void put_box(const struct sheet *s, lw_ps x0, lw_ps x1, double y0, double y1, int32_t colour)
{
    fprintf(s->f, "%.6g %.6g %.3f %.3f %d\n", (double)x0 / s->unit.ps, (double)x1 / s->unit.ps, y0,
            y1, (int)colour);
}

/* Bars with no visible gap between them are one: a gap counts from here on. */
static lw_ps gap(const struct sheet *s)
{
    return pixel(s) / 32;
}

static void put_bar(void *ctx, int32_t row, lw_ps start, lw_ps end, int32_t colour)
{
    const struct sheet *s = ctx;
    double y = s->pic->rows[row].y;

    put_box(s, start, end, y - 0.36, y + 0.36, colour);
}

static void put_bars(struct sheet *s)
{
    struct slivers thin = {.pixel = pixel(s), .emit = put_bar, .ctx = s};
    struct picture_bar b;

    fputs("$bars << EOD\n", s->f);
    for (int64_t i = 0; i < s->pic->n_bars;) {
        i = picture_join(s->pic, i, gap(s), &b);
        lw_ps moves = b.comm && b.all_in > b.start ? b.all_in : b.start;
        if (moves > b.start)
            slivers_add(&thin, b.row, b.start, moves, PLOT_WAIT);
        slivers_add(&thin, b.row, moves, b.end, picture_colour(&b));
    }
    slivers_end(&thin);
    fputs("EOD\n", s->f);
}

/* From the moment when the data of a bucket was ready. Returns how many: gnuplot cannot draw an
 * empty set of labels or vectors. */
static int64_t put_links(const struct sheet *s)
{
    struct picture_bar b;
    int64_t n = 0;

    fputs("$links << EOD\n", s->f);
    for (int64_t i = 0; i < s->pic->n_bars;) {
        i = picture_join(s->pic, i, pixel(s) / 2, &b);
        if (!b.comm || b.ready < 0 || b.bucket < 0)
            continue;
        fprintf(s->f, "%.6g %.3f %.6g %.3f\n", (double)b.ready / s->unit.ps,
                s->pic->rows[b.row].y + 0.62, (double)(b.start - b.ready) / s->unit.ps, -0.26);
        n++;
    }
    fputs("EOD\n", s->f);
    return n;
}

static int64_t put_labels(const struct sheet *s)
{
    struct picture_bar b;
    char buf[PICTURE_TEXT];
    lw_ps from, to;
    int64_t n = 0;

    fputs("$labels << EOD\n", s->f);
    for (int64_t i = 0; i < s->pic->n_bars;) {
        i = picture_join(s->pic, i, pixel(s) / 2, &b);
        bool dark = picture_text_place(&b, &from, &to);
        const char *text = picture_text(&b, ((to - from) / pixel(s) - LABEL_GAP) / LABEL_PX, buf);
        if (!text[0])
            continue;
        fprintf(s->f, "%.6g %.3f ", (double)(from + to) / 2 / s->unit.ps, s->pic->rows[b.row].y);
        plot_data_text(s->f, text);
        fprintf(s->f, " %d\n", dark ? 0xffffff : 0);
        n++;
    }
    fputs("EOD\n", s->f);
    return n;
}

static void put_strip(void *ctx, int32_t row, lw_ps start, lw_ps end, int32_t colour)
{
    const struct sheet *s = ctx;
    double y = s->pic->rows[row].y;

    put_box(s, start, end, y - 0.5, y - 0.38, colour);
}

static void put_exposed(struct sheet *s)
{
    struct slivers thin = {.pixel = pixel(s), .emit = put_strip, .ctx = s};
    struct picture_strip x;

    fputs("$exposed << EOD\n", s->f);
    for (int64_t i = 0; i < s->pic->n_strips;) {
        i = picture_join_strips(s->pic, i, gap(s), &x);
        slivers_add(&thin, x.row, x.start, x.end, PLOT_EXPOSED);
    }
    slivers_end(&thin);
    fputs("EOD\n", s->f);
}

enum { FIGURES = 160 };

/* How long, of the run; returns the characters. before: with what precedes 0. */
static int write_figures(const struct sheet *s, int32_t k, bool before, char figures[FIGURES])
{
    const struct picture_step *step = &s->pic->step[k];
    const struct lw_run *run = &s->p->runs[k];
    size_t n = 0;

    n += (size_t)snprintf(figures, FIGURES, "; this step spans %.4g %s",
                          (double)step->span / s->unit.ps, s->unit.name);
    if (before && step->span - step->length > step->span / 1000)
        n += (size_t)snprintf(figures + n, FIGURES - n, " (%.4g of it receives before 0)",
                              (double)(step->span - step->length) / s->unit.ps);
    if (run->exposed_comm >= 0)
        n += (size_t)snprintf(figures + n, FIGURES - n, ", exposed %.4g %s",
                              (double)run->exposed_comm / s->unit.ps, s->unit.name);
    if (s->pic->left_out[k] > 0)
        n += (size_t)snprintf(figures + n, FIGURES - n, "; %d more ranks: --max-ranks",
                              s->pic->left_out[k]);
    return (int)n;
}

/* Which run, how long. In a narrow picture the run's name has room before what precedes 0. */
static void put_heading(const struct sheet *s, const struct picture_row *r)
{
    int room = (s->width - 2 * RIGHT) / CHAR_PX;
    const char *name = s->names->runs[r->run];
    char figures[FIGURES], cut[640], text[800];

    int n = write_figures(s, r->run, true, figures);
    if ((int)strlen(name) + n > room)
        n = write_figures(s, r->run, false, figures);
    plot_cut_parts(cut, sizeof cut, name, room - n);
    snprintf(text, sizeof text, "%s%s", cut, figures);
    fprintf(s->f, "set label %d ", (int)r->run + 1);
    plot_text(s->f, text);
    fprintf(s->f, " at screen %.4f, first %.3f left\n", (double)RIGHT / s->width / 2,
            r->y + 0.8);
}

/* Above each run's rows its heading. At the end of its step: a line. */
static void put_headings(const struct sheet *s)
{
    for (int64_t i = 0; i < s->pic->n_rows; i++) {
        const struct picture_row *r = &s->pic->rows[i];
        if (i > 0 && s->pic->rows[i - 1].run == r->run)
            continue;
        int64_t last = i;
        while (last + 1 < s->pic->n_rows && s->pic->rows[last + 1].run == r->run)
            last++;
        double x = (double)s->pic->step[r->run].length / s->unit.ps;
        put_heading(s, r);
        fprintf(s->f, "set arrow %d from %.6g,%.3f to %.6g,%.3f nohead linecolor rgb '#404040' "
                      "dashtype 2\n", (int)r->run + 1, x, r->y + 0.5, x,
                s->pic->rows[last].y - 0.55);
    }
}

/* "stage 0, ranks 0-3 (4): compute", of later rows of the group the stream alone. */
static const char *row_text(const struct picture_row *r, char buf[ROW_TEXT])
{
    snprintf(buf, ROW_TEXT, "%s%s%s", r->group, r->group[0] ? ": " : "", r->label);
    return buf;
}

static int label_px(const struct picture *pic)
{
    char text[ROW_TEXT];
    int most = 0;

    for (int64_t i = 0; i < pic->n_rows; i++) {
        int px = plot_text_px(row_text(&pic->rows[i], text), 10);
        most = px > most ? px : most;
    }
    return most + 24;
}

static void put_axes(const struct sheet *s)
{
    char text[ROW_TEXT], cut[ROW_TEXT];

    fprintf(s->f, "set xlabel 'time from the start of the step [%s]'\n", s->unit.name);
    fprintf(s->f, "set lmargin at screen %.4f\nset rmargin at screen %.4f\n",
            (double)s->left / s->width, 1 - (double)RIGHT / s->width);
    fprintf(s->f, "set xrange [0:%.6g]\nset yrange [%.3f:%.3f]\nset ytics (",
            (double)s->pic->most / s->unit.ps * 1.02, s->pic->bottom - 0.4, 0.0);
    for (int64_t i = 0; i < s->pic->n_rows; i++) {
        const struct picture_row *r = &s->pic->rows[i];
        row_text(r, text);
        if (r->group[0] && plot_text_px(text, 10) > s->left - 24) /* no room: without the stream */
            snprintf(text, sizeof text, "%s", r->group);
        plot_tic(s->f, i == 0, plot_cut(cut, sizeof cut, text, (s->left - 24) / CHAR_PX),
                 r->y);
    }
    fputs(")\nset grid noytics\nset border 1\n", s->f);
}

static void put_plot(const struct sheet *s, bool links, bool labels)
{
    fputs("plot $bars using (($1+$2)/2):(($3+$4)/2):1:2:3:4:5 with boxxyerror "
          "linecolor rgb variable notitle, \\\n"
          "  $exposed using (($1+$2)/2):(($3+$4)/2):1:2:3:4:5 with boxxyerror "
          "linecolor rgb variable notitle", s->f);
    if (links)
        fputs(", \\\n  $links using 1:2:3:4 with vectors nohead linecolor rgb '#606060' "
              "linewidth 0.7 notitle", s->f);
    if (labels)
        fputs(", \\\n  $labels using 1:2:3:4 with labels font ',9' textcolor rgb variable "
              "notitle", s->f);
    fputs("\n", s->f);
}

static void put_script(struct sheet *s)
{
    s->n_keys = picture_keys(s->pic, s->keys);
    int height = 60 + plot_bottom(s->p, s->width, s->keys, s->n_keys) +
                 (int)(-s->pic->bottom * ROW_PX);

    plot_begin(s->p, s->f, WIDTH, height, s->names->title, s->keys, s->n_keys);
    put_headings(s);
    put_axes(s);
    put_bars(s);
    bool links = put_links(s) > 0, labels = put_labels(s) > 0;
    put_exposed(s);
    put_plot(s, links, labels);
}

static enum lw_status draw(struct sheet *s, struct lw_err *err)
{
    int label = label_px(s->pic), most = s->width * 2 / 5;

    if (-s->pic->bottom * ROW_PX > MOST_PX)
        return lw_fail(err, LW_EINVAL,
                       "%lld rows do not fit into one picture; draw fewer runs, or fewer ranks "
                       "with --max-ranks", (long long)s->pic->n_rows);
    s->left = label < most ? label : most;
    s->unit = plot_unit_for(s->pic->most);
    put_script(s);
    return LW_OK;
}

static enum lw_status draw_timeline(struct lw_store *s, const struct lw_plot *p, FILE *f,
                                    struct lw_err *err)
{
    struct picture_view view = {p->runs, p->n_runs, p->step, p->max_ranks};
    struct plot_names names;
    struct picture pic;

    LW_TRY(plot_names_make(p->runs, p->n_runs, "One training step", &names, err));
    enum lw_status st = picture_read(s, &view, &pic, err);
    if (st == LW_OK) {
        struct sheet sheet = {.pic = &pic, .p = p, .names = &names, .f = f,
                              .width = plot_width(p, WIDTH)};
        st = draw(&sheet, err);
        picture_free(&pic);
    }
    plot_names_free(&names);
    return st;
}

const struct plot_kind plot_kind_timeline = {
    .name = "timeline",
    .about = "streams of every rank over one step",
    .needs = "runs with spans (exec, or sim --spans)",
    .script = draw_timeline,
    .characters = plot_characters,
    .runs_per_page = 6,
};
