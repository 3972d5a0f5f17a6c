/* Lapwing's own files, read and written by tables of fields. Invariant: for each kind, what the
 * writer prints is what the reader accepts, and gives back the same bits (docs/design/files.md).
 * Times are decimal ns text in the file and whole ps in memory; no float lies between them. */
#include "shared/files/files_field.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/nearest.h"
#include "shared/files/files.h"
#include "shared/io/input.h"
#include "shared/io/output.h"
#include "shared/numbers/units.h"
#include "shared/workload/sparse.h"

enum { FORMAT_VERSION = 1 };

#define AT(field) offsetof(struct lw_sparse, field)
const struct lw_field lw_sparse_fields[] = {
    LW_F_MUST_INT32("param", AT(param)),
    LW_F_MUST_INT32("row_numel", AT(row_numel)),
    LW_F_MUST_INT32("touched_rows", AT(touched_rows)),
    {0},
};
#undef AT

/* --- one value -------------------------------------------------------------------------------- */

static void *at(const struct lw_field *f, void *base)
{
    return (char *)base + f->at;
}

static const void *const_at(const struct lw_field *f, const void *base)
{
    return (const char *)base + f->at;
}

static bool in_range(struct lw_json *j, int64_t v, int64_t least, int64_t most)
{
    if (v >= least && v <= most)
        return true;
    if (v < least && most >= INT32_MAX)
        lw_json_fail(j, "found %" PRId64 ", allowed: %" PRId64 " or more", v, least);
    else
        lw_json_fail(j, "found %" PRId64 ", allowed: %" PRId64 " to %" PRId64, v, least, most);
    return false;
}

/* "1234.567" ns -> 1234567 ps; false if the text has another form or exceeds int64. */
static bool parse_ns(const char *p, size_t len, lw_ps *out)
{
    const char *end = p + len;
    bool negative = p < end && *p == '-';
    int64_t v = 0;
    int decimals = -1;

    for (p += negative; p < end; p++) {
        if (*p == '.') {
            decimals = 0;
            continue;
        }
        if (*p < '0' || *p > '9' || decimals == 3 || v > (INT64_MAX - 9) / 10)
            return false;
        v = v * 10 + (*p - '0');
        decimals += decimals >= 0;
    }
    for (decimals = decimals < 0 ? 0 : decimals; decimals < 3; decimals++) {
        if (v > INT64_MAX / 10)
            return false;
        v *= 10;
    }
    *out = negative ? -v : v;
    return true;
}

static lw_ps read_ns(const struct lw_field *f, struct lw_json *j)
{
    size_t len;
    const char *text = lw_json_number_text(j, &len);
    lw_ps v = 0;

    if (lw_json_failed(j))
        return 0;
    if (lw_json_type(j) == LW_JSON_STRING || !parse_ns(text, len, &v)) {
        lw_json_fail(j, "found %.*s, expected nanoseconds with at most 3 decimals, below 9.2e15",
                     (int)(len > 32 ? 32 : len), text);
        return 0;
    }
    if (v < f->least || v > f->most)
        lw_json_fail(j, "found %.*s, allowed: %" PRId64 " ns or more", (int)(len > 32 ? 32 : len),
                     text, f->least / 1000);
    return v;
}

static int read_word(const struct lw_field *f, struct lw_json *j)
{
    const char *text = lw_json_string(j, NULL);
    char all[220] = "";

    for (int k = 0; f->word(k) && !lw_json_failed(j); k++) {
        if (strcmp(text, f->word(k)) == 0)
            return k;
        lw_err_word(all, sizeof all, f->word(k));
    }
    lw_json_fail(j, "found \"%.40s\", allowed: %s", text, all);
    return 0;
}

static const char *read_string(struct lw_fields *r)
{
    size_t len;
    const char *text = lw_json_string(r->j, &len);

    if (strlen(text) != len)
        lw_json_fail(r->j, "found \\u0000 in a string, expected none");
    char *copy = lw_arena_strndup(r->arena, text, len);
    r->no_memory = r->no_memory || !copy;
    return copy ? copy : "";
}

static int64_t read_number(const struct lw_field *f, struct lw_json *j)
{
    if (f->null_is_minus_1 && lw_json_type(j) == LW_JSON_NULL)
        return -1;
    if (f->kind == LW_FIELD_NS)
        return read_ns(f, j);
    int64_t v = lw_json_int64(j);
    return lw_json_failed(j) || !in_range(j, v, f->least, f->most) ? 0 : v;
}

