/* What a cluster can do: the roofline of its communication (bus bandwidth over bytes, under the
 * bandwidth of the links) and of its matrix products (rate over size, under the peak and the memory
 * bandwidth). The curves are those of `lapwing cost`: the cluster's measured tables win over
 * models. */
#include <math.h>
#include <string.h>

#include "analysis/draw/plot_style.h"
#include "shared/cluster/measured.h"
#include "shared/device/device_time.h"
#include "sim/cost/cost_model.h"

enum { MOST_CURVES = 6, WIDTH = 1000, HEIGHT = 640 };

static const int32_t curve_colours[MOST_CURVES] = {PLOT_BACKWARD, PLOT_COMM_ODD, PLOT_MEASURED,
                                                   PLOT_OPTIMIZER, PLOT_COMM_EVEN, PLOT_FORWARD};

/* Curves differ by dashes and marks too, for print in grey. */
static void put_curve(FILE *f, int i, const char *data, const char *title)
{
    fprintf(f, "%s $%s%d using 1:2 with lines linewidth 2 dashtype %d linecolor rgb '#%06x' title ",
            i ? ", \\\n " : "plot", data, i, i + 1, (unsigned)curve_colours[i]);
    plot_text(f, title);
}

/* A ceiling with its name at the left end, above or below it. */
static void put_ceiling(FILE *f, int id, double y, bool above, const char *name)
{
    fprintf(f, "set arrow %d from graph 0, first %.6g to graph 1, first %.6g nohead dashtype 3 "
               "linecolor rgb '#404040'\nset label %d ", 20 + id, y, y, 20 + id);
    plot_text(f, name);
    fprintf(f, " at graph 0.01, first %.6g left offset 0,%s font ',9' textcolor rgb '#404040'\n",
            y, above ? "0.6" : "-0.6");
}

static void begin(const struct lw_plot *p, FILE *f, const char *title)
{
    plot_begin(p, f, WIDTH, HEIGHT, title, NULL, 0);
    fputs("set key bottom right\nset logscale x 2\nset logscale y 10\n", f);
}

/* --- communication ---------------------------------------------------------------------------- */

struct shape {
    int32_t n_ranks, n_nodes;
};

static bool has_shape(const struct shape *v, int n, struct shape x)
{
    bool found = false;

    for (int i = 0; i < n; i++)
        found |= v[i].n_ranks == x.n_ranks && v[i].n_nodes == x.n_nodes;
    return found;
}

static void add_shape(struct shape *v, int *n, int32_t n_ranks, int32_t n_nodes)
{
    struct shape x = {n_ranks, n_nodes};

    if (*n < MOST_CURVES && n_ranks > 1 && !has_shape(v, *n, x))
        v[(*n)++] = x;
}

/* The group that was requested; else those that were measured, a whole node, and as many of 2, 8
 * and 64 nodes as there are. */
static int choose_shapes(const struct lw_plot *p, struct shape v[MOST_CURVES])
{
    const struct lw_cluster *c = p->cluster;
    int n = 0;

    if (p->n_ranks > 0) {
        int32_t fewest = (p->n_ranks + c->devices_per_node - 1) / c->devices_per_node;
        add_shape(v, &n, p->n_ranks, p->n_nodes > 0 ? p->n_nodes : fewest);
        return n;
    }
    for (int32_t i = 0; i < c->n_tables; i++)
        if (c->tables[i].op == p->op && c->tables[i].n_in_flight == 1)
            add_shape(v, &n, c->tables[i].n_ranks, c->tables[i].n_nodes);
    for (int32_t nodes = 1; nodes <= 64; nodes *= nodes == 2 ? 4 : nodes == 1 ? 2 : 8)
        if (nodes == 1 || c->n_nodes == 0 || nodes <= c->n_nodes)
            add_shape(v, &n, nodes * c->devices_per_node, nodes);
    return n;
}

static double bus_gb(const struct lw_cost_query *q, lw_ps time)
{
    return lw_sim_busbw(q, time) / 1e9;
}

static enum lw_status put_bandwidth(const struct lw_plot *p, struct shape s, int i, FILE *f,
                                    struct lw_err *err)
{
    struct lw_cost_query q = {.op = p->op, .dtype = LW_F32, .n_ranks = s.n_ranks,
                              .n_nodes = s.n_nodes, .algorithm = LW_REDUCER_AUTO,
                              .alone = true};
    struct lw_cost_answer a;

    fprintf(f, "$curve%d << EOD\n", i);
    for (int k = 0; k <= 80; k++) { /* 1 KiB to 1 GiB, four sizes a doubling, whole elements */
        q.bytes = (int64_t)(1024 * exp2(k / 4.0)) / 4 * 4;
        LW_TRY(lw_sim_cost_explain(p->cluster, &q, &a, err));
        if (a.time > 0)
            fprintf(f, "%lld %.6g\n", (long long)q.bytes, bus_gb(&q, a.time));
    }
    fputs("EOD\n", f);
    return LW_OK;
}

