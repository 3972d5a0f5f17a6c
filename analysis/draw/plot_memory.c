/* Memory over one step of the rank with the largest peak, as areas on top of each other: what stays
 * (parameters, gradients, optimizer) below what comes and goes. The rows were stored with the spans
 * (analysis/store/store_memory.c). */
#include <stdlib.h>
#include <string.h>

#include "analysis/draw/plot_style.h"
#include "analysis/draw/step_bars.h"
#include "analysis/store/sql.h"
#include "analysis/store/store_memory.h"
#include "shared/files/files.h"

/* From below: what stays, then what comes and goes. */
enum { N_LAYERS = LW_N_MEMORY };

static const struct layer {
    enum lw_memory memory;
    char letter; /* in the terminal */
    struct plot_key key;
} layers[N_LAYERS] = {
    {LW_MEMORY_PARAMETERS, 'p', {"parameters", PLOT_BACKWARD, -1}},
    {LW_MEMORY_GRADIENTS, 'g', {"gradients", PLOT_LIGHT, -1}},
    {LW_MEMORY_OPTIMIZER, 'o', {"optimizer", PLOT_OPTIMIZER, -1}},
    {LW_MEMORY_WORKSPACES, 's', {"workspaces", PLOT_OTHER, -1}},
    {LW_MEMORY_BUCKETS, 'b', {"buckets", PLOT_COMM_ODD, -1}},
    {LW_MEMORY_GATHERED, 'w', {"gathered weights", PLOT_GATHERED, -1}},
    {LW_MEMORY_MESSAGES, 'm', {"messages", PLOT_COMM_EVEN, -1}},
    {LW_MEMORY_ACTIVATIONS, 'a', {"activations", PLOT_FORWARD, -1}},
};

/* The step, and what is held at a moment. */
struct view {
    FILE *f;
    lw_ps from, length, peak_at;
    struct plot_unit unit;
    double byte; /* of the unit of the other axis */
    int32_t rank;
    int64_t held[N_LAYERS], peak;
    bool shown[N_LAYERS];
};

static void put_row(struct view *v, lw_ps at)
{
    int64_t sum = 0;

    fprintf(v->f, "%.6g", (double)(at - v->from) / v->unit.ps);
    for (int k = 0; k < N_LAYERS; k++) {
        sum += v->held[k];
        v->shown[k] |= v->held[k] > 0;
        fprintf(v->f, " %.6g", (double)sum / v->byte);
    }
    fputc('\n', v->f);
    if (sum > v->peak) {
        v->peak = sum;
        v->peak_at = at;
    }
}

static int layer_of(const char *category)
{
    int k = 0;

    while (k < N_LAYERS && strcmp(lw_memory_name(layers[k].memory), category) != 0)
        k++;
    return k;
}

/* Two rows for a change within the step: as it was and as it is. */
static enum lw_status put_changes(struct lw_store *s, const struct lw_run *run, struct view *v,
                                  struct lw_err *err)
{
    struct lw_sql *q;
    bool began = false; /* the step */

    LW_TRY(lw_store_query_memory(s, run->id, &q, err));
    fputs("$memory << EOD\n", v->f);
    while (lw_sql_next(q)) {
        int k = layer_of(lw_sql_text(q, 3));
        lw_ps at = lw_sql_int(q, 2);
        if (at > v->from + v->length)
            continue;
        if (at > v->from && !began)
            put_row(v, v->from);
        began |= at > v->from;
        if (began)
            put_row(v, at);
        if (k < N_LAYERS)
            v->held[k] = lw_sql_int(q, 4);
        if (began)
            put_row(v, at);
    }
    if (!began)
        put_row(v, v->from);
    put_row(v, v->from + v->length);
    fputs("EOD\n", v->f);
    return lw_sql_finish(q, err);
}

/* The rank that was stored and the unit of its largest amount. */
static enum lw_status find_rank(struct lw_store *s, const struct lw_run *run, struct view *v,
                                const char **unit, struct lw_err *err)
{
    struct lw_sql *q;

    int64_t most = 0;

    LW_TRY(lw_store_check_memory(s, run->id, err));
    LW_TRY(lw_store_query_memory(s, run->id, &q, err));
    while (lw_sql_next(q)) {
        int64_t bytes = lw_sql_int(q, 4);
        most = bytes > most ? bytes : most;
        v->rank = (int32_t)lw_sql_int(q, 1);
    }
    LW_TRY(lw_sql_finish(q, err));
    if (most == 0)
        return lw_fail_at(err, LW_EINVAL, lw_store_file(s), 0,
                          run->n_spans > 0
                              ? "run %lld has no memory over time (a replay, a plan without sizes, "
                                "or stored by an older lapwing)"
                              : "run %lld was stored without spans, so without memory over time "
                                "(lapwing sim stores both with --spans)",
                          (long long)run->id);
    v->byte = most >= 1 << 30 ? 1 << 30 : most >= 1 << 20 ? 1 << 20 : 1 << 10;
    *unit = most >= 1 << 30 ? "GiB" : most >= 1 << 20 ? "MiB" : "KiB";
    return LW_OK;
}

