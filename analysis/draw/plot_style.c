/* What the pictures have in common. */
#include "analysis/draw/plot_style.h"

#include <string.h>

#include "shared/base/shown_text.h"

int32_t plot_colour(const char *kind, const char *class, int32_t bucket)
{
    if (strcmp(class, "collective") == 0 || strcmp(class, "p2p") == 0)
        return bucket % 2 == 1 ? PLOT_COMM_ODD : PLOT_COMM_EVEN;
    if (strcmp(kind, "forward") == 0)
        return PLOT_FORWARD;
    if (strncmp(kind, "backward", 8) == 0)
        return PLOT_BACKWARD;
    return strcmp(kind, "optimizer") == 0 ? PLOT_OPTIMIZER : PLOT_OTHER;
}

struct plot_unit plot_unit_for(lw_ps most)
{
    static const struct plot_unit units[] = {{"ns", 1e3}, {"us", 1e6}, {"ms", 1e9}, {"s", 1e12}};
    int i = 0;

    while (i < 3 && (double)most >= 10 * units[i + 1].ps)
        i++;
    return units[i];
}

/* Between single quotes gnuplot expands neither backquotes nor macros nor escapes. */
void plot_text(FILE *f, const char *text)
{
    char bytes[4];

    fputc('\'', f);
    while (*text) {
        uint32_t c = lw_shown_next(&text);
        if (c == '\'')
            fputc('\'', f);
        fwrite(bytes, 1, (size_t)lw_utf8_encode(c, bytes), f);
    }
    fputc('\'', f);
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

void plot_run_words(char *buf, size_t size, const struct lw_run *r)
{
    char cap[32];

    snprintf(buf, size, "run %lld: %s%s%s%s%s%s%s%s", (long long)r->id,
             r->kind == LW_RUN_SIM    ? "predicted"
             : r->kind == LW_RUN_EXEC ? "measured"
                                      : "recorded",
             r->backend[0] ? " on " : "", r->backend, r->honesty[0] ? " (" : "", r->honesty,
             r->honesty[0] ? ")" : "", r->bucket_cap_bytes >= 0 ? ", bucket cap " : "",
             r->bucket_cap_bytes >= 0 ? lw_format_bytes(cap, r->bucket_cap_bytes) : "");
}

void plot_run_text(FILE *f, const struct lw_run *r)
{
    char text[256];

    plot_run_words(text, sizeof text, r);
    plot_text(f, text);
}

static void terminal(const struct lw_plot *p, FILE *f, int width, int height)
{
    width = p->width > 0 ? p->width : width;
    height = p->height > 0 ? p->height : height;
    switch (p->terminal) {
    case LW_TERMINAL_SVG:
        fprintf(f, "set terminal svg size %d,%d noenhanced font 'Sans,13' background '#ffffff'\n",
                width, height);
        break;
    case LW_TERMINAL_DUMB:
        fprintf(f, "set terminal dumb size %d,%d noenhanced\n", p->width > 0 ? p->width : 100,
                p->height > 0 ? p->height : 30);
        break;
    default:
        fprintf(f, "set terminal pngcairo size %d,%d noenhanced font 'Sans,10'\n", width, height);
    }
}

/* Which recording, machines, plan, program: without the time of day, so that a redrawn picture is
 * the same picture. */
static void provenance(const struct lw_plot *p, FILE *f)
{
    const struct lw_run *r = &p->runs[0];
    char text[512];

    snprintf(text, sizeof text, "lapwing %s | %.200s (%.100s) | plan %.8s%s", LW_VERSION, r->name,
             r->workload_from, r->plan_hash,
             p->n_runs > 1 ? ", ..." : "");
    if (p->terminal == LW_TERMINAL_DUMB)
        return;
    fputs("set label 9999 ", f);
    plot_text(f, text);
    fputs(" at screen 0.99, screen 0.0 right offset 0,0.7 font ',8' textcolor rgb '#606060'\n", f);
}

/* The key in a line of its own under the axis, above the provenance. */
void plot_key_below(const struct lw_plot *p, FILE *f, int height)
{
    height = p->height > 0 ? p->height : height;
    if (p->terminal == LW_TERMINAL_DUMB)
        fputs("set key outside bottom center horizontal samplen 2\n", f);
    else
        fprintf(f, "set bmargin at screen %.4f\n"
                   "set key at screen 0.5, screen %.4f center center horizontal samplen 2 "
                   "width 1\n", 118.0 / height, 42.0 / height);
}

void plot_begin(const struct lw_plot *p, FILE *f, int width, int height, const char *title)
{
    fputs("# drawn by gnuplot 5 or newer: gnuplot THIS > picture\n", f);
    terminal(p, f, width, height);
    if (p->terminal != LW_TERMINAL_DUMB)
        fprintf(f, "set bmargin at screen %.4f\n", 80.0 / (p->height > 0 ? p->height : height));
    provenance(p, f);
    fputs("set title ", f);
    plot_text(f, title);
    fputs(p->terminal == LW_TERMINAL_DUMB ? "\n" : " font ',14'\n", f);
    fputs("set border 3 linecolor rgb '#404040'\nset tics nomirror out\n"
          "set grid xtics ytics linecolor rgb '#d8d8d8' linewidth 0.5\n"
          "set style fill solid 1.0 noborder\n", f);
}
