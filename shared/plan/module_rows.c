/* A module is 368 bytes, and the blocks of a model are alike: they share a row. Rows are compared
 * byte by byte: modules whose padding differs are two rows, which changes no plan. Rows are found
 * by a table of hashes, open addressing, at most half full. */
#include "shared/plan/module_rows.h"

#include <string.h>

_Static_assert(sizeof(struct lw_module) % sizeof(uint64_t) == 0, "a module is hashed in words");

struct sharing {
    struct lw_workload *w;
    int32_t *first; /* [most] a module of each row */
    int32_t *found; /* [n_found] row + 1; 0 = free */
    int32_t *row;   /* [n_modules] */
    int32_t n, most;
    int64_t n_found;
};

static struct lw_module unnamed(const struct lw_module *m)
{
    struct lw_module x;

    memcpy(&x, m, sizeof x);
    x.name = NULL;
    return x;
}

static uint64_t hash_of(const struct lw_module *m)
{
    uint64_t v[sizeof *m / sizeof(uint64_t)], h = 0;

    memcpy(v, m, sizeof v);
    for (size_t k = 0; k < sizeof v / sizeof *v; k++)
        h = (h ^ v[k]) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

/* false: more rows than the table is to have. */
static bool find_row(struct sharing *s, int32_t module)
{
    const struct lw_module x = unnamed(&s->w->modules[module]);
    uint64_t last = (uint64_t)s->n_found - 1, at = hash_of(&x) & last;

    for (; s->found[at] != 0; at = (at + 1) & last) {
        const struct lw_module y = unnamed(&s->w->modules[s->first[s->found[at] - 1]]);
        if (memcmp(&x, &y, sizeof x) == 0)
            break;
    }
    if (s->found[at] == 0) {
        if (s->n == s->most)
            return false;
        s->first[s->n++] = module;
        s->found[at] = s->n;
    }
    s->row[module] = s->found[at] - 1;
    return true;
}

static enum lw_status write_rows(struct sharing *s, struct lw_err *err)
{
    struct lw_workload *w = s->w;
    struct lw_module *rows;
    const char **names;

    LW_TAKE(&w->arena, rows, s->n, err);
    LW_TAKE(&w->arena, names, w->n_modules, err);
    for (int32_t k = 0; k < s->n; k++)
        rows[k] = unnamed(&w->modules[s->first[k]]);
    for (int32_t m = 0; m < w->n_modules; m++)
        names[m] = w->modules[m].name;
    lw_arena_release(&w->arena, w->modules, w->n_modules, sizeof *w->modules);
    w->modules = NULL;
    w->module_rows = rows;
    w->module_row = s->row;
    w->module_names = names;
    return LW_OK;
}

static enum lw_status share(struct sharing *s, struct lw_arena *room, struct lw_err *err)
{
    s->most = s->w->n_modules / 4;
    for (s->n_found = 2; s->n_found < 2 * (int64_t)s->most;)
        s->n_found *= 2;
    LW_TAKE(room, s->first, s->most, err);
    LW_TAKE(room, s->found, s->n_found, err);
    LW_TAKE(&s->w->arena, s->row, s->w->n_modules, err);
    for (int32_t m = 0; m < s->w->n_modules; m++)
        if (!find_row(s, m))
            return LW_OK;
    return write_rows(s, err);
}

enum lw_status lw_workload_share_modules(struct lw_workload *w, struct lw_err *err)
{
    struct sharing s = {.w = w};
    struct lw_arena room = {0};
    enum lw_status st = w->modules ? share(&s, &room, err) : LW_OK;

    lw_arena_free(&room);
    return st;
}