static bool is_number(const struct lw_field *f)
{
    return f->kind == LW_FIELD_INT32 || f->kind == LW_FIELD_INT64 || f->kind == LW_FIELD_BOOL ||
           f->kind == LW_FIELD_NS || f->kind == LW_FIELD_WORD;
}

static size_t width(const struct lw_field *f)
{
    if (f->kind == LW_FIELD_INT32 || f->kind == LW_FIELD_WORD)
        return f->size ? f->size : sizeof(int32_t);
    return f->kind == LW_FIELD_BOOL ? sizeof(bool) : sizeof(int64_t);
}

static void set_number(const struct lw_field *f, void *to, int64_t v)
{
    switch (width(f)) {
    case 1:
        *(int8_t *)to = (int8_t)v;
        break;
    case 2:
        *(int16_t *)to = (int16_t)v;
        break;
    case 4:
        *(int32_t *)to = (int32_t)v;
        break;
    default:
        *(int64_t *)to = v;
    }
}

static int64_t get_number(const struct lw_field *f, const void *from)
{
    switch (width(f)) {
    case 1:
        return *(const int8_t *)from;
    case 2:
        return *(const int16_t *)from;
    case 4:
        return *(const int32_t *)from;
    default:
        return *(const int64_t *)from;
    }
}

/* --- lists ------------------------------------------------------------------------------------ */

/* Room for one more; NULL after an error. */
static void *grow(struct lw_fields *r, void *list, int64_t n, int64_t *capacity, size_t size)
{
    if (n >= INT32_MAX) {
        lw_json_fail(r->j, "found more than %d items", INT32_MAX);
        return NULL;
    }
    if (lw_reserve(list, capacity, n + 1, size) != 0) {
        r->no_memory = true;
        return NULL;
    }
    void *items;
    memcpy(&items, list, sizeof items);
    return memset((char *)items + (size_t)n * size, 0, size);
}

/* An array whose items `item` reads; it knows them by `how`. *items lies in the arena. */
static bool read_array(struct lw_fields *r, size_t size,
                       bool (*item)(struct lw_fields *r, const void *how, void *slot),
                       const void *how, void *items, int32_t *n)
{
    void *list = NULL, *kept = NULL;
    int64_t count = 0, capacity = 0;

    if (lw_json_enter(r->j, LW_JSON_ARRAY))
        while (!r->no_memory && lw_json_next(r->j)) {
            void *slot = grow(r, &list, count, &capacity, size);
            if (!slot || !item(r, how, slot))
                break;
            count++;
        }
    *n = (int32_t)count;
    if (!lw_json_failed(r->j) && !r->no_memory) {
        kept = lw_arena_alloc(r->arena, count, size);
        r->no_memory = !kept;
    }
    if (kept && count)
        memcpy(kept, list, (size_t)count * size);
    if (kept)
        memcpy(items, &kept, sizeof kept);
    lw_free(list);
    return kept != NULL;
}

static bool read_fields(struct lw_fields *r, const void *table, void *base);

bool lw_fields_read_list(struct lw_fields *r, const struct lw_field *table, size_t size,
                         void *items, int32_t *n)
{
    return read_array(r, size, read_fields, table, items, n);
}

static bool read_int(struct lw_fields *r, const void *how, void *slot)
{
    const struct lw_field *f = how;
    bool none = r->foreign && lw_json_type(r->j) == LW_JSON_NULL;
    int64_t v = none ? -1 : lw_json_int64(r->j);
    bool wide = f->kind == LW_FIELD_INTS64;
    int64_t most = wide || f->most < INT32_MAX ? f->most : INT32_MAX;

    if (lw_json_failed(r->j) || (!none && !in_range(r->j, v, f->least, most)))
        return false;
    if (wide)
        *(int64_t *)slot = v;
    else
        *(int32_t *)slot = (int32_t)v;
    return true;
}

static bool read_text(struct lw_fields *r, const void *how, void *slot)
{
    (void)how;
    *(const char **)slot = read_string(r);
    return true;
}

static void read_chars(struct lw_fields *r, const struct lw_field *f, char *to)
{
    const char *text = read_string(r);

    if (!text || lw_json_failed(r->j))
        return;
    if (strlen(text) >= f->size)
        lw_json_fail(r->j, "found %zu characters, allowed: at most %zu", strlen(text), f->size - 1);
    else
        memcpy(to, text, strlen(text) + 1);
}

/* --- objects ---------------------------------------------------------------------------------- */