/* The cluster of the run by its name, where that still is the one that was stored. */
static bool find_cluster(const struct lw_run *run, struct lw_cluster *c)
{
    struct lw_err unused = {0};
    char hash[33];

    *c = (struct lw_cluster){0};
    return run->cluster_name[0] && lw_cluster_find(run->cluster_name, c, &unused) == LW_OK &&
           lw_cluster_hash(c, hash, &unused) == LW_OK && strcmp(hash, run->cluster_hash) == 0;
}

/* What the framework, its allocator and the driver take beside the tensors, above their peak; 0:
 * not known. */
static double framework_part(const struct lw_run *run, const struct view *v)
{
    double most = (double)run->memory_bytes / v->byte, peak = (double)v->peak / v->byte;

    return run->memory_bytes > 0 && most > peak ? most - peak : 0;
}

/* Lines above the areas: all that a device holds at the peak, and the device's memory, which is a
 * note where its line would make all else low. */
struct marks {
    double with_framework, device; /* in the unit; 0: not known */
    bool device_line;
    char framework_text[160], device_text[192];
    double top;                    /* what the axis has to hold */
};

static void find_device(const struct lw_run *run, const struct view *v, struct marks *m)
{
    struct lw_cluster c;
    char bytes[32];

    if (find_cluster(run, &c) && lw_figure_is_set(c.device.memory_bytes)) {
        m->device = c.device.memory_bytes.value / v->byte;
        m->device_line = m->device <= 3 * m->top;
        snprintf(m->device_text, sizeof m->device_text, "memory of %.100s: %s%s",
                 c.device.kind ? c.device.kind : "the device",
                 lw_format_bytes(bytes, (int64_t)c.device.memory_bytes.value),
                 m->device_line ? "" : ", above this picture");
        if (m->device_line && m->device > m->top)
            m->top = m->device;
    }
    lw_cluster_free(&c);
}

static struct marks find_marks(const struct lw_run *run, const struct view *v)
{
    double part = framework_part(run, v), peak = (double)v->peak / v->byte;
    struct marks m = {.top = peak + part};
    char bytes[2][32];

    if (part > 0) {
        m.with_framework = peak + part;
        snprintf(m.framework_text, sizeof m.framework_text,
                 "with %s of framework, allocator, driver: %s%s",
                 lw_format_bytes(bytes[0], (int64_t)(part * v->byte + 0.5)),
                 lw_format_bytes(bytes[1], run->memory_bytes),
                 run->fits == 0 ? ", does not fit" : "");
    }
    find_device(run, v, &m);
    return m;
}

/* Its text has a ground of its own: it may lie on an area. */
static void put_mark(FILE *f, int tag, double y, const char *text, bool left, const char *style)
{
    fprintf(f, "set arrow %d from graph 0,first %.6g to graph 1,first %.6g nohead front %s\n", tag,
            y, y, style);
    fprintf(f, "set label %d ", tag);
    plot_text(f, text);
    fprintf(f, " at graph %s,first %.6g %s offset 0,0.7 front boxed\n", left ? "0.01" : "0.99", y,
            left ? "left" : "right");
}

/* Where the peak's text stands: above a line that would go through it. */
static double above(double line, double y, double range)
{
    return line >= y && line - y < 0.05 * range ? line : y;
}

