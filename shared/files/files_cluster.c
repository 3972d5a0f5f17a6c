/* Cluster files: docs/formats/cluster.md; and the known systems, which are such files built into
 * the binary. `host` is one of them, with the cores and the memory that this process may use put in
 * when it is requested. */
#include "shared/files/files.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/nearest.h"
#include "shared/base/parallel.h"
#include "shared/base/shown_text.h"
#include "shared/cluster/cluster_figures.h"
#include "shared/cluster/measured.h"
#include "shared/device/device_kind.h"
#include "shared/files/files_field.h"
#include "shared/io/embedded.h"
#include "shared/plan/op.h"

static const char *level_word(int k)
{
    static const char *const words[] = {"intra", "inter", "host", "bridge"};
    return k >= 0 && k < LW_N_LINK_LEVELS ? words[k] : NULL;
}

/* --- measured tables: rows in the file, columns in memory ------------------------------------- */

struct measured {
    int64_t size;
    lw_ps time, spread, cpu;
};

#define AT(field) offsetof(struct measured, field)
static const struct lw_field measured_fields[] = {
    LW_F_MUST_INT64("bytes", AT(size)),
    LW_F_MUST_NS("ns", AT(time)),
    LW_F_NS("spread_ns", AT(spread), -1),
    LW_F_NS("cpu_ns", AT(cpu), -1),
    {0},
};
static const struct lw_field work_row_fields[] = {
    LW_F_MUST_INT64("size", AT(size)),
    LW_F_MUST_NS("ns", AT(time)),
    LW_F_NS("spread_ns", AT(spread), -1),
    {0},
};
#undef AT

/* cpu may be NULL; spread and cpu become NULL where no row has them. */
static void read_columns(struct lw_fields *r, const struct lw_field *fields, int32_t *n_rows,
                         const int64_t **sizes, const lw_ps **times, const lw_ps **spreads,
                         const lw_ps **cpus)
{
    struct measured *rows = NULL;
    bool has_spread = false, has_cpu = false;
    int32_t n = 0;

    if (!lw_fields_read_list(r, fields, sizeof *rows, &rows, &n))
        return;
    int64_t *size = lw_arena_alloc(r->arena, n, sizeof *size);
    lw_ps *time = lw_arena_alloc(r->arena, n, sizeof *time);
    lw_ps *spread = lw_arena_alloc(r->arena, n, sizeof *spread);
    lw_ps *cpu = lw_arena_alloc(r->arena, n, sizeof *cpu);
    if (!size || !time || !spread || !cpu) {
        r->no_memory = true;
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        size[i] = rows[i].size;
        time[i] = rows[i].time;
        spread[i] = rows[i].spread;
        cpu[i] = rows[i].cpu;
        has_spread = has_spread || spread[i] >= 0;
        has_cpu = has_cpu || cpu[i] >= 0;
    }
    *n_rows = n;
    *sizes = size;
    *times = time;
    *spreads = has_spread ? spread : NULL;
    if (cpus)
        *cpus = has_cpu ? cpu : NULL;
}

