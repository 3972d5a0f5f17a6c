/* Memory over one step of the rank with the largest peak, as areas on top of each other: what stays
 * (parameters, gradients, optimizer) below what comes and goes. The rows were stored with the spans
 * (analysis/store/store_memory.c). */
#include <string.h>

#include "analysis/draw/plot_style.h"
#include "analysis/draw/step_bars.h"
#include "analysis/store/sql.h"
#include "shared/files/files.h"

/* From below. Names are those of the table. */
enum { N_LAYERS = 6 };

static const struct layer {
    const char *category;
    struct plot_key key;
} layers[N_LAYERS] = {
    {"parameters", {"parameters", PLOT_BACKWARD, -1}},
    {"gradients", {"gradients", PLOT_LIGHT, -1}},
    {"optimizer", {"optimizer", PLOT_OPTIMIZER, -1}},
    {"buckets", {"buckets", PLOT_COMM_ODD, -1}},
    {"gathered_units", {"gathered weights", PLOT_GATHERED, -1}},
    {"activations", {"activations", PLOT_FORWARD, -1}},
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

    while (k < N_LAYERS && strcmp(layers[k].category, category) != 0)
        k++;
    return k;
}

/* Two rows for a change within the step: as it was and as it is. */
static enum lw_status put_changes(struct lw_store *s, const struct lw_run *run, struct view *v,
                                  struct lw_err *err)
{
    struct lw_sql *q;
    bool began = false; /* the step */

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT at_ps, category, bytes FROM memory WHERE run = ? AND at_ps <= ?"
                        " ORDER BY change", "ll", run->id, v->from + v->length));
    fputs("$memory << EOD\n", v->f);
    while (lw_sql_next(q)) {
        int k = layer_of(lw_sql_text(q, 1));
        lw_ps at = lw_sql_int(q, 0);
        if (at > v->from && !began)
            put_row(v, v->from);
        began |= at > v->from;
        if (began)
            put_row(v, at);
        if (k < N_LAYERS)
            v->held[k] = lw_sql_int(q, 2);
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

    LW_TRY(lw_sql_query(s, &q, err,
                        "SELECT max(rank), ifnull(max(bytes), 0) FROM memory WHERE run = ?", "l",
                        run->id));
    lw_sql_next(q);
    int64_t most = lw_sql_int(q, 1);
    v->rank = (int32_t)lw_sql_int(q, 0);
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

/* All that a device holds at the peak, as a line above the areas. Returns its height. */
static double put_framework(const struct lw_run *run, const struct view *v, const char *unit)
{
    double part = framework_part(run, v), peak = (double)v->peak / v->byte, y = peak + part;
    bool right = v->peak_at - v->from > v->length / 2;

    if (part <= 0)
        return peak;
    fprintf(v->f, "set arrow 3 from graph 0,first %.6g to graph 1,first %.6g nohead front "
                  "linewidth 1.5 linecolor rgb '#%06x'\n", y, y, (unsigned)PLOT_OTHER);
    fprintf(v->f, "set label 3 'with %.3g %s of the framework, its allocator and the driver: %.4g "
                  "%s%s' at graph %s,first %.6g %s offset 0,0.6 front\n", part, unit, y, unit,
            run->fits == 0 ? ", does not fit" : "", right ? "0.01" : "0.99", y,
            right ? "left" : "right");
    return y;
}

/* The device's memory as a line, or as a note where the line would make all else low. Returns what
 * the axis has to hold. */
static double put_device(const struct lw_run *run, const struct view *v, const char *unit)
{
    struct lw_cluster c;
    double peak = put_framework(run, v, unit), top = peak;

    if (find_cluster(run, &c) && lw_figure_is_set(c.device.memory_bytes)) {
        double has = c.device.memory_bytes.value / v->byte;
        bool line = has <= 3 * peak, left = v->peak_at - v->from > v->length / 2;
        char text[192];

        snprintf(text, sizeof text, "memory of %s: %.4g %s%s",
                 c.device.kind ? c.device.kind : "the device", has, unit,
                 line ? "" : ", above this picture");
        fputs("set label 2 ", v->f);
        plot_text(v->f, text);
        if (line)
            fprintf(v->f, " at graph %s,first %.6g %s offset 0,0.7 front\n"
                          "set arrow 1 from graph 0,first %.6g to graph 1,first %.6g nohead front "
                          "linewidth 1.5 dashtype 2\n", left ? "0.01" : "0.99", has,
                    left ? "left" : "right", has, has);
        else
            fputs(" at graph 0.99,0.97 right front\n", v->f);
        top = line && has > peak ? has : peak;
    }
    lw_cluster_free(&c);
    return top;
}

static void put_peak(const struct lw_run *run, const struct view *v, const char *unit)
{
    double x = (double)(v->peak_at - v->from) / v->unit.ps, y = (double)v->peak / v->byte;
    bool right = v->peak_at - v->from > v->length / 2;

    fprintf(v->f, "set label 1 'peak %.4g %s' at %.6g,%.6g %s offset %s,0.7 front point "
                  "pointtype 7 pointsize 0.8\n", y, unit, x, y, right ? "right" : "left",
            right ? "-1" : "1");
    fprintf(v->f, "set yrange [0:%.6g]\n", put_device(run, v, unit) * 1.15);
}

static void put_plot(const struct view *v, const struct lw_plot *p, const struct plot_key *keys,
                     int n)
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
    plot_key_curves(p, v->f, keys, n);
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
    put_peak(&p->runs[0], v, unit);
    put_plot(v, p, keys, n);
    return LW_OK;
}

static enum lw_status draw_memory(struct lw_store *s, const struct lw_plot *p, FILE *f,
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
        st = put_script(s, p, &v, unit, names.title, f, err);
        plot_names_free(&names);
    }
    fclose(data);
    return st;
}

const struct plot_kind plot_kind_memory = {
    .name = "memory",
    .about = "what a rank holds over one step",
    .needs = "a run with spans (exec, or sim --spans)",
    .script = draw_memory,
    .runs_per_page = 1,
};