static int32_t *count_of(const struct lw_field *f, const void *base)
{
    return (int32_t *)((char *)base + f->n_at);
}

static bool is_array(const struct lw_field *f)
{
    return f->kind == LW_FIELD_LIST || f->kind == LW_FIELD_INTS32 || f->kind == LW_FIELD_INTS64 ||
           f->kind == LW_FIELD_STRINGS;
}

static void set_absent(const struct lw_field *table, void *base)
{
    const char *empty = "";
    const void *none = NULL;

    for (const struct lw_field *f = table; f->name; f++) {
        if (is_number(f)) {
            set_number(f, at(f, base), f->absent);
        } else if (is_array(f)) {
            memcpy(at(f, base), &none, sizeof none);
            *count_of(f, base) = 0;
        } else if (f->kind == LW_FIELD_STRING) {
            memcpy(at(f, base), &empty, sizeof empty);
        } else if (f->kind == LW_FIELD_CHARS) {
            memset(at(f, base), 0, f->size);
        } else if (f->kind == LW_FIELD_OBJECT) {
            set_absent(f->fields, at(f, base));
        } else if (f->kind == LW_FIELD_REAL) {
            *(double *)at(f, base) = 0;
        } else if (f->kind == LW_FIELD_FIGURE || f->kind == LW_FIELD_FIGURE_NS) {
            *(struct lw_figure *)at(f, base) = (struct lw_figure){0};
        }
    }
}

/* A figure's value and its source: both must be there. */
static void read_figure(struct lw_fields *r, const struct lw_field *f, struct lw_figure *to)
{
    struct named {
        double value;
        lw_ps ps;
        const char *source;
    } v = {0};
    bool ns = f->kind == LW_FIELD_FIGURE_NS;
    const struct lw_field table[] = {
        {.name = "value",
         .kind = ns ? LW_FIELD_NS : LW_FIELD_REAL,
         .must = true,
         .at = ns ? offsetof(struct named, ps) : offsetof(struct named, value),
         .most = INT64_MAX},
        LW_F_NAME("source", offsetof(struct named, source)),
        {0},
    };

    if (f->plain && lw_json_type(r->j) == LW_JSON_NUMBER) {
        *to = (struct lw_figure){lw_json_double(r->j), "as stated"};
        return;
    }
    if (!read_fields(r, table, &v))
        return;
    if (!*v.source)
        lw_json_fail(r->j, "the source of a figure cannot be empty");
    to->value = ns ? (double)v.ps : v.value;
    to->source = v.source;
}

static void read_field(struct lw_fields *r, const struct lw_field *f, void *base)
{
    void *to = at(f, base);

    switch (f->kind) {
    case LW_FIELD_SKIP:
        break;
    case LW_FIELD_OWN:
        f->read(r, to);
        break;
    case LW_FIELD_STRING:
        read_text(r, NULL, to);
        break;
    case LW_FIELD_CHARS:
        read_chars(r, f, to);
        break;
    case LW_FIELD_BOOL:
        set_number(f, to, lw_json_bool(r->j));
        break;
    case LW_FIELD_WORD:
        set_number(f, to, read_word(f, r->j));
        break;
    case LW_FIELD_REAL:
        *(double *)to = lw_json_double(r->j);
        break;
    case LW_FIELD_FIGURE:
    case LW_FIELD_FIGURE_NS:
        read_figure(r, f, to);
        break;
    case LW_FIELD_OBJECT:
        read_fields(r, f->fields, to);
        break;
    case LW_FIELD_LIST:
        read_array(r, f->size, read_fields, f->fields, to, count_of(f, base));
        break;
    case LW_FIELD_INTS32:
        read_array(r, sizeof(int32_t), read_int, f, to, count_of(f, base));
        break;
    case LW_FIELD_INTS64:
        read_array(r, sizeof(int64_t), read_int, f, to, count_of(f, base));
        break;
    case LW_FIELD_STRINGS:
        read_array(r, sizeof(const char *), read_text, NULL, to, count_of(f, base));
        break;
    default:
        set_number(f, to, read_number(f, r->j));
    }
}

/* Of the field under the cursor. */
static void fail_unknown(struct lw_json *j, const struct lw_field *table)
{
    char all[800] = "", hint[96], name[64];
    size_t len;
    const char *key = lw_json_key(j, &len);

    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), key);
    struct lw_nearest near = lw_nearest_begin(name);

    for (const struct lw_field *f = table; f->name; f++) {
        lw_err_word(all, sizeof all, f->name);
        lw_nearest_try(&near, f->name);
    }
    lw_json_fail(j, "unknown field%s; allowed: %s", lw_nearest_hint(&near, "", hint, sizeof hint),
                 all);
}

