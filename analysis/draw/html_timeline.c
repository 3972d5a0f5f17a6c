/* A timeline as inline SVG: the bars of analysis/draw/step_bars.h, each with its name and times
 * as hover text (SVG's <title>), the exposed strips, an axis with round ticks. */
#include <math.h>
#include <string.h>

#include "analysis/draw/html_page.h"
#include "analysis/draw/plot_style.h"
#include "analysis/draw/slivers.h"
#include "shared/base/shown_text.h"

enum { WIDTH = 1120, LEFT = 130, RIGHT = 20, ROW = 34, BAR = 24, AXIS = 40 };

void html_text(FILE *f, const char *text)
{
    char bytes[4];

    while (*text) {
        uint32_t c = lw_shown_next(&text);
        switch (c) {
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '&':
            fputs("&amp;", f);
            break;
        case '"':
            fputs("&quot;", f);
            break;
        case '\'':
            fputs("&#39;", f);
            break;
        default:
            fwrite(bytes, 1, (size_t)lw_utf8_encode(c, bytes), f);
        }
    }
}

static double x_of(const struct picture *pic, lw_ps t)
{
    return LEFT + (double)t / (double)(pic->most > 0 ? pic->most : 1) * (WIDTH - LEFT - RIGHT);
}

static double y_of(double rows)
{
    return -rows * ROW;
}

static void put_rect(FILE *f, const struct picture *pic, lw_ps from, lw_ps to, double y, double h,
                     int32_t colour)
{
    fprintf(f, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"#%06x\"/>",
            x_of(pic, from), y, x_of(pic, to) - x_of(pic, from), h, (unsigned)colour);
}

static void put_hover(FILE *f, const struct picture_bar *b)
{
    char ready[32], start[32], end[32], time[32], wait[32], name[PICTURE_TEXT];

    fputs("<title>", f);
    html_text(f, picture_name(b, name));
    fprintf(f, " (%s): %s, from %s to %s", lw_op_name((enum lw_op_kind)b->kind),
            lw_format_ps(time, b->end - b->start),
            lw_format_ps(start, b->start), lw_format_ps(end, b->end));
    if (b->comm && b->all_in > b->start)
        fprintf(f, ", of it %s waiting for the last rank",
                lw_format_ps(wait, b->all_in - b->start));
    if (b->comm && b->ready >= 0)
        fprintf(f, "; ready at %s", lw_format_ps(ready, b->ready));
    fputs("</title>", f);
}

static void put_bar_text(FILE *f, const struct picture *pic, const struct picture_bar *b)
{
    lw_ps from, to;
    bool dark = picture_text_place(b, &from, &to);
    double room = x_of(pic, to) - x_of(pic, from);
    char buf[PICTURE_TEXT];
    const char *text = picture_text(b, (int64_t)(room / 7.5), buf);
    if (!text[0])
        return;
    fprintf(f, "<text x=\"%.2f\" y=\"%.1f\" fill=\"%s\" text-anchor=\"middle\">",
            (x_of(pic, from) + x_of(pic, to)) / 2, y_of(pic->rows[b->row].y) + 4,
            dark ? "#fff" : "#000");
    html_text(f, text);
    fputs("</text>", f);
}

struct strips {
    FILE *f;
    const struct picture *pic;
};

static void put_strip(void *ctx, int32_t row, lw_ps start, lw_ps end, int32_t colour)
{
    const struct strips *s = ctx;
    char time[32];

    fprintf(s->f, "<g><title>exposed communication: %s</title>", lw_format_ps(time, end - start));
    put_rect(s->f, s->pic, start, end, y_of(s->pic->rows[row].y) + BAR / 2.0 + 1, 4, colour);
    fputs("</g>\n", s->f);
}

/* Those thinner than half a pixel in as many as they add up to. */
static void put_exposed(FILE *f, const struct picture *pic)
{
    struct strips s = {f, pic};
    struct slivers thin = {.pixel = pic->most / (2 * WIDTH) + 1, .emit = put_strip, .ctx = &s};
    struct picture_strip x;

    for (int64_t i = 0; i < pic->n_strips;) {
        i = picture_join_strips(pic, i, pic->most / (64 * WIDTH), &x);
        slivers_add(&thin, x.row, x.start, x.end, PLOT_EXPOSED);
    }
    slivers_end(&thin);
}

