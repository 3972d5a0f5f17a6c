/* One step of each run as bars over time, for gnuplot: a row per stream of a rank, under each
 * communication row a black strip where communication is exposed. A collective is pale until its
 * last member has arrived and moves data from there on; a thin line leads from the moment its data
 * was ready.
 *
 * Bars of one row and kind that follow each other without a visible gap are drawn as one, so the
 * size of a picture depends on its width and not on the number of ops. */
#include <string.h>

#include "analysis/draw/step_bars.h"
#include "analysis/draw/plot_style.h"

enum { WIDTH = 1400, LEFT = 150, RIGHT = 30, CHAR_PX = 7, ROW_PX = 46 };

static void put_box(FILE *f, double unit, lw_ps x0, lw_ps x1, double y0, double y1, int32_t colour)
{
    fprintf(f, "%.6g %.6g %.3f %.3f %d\n", (double)x0 / unit, (double)x1 / unit, y0, y1,
            (int)colour);
}

static lw_ps pixel(const struct picture *pic)
{
    return pic->most / (WIDTH - LEFT - RIGHT) + 1;
}

static void put_bars(const struct picture *pic, FILE *f, double unit)
{
    struct picture_bar b;

    fputs("$bars << EOD\n", f);
    for (int64_t i = 0; i < pic->n_bars;) {
        i = picture_join(pic, i, pixel(pic) / 2, &b);
        double y = pic->rows[b.row].y;
        lw_ps moves = b.comm && b.all_in > b.start ? b.all_in : b.start;
        if (moves > b.start)
            put_box(f, unit, b.start, moves, y - 0.36, y + 0.36, PLOT_WAIT);
        put_box(f, unit, moves, b.end, y - 0.36, y + 0.36, b.colour);
    }
    fputs("EOD\n", f);
}

/* Returns how many: gnuplot cannot draw an empty set of labels or vectors. */
static int64_t put_links(const struct picture *pic, FILE *f, double unit)
{
    struct picture_bar b;
    int64_t n = 0;

    fputs("$links << EOD\n", f);
    for (int64_t i = 0; i < pic->n_bars;) {
        i = picture_join(pic, i, pixel(pic) / 2, &b);
        if (!b.comm || b.ready < 0)
            continue;
        fprintf(f, "%.6g %.3f %.6g %.3f\n", (double)b.ready / unit, pic->rows[b.row].y + 0.62,
                (double)(b.start - b.ready) / unit, -0.26);
        n++;
    }
    fputs("EOD\n", f);
    return n;
}

/* What fits into the bar: its name, "b3", or nothing. */
static int64_t put_labels(const struct picture *pic, FILE *f, double unit)
{
    struct picture_bar b;
    char brief[32], name[PICTURE_TEXT];
    lw_ps from, to;
    int64_t n = 0;

    fputs("$labels << EOD\n", f);
    for (int64_t i = 0; i < pic->n_bars;) {
        i = picture_join(pic, i, pixel(pic) / 2, &b);
        bool dark = picture_text_place(&b, &from, &to);
        int64_t room = (to - from) / pixel(pic) / CHAR_PX;
        brief[0] = '\0';
        if (b.bucket >= 0 && b.comm)
            snprintf(brief, sizeof brief, "b%d", b.bucket);
        picture_name(&b, name);
        const char *text = room > (int64_t)strlen(name) ? name
                           : room > (int64_t)strlen(brief) ? brief : "";
        if (!text[0])
            continue;
        fprintf(f, "%.6g %.3f ", (double)(from + to) / 2 / unit, pic->rows[b.row].y);
        plot_data_text(f, text);
        fprintf(f, " %d\n", dark ? 0xffffff : 0);
        n++;
    }
    fputs("EOD\n", f);
    return n;
}

static void put_exposed(const struct picture *pic, FILE *f, double unit)
{
    struct picture_strip x;

    fputs("$exposed << EOD\n", f);
    for (int64_t i = 0; i < pic->n_strips;) {
        i = picture_join_strips(pic, i, pixel(pic) / 2, &x);
        double y = pic->rows[x.row].y;
        put_box(f, unit, x.start, x.end, y - 0.5, y - 0.38, PLOT_EXPOSED);
    }
    fputs("EOD\n", f);
}

/* Above each run's rows: which run, how long. At the end of its step: a line. */
static void put_headings(const struct picture *pic, const struct lw_plot *p, FILE *f,
                         struct plot_unit unit)
{
    for (int64_t i = 0; i < pic->n_rows; i++) {
        const struct picture_row *r = &pic->rows[i];
        if (i > 0 && pic->rows[i - 1].run == r->run)
            continue;
        int64_t last = i;
        while (last + 1 < pic->n_rows && pic->rows[last + 1].run == r->run)
            last++;
        const struct lw_run *run = &p->runs[r->run];
        double x = (double)pic->step[r->run] / unit.ps;
        fprintf(f, "set label %d ", (int)r->run + 1);
        plot_run_text(f, run);
        fprintf(f, " . '. This step spans %.4g %s'", x, unit.name);
        if (run->exposed_comm >= 0)
            fprintf(f, " . ', exposed communication %.3g %s'",
                    (double)run->exposed_comm / unit.ps, unit.name);
        fprintf(f, " at graph 0, first %.3f left offset 0.5,0 font ',11'\n", r->y + 0.78);
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

static void put_plot(const struct picture *pic, FILE *f, bool links, bool labels)
{
    bool copies = false;

    for (int64_t i = 0; i < pic->n_bars; i++)
        copies = copies || pic->bars[i].colour == PLOT_OTHER;
    fputs("plot $bars using (($1+$2)/2):(($3+$4)/2):1:2:3:4:5 with boxxyerror "
          "linecolor rgb variable notitle, \\\n"
          "  $exposed using (($1+$2)/2):(($3+$4)/2):1:2:3:4:5 with boxxyerror "
          "linecolor rgb variable notitle", f);
    if (links)
        fputs(", \\\n  $links using 1:2:3:4 with vectors nohead linecolor rgb '#606060' "
              "linewidth 0.7 notitle", f);
    if (labels)
        fputs(", \\\n  $labels using 1:2:3:4 with labels font ',9' textcolor rgb variable "
              "notitle", f);
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

static void put_script(const struct picture *pic, const struct lw_plot *p, FILE *f)
{
    struct plot_unit unit = plot_unit_for(pic->most);
    int height = 150 + (int)(-pic->bottom * ROW_PX);

    plot_begin(p, f, WIDTH, height, "One training step, stream by stream");
    plot_key_below(p, f, height);
    put_headings(pic, p, f, unit);
    put_axes(pic, f, unit);
    put_bars(pic, f, unit.ps);
    bool links = put_links(pic, f, unit.ps) > 0, labels = put_labels(pic, f, unit.ps) > 0;
    put_exposed(pic, f, unit.ps);
    put_plot(pic, f, links, labels);
}

enum lw_status plot_timeline(struct lw_store *s, const struct lw_plot *p, FILE *f,
                             struct lw_err *err)
{
    struct picture_view view = {p->runs, p->n_runs, p->step, p->max_ranks};
    struct picture pic;

    LW_TRY(picture_read(s, &view, &pic, err));
    put_script(&pic, p, f);
    picture_free(&pic);
    return LW_OK;
}
