/* A module is 368 bytes and a parameter 48, and those of a model's blocks are alike: they share a
 * row. Rows are compared byte by byte: two whose padding differs are two rows, which changes no
 * plan. Rows are found by a table of hashes, open addressing, at most half full. */
#include "shared/workload/model_rows.h"

#include <string.h>

enum { MOST_WORDS = sizeof(struct lw_module) / sizeof(uint64_t) };
_Static_assert(sizeof(struct lw_module) % sizeof(uint64_t) == 0 &&
                   sizeof(struct lw_param) % sizeof(uint64_t) == 0,
               "modules and parameters are compared 8 bytes at a time");

struct sharing {
    const char *items;
    int32_t n_items;
    size_t size;
    void (*take)(const void *item, void *row); /* the item without what is its own */
    int32_t *first; /* [most] an item of each row */
    int32_t *found; /* [n_found] row + 1; 0 = free */
    int32_t *row;   /* [n_items] */
    int32_t n, most;
    int64_t n_found;
    uint64_t last[MOST_WORDS];
};

static void take_module(const void *item, void *row)
{
    struct lw_module *m = row;

    memcpy(m, item, sizeof *m);
    m->name = NULL;
}

static void take_param(const void *item, void *row)
{
    struct lw_param *p = row;

    memcpy(p, item, sizeof *p);
    p->name = NULL;
    p->module = 0;
}

static void take(const struct sharing *s, int32_t item, uint64_t *row)
{
    s->take(s->items + (size_t)item * s->size, row);
}

static uint64_t hash_of(const uint64_t *row, size_t size)
{
    uint64_t h = 0;

    for (size_t k = 0; k < size / sizeof *row; k++)
        h = (h ^ row[k]) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

/* false: more rows than the table is to have. The row of the item before is looked at first. */
static bool find_row(struct sharing *s, int32_t item)
{
    uint64_t x[MOST_WORDS], y[MOST_WORDS];

    take(s, item, x);
    if (item > 0 && memcmp(x, s->last, s->size) == 0) {
        s->row[item] = s->row[item - 1];
        return true;
    }
    memcpy(s->last, x, s->size);
    uint64_t last = (uint64_t)s->n_found - 1, at = hash_of(x, s->size) & last;
    for (; s->found[at] != 0; at = (at + 1) & last) {
        take(s, s->first[s->found[at] - 1], y);
        if (memcmp(x, y, s->size) == 0)
            break;
    }
    if (s->found[at] == 0) {
        if (s->n == s->most)
            return false;
        s->first[s->n++] = item;
        s->found[at] = s->n;
    }
    s->row[item] = s->found[at] - 1;
    return true;
}

/* *rows: NULL where there are too many. `room` is given back, `a` keeps what is made. */
static enum lw_status share(struct sharing *s, struct lw_arena *room, struct lw_arena *a,
                            void **rows, struct lw_err *err)
{
    *rows = NULL;
    s->most = s->n_items / 4;
    for (s->n_found = 2; s->n_found < 2 * (int64_t)s->most;)
        s->n_found *= 2;
    LW_TAKE(room, s->first, s->most, err);
    LW_TAKE(room, s->found, s->n_found, err);
    LW_TAKE_ROOM(a, s->row, s->n_items, err);
    for (int32_t i = 0; i < s->n_items; i++)
        if (!find_row(s, i)) {
            lw_arena_release(a, s->row, s->n_items, sizeof *s->row);
            return LW_OK;
        }
    *rows = lw_arena_alloc(a, s->n, s->size);
    for (int32_t k = 0; *rows && k < s->n; k++)
        s->take(s->items + (size_t)s->first[k] * s->size, (char *)*rows + (size_t)k * s->size);
    return *rows ? LW_OK : lw_fail_nomem(err);
}

static enum lw_status share_modules(struct lw_workload *w, struct lw_arena *room,
                                    struct lw_err *err)
{
    struct sharing s = {.items = (const char *)w->modules, .n_items = w->n_modules,
                        .size = sizeof *w->modules, .take = take_module};
    void *rows;

    LW_TRY(share(&s, room, &w->arena, &rows, err));
    if (!rows)
        return LW_OK;
    LW_TAKE_ROOM(&w->arena, w->module_names, w->n_modules, err);
    for (int32_t m = 0; m < w->n_modules; m++)
        w->module_names[m] = w->modules[m].name;
    lw_arena_release(&w->arena, w->modules, w->n_modules, sizeof *w->modules);
    w->modules = NULL;
    w->module_rows = rows;
    w->module_row = s.row;
    return LW_OK;
}

static enum lw_status share_params(struct lw_workload *w, struct lw_arena *room,
                                   struct lw_err *err)
{
    struct sharing s = {.items = (const char *)w->params, .n_items = w->n_params,
                        .size = sizeof *w->params, .take = take_param};
    void *rows;

    LW_TRY(share(&s, room, &w->arena, &rows, err));
    if (!rows)
        return LW_OK;
    LW_TAKE_ROOM(&w->arena, w->param_names, w->n_params, err);
    LW_TAKE_ROOM(&w->arena, w->param_module, w->n_params, err);
    for (int32_t i = 0; i < w->n_params; i++) {
        w->param_names[i] = w->params[i].name;
        w->param_module[i] = w->params[i].module;
    }
    lw_arena_release(&w->arena, w->params, w->n_params, sizeof *w->params);
    w->params = NULL;
    w->param_rows = rows;
    w->param_row = s.row;
    return LW_OK;
}

enum lw_status lw_workload_share_rows(struct lw_workload *w, struct lw_err *err)
{
    struct lw_arena room = {0};
    enum lw_status st = w->modules ? share_modules(w, &room, err) : LW_OK;

    lw_arena_free(&room);
    if (st == LW_OK && w->params)
        st = share_params(w, &room, err);
    lw_arena_free(&room);
    return st;
}