/* Fields of one object that were read. */
enum { MOST_FIELDS = 128 };
struct seen {
    uint64_t bits[MOST_FIELDS / 64];
};

static bool has_seen(const struct seen *s, int k)
{
    return s->bits[k / 64] >> (k % 64) & 1;
}

/* The object under the cursor into *base: all of it is set, absent fields too. */
static bool read_fields(struct lw_fields *r, const void *how, void *base)
{
    const struct lw_field *table = how;
    struct seen seen = {{0}};
    int next = 0;

    set_absent(table, base);
    if (!lw_json_enter(r->j, LW_JSON_OBJECT))
        return false;
    while (!r->no_memory && lw_json_next(r->j)) {
        int k = next; /* fields mostly come in the order of the table */
        while (table[k].name && !lw_json_key_is(r->j, table[k].name))
            k++;
        if (!table[k].name)
            for (k = 0; table[k].name && !lw_json_key_is(r->j, table[k].name);)
                k++;
        if (r->foreign && (!table[k].name ||
                           (!table[k].takes_null && lw_json_type(r->j) == LW_JSON_NULL)))
            continue;
        if (!table[k].name) {
            fail_unknown(r->j, table);
            return false;
        }
        assert(k < MOST_FIELDS);
        if (has_seen(&seen, k) && !r->foreign) {
            lw_json_fail(r->j, "field given twice");
            return false;
        }
        seen.bits[k / 64] |= UINT64_C(1) << (k % 64);
        next = k + 1;
        read_field(r, &table[k], base);
    }
    for (int k = 0; !r->no_memory && table[k].name; k++)
        if (table[k].must && !has_seen(&seen, k)) {
            lw_json_fail(r->j, "the field \"%s\" is missing", table[k].name);
            return false;
        }
    return !lw_json_failed(r->j) && !r->no_memory;
}

bool lw_fields_read(struct lw_fields *r, const struct lw_field *table, void *base)
{
    return read_fields(r, table, base);
}

/* --- writing ---------------------------------------------------------------------------------- */

static bool is_absent(const struct lw_field *f, const void *base)
{
    const char *text;

    if (is_number(f))
        return get_number(f, const_at(f, base)) == f->absent;
    if (is_array(f))
        return *count_of(f, base) == 0;
    switch (f->kind) {
    case LW_FIELD_SKIP:
        return true;
    case LW_FIELD_STRING:
        memcpy(&text, const_at(f, base), sizeof text);
        return !text || !*text;
    case LW_FIELD_CHARS:
        return !*(const char *)const_at(f, base);
    case LW_FIELD_REAL:
        return *(const double *)const_at(f, base) == 0;
    case LW_FIELD_FIGURE:
    case LW_FIELD_FIGURE_NS:
        return !((const struct lw_figure *)const_at(f, base))->source;
    case LW_FIELD_OBJECT:
        for (const struct lw_field *g = f->fields; g->name; g++)
            if (!is_absent(g, const_at(f, base)))
                return false;
        return true;
    default:
        return false; /* OWN */
    }
}

static void write_list(struct lw_jsonout *o, const struct lw_field *f, const void *base)
{
    _Alignas(int64_t) char room[LW_MADE_STRUCT];
    const char *items;

    memcpy(&items, const_at(f, base), sizeof items);
    lw_jsonout_array(o, f->name);
    for (int32_t i = 0; i < *count_of(f, base); i++) {
        const char *item = items ? items + (size_t)i * f->size : room;
        if (!items)
            f->make(base, i, room);
        if (f->spread_out)
            lw_jsonout_object(o, NULL);
        else
            lw_jsonout_line_object(o, NULL);
        lw_fields_write(o, f->fields, item);
        lw_jsonout_end(o);
    }
    lw_jsonout_end(o);
}

static void write_items(struct lw_jsonout *o, const struct lw_field *f, const void *base)
{
    const void *items;

    memcpy(&items, const_at(f, base), sizeof items);
    if (f->kind == LW_FIELD_STRINGS) {
        lw_jsonout_strings(o, f->name, items, *count_of(f, base));
        return;
    }
    lw_jsonout_line_array(o, f->name);
    for (int32_t i = 0; i < *count_of(f, base); i++)
        lw_jsonout_int(o, NULL, f->kind == LW_FIELD_INTS32 ? ((const int32_t *)items)[i]
                                                           : ((const int64_t *)items)[i]);
    lw_jsonout_end(o);
}

