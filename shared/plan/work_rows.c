/* Works of equal fields are one row. Modules that are alike have equal works, unless each has a
 * list of products. Rows are found by a table of hashes and compared in all fields, so their
 * numbers follow from the order of the works alone. */
#include "shared/plan/work_rows.h"

#include <stddef.h>
#include <string.h>

/* A work is compared and hashed as words up to its last field: none before it has padding. */
enum {
    BYTES = offsetof(struct lw_work, source) + sizeof(enum lw_time_source),
    WORDS = BYTES / sizeof(uint32_t),
};
_Static_assert(BYTES == 4 * sizeof(int64_t) + 2 * sizeof(int32_t) +
                            LW_N_BOUNDS * sizeof(lw_ps) + sizeof(enum lw_time_source),
               "a work has padding");

static uint64_t hash_of(const struct lw_work *w)
{
    uint32_t v[WORDS];
    uint64_t h = 0;

    memcpy(v, w, BYTES);
    for (int k = 0; k < WORDS; k++)
        h = (h ^ v[k]) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}

/* Where the row stands, or may stand. */
static int32_t *place_of(const struct lw_work_sharing *s, const struct lw_work *rows,
                         const struct lw_work *w)
{
    uint64_t last = (uint64_t)s->n_found - 1, at = hash_of(w) & last;

    while (s->found[at] != 0 && memcmp(&rows[s->found[at] - 1], w, BYTES) != 0)
        at = (at + 1) & last;
    return &s->found[at];
}

/* At most half full. */
static bool make_room(const struct lw_plan *p, struct lw_work_sharing *s)
{
    struct lw_work_sharing grown = {.n_found = s->n_found > 0 ? 2 * s->n_found : 256};

    if (2 * ((int64_t)p->n_work_rows + 1) <= s->n_found)
        return true;
    grown.found = lw_calloc((size_t)grown.n_found, sizeof *grown.found);
    if (!grown.found)
        return false;
    for (int32_t k = 0; k < p->n_work_rows; k++)
        *place_of(&grown, p->work_rows, &p->work_rows[k]) = k + 1;
    lw_free(s->found);
    s->found = grown.found;
    s->n_found = grown.n_found;
    return true;
}

enum lw_status lw_work_rows_add(struct lw_plan *p, struct lw_work_sharing *s,
                                const struct lw_work *w, struct lw_err *err)
{
    if (!make_room(p, s) || p->n_works == INT32_MAX ||
        lw_reserve(&p->work_rows, &s->rows_capacity, p->n_work_rows + 1L, sizeof *w) != 0 ||
        lw_reserve(&p->work_row, &s->row_capacity, p->n_works + 1L, sizeof *p->work_row) != 0)
        return lw_fail_nomem(err);
    int32_t *place = place_of(s, p->work_rows, w);
    if (*place == 0) {
        p->work_rows[p->n_work_rows++] = *w;
        *place = p->n_work_rows;
    }
    p->work_row[p->n_works++] = *place - 1;
    return LW_OK;
}

/* A list of n items to the plan's arena; NULL: it failed, and the list is freed. */
static void *settle(struct lw_plan *p, void *items, int64_t n, size_t size)
{
    void *cut = lw_realloc(items, (size_t)n * size);

    if (cut && lw_arena_adopt(&p->arena, cut) == 0)
        return cut;
    lw_free(cut ? cut : items);
    return NULL;
}

enum lw_status lw_work_rows_settle(struct lw_plan *p, struct lw_work_sharing *s,
                                   struct lw_err *err)
{
    lw_free(s->found);
    *s = (struct lw_work_sharing){0};
    p->work_rows = settle(p, p->work_rows, p->n_work_rows, sizeof *p->work_rows);
    p->work_row = settle(p, p->work_row, p->n_works, sizeof *p->work_row);
    return p->work_rows && p->work_row ? LW_OK : lw_fail_nomem(err);
}

void lw_work_rows_free(struct lw_plan *p, struct lw_work_sharing *s)
{
    lw_free(s->found);
    lw_free(p->work_rows);
    lw_free(p->work_row);
    p->work_rows = NULL;
    p->work_row = NULL;
    *s = (struct lw_work_sharing){0};
}

enum lw_status lw_plan_write_works(struct lw_plan *p, struct lw_err *err)
{
    struct lw_work *works;

    if (p->works)
        return LW_OK;
    LW_TAKE(&p->arena, works, p->n_works, err);
    for (int32_t k = 0; k < p->n_works; k++)
        works[k] = *lw_work_at(p, k);
    p->works = works;
    p->work_rows = NULL;
    p->work_row = NULL;
    p->n_work_rows = 0;
    return LW_OK;
}
