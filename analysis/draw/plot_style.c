/* What the pictures have in common. */
#include "analysis/draw/plot_style.h"

#include <string.h>

#include "analysis/store/store_search.h"
#include "shared/base/shown_text.h"

struct plot_unit plot_unit_for(lw_ps most)
{
    static const struct plot_unit units[] = {{"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}};
    int i = 0;

    while (i < 3 && (double)most >= 10 * units[i + 1].ps)
        i++;
    return units[i];
}

/* Between single quotes gnuplot expands neither backquotes nor macros nor escapes. A quote, and the
 * character `doubled`, mean themselves when written twice. */
static void put_quoted(FILE *f, const char *text, uint32_t doubled)
{
    char bytes[4];

    fputc('\'', f);
    while (*text) {
        uint32_t c = lw_shown_next(&text);
        if (c == '\'' || c == doubled)
            fputc((int)c, f);
        fwrite(bytes, 1, (size_t)lw_utf8_encode(c, bytes), f);
    }
    fputc('\'', f);
}

void plot_text(FILE *f, const char *text)
{
    put_quoted(f, text, '\'');
}

void plot_tic(FILE *f, bool first, const char *label, double at)
{
    fputs(first ? "" : ", ", f);
    put_quoted(f, label, '%');
    fprintf(f, " %.6g", at);
}

/* A field of a data line knows double quotes alone, and escapes in them. */
void plot_data_text(FILE *f, const char *text)
{
    char bytes[4];

    fputc('"', f);
    while (*text) {
        uint32_t c = lw_shown_next(&text);
        c = c == '"' || c == '`' ? '\'' : c == '\\' ? '/' : c;
        fwrite(bytes, 1, (size_t)lw_utf8_encode(c, bytes), f);
    }
    fputc('"', f);
}

int plot_characters_of(const char *text)
{
    int n = 0;

    for (; *text; n++)
        lw_utf8_next(&text);
    return n;
}

int plot_text_px(const char *text, int points)
{
    return plot_characters_of(text) * points * 7 / 10;
}

char *plot_cut(char *buf, size_t size, const char *text, int n)
{
    size_t at = 0;

    for (int i = 0; *text && at + 8 < size; i++) {
        uint32_t c = lw_shown_next(&text);
        bool last = i + 1 >= n && *text;
        at += (size_t)lw_utf8_encode(last ? 0x2026 : c, buf + at);
        if (last)
            break;
    }
    buf[at] = '\0';
    return buf;
}

char *plot_cut_parts(char *buf, size_t size, const char *text, int n)
{
    plot_cut(buf, size, text, n);
    if (plot_characters_of(text) <= n)
        return buf;
    size_t least = strlen(buf) / 2;
    for (char *p = buf + strlen(buf); p > buf + least; p--)
        if (p[0] == ',' && (p[1] == ' ' || (unsigned char)p[1] == 0xe2)) { /* or the ellipsis */
            p[lw_utf8_encode(0x2026, p + 1) + 1] = '\0';
            break;
        }
    return buf;
}

int plot_width(const struct lw_plot *p, int usual)
{
    return p->width > 0 ? p->width : usual;
}

static int height_of(const struct lw_plot *p, int usual)
{
    return p->height > 0 ? p->height : usual;
}

enum { MARGIN = 14, SWATCH = 16, LINE = 19, POINTS = 10, SMALL = 8, TITLE = 13 };

static void terminal(const struct lw_plot *p, FILE *f, int width, int height)
{
    switch (p->terminal) {
    case LW_TERMINAL_SVG:
        fprintf(f, "set terminal svg size %d,%d noenhanced font 'Sans,13' background '#ffffff'\n",
                width, height);
        break;
    case LW_TERMINAL_PDF: /* 96 pixels an inch, as of SVG */
        fprintf(f, "set terminal pdfcairo size %.3fin,%.3fin noenhanced font 'Sans,%d' "
                   "fontscale 0.75\n", width / 96.0, height / 96.0, POINTS);
        break;
    case LW_TERMINAL_DUMB:
        fprintf(f, "set terminal dumb size %d,%d noenhanced\n", plot_width(p, 100),
                height_of(p, 30));
        break;
    default:
        fprintf(f, "set terminal pngcairo size %d,%d noenhanced font 'Sans,%d'\n", width, height,
                POINTS);
    }
}

static int room_for(int width, int points)
{
    return width * 10 / (points * 7);
}

/* Which recording, machines, plan, program: without the time of day, so that a redrawn picture is
 * the same picture. */
static void provenance(const struct lw_plot *p, FILE *f, int width, int height)
{
    const struct lw_run *r = p->n_runs > 0 ? &p->runs[0] : NULL;
    char of[512], cut[512], text[1024], plan[32] = "";
    bool others = false;

    for (int32_t i = 1; i < p->n_runs; i++)
        others = others || strcmp(p->runs[i].plan_hash, r->plan_hash) != 0;

    if (r) {
        snprintf(of, sizeof of, "%.200s%s%.100s%s", r->name, r->workload_from[0] ? " (" : "",
                 r->workload_from, r->workload_from[0] ? ")" : "");
        snprintf(plan, sizeof plan, " | plan %.8s%s", r->plan_hash, others ? ", ..." : "");
    } else if (p->search) {
        snprintf(of, sizeof of, "search %lld: %lld strategies, %lld simulated | %.200s",
                 (long long)p->search->id, (long long)p->search->n_valid,
                 (long long)p->search->n_simulated, p->search->framework);
    } else {
        snprintf(of, sizeof of, "%s%.200s", p->cluster ? "cluster " : "",
                 p->cluster ? p->cluster->name : p->validation);
    }
    int room = room_for(width - 2 * MARGIN, SMALL) - (int)strlen("lapwing " LW_VERSION " | ");
    plot_cut_parts(cut, sizeof cut, of, room - (int)strlen(plan));
    snprintf(text, sizeof text, "lapwing %s | %s%s", LW_VERSION, cut, plan);
    fputs("set label 9999 ", f);
    plot_text(f, text);
    fprintf(f, " at screen %.4f, screen %.4f right font ',%d' textcolor rgb '#606060'\n",
            1 - (double)MARGIN / width, 9.0 / height, SMALL);
}

static int key_px(const struct plot_key *k)
{
    return (k->second >= 0 ? 2 : 1) * SWATCH + 6 + plot_text_px(k->name, POINTS) + 24;
}

/* Where entry i goes: its distance from the left, and its line from above. Returns the lines. */
static int place_keys(const struct plot_key *keys, int n, int width, int i, int *x, int *line)
{
    int at = MARGIN, lines = n > 0;

    for (int k = 0; k < n; k++) {
        if (at > MARGIN && at + key_px(&keys[k]) > width - MARGIN) {
            at = MARGIN;
            lines++;
        }
        if (k == i) {
            *x = at;
            *line = lines - 1;
        }
        at += key_px(&keys[k]);
    }
    return lines;
}

static void swatch(FILE *f, int id, int x, int y, int32_t colour, int width, int height)
{
    fprintf(f, "set object %d rectangle from screen %.4f, screen %.4f to screen %.4f, screen %.4f "
               "fillcolor rgb '#%06x' fillstyle solid 1.0 border linecolor rgb '#808080'\n", id,
            (double)x / width, (double)(y - 5) / height, (double)(x + SWATCH - 2) / width,
            (double)(y + 5) / height, (unsigned)colour);
}

static void legend(FILE *f, int width, int height, const struct plot_key *keys, int n)
{
    int x = 0, line = 0, lines = place_keys(keys, n, width, -1, &x, &line);

    for (int i = 0; i < n; i++) {
        place_keys(keys, n, width, i, &x, &line);
        int y = 30 + LINE * (lines - 1 - line), both = keys[i].second >= 0;
        swatch(f, 9000 + 2 * i, x, y, keys[i].colour, width, height);
        if (both)
            swatch(f, 9001 + 2 * i, x + SWATCH, y, keys[i].second, width, height);
        fprintf(f, "set label %d ", 9000 + i);
        plot_text(f, keys[i].name);
        fprintf(f, " at screen %.4f, screen %.4f left\n",
                (double)(x + (1 + both) * SWATCH + 4) / width, (double)y / height);
    }
}

double plot_tick(double most, int n)
{
    double tick = 1e-3;

    for (int i = 0; most / tick > n; i++)
        tick *= i % 3 == 1 ? 2.5 : 2;
    return tick;
}

int plot_bottom(const struct lw_plot *p, int width, const struct plot_key *keys, int n)
{
    int unused;

    return p->terminal == LW_TERMINAL_DUMB ? 0
                                           : 76 + LINE * place_keys(keys, n, width, -1, &unused,
                                                                    &unused);
}

void plot_begin(const struct lw_plot *p, FILE *f, int width, int height, const char *title,
                const struct plot_key *keys, int n)
{
    bool plain = p->terminal == LW_TERMINAL_DUMB;
    char cut[512];

    width = plot_width(p, width);
    height = height_of(p, height);
    fputs("# drawn by gnuplot 5 or newer: gnuplot THIS > picture\n", f);
    terminal(p, f, width, height);
    if (plain) {
        fputs("set title ", f);
        plot_text(f, title);
        fputs("\nset key outside bottom center horizontal samplen 2\n", f);
    } else {
        int points = plot_text_px(title, TITLE) > width - 2 * MARGIN ? POINTS : TITLE;
        fputs("set label 9998 ", f);
        plot_text(f, plot_cut_parts(cut, sizeof cut, title,
                                    room_for(width - 2 * MARGIN, points)));
        fprintf(f, " at screen 0.5, screen %.4f center font ',%d'\nset tmargin at screen %.4f\n",
                1 - 20.0 / height, points, 1 - 42.0 / height);
        provenance(p, f, width, height);
        legend(f, width, height, keys, n);
        fprintf(f, "set bmargin at screen %.4f\n",
                (double)plot_bottom(p, width, keys, n) / height);
    }
    fputs("set border 3 linecolor rgb '#404040'\nset tics nomirror out\n"
          "set grid xtics ytics linecolor rgb '#d8d8d8' linewidth 0.5\n"
          "set style fill solid 1.0 noborder\n", f);
}