/* Returns how many. */
static int put_measured(const struct lw_plot *p, struct shape s, int i, FILE *f)
{
    const struct lw_cluster *c = p->cluster;
    int n = 0;

    fprintf(f, "$points%d << EOD\n", i);
    for (int32_t t = 0; t < c->n_tables; t++) {
        const struct lw_cost_table *x = &c->tables[t];
        struct lw_cost_query q = {.op = p->op, .n_ranks = s.n_ranks, .n_nodes = s.n_nodes};
        if (x->op != p->op || x->n_in_flight != 1 || x->n_ranks != s.n_ranks ||
            x->n_nodes != s.n_nodes)
            continue;
        for (int32_t r = 0; r < x->n_rows; r++) {
            q.bytes = x->bytes[r];
            if (q.bytes < 1024 || q.bytes > 1 << 30 || x->time_ps[r] <= 0)
                continue;
            fprintf(f, "%lld %.6g\n", (long long)q.bytes, bus_gb(&q, x->time_ps[r]));
            n++;
        }
    }
    fputs("EOD\n", f);
    return n;
}

/* The links that the shapes use, as a ring sees them. */
static void put_links(const struct lw_plot *p, const struct shape *v, int n, FILE *f)
{
    struct sim_path inside, between;
    double in = 0, out = 0; /* GB/s; 0: not used */
    char name[96];
    bool several = false;

    for (int i = 0; i < n; i++)
        several |= v[i].n_nodes > 1;
    if (p->cluster->devices_per_node > 1 &&
        sim_path_of(p->cluster, p->cluster->devices_per_node, 1, 0, true, &inside, NULL) == LW_OK)
        in = inside.bytes_per_s / 1e9;
    if (several &&
        sim_path_of(p->cluster, 2 * p->cluster->devices_per_node, 2, 0, true, &between, NULL) ==
            LW_OK)
        out = between.inter_bytes_per_s / 1e9;
    if (in > 0) {
        snprintf(name, sizeof name, "ring inside a node, %.4g GB/s", in);
        put_ceiling(f, 0, in, in >= out, name);
    }
    if (out > 0) {
        snprintf(name, sizeof name, "ring between nodes, %.4g GB/s a node", out);
        put_ceiling(f, 1, out, out > in, name);
    }
}

static void put_curves(const struct shape *v, const int *n_points, int n, FILE *f)
{
    char title[64];

    for (int i = 0; i < n; i++) {
        snprintf(title, sizeof title, "%d ranks, %d node%s", v[i].n_ranks, v[i].n_nodes,
                 lw_plural(v[i].n_nodes));
        put_curve(f, i, "curve", title);
        if (n_points[i] > 0)
            fprintf(f,
                    ", \\\n  $points%d using 1:2 with points pointtype %d pointsize 1.2 "
                    "linecolor rgb '#%06x' title 'measured'",
                    i, 5 + 2 * i, (unsigned)curve_colours[i]);
    }
    fputs("\n", f);
}

static enum lw_status draw_roofline(struct lw_store *s, const struct lw_plot *p, FILE *f,
                                    struct lw_err *err)
{
    struct shape v[MOST_CURVES];
    int n = choose_shapes(p, v), n_points[MOST_CURVES];
    char title[256];

    (void)s;
    if (n == 0)
        return lw_fail(err, LW_EINVAL, "cluster '%s' has one device a node and one node: nothing "
                                       "communicates; give --ranks", p->cluster->name);
    snprintf(title, sizeof title, "Bus bandwidth of %s on %s", lw_op_name(p->op), p->cluster->name);
    begin(p, f, title);
    fputs("set xlabel 'bytes'\nset ylabel 'bus bandwidth [GB/s]'\nset xrange [1024:1.1e9]\n"
          "set xtics ('1 KiB' 1024, '16 KiB' 16384, '256 KiB' 262144, '4 MiB' 4194304, "
          "'64 MiB' 67108864, '1 GiB' 1073741824)\n", f);
    put_links(p, v, n, f);
    for (int i = 0; i < n; i++) {
        LW_TRY(put_bandwidth(p, v[i], i, f, err));
        n_points[i] = put_measured(p, v[i], i, f);
    }
    put_curves(v, n_points, n, f);
    return LW_OK;
}

const struct plot_kind plot_kind_roofline = {
    .name = "roofline",
    .about = "bus bandwidth of a collective over its size",
    .needs = "-c CLUSTER",
    .script = draw_roofline,
    .source = LW_PLOT_FROM_CLUSTER,
};

/* --- products --------------------------------------------------------------------------------- */

static double tera_flops(const struct lw_device *d, const struct lw_product *p)
{
    double flops = 2.0 * (double)p->batch * (double)p->m * (double)p->n * (double)p->k;

    return flops / (double)lw_product_time(d, p);
}

/* Square products (m 0), products of 1,024 rows, as a small batch gives, and of 1,024 rows for each
 * of 8 experts. */
static const struct {
    const char *name;
    int64_t batch, m;
} curves[] = {{"m = n = k", 1, 0}, {"m = 1024", 1, 1024}, {"8 experts of m = 1024", 8, 1024}};