static void write_number(struct lw_jsonout *o, const struct lw_field *f, int64_t v)
{
    if (f->null_is_minus_1 && v == -1)
        lw_jsonout_null(o, f->name);
    else if (f->kind == LW_FIELD_NS)
        LW_JSON(o, f->name, LW_EXACT_NS(v));
    else
        lw_jsonout_int(o, f->name, v);
}

/* Whole numbers whole ("80000000000"), others in the shortest form. */
static void write_real(struct lw_jsonout *o, const char *name, double v)
{
    if (v > -1e15 && v < 1e15 && v == (double)(int64_t)v)
        lw_jsonout_int(o, name, (int64_t)v);
    else
        lw_jsonout_double(o, name, v);
}

static void write_figure(struct lw_jsonout *o, const struct lw_field *f,
                         const struct lw_figure *figure)
{
    lw_jsonout_line_object(o, f->name);
    if (f->kind == LW_FIELD_FIGURE_NS)
        LW_JSON(o, "value", LW_EXACT_NS((lw_ps)figure->value));
    else
        write_real(o, "value", figure->value);
    lw_jsonout_string(o, "source", figure->source);
    lw_jsonout_end(o);
}

static void write_field(struct lw_jsonout *o, const struct lw_field *f, const void *base)
{
    const void *from = const_at(f, base);
    const char *text;

    switch (f->kind) {
    case LW_FIELD_SKIP:
        break;
    case LW_FIELD_OWN:
        f->write(o, f, base);
        break;
    case LW_FIELD_STRING:
        memcpy(&text, from, sizeof text);
        lw_jsonout_string(o, f->name, text ? text : "");
        break;
    case LW_FIELD_CHARS:
        lw_jsonout_string(o, f->name, from);
        break;
    case LW_FIELD_BOOL:
        lw_jsonout_bool(o, f->name, get_number(f, from) != 0);
        break;
    case LW_FIELD_WORD:
        lw_jsonout_string(o, f->name, f->word((int)get_number(f, from)));
        break;
    case LW_FIELD_REAL:
        write_real(o, f->name, *(const double *)from);
        break;
    case LW_FIELD_FIGURE:
    case LW_FIELD_FIGURE_NS:
        write_figure(o, f, from);
        break;
    case LW_FIELD_OBJECT:
        lw_jsonout_object(o, f->name);
        lw_fields_write(o, f->fields, from);
        lw_jsonout_end(o);
        break;
    case LW_FIELD_LIST:
        write_list(o, f, base);
        break;
    case LW_FIELD_INTS32:
    case LW_FIELD_INTS64:
    case LW_FIELD_STRINGS:
        write_items(o, f, base);
        break;
    default:
        write_number(o, f, get_number(f, from));
    }
}

void lw_fields_write(struct lw_jsonout *o, const struct lw_field *table, const void *base)
{
    for (const struct lw_field *f = table; f->name; f++)
        if (f->must || !is_absent(f, base))
            write_field(o, f, base);
}

/* --- whole files ------------------------------------------------------------------------------ */

/* Find "lapwing" and "kind", wherever they stand, and go back to the start. False: the document was
 * not written by Lapwing. kind[0] == 0 when it does not say. */
static bool read_head(struct lw_json *j, char kind[16])
{
    bool ours = false;

    kind[0] = 0;
    if (lw_json_type(j) != LW_JSON_OBJECT || !lw_json_enter(j, LW_JSON_OBJECT))
        return false;
    while ((!ours || !kind[0]) && lw_json_next(j)) {
        if (lw_json_key_is(j, "lapwing")) {
            int64_t version = lw_json_int64(j);
            ours = true;
            if (version != FORMAT_VERSION)
                lw_json_fail(j, "found file version %" PRId64 ", allowed: %d", version,
                             FORMAT_VERSION);
        } else if (lw_json_key_is(j, "kind") && lw_json_type(j) == LW_JSON_STRING) {
            snprintf(kind, 16, "%s", lw_json_string(j, NULL));
        }
    }
    lw_json_rewind(j);
    return ours;
}