static void write_columns(struct lw_jsonout *o, const char *name, const struct lw_field *fields,
                          int32_t n, const int64_t *size, const lw_ps *time, const lw_ps *spread,
                          const lw_ps *cpu)
{
    lw_jsonout_array(o, name);
    for (int32_t i = 0; i < n; i++) {
        struct measured row = {size[i], time[i], spread ? spread[i] : -1, cpu ? cpu[i] : -1};
        lw_jsonout_line_object(o, NULL);
        lw_fields_write(o, fields, &row);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

static void read_rows(struct lw_fields *r, void *base)
{
    struct lw_cost_table *t = base;

    read_columns(r, measured_fields, &t->n_rows, &t->bytes, &t->time_ps, &t->spread_ps, &t->cpu_ps);
}

static void write_rows(struct lw_jsonout *o, const struct lw_field *f, const void *base)
{
    const struct lw_cost_table *t = base;

    write_columns(o, f->name, measured_fields, t->n_rows, t->bytes, t->time_ps, t->spread_ps,
                  t->cpu_ps);
}

#define AT(field) offsetof(struct lw_cost_table, field)
static const struct lw_field table_fields[] = {
    LW_F_MUST_WORD("op", AT(op), lw_op_word),
    LW_F_WORD("dtype", AT(dtype), lw_dtype_word),
    LW_F_MUST_INT32("n_ranks", AT(n_ranks)),
    LW_F_INT32("n_nodes", AT(n_nodes), 1),
    LW_F_INT32("n_in_flight", AT(n_in_flight), 1),
    LW_F_NAME("source", AT(source)),
    LW_F_OWN("rows", read_rows, write_rows),
    {0},
};
#undef AT

static void read_work_rows(struct lw_fields *r, void *base)
{
    struct lw_work_table *t = base;

    read_columns(r, work_row_fields, &t->n_rows, &t->size, &t->time_ps, &t->spread_ps, NULL);
}

static void write_work_rows(struct lw_jsonout *o, const struct lw_field *f, const void *base)
{
    const struct lw_work_table *t = base;

    write_columns(o, f->name, work_row_fields, t->n_rows, t->size, t->time_ps, t->spread_ps, NULL);
}

static const char *work_word(int k)
{
    return lw_work_name((enum lw_work_kind)k);
}

#define AT(field) offsetof(struct lw_work_table, field)
static const struct lw_field work_fields[] = {
    LW_F_MUST_WORD("kind", AT(kind), work_word),
    LW_F_WORD("dtype", AT(dtype), lw_dtype_word),
    LW_F_WORD("from", AT(from), lw_dtype_word),
    LW_F_NAME("source", AT(source)),
    LW_F_OWN("rows", read_work_rows, write_work_rows),
    {0},
};
#undef AT

/* --- the parts of a cluster ------------------------------------------------------------------- */

#define FIGURE(m, unit, range) LW_F_FIGURE(#m, AT(m)),
#define TIME(m) LW_F(#m "_ns", FIGURE_NS, AT(m##_ps)),

#define AT(dtype) (sizeof(struct lw_figure) * dtype)
static const struct lw_field peak_fields[] = {
    LW_F_FIGURE("f32", AT(LW_F32)), LW_F_FIGURE("f64", AT(LW_F64)),
    LW_F_FIGURE("f16", AT(LW_F16)), LW_F_FIGURE("bf16", AT(LW_BF16)),
    LW_F_FIGURE("i64", AT(LW_I64)), LW_F_FIGURE("i32", AT(LW_I32)),
    LW_F_FIGURE("u8", AT(LW_U8)),   {0},
};
#undef AT

#define AT(field) offsetof(struct lw_device, field)
static const struct lw_field device_fields[] = {
    LW_F_NAME("kind", AT(kind)),
    LW_F_OBJECT("peak_flops", AT(peak_flops), peak_fields),
    LW_DEVICE_FIGURES(FIGURE, TIME)
    LW_F_LIST("work", AT(work), AT(n_work), work_fields, struct lw_work_table, .spread_out = true),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_link, field)
static const struct lw_field link_fields[] = {
    LW_F_NAME("name", AT(name)),
    LW_F_MUST_WORD("level", AT(level), level_word),
    LW_LINK_FIGURES(FIGURE, TIME)
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_interference, field)
static const struct lw_field interference_fields[] = {LW_INTERFERENCE_FIGURES(FIGURE){0}};
static const struct lw_field published_fields[] = {LW_PUBLISHED_FIGURES(FIGURE){0}};
#undef AT

#define AT(field) offsetof(struct lw_host, field)
static const struct lw_field host_fields[] = {LW_HOST_FIGURES(FIGURE){0}};
#undef AT

#define AT(field) offsetof(struct lw_nccl_facts, field)
static const struct lw_field nccl_fields[] = {
    LW_F_STRING("algo", AT(algo)),
    LW_F_STRING("proto", AT(proto)),
    LW_NCCL_FIGURES(FIGURE, TIME){0},
};
#undef AT

#define AT(field) offsetof(struct lw_noise, field)
static const struct lw_field noise_fields[] = {LW_NOISE_FIGURES(FIGURE){0}};
#undef AT

#define AT(field) offsetof(struct lw_pair_rate, field)
static const struct lw_field pair_fields[] = {
    LW_F_MUST_WORD("op", AT(op), lw_activity_word),
    LW_F_MUST_WORD("beside", AT(beside), lw_activity_word),
    LW_F_MUST_REAL("rate", AT(rate)),
    LW_F_NAME("source", AT(source)),
    {0},
};
#undef AT

#define AT(field) offsetof(struct lw_exception, field)
static const struct lw_field exception_fields[] = {
    LW_F_MUST_INT32("rank", AT(rank)),
    LW_F_INT32("rank_to", AT(rank_to), -1),
    LW_F_MUST_REAL("speed", AT(speed)),
    LW_F_NS("late_ns", AT(late_ps), 0),
    {0},
};
#undef AT

/* --- the whole -------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct lw_cluster, field)
const struct lw_field lw_cluster_file_fields[] = {
    LW_F_HEAD,
    LW_F_NAME("name", AT(name)),
    LW_F_STRING("about", AT(about)),
    LW_F_BOOL("calibrated", AT(calibrated), false),
    LW_F_INT32("n_nodes", AT(n_nodes), 0),
    LW_F("devices_per_node", INT32, AT(devices_per_node), .must = true, .least = 1,
         .most = INT32_MAX),
    LW_F_BOOL("spread_evenly", AT(spread_evenly), false),
    LW_F_STRING("library", AT(library)),
    LW_F_STRING("library_version", AT(library_version)),
    LW_F_ITEMS("algorithms", STRINGS, AT(algorithms), AT(n_algorithms)),
    LW_F("device", OBJECT, AT(device), .must = true, .fields = device_fields),
    LW_F_LIST("links", AT(links), AT(n_links), link_fields, struct lw_link),
    LW_F("price_per_device_hour", FIGURE, AT(price_per_device_hour), .plain = true),
    LW_F_FIGURE("host_bytes_per_s", AT(host_bytes_per_s)),
    LW_F_OBJECT("host", AT(host), host_fields),
    LW_F_OBJECT("nccl", AT(nccl), nccl_fields),
    LW_F_OBJECT("interference", AT(interference), interference_fields),
    LW_F_OBJECT("published_interference", AT(published), published_fields),
    LW_F_LIST("pairs", AT(pairs), AT(n_pairs), pair_fields, struct lw_pair_rate),
    LW_F_OBJECT("noise", AT(noise), noise_fields),
    LW_F_LIST("exceptions", AT(exceptions), AT(n_exceptions), exception_fields,
              struct lw_exception),
    LW_F_LIST("tables", AT(tables), AT(n_tables), table_fields, struct lw_cost_table,
              .spread_out = true),
    {0},
};
#undef AT

static enum lw_status finish(const char *file, enum lw_status s, struct lw_cluster *read,
                             struct lw_cluster *c, struct lw_err *err)
{
    if (s == LW_OK)
        s = lw_err_context(err, lw_cluster_check(read, err), "%s", file);
    if (s != LW_OK) {
        lw_cluster_free(read);
        return s;
    }
    *c = *read;
    return LW_OK;
}

enum lw_status lw_cluster_read(const char *file, struct lw_cluster *c, struct lw_err *err)
{
    struct lw_cluster read = {0};
    enum lw_status s =
        lw_file_read(file, "cluster", lw_cluster_file_fields, &read.arena, &read, err);

    return finish(file, s, &read, c, err);
}

enum lw_status lw_cluster_write(const struct lw_cluster *c, const char *file, struct lw_err *err)
{
    LW_TRY(lw_cluster_check(c, err));
    return lw_file_write(file, "cluster", lw_cluster_file_fields, c, err);
}

enum lw_status lw_cluster_read_text(const char *name, const char *text, size_t len,
                                    struct lw_cluster *c, struct lw_err *err)
{
    struct lw_cluster read = {0};
    enum lw_status s = lw_text_read(name, text, len, "cluster", lw_cluster_file_fields,
                                    &read.arena, &read, err);

    return finish(name, s, &read, c, err);
}

enum lw_status lw_cluster_write_text(const struct lw_cluster *c, char **text, size_t *len,
                                     struct lw_err *err)
{
    return lw_text_write("cluster", lw_cluster_file_fields, c, text, len, err);
}

/* --- known systems ---------------------------------------------------------------------------- */

static const char *const known_names[] = {
    "host", "dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "gb200", "gb300", "dgx-b300", "p4d",
    "p5", "p5en", "a3-mega", "a3-ultra", "nd-h100-v5", "oci-h100", "mi300x", "l40s", "a10g",
    "pcie-box", "fire-flyer", "a100-pcie-8", "a100-ib4", "a100-roce4", "jean-zay-a100",
    "jean-zay-slow", "v100-ib", "p5-playbook", "dgx-a100-40", "h800", "h20", "jupiter", "mi325x",
    "mi350x", "mi355x", "rtx-pro-6000", "h100-500w", "g6e", "h200-nvl",
    "h100-nvl", "v100-ib-32gb", "a3-high", NULL,
};

const char *lw_cluster_known(int k)
{
    return k >= 0 && k < (int)(sizeof known_names / sizeof *known_names) ? known_names[k] : NULL;
}

/* "Fire-Flyer", "pcie box" and "DGX_A100" are names too. */
static bool same_name(const char *known, const char *given)
{
    for (; *known && *given; known++, given++) {
        int c = *given == ' ' || *given == '_' ? '-' : tolower((unsigned char)*given);
        if (c != *known)
            return false;
    }
    return *known == *given;
}

static const struct lw_embedded *find_known(const char *name)
{
    char path[96];

    for (int k = 0; known_names[k]; k++)
        if (same_name(known_names[k], name)) {
            snprintf(path, sizeof path, "traces/clusters/%s.json", known_names[k]);
            return lw_embedded_find(path);
        }
    return NULL;
}

/* The cores this process may run on, and its share of the memory. */
static void measure_host(struct lw_cluster *c)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

    c->devices_per_node = lw_n_cores();
    if (pages > 0 && page > 0)
        c->device.memory_bytes =
            (struct lw_figure){(double)((int64_t)pages * page / c->devices_per_node),
                               "this machine: physical memory, shared equally by its cores"};
}

static enum lw_status read_known(const struct lw_embedded *e, struct lw_cluster *c,
                                 struct lw_err *err)
{
    struct lw_cluster read = {0};
    enum lw_status s = lw_text_read(e->path, (const char *)e->text, e->len, "cluster",
                                    lw_cluster_file_fields, &read.arena, &read, err);

    if (s == LW_OK && strcmp(read.name, "host") == 0)
        measure_host(&read);
    return finish(e->path, s, &read, c, err);
}

#define WITH " with " /* between a system and a kind of device */

/* The first known system with a kind that fits the name; none: an empty cluster. */
static enum lw_status find_first(bool (*fits)(const char *kind, const char *name),
                                 const char *name, struct lw_cluster *c, struct lw_err *err)
{
    for (int k = 0; lw_cluster_known(k); k++) {
        LW_TRY(lw_cluster_find(lw_cluster_known(k), c, err));
        if (fits(c->device.kind, name))
            return LW_OK;
        lw_cluster_free(c);
    }
    return LW_OK;
}

static enum lw_status find_kind(const char *name, struct lw_cluster *c, struct lw_err *err)
{
    *c = (struct lw_cluster){0};
    return lw_device_is_nameless(name) ? LW_OK : find_first(lw_device_same_kind, name, c, err);
}

enum lw_status lw_cluster_find_recorded(const char *recorded, struct lw_cluster *c,
                                        struct lw_err *err)
{
    LW_TRY(find_kind(recorded, c, err));
    if (!c->name)
        LW_TRY(find_first(lw_device_same_family, recorded, c, err));
    if (c->name && strcmp(c->name, "host") == 0)
        lw_cluster_free(c); /* this machine, not the recorded one */
    return LW_OK;
}

/* Copies of a device that no known system has go on as the cluster's, and their source says so. */
static enum lw_status borrow_figures(const struct lw_device *d, struct lw_arena *arena,
                                     struct lw_device *out, struct lw_err *err)
{
    char text[160];

    snprintf(text, sizeof text, "of '%.60s': no figure of '%.60s' is known", d->kind, out->kind);
    const char *source = lw_arena_strdup(arena, text);
    if (!source)
        return lw_fail_nomem(err);
    out->copy_bytes_per_s = d->copy_bytes_per_s;
    out->memory_bytes_per_s = d->memory_bytes_per_s;
    out->launch_ps = d->launch_ps;
    struct lw_figure *const each[] = {&out->copy_bytes_per_s, &out->memory_bytes_per_s,
                                      &out->launch_ps};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        if (lw_figure_is_set(*each[i]))
            each[i]->source = source;
    return LW_OK;
}

/* The device of a known system. The memory of `host` is this machine's, so that of a CPU elsewhere
 * is unknown. */
static struct lw_device device_of(const struct lw_cluster *known)
{
    struct lw_device d = known->device;

    if (strcmp(known->name, "host") == 0)
        d.memory_bytes = (struct lw_figure){0};
    return d;
}

enum lw_status lw_cluster_put_device(struct lw_cluster *c, const char *kind, struct lw_err *err)
{
    char shown[120], name[300];
    struct lw_cluster known;
    struct lw_device own = {0};

    lw_shown_text(shown, sizeof shown, kind);
    snprintf(name, sizeof name, "%.160s" WITH "%s", c->name, shown);
    LW_TRY(find_kind(shown, &known, err));
    own.kind = lw_arena_strdup(&c->arena, shown);
    c->name = lw_arena_strdup(&c->arena, name);
    enum lw_status st = own.kind && c->name ? LW_OK : lw_fail_nomem(err);
    if (known.name)
        own = device_of(&known);
    else if (st == LW_OK)
        st = borrow_figures(&c->device, &c->arena, &own, err);
    c->device = own;
    c->interference = c->published = c->unpublished = (struct lw_interference){0};
    c->n_pairs = 0;
    c->price_per_device_hour = (struct lw_figure){0};
    lw_arena_join(&c->arena, &known.arena);
    return st;
}

static enum lw_status find_with(const char *name, const char *with, struct lw_cluster *c,
                                struct lw_err *err)
{
    char system[400];

    snprintf(system, sizeof system, "%.*s", (int)(with - name), name);
    LW_TRY(lw_cluster_find(system, c, err));
    enum lw_status st = lw_cluster_put_device(c, with + sizeof WITH - 1, err);
    if (st != LW_OK)
        lw_cluster_free(c);
    return st;
}

/* Whether the kind begins with a name that users say: "h100" of "H100-SXM5-80GB". */
static bool is_kind_in_short(const char *kind, const char *name)
{
    size_t n = strlen(name);

    return n > 0 && strncasecmp(kind, name, n) == 0 && (kind[n] == '-' || kind[n] == '\0');
}

/* Whether letters and digits of `text` go on as those of `word`; other characters do not count. */
static bool goes_on_as(const char *text, const char *word)
{
    for (; *word; word++) {
        if (!isalnum((unsigned char)*word))
            continue;
        while (*text && !isalnum((unsigned char)*text))
            text++;
        if (tolower((unsigned char)*text) != tolower((unsigned char)*word))
            return false;
        text++;
    }
    return true;
}

/* "gb200-nvl72" of "NVIDIA GB200 NVL72: ...": a product's name, in its maker's spelling or not. */
static bool is_described_as(const char *about, const char *name)
{
    bool is_product = strlen(name) >= 4 && strpbrk(name, "0123456789");

    for (const char *at = about; is_product && *at; at++)
        if ((at == about || !isalnum((unsigned char)at[-1])) && goes_on_as(at, name))
            return true;
    return false;
}

/* "dgx-a100,dgx-h100" */
static bool is_list_of_names(const char *name)
{
    const char *comma = strchr(name, ',');
    char first[64];

    if (!comma || comma - name >= (ptrdiff_t)sizeof first)
        return false;
    snprintf(first, sizeof first, "%.*s", (int)(comma - name), name);
    return find_known(first) != NULL;
}

static enum lw_status refuse_name(const char *name, struct lw_err *err)
{
    struct lw_nearest near = lw_nearest_begin(name);
    char systems[300] = "", described[300] = "", hint[96];
    struct lw_cluster c;

    if (is_list_of_names(name))
        return lw_fail(err, LW_EINVAL,
                       "cluster '%s' is a list, and one cluster is expected: of the commands, only "
                       "`lapwing sim` and `lapwing tune` take several", name);
    for (int k = 0; lw_cluster_known(k); k++) {
        lw_nearest_try(&near, lw_cluster_known(k));
        LW_TRY(lw_cluster_find(lw_cluster_known(k), &c, err));
        if (is_kind_in_short(c.device.kind, name))
            lw_err_word(systems, sizeof systems, lw_cluster_known(k));
        if (is_described_as(c.about, name))
            lw_err_word(described, sizeof described, lw_cluster_known(k));
        lw_cluster_free(&c);
    }
    if (systems[0])
        return lw_fail(err, LW_EINVAL,
                       "cluster '%s' is a device kind, not a system; systems with this device: %s "
                       "(-c NAME; `lapwing cluster` describes them)", name, systems);
    if (described[0] && !near.best)
        return lw_fail(err, LW_EINVAL,
                       "cluster '%s': no such file and no known name; systems that are described "
                       "so: %s (-c NAME; `lapwing cluster` describes them)", name, described);
    return lw_fail(err, LW_EINVAL,
                   "cluster '%s': no such file and no known system%s; `lapwing cluster` lists them",
                   name, lw_nearest_hint(&near, "", hint, sizeof hint));
}

enum lw_status lw_cluster_find(const char *name_or_file, struct lw_cluster *c, struct lw_err *err)
{
    const struct lw_embedded *known = find_known(name_or_file);
    struct stat st;

    if (known)
        return read_known(known, c, err);
    if (strcmp(name_or_file, "-") == 0 || stat(name_or_file, &st) == 0)
        return lw_cluster_read(name_or_file, c, err);
    const char *with = strstr(name_or_file, WITH);
    return with ? find_with(name_or_file, with, c, err) : refuse_name(name_or_file, err);
}

enum lw_status lw_cluster_find_device(const char *name, struct lw_cluster *c, struct lw_err *err)
{
    const char *system = NULL;
    char kinds[400] = "";
    const char *kind = lw_device_kind(name);
    int n_kinds = 0;

    for (int k = 0; lw_cluster_known(k); k++) {
        LW_TRY(lw_cluster_find(lw_cluster_known(k), c, err));
        if (is_kind_in_short(c->device.kind, kind) && !strstr(kinds, c->device.kind)) {
            system = system ? system : lw_cluster_known(k);
            lw_err_word(kinds, sizeof kinds, c->device.kind);
            n_kinds++;
        }
        lw_cluster_free(c);
    }
    if (n_kinds > 1)
        return lw_fail(err, LW_EINVAL, "device '%s' fits several kinds; expected one of %s", name,
                       kinds);
    return lw_cluster_find(system ? system : name, c, err);
}