static void put_marks(const struct lw_run *run, const struct view *v, const char *unit)
{
    double x = (double)(v->peak_at - v->from) / v->unit.ps, y = (double)v->peak / v->byte;
    bool right = v->peak_at - v->from > v->length / 2;
    struct marks m = find_marks(run, v);
    char style[64];

    fputs("set style textbox opaque margins 0.3,0.2 noborder\n", v->f);
    double range = m.top * 1.15;
    double at = above(m.device_line ? m.device : 0, above(m.with_framework, y, range), range);
    fprintf(v->f, "set label 1 'peak %.4g %s' at %.6g,%.6g %s offset %s,0.7 front\n", y, unit, x,
            at, right ? "right" : "left", right ? "-1" : "1");
    fprintf(v->f, "set label 4 '' at %.6g,%.6g front point pointtype 7 pointsize 0.8\n", x, y);
    snprintf(style, sizeof style, "linewidth 1.5 linecolor rgb '#%06x'", (unsigned)PLOT_OTHER);
    if (m.with_framework > 0)
        put_mark(v->f, 3, m.with_framework, m.framework_text, right, style);
    if (m.device_line) {
        put_mark(v->f, 2, m.device, m.device_text, right, "linewidth 1.5 dashtype 2");
    } else if (m.device > 0) {
        fputs("set label 2 ", v->f);
        plot_text(v->f, m.device_text);
        fputs(" at graph 0.99,0.97 right front\n", v->f);
    }
    fprintf(v->f, "set yrange [0:%.6g]\n", range);
}

static void put_plot(const struct view *v)
{
    const char *between = "plot";

    for (int k = 0; k < N_LAYERS; k++) {
        if (!v->shown[k])
            continue;
        fprintf(v->f, "%s $memory using 1:", between);
        fprintf(v->f, k ? "%d" : "(0)", k + 1);
        fprintf(v->f, ":%d with filledcurves linecolor rgb '#%06x' notitle, \\\n", k + 2,
                (unsigned)layers[k].key.colour);
        fprintf(v->f, "  $memory using 1:%d with lines linecolor rgb '#ffffff' linewidth 0.6 "
                      "notitle", k + 2);
        between = ", \\\n ";
    }
    fputs("\n", v->f);
}

/* The legend is known when the data is: the data goes to a file of its own first. */
static enum lw_status put_script(struct lw_store *s, const struct lw_plot *p, struct view *v,
                                 const char *unit, const char *title, FILE *f, struct lw_err *err)
{
    struct plot_key keys[N_LAYERS];
    int n = 0, c;

    LW_TRY(put_changes(s, &p->runs[0], v, err));
    for (int k = N_LAYERS - 1; k >= 0; k--)
        if (v->shown[k])
            keys[n++] = layers[k].key;
    plot_begin(p, f, 1200, 620, title, keys, n);
    rewind(v->f);
    while ((c = fgetc(v->f)) != EOF)
        fputc(c, f);
    v->f = f;
    fprintf(f, "set xlabel 'time from the start of the step [%s]'\nset ylabel 'memory [%s]'\n"
               "set xrange [0:%.6g]\n", v->unit.name, unit, (double)v->length / v->unit.ps);
    put_marks(&p->runs[0], v, unit);
    put_plot(v);
    return LW_OK;
}

/* --- in the terminal -------------------------------------------------------------------------- */

enum { TICK = 9, MOST_COLUMNS = 512 };

/* Of each column the moment at which most is held. */
struct columns {
    int n, rows;
    double sum[MOST_COLUMNS][N_LAYERS]; /* from below, as in the data */
};

static void take(struct columns *c, double from, double to, const double *sum)
{
    int last = (int)to < to ? (int)to : (int)to - 1;

    for (int i = (int)from; i <= last && i < c->n; i++)
        if (sum[N_LAYERS - 1] > c->sum[i][N_LAYERS - 1])
            memcpy(c->sum[i], sum, sizeof c->sum[i]);
}

/* The lines of put_row between "$memory << EOD" and "EOD". */
static void read_columns(const struct view *v, struct columns *c)
{
    double length = (double)v->length / v->unit.ps, before = 0, at, sum[N_LAYERS] = {0};
    char line[512];

    rewind(v->f);
    while (fgets(line, sizeof line, v->f)) {
        char *p = line;
        at = strtod(line, &p);
        if (p == line)
            continue;
        take(c, before / length * c->n, at / length * c->n, sum);
        for (int k = 0; k < N_LAYERS; k++)
            sum[k] = strtod(p, &p);
        before = at;
    }
}

static char letter_at(const double *sum, double y)
{
    for (int k = 0; k < N_LAYERS; k++)
        if (y < sum[k])
            return layers[k].letter;
    return ' ';
}