enum { N_CURVES = sizeof curves / sizeof *curves };

static void put_products(const struct lw_device *d, enum lw_dtype dtype, int c, int i, FILE *f)
{
    fprintf(f, "$gemm%d << EOD\n", i);
    for (int64_t x = 256; x <= 16384; x += 128) {
        struct lw_product p = {.batch = curves[c].batch, .m = curves[c].m > 0 ? curves[c].m : x,
                               .n = x, .k = x, .dtype = dtype, .grouped = curves[c].batch > 1};
        fprintf(f, "%lld %.6g\n", (long long)x, tera_flops(d, &p));
    }
    fputs("EOD\n", f);
}

/* Ceilings of a square product: the peak, and reading both operands and writing the result once. */
static void put_bounds(const struct lw_device *d, enum lw_dtype dtype, FILE *f)
{
    char name[96];
    double peak = d->peak_flops[dtype].value;

    snprintf(name, sizeof name, "peak of %s, %.5g TFLOP/s", lw_dtype_name(dtype), peak / 1e12);
    put_ceiling(f, 0, peak / 1e12, true, name);
    fprintf(f, "set yrange [*:%.6g]\n", 1.6 * peak / 1e12);
    fputs("$memory << EOD\n", f);
    for (int64_t x = 256; x <= 16384; x *= 2) {
        double bound = 2.0 * (double)x / (3.0 * lw_dtype_size(dtype)) *
                       d->memory_bytes_per_s.value;
        if (bound < peak)
            fprintf(f, "%lld %.6g\n", (long long)x, bound / 1e12);
        else
            break;
    }
    fputs("EOD\n", f);
}

/* A calibration's own products, square and of as many FLOPs as a row says. Returns the largest
 * side; *least is lowered to the smallest. */
static double put_measured_products(const struct lw_work_table *t, int i, double *least, FILE *f)
{
    double side = 0;

    fprintf(f, "$gemm%d << EOD\n", i);
    for (int32_t k = 0; k < t->n_rows; k++) {
        if (t->size[k] <= 0 || t->time_ps[k] <= 0) /* no place on axes of powers */
            continue;
        side = cbrt((double)t->size[k] / 2);
        *least = fmin(*least, side);
        fprintf(f, "%.6g %.6g\n", side, (double)t->size[k] / (double)t->time_ps[k]);
    }
    fputs("EOD\n", f);
    return side;
}

static enum lw_status draw_gemm(struct lw_store *s, const struct lw_plot *p, FILE *f,
                                struct lw_err *err)
{
    static const enum lw_dtype dtypes[] = {LW_BF16, LW_F32};
    const struct lw_device *d = &p->cluster->device;
    char title[256], names[MOST_CURVES][64];
    int n = 0;

    (void)s;
    snprintf(title, sizeof title, "Products of m x k and k x n on %s of %s", d->kind,
             p->cluster->name);
    begin(p, f, title);
    fputs("set xlabel 'n = k'\nset ylabel 'TFLOP/s'\n", f);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (!lw_device_by_shape(d, dtypes[i]))
            continue;
        if (n == 0)
            put_bounds(d, dtypes[i], f);
        for (int c = 0; c < N_CURVES; c++) {
            snprintf(names[n], sizeof names[n], "%s, %s", lw_dtype_name(dtypes[i]), curves[c].name);
            put_products(d, dtypes[i], c, n++, f);
        }
    }
    bool by_shape = n > 0;
    double least = by_shape ? 256 : INFINITY, most = by_shape ? 16384 : 0;
    for (int32_t k = 0; k < d->n_work && n < MOST_CURVES; k++) {
        if (d->work[k].kind != LW_WORK_GEMM)
            continue;
        snprintf(names[n], sizeof names[n], "%s, measured, m = n = k",
                 lw_dtype_name(d->work[k].dtype));
        most = fmax(most, put_measured_products(&d->work[k], n++, &least, f));
    }
    if (n == 0)
        return lw_fail(err, LW_ENOTSUP,
                       "device '%s' of cluster '%s' has no figures for products by shape "
                       "(gemm_sustained, gemm_fill, n_sms, peak_flops) and none that were "
                       "measured; choose another cluster (-c), or measure this machine (lapwing "
                       "calibrate)", d->kind, p->cluster->name);
    fprintf(f, "set xrange [%.6g:%.6g]\n", least, most > least ? most : 2 * least);
    for (int i = 0; i < n; i++)
        put_curve(f, i, "gemm", names[i]);
    fputs(by_shape ? ", \\\n  $memory using 1:2 with lines dashtype 3 linecolor rgb '#404040' "
                     "title 'memory bandwidth, m = n = k'\n"
                   : "\n", f);
    return LW_OK;
}

const struct plot_kind plot_kind_gemm = {
    .name = "gemm",
    .about = "rate of matrix products over their size",
    .needs = "-c CLUSTER",
    .script = draw_gemm,
    .source = LW_PLOT_FROM_CLUSTER,
};