/* What makes a file of that kind from a file of others. */
static const char *hint_for(const char *kind)
{
    return strcmp(kind, "workload") == 0
               ? "; `lapwing import` makes one of a recording, `lapwing model` of a config.json"
           : strcmp(kind, "plan") == 0
               ? "; `lapwing sim --replay` predicts a recording, `lapwing import` makes a workload "
                 "of it"
               : "";
}

enum lw_status lw_text_read(const char *name, const char *text, size_t len, const char *kind,
                            const struct lw_field *table, struct lw_arena *arena, void *base,
                            struct lw_err *err)
{
    struct lw_fields r = {.arena = arena};
    char found[16];

    LW_TRY(lw_json_open(name, text, len, &r.j, err));
    bool ours = read_head(r.j, found);
    enum lw_status s = lw_json_failed(r.j) ? lw_json_done(r.j, err) : LW_OK;
    if (s == LW_OK && (!ours || strcmp(found, kind) != 0))
        s = ours && found[0]
                ? lw_fail(err, LW_EFORMAT, "%s: at kind: found \"%s\", expected \"%s\"", name,
                          found, kind)
                : lw_fail(err, LW_EFORMAT,
                          "%s: found no \"lapwing\" and \"kind\", expected \"lapwing\": %d "
                          "and \"kind\": \"%s\"%s",
                          name, FORMAT_VERSION, kind,
                          hint_for(kind));
    if (s == LW_OK) {
        read_fields(&r, table, base);
        s = lw_json_done(r.j, err);
    }
    if (s == LW_OK && r.no_memory)
        s = lw_fail_nomem(err);
    lw_json_close(r.j);
    return s;
}

enum lw_status lw_foreign_read(const char *name, const char *text, size_t len,
                               const struct lw_field *table, struct lw_arena *arena, void *base,
                               struct lw_err *err)
{
    struct lw_fields r = {.arena = arena, .foreign = true};

    LW_TRY(lw_json_open(name, text, len, &r.j, err));
    read_fields(&r, table, base);
    enum lw_status s = r.no_memory ? lw_fail_nomem(err) : lw_json_done(r.j, err);
    lw_json_close(r.j);
    return s;
}

enum lw_status lw_file_read(const char *file, const char *kind, const struct lw_field *table,
                            struct lw_arena *arena, void *base, struct lw_err *err)
{
    struct lw_input in;

    LW_TRY(lw_input_read(file, 0, &in, err));
    enum lw_status s = lw_text_read(in.name, in.text, in.len, kind, table, arena, base, err);
    lw_input_free(&in);
    return s;
}

bool lw_names_file(const char *name)
{
    return strchr(name, '/') || lw_is_file(name);
}

bool lw_is_file(const char *name)
{
    const char *dot = strrchr(name, '.');

    return strcmp(name, "-") == 0 || access(name, F_OK) == 0 ||
           (dot && (strcmp(dot, ".json") == 0 || strcmp(dot, ".gz") == 0));
}

enum lw_status lw_file_kind(const char *file, char kind[16], struct lw_err *err)
{
    struct lw_input in;
    struct lw_json *j = NULL;

    LW_TRY(lw_input_read(file, 0, &in, err));
    enum lw_status s = lw_json_open(in.name, in.text, in.len, &j, err);
    bool ours = s == LW_OK && read_head(j, kind);
    if (ours)
        s = lw_json_failed(j) ? lw_json_done(j, err) : LW_OK;
    lw_json_close(j);
    lw_input_free(&in);
    if (ours || s == LW_ENOMEM)
        return s;
    kind[0] = 0; /* no JSON, or another's */
    return LW_OK;
}

void lw_stream_write(FILE *f, const char *kind, const struct lw_field *table, const void *base)
{
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    LW_JSON(&o, "lapwing", FORMAT_VERSION, "kind", kind);
    lw_fields_write(&o, table, base);
    lw_jsonout_end(&o);
}

enum lw_status lw_text_write(const char *kind, const struct lw_field *table, const void *base,
                             char **text, size_t *len, struct lw_err *err)
{
    char *made = NULL;
    FILE *f = open_memstream(&made, len);

    if (!f)
        return lw_fail_nomem(err);
    lw_stream_write(f, kind, table, base);
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(made);
        return lw_fail_nomem(err);
    }
    *text = made;
    return LW_OK;
}

enum lw_status lw_file_write(const char *file, const char *kind, const struct lw_field *table,
                             const void *base, struct lw_err *err)
{
    struct lw_output out;

    LW_TRY(lw_output_open(file, kind, &out, err));
    lw_stream_write(out.file, kind, table, base);
    return lw_output_commit(&out, err);
}