/* Lines of marks go before areas. */
static void put_text_row(const struct columns *c, const struct marks *m, int row, double top,
                         FILE *f)
{
    double low = top * row / c->rows, high = top * (row + 1) / c->rows, tick = plot_tick(top, 5);
    double at = tick * (double)(int64_t)(low / tick + 0.999999);
    bool device = m->device_line && m->device >= low && m->device < high;
    bool framework = m->with_framework > 0 && m->with_framework >= low &&
                     m->with_framework < high;

    if (at < high)
        fprintf(f, "%*.4g |", TICK, at);
    else
        fprintf(f, "%*s |", TICK, "");
    for (int i = 0; i < c->n; i++)
        fputc(device      ? '='
              : framework ? '-'
                          : letter_at(c->sum[i], (low + high) / 2), f);
    fputc('\n', f);
}

static void put_text_legend(const struct view *v, const struct marks *m, const char *unit, FILE *f)
{
    const char *comma = "";

    for (int k = N_LAYERS - 1; k >= 0; k--)
        if (v->shown[k]) {
            fprintf(f, "%s%c %s", comma, layers[k].letter, layers[k].key.name);
            comma = ", ";
        }
    fprintf(f, "; in %s, peak %.4g\n", unit, (double)v->peak / v->byte);
    if (m->with_framework > 0)
        fprintf(f, "--- %s\n", m->framework_text);
    if (m->device > 0)
        fprintf(f, "%s%s\n", m->device_line ? "=== " : "", m->device_text);
}

static enum lw_status put_text(struct lw_store *s, const struct lw_plot *p, struct view *v,
                               const char *unit, const char *title, FILE *f, struct lw_err *err)
{
    int width = plot_width(p, 100) - TICK - 2;
    struct columns *c;
    char end[32], cut[512];

    LW_TRY(put_changes(s, &p->runs[0], v, err));
    LW_NEW(c, 1, err);
    c->n = width < 20 ? 20 : width > MOST_COLUMNS ? MOST_COLUMNS : width;
    c->rows = p->height > 4 ? p->height : 20;
    memset(c->sum, 0, sizeof c->sum);
    read_columns(v, c);
    struct marks m = find_marks(&p->runs[0], v);
    fprintf(f, "%s\n", plot_cut_parts(cut, sizeof cut, title, width + TICK + 2));
    for (int row = c->rows - 1; row >= 0; row--)
        put_text_row(c, &m, row, m.top * 1.1, f);
    fprintf(f, "%*s +", TICK, "");
    for (int i = 0; i < c->n; i++)
        fputc('-', f);
    fprintf(f, "\n%*s 0%*s\n", TICK, "", c->n, lw_format_ps(end, v->length));
    put_text_legend(v, &m, unit, f);
    lw_free(c);
    return LW_OK;
}

/* --- both ------------------------------------------------------------------------------------- */

typedef enum lw_status put_memory(struct lw_store *s, const struct lw_plot *p, struct view *v,
                                  const char *unit, const char *title, FILE *f,
                                  struct lw_err *err);

static enum lw_status draw(struct lw_store *s, const struct lw_plot *p, put_memory *put, FILE *f,
                           struct lw_err *err)
{
    struct plot_names names;
    struct view v = {.f = tmpfile()};
    struct picture_step step = {0};
    const char *unit;
    char what[64];

    if (!v.f)
        return lw_fail(err, LW_EIO, "cannot make a temporary file");
    FILE *data = v.f;
    enum lw_status st = find_rank(s, &p->runs[0], &v, &unit, err);
    if (st == LW_OK)
        st = picture_find_step(s, &p->runs[0], p->step, &step, err);
    v.from = step.from;
    v.length = step.length;
    snprintf(what, sizeof what, "Memory of rank %d over one step", v.rank);
    if (st == LW_OK)
        st = plot_names_make(p->runs, 1, what, &names, err);
    if (st == LW_OK) {
        v.unit = plot_unit_for(v.length);
        st = put(s, p, &v, unit, names.title, f, err);
        plot_names_free(&names);
    }
    fclose(data);
    return st;
}

static enum lw_status draw_memory(struct lw_store *s, const struct lw_plot *p, FILE *f,
                                  struct lw_err *err)
{
    return draw(s, p, put_script, f, err);
}

static enum lw_status draw_memory_text(struct lw_store *s, const struct lw_plot *p, FILE *f,
                                       struct lw_err *err)
{
    return draw(s, p, put_text, f, err);
}

const struct plot_kind plot_kind_memory = {
    .name = "memory",
    .about = "what a rank holds over one step",
    .needs = "a run with spans (exec, or sim --spans)",
    .script = draw_memory,
    .characters = draw_memory_text,
    .runs_per_page = 1,
};
