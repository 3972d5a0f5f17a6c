/* A run is named by what makes it differ from others: the workload, dp, pp and tp above 1, every
 * other option of the plan that differs from its default, the cluster. A plan that was replayed
 * from a recording has no workload and is named after the plan. */
#include "analysis/store/run_name.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/units.h"
#include "shared/plan/strategy.h"

enum { LONGEST = 400 };

struct name {
    char text[LONGEST];
    size_t n;
};

static void add(struct name *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct name *m, const char *fmt, ...)
{
    va_list ap;

    if (m->n > 0 && m->n + 2 < LONGEST)
        m->n += (size_t)snprintf(m->text + m->n, LONGEST - m->n, ", ");
    va_start(ap, fmt);
    int n = vsnprintf(m->text + m->n, LONGEST - m->n, fmt, ap);
    va_end(ap);
    m->n = m->n + (size_t)n < LONGEST ? m->n + (size_t)n : LONGEST - 1;
}

/* The value of an option in "name=value" lines; NULL = not there. */
static const char *value_of(const char *lines, const char *name, char *buf, size_t size)
{
    size_t len = strlen(name);

    for (const char *p = lines; *p;) {
        size_t line = strcspn(p, "\n");
        if (line > len && p[len] == '=' && memcmp(p, name, len) == 0) {
            snprintf(buf, size, "%.*s", (int)(line - len - 1), p + len + 1);
            return buf;
        }
        p += line + (p[line] == '\n');
    }
    return NULL;
}

const char *lw_option_shown(const char *option, const char *value, char *buf)
{
    int i = lw_strategy_find(option);
    struct lw_err ignored;
    int64_t bytes;

    if (i < 0 || !lw_strategy_option(i)->arg || strcmp(lw_strategy_option(i)->arg, "SIZE") != 0)
        return value;
    if (strcmp(value, "-1") == 0) /* not given */
        return "default";
    return lw_parse_int(value, 0, INT64_MAX, &bytes, &ignored) == LW_OK
               ? lw_format_bytes(buf, bytes)
               : value;
}

static void add_options(struct name *m, const char *options)
{
    struct lw_strategy standard = lw_strategy_default();
    char value[200], usual[64];

    for (int i = 0; i < lw_strategy_n_options(); i++) {
        const char *name = lw_strategy_option(i)->name;
        const char *is = value_of(options, name, value, sizeof value);
        if (is && strcmp(is, lw_strategy_get(&standard, i, usual)) != 0)
            add(m, "%s %s", name, lw_option_shown(name, is, usual));
    }
}

const char *lw_run_name_make(struct lw_arena *a, const struct lw_run *r, const char *options)
{
    struct name m = {.n = 0};

    add(&m, "%s", *r->workload_name ? r->workload_name : *r->plan_name ? r->plan_name : "no plan");
    add_options(&m, options);
    if (*r->cluster_name)
        add(&m, "%s", r->cluster_name);
    if (r->kind == LW_RUN_EXEC)
        add(&m, "exec%s%s", *r->backend ? " " : "", r->backend);
    else if (r->kind == LW_RUN_IMPORT)
        add(&m, "recorded");
    return lw_arena_strdup(a, m.text);
}