static void put_bars(FILE *f, const struct picture *pic)
{
    struct picture_bar b;

    for (int64_t i = 0; i < pic->n_bars;) {
        i = picture_join(pic, i, pic->most / (2 * WIDTH), &b);
        double y = y_of(pic->rows[b.row].y) - BAR / 2.0;
        lw_ps moves = b.comm && b.all_in > b.start ? b.all_in : b.start;
        fputs("<g>", f);
        put_hover(f, &b);
        if (moves > b.start)
            put_rect(f, pic, b.start, moves, y, BAR, PLOT_WAIT);
        put_rect(f, pic, moves, b.end, y, BAR, picture_colour(&b));
        put_bar_text(f, pic, &b);
        fputs("</g>\n", f);
    }
    put_exposed(f, pic);
}

/* A label ends beside the bars and is squeezed where it is too long. */
static void put_label(FILE *f, const char *text, double y)
{
    fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\"", LEFT - 8, y);
    if (plot_text_px(text, 10) > LEFT - 10)
        fprintf(f, " textLength=\"%d\" lengthAdjust=\"spacingAndGlyphs\"", LEFT - 10);
    fputc('>', f);
    html_text(f, text);
    fputs("</text>\n", f);
}

static void put_rows(FILE *f, const struct picture *pic, const char *const *runs)
{
    char step[32], cut[640];

    for (int64_t i = 0; i < pic->n_rows; i++) {
        const struct picture_row *r = &pic->rows[i];
        put_label(f, r->group, y_of(r->y) - 4);
        put_label(f, r->label, y_of(r->y) + (r->group[0] ? 10 : 4));
        if (i > 0 && pic->rows[i - 1].run == r->run)
            continue;
        fprintf(f, "<text x=\"%d\" y=\"%.1f\" class=\"run\">", LEFT, y_of(r->y) - BAR / 2.0 - 6);
        html_text(f, plot_cut(cut, sizeof cut, runs[r->run], (WIDTH - LEFT) / 7 - 40));
        fprintf(f, ", this step spans %s</text>\n", lw_format_ps(step, pic->step[r->run].span));
        fprintf(f, "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%.1f\" y2=\"%.1f\" class=\"end\"/>\n",
                x_of(pic, pic->step[r->run].length), x_of(pic, pic->step[r->run].length),
                y_of(r->y) - BAR / 2.0 - 4, y_of(r->y) + ROW * 1.5);
    }
}

static void put_axis(FILE *f, const struct picture *pic)
{
    struct plot_unit unit = plot_unit_for(pic->most);
    double most = (double)pic->most / unit.ps, tick = plot_tick(most, 10);
    double y = y_of(pic->bottom) + ROW * 0.6;

    fprintf(f, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" class=\"axis\"/>\n", LEFT,
            WIDTH - RIGHT, y, y);
    for (int i = 0; i * tick <= most; i++) {
        double x = x_of(pic, (lw_ps)(i * tick * unit.ps));
        fprintf(f, "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%.1f\" y2=\"%.1f\" class=\"axis\"/>"
                   "<text x=\"%.2f\" y=\"%.1f\" text-anchor=\"middle\">%.6g</text>\n",
                x, x, y, y + 5, x, y + 18, i * tick);
    }
    fprintf(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">time from the start of the step "
               "[%s]</text>\n", (WIDTH + LEFT) / 2, y + 34, unit.name);
}

static void put_legend(FILE *f, const struct picture *pic)
{
    struct plot_key keys[N_LOOKS];
    int n = picture_keys(pic, keys);

    fputs("<p class=\"legend\">", f);
    for (int i = 0; i < n; i++) {
        fprintf(f, "<span><i style=\"background:#%06x\"></i>", (unsigned)keys[i].colour);
        if (keys[i].second >= 0)
            fprintf(f, "<i style=\"background:#%06x\"></i>", (unsigned)keys[i].second);
        fprintf(f, "%s</span> ", keys[i].name);
    }
    fputs("</p>\n", f);
}

void html_timeline(FILE *f, const struct picture *pic, const char *const *runs)
{
    int height = (int)ceil(y_of(pic->bottom)) + ROW + AXIS;

    put_legend(f, pic);
    fprintf(f, "<div class=\"wide\"><svg viewBox=\"0 0 %d %d\" role=\"img\" "
               "aria-label=\"timeline of one step\">\n", WIDTH, height);
    put_rows(f, pic, runs);
    put_bars(f, pic);
    put_axis(f, pic);
    fputs("</svg></div>\n", f);
}
