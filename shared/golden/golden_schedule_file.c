/* Recorded schedule tables, one a file. What a table must hold follows from its name; its own cells
 * are only compared, never read, but for the number of micro-batches where upstream's name lacks
 * it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/golden/golden_schedule.h"
#include "shared/schedule/schedule_torch_ir.h"
#include "shared/base/shown_text.h"

enum form { PLAIN, COMMS, FSDP };

struct table {
    struct lw_schedule_shape shape; /* n_micro_batches 0: as many as the cells name */
    enum form form;
    bool merged; /* adjacent I and W are one B before anything else */
    enum lw_ir_names names;
};

bool lw_golden_schedule_named(const char *name, size_t len, enum lw_schedule *schedule)
{
    for (int k = 0; k < LW_SCHEDULE_CUSTOM; k++) {
        const char *known = lw_schedule_name((enum lw_schedule)k);
        size_t i = 0;
        while (i < len && known[i] && (name[i] == known[i] || (name[i] == '_' && known[i] == '-')))
            i++;
        if (i == len && !known[i]) {
            *schedule = (enum lw_schedule)k;
            return true;
        }
    }
    return false;
}

bool lw_golden_schedule_shape(const char *file, struct lw_schedule_shape *s)
{
    const char *base = lw_base_name(file), *at = NULL;
    int n = 0;

    *s = (struct lw_schedule_shape){0};
    for (const char *p = base; (p = strstr(p, "_p")) != NULL; p++)
        at = p;
    if (!at ||
        sscanf(at, "_p%6d_m%6d_v%6d.csv%n", &s->n_ranks, &s->n_micro_batches, &s->n_chunks, &n) !=
            3 ||
        n == 0 || at[n] != '\0')
        return false;
    return s->n_ranks > 0 && s->n_micro_batches > 0 && s->n_chunks > 0 &&
           lw_golden_schedule_named(base, (size_t)(at - base), &s->schedule);
}

static bool starts_with(const char **p, const char *prefix)
{
    size_t n = strlen(prefix);

    if (strncmp(*p, prefix, n) != 0)
        return false;
    *p += n;
    return true;
}

/* Files stored by pytorch: zb1p is its interleaved zero-bubble schedule. */
static bool upstream(const char *p, struct table *t)
{
    int n = 0, comms = 0;
    struct lw_schedule_shape *s = &t->shape;

    if (sscanf(p, "dualpipev_%6drank_%6dmb.csv%n", &s->n_ranks, &s->n_micro_batches, &n) == 2 &&
        n > 0 && p[n] == '\0') {
        s->schedule = LW_SCHEDULE_DUALPIPEV;
        s->n_chunks = 2;
        return true;
    }
    s->n_micro_batches = 0;
    if (sscanf(p, "zb1p_%6drank_%6dstagep_%n", &s->n_ranks, &s->n_chunks, &comms) != 2 ||
        comms == 0)
        return false;
    s->schedule = LW_SCHEDULE_INTERLEAVED_ZB;
    t->names = LW_IR_OLD_NAMES;
    if (strcmp(p + comms, "compute.csv") == 0)
        return true;
    t->form = COMMS;
    t->merged = true;
    return strcmp(p + comms, "comms.csv") == 0;
}

static bool table_of(const char *file, struct table *t)
{
    const char *p = lw_base_name(file);

    *t = (struct table){0};
    if (starts_with(&p, "upstream_"))
        return upstream(p, t);
    t->form = starts_with(&p, "lowered_comms_")  ? COMMS
              : starts_with(&p, "lowered_fsdp_") ? FSDP
                                                 : PLAIN;
    t->merged = t->form != PLAIN;
    return lw_golden_schedule_shape(p, &t->shape);
}

bool lw_golden_is_schedule(const char *file)
{
    struct table t;

    return table_of(file, &t);
}

/* One more than the largest number that ends a cell. */
static int32_t count_micro_batches(const char *text)
{
    long most = -1;

    for (const char *p = text; *p; p++) {
        if (!isdigit((unsigned char)*p) || p == text || !isalpha((unsigned char)p[-1]))
            continue;
        long mb = strtol(p, NULL, 10);
        most = mb > most ? mb : most;
    }
    return most >= 0 && most < 1 << 16 ? (int32_t)most + 1 : 0;
}

static enum lw_status make_steps(const struct table *t, struct lw_lowered *out, struct lw_err *err)
{
    struct lw_grid g = {0}, merged = {0};
    enum lw_status status = lw_schedule_grid(&t->shape, &g, err);

    if (status == LW_OK && t->merged)
        status = lw_grid_merge(&g, &merged, err);
    const struct lw_grid *from = t->merged ? &merged : &g;
    if (status == LW_OK)
        status = t->form == COMMS  ? lw_lower_messages(from, out, err)
                 : t->form == FSDP ? lw_lower_shards(from, 3, out, err)
                                   : lw_lower_plain(from, out, err);
    lw_grid_free(&merged);
    lw_grid_free(&g);
    return status;
}

/* The next cell of a line that is not idle; false at its end. */
static bool next_cell(const char **at, const char *end, const char **cell, size_t *len)
{
    while (*at < end) {
        const char *comma = memchr(*at, ',', (size_t)(end - *at));
        const char *stop = comma ? comma : end;
        *cell = *at;
        while (*cell < stop && (**cell == ' ' || **cell == '\t' || **cell == '\r'))
            ++*cell;
        *len = (size_t)(stop - *cell);
        while (*len && strchr(" \t\r", (*cell)[*len - 1]))
            --*len;
        *at = comma ? comma + 1 : end;
        if (*len)
            return true;
    }
    return false;
}

static enum lw_status compare_rank(const struct lw_lowered *s, int32_t rank, enum lw_ir_names names,
                                   const char *line, const char *end, struct lw_err *err)
{
    int32_t i = s->first[rank];

    for (int n = 1;; n++) {
        char ours[96] = "";
        const char *cell = "";
        size_t len = 0;
        bool has = next_cell(&line, end, &cell, &len), more = i < s->first[rank + 1];
        if (!has && !more)
            return LW_OK;
        if (more)
            i += lw_lowered_cell(s, i, names, ours, sizeof ours);
        if (!has || !more || strlen(ours) != len || memcmp(ours, cell, len) != 0)
            return lw_fail(err, LW_ENO, "rank %d, action %d: computed '%s', the case says '%.*s'",
                           rank, n, more ? ours : "", len < 80 ? (int)len : 80, cell);
    }
}

static enum lw_status compare(const struct lw_lowered *s, enum lw_ir_names names, const char *text,
                              struct lw_err *err)
{
    int32_t rank = 0;

    while (*text) {
        const char *end = text + strcspn(text, "\n");
        const char *at = text, *cell;
        size_t len;
        if (rank < s->n_ranks)
            LW_TRY(compare_rank(s, rank++, names, text, end, err));
        else if (next_cell(&at, end, &cell, &len))
            return lw_fail(err, LW_ENO, "more than %d ranks", s->n_ranks);
        text = *end ? end + 1 : end;
    }
    if (rank < s->n_ranks)
        return lw_fail(err, LW_ENO, "%d of %d ranks", rank, s->n_ranks);
    return LW_OK;
}

enum lw_status lw_golden_schedule_file(const char *file, const char *text, struct lw_err *err)
{
    struct table t;
    struct lw_lowered steps;

    if (!table_of(file, &t))
        return lw_fail(err, LW_EFORMAT, "unknown kind of file: its name is of no schedule table");
    if (t.shape.n_micro_batches == 0)
        t.shape.n_micro_batches = count_micro_batches(text);
    LW_TRY(make_steps(&t, &steps, err));
    enum lw_status status = compare(&steps, t.names, text, err);
    lw_lowered_free(&steps);
    return status;
}
