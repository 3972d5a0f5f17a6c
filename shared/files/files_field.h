#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/json/json.h"
#include "shared/json/jsonout.h"

/* Lapwing's own files, declared once: a table says for each JSON field where it lies in a struct,
 * what it may be and what its absence means. Reading and writing walk the same table, so that what
 * is written is read back as it was. A field that the table does not know is an error (a typing
 * error must not pass), and so is one given twice. */
enum lw_field_kind {
    LW_FIELD_SKIP,   /* known, read elsewhere ("lapwing", "kind", "content_hash") */
    LW_FIELD_STRING, /* const char *, "" when absent */
    LW_FIELD_CHARS,  /* a text in an array of `size` characters, "" when absent */
    LW_FIELD_INT32,
    LW_FIELD_INT64,
    LW_FIELD_BOOL,
    LW_FIELD_NS,        /* lw_ps, in the file: ns with at most three decimals */
    LW_FIELD_WORD,      /* an enum, in the file one of the words */
    LW_FIELD_REAL,      /* double, finite */
    LW_FIELD_FIGURE,    /* struct lw_figure: {"value", "source"}; left out when it has no source */
    LW_FIELD_FIGURE_NS, /* the same; whole ps in memory, ns in the file */
    LW_FIELD_OBJECT,    /* a struct inside this one; left out when it is as if absent */
    LW_FIELD_LIST,      /* pointer to structs, their number at n_at; one line each */
    LW_FIELD_INTS32,    /* pointer to int32_t, their number at n_at */
    LW_FIELD_INTS64,
    LW_FIELD_STRINGS, /* const char **, their number at n_at */
    LW_FIELD_OWN,     /* read and written by functions of its own */
};

struct lw_fields; /* a reading under way */

enum { LW_MADE_STRUCT = 512 };

struct lw_field {
    const char *name;
    enum lw_field_kind kind;
    bool must;                     /* an error when absent; always written */
    size_t at, n_at;               /* bytes from the start of the struct; n_at: an int32_t */
    int64_t absent;                /* numbers, words: the value when the field is not there */
    int64_t least, most;           /* numbers (and items of INTS): allowed; NS in ps */
    const char *(*word)(int k);    /* WORD: the k-th word, NULL after the last */
    const struct lw_field *fields; /* OBJECT, LIST: of one struct */
    /* LIST: where the pointer is NULL, structs are written as this makes them, one at a time into
     * the room; its size is LW_MADE_STRUCT at most */
    void (*make)(const void *base, int32_t i, void *room);
    /* LIST: bytes of one struct; INT32, WORD: of the number, 0 = 4; CHARS: of the array */
    size_t size;
    bool plain;                    /* FIGURE: a number alone is taken too */
    bool null_is_minus_1;          /* numbers: -1 is written as null */
    bool spread_out;               /* LIST: each struct over several lines */
    bool takes_null;               /* OWN, of foreign files: read is called for null, too */
    void (*read)(struct lw_fields *r, void *to); /* OWN; to: `at` bytes from the start */
    void (*write)(struct lw_jsonout *o, const struct lw_field *f, const void *base);
};

/* Rows of a table: name, kind, offsetof, and what differs from nothing, 0 and false. */
#define LW_F(json, kind_, at_, ...) {.name = json, .kind = LW_FIELD_##kind_, .at = at_, __VA_ARGS__}
#define LW_F_STRING(json, at_) LW_F(json, STRING, at_)
#define LW_F_NAME(json, at_) LW_F(json, STRING, at_, .must = true)
#define LW_F_BOOL(json, at_, absent_) LW_F(json, BOOL, at_, .absent = absent_)
#define LW_F_INT32(json, at_, absent_) LW_F(json, INT32, at_, .absent = absent_, .most = INT32_MAX)
#define LW_F_INT16(json, at_, absent_) \
    LW_F(json, INT32, at_, .absent = absent_, .most = INT16_MAX, .size = sizeof(int16_t))
#define LW_F_INT8(json, at_, absent_) \
    LW_F(json, INT32, at_, .absent = absent_, .most = INT8_MAX, .size = sizeof(int8_t))
#define LW_F_INT64(json, at_, absent_) LW_F(json, INT64, at_, .absent = absent_, .most = INT64_MAX)
#define LW_F_NS(json, at_, absent_) LW_F(json, NS, at_, .absent = absent_, .most = INT64_MAX)
#define LW_F_WORD(json, at_, words) LW_F(json, WORD, at_, .word = words)
#define LW_F_BYTE_WORD(json, at_, words) LW_F(json, WORD, at_, .word = words, .size = 1)
#define LW_F_MUST_INT32(json, at_) LW_F(json, INT32, at_, .must = true, .most = INT32_MAX)
#define LW_F_MUST_INT64(json, at_) LW_F(json, INT64, at_, .must = true, .most = INT64_MAX)
#define LW_F_MUST_NS(json, at_) LW_F(json, NS, at_, .must = true, .most = INT64_MAX)
#define LW_F_MUST_WORD(json, at_, words) LW_F(json, WORD, at_, .must = true, .word = words)
#define LW_F_MUST_REAL(json, at_) LW_F(json, REAL, at_, .must = true)
#define LW_F_FIGURE(json, at_) LW_F(json, FIGURE, at_)
#define LW_F_OBJECT(json, at_, table) LW_F(json, OBJECT, at_, .fields = table)
#define LW_F_LIST(json, at_, n_at_, table, type, ...) \
    LW_F(json, LIST, at_, .n_at = n_at_, .fields = table, .size = sizeof(type), __VA_ARGS__)
#define LW_F_ITEMS(json, kind_, at_, n_at_) \
    LW_F(json, kind_, at_, .n_at = n_at_, .most = INT64_MAX)
#define LW_F_OWN(json, read_, write_) LW_F(json, OWN, 0, .read = read_, .write = write_)
/* And "content_hash", the last member, of the bytes before it (shared/io/own_output.h). */
#define LW_F_HEAD LW_F("lapwing", SKIP, 0), LW_F("kind", SKIP, 0), LW_F("content_hash", SKIP, 0)

extern const struct lw_field lw_sparse_fields[]; /* of struct lw_sparse */
extern const struct lw_field lw_product_fields[]; /* of struct lw_product */
extern const struct lw_field lw_buffer_fields[];  /* of struct lw_buffer */
extern const struct lw_field lw_model_dims_fields[]; /* of struct lw_model_dims */
extern const struct lw_field lw_workload_file_fields[]; /* of struct lw_workload */
extern const struct lw_field lw_cluster_file_fields[]; /* of struct lw_cluster */
extern const struct lw_field lw_framework_file_fields[]; /* of struct lw_framework */
/* Of a plan file: made from the descriptor of a plan's tables. Kept as long as *m is. */
enum { LW_PLAN_FORMAT_FIELDS = 224 };
struct lw_plan_format {
    struct lw_field fields[LW_PLAN_FORMAT_FIELDS];
    int n;
};
const struct lw_field *lw_plan_file_fields(struct lw_plan_format *m);

/* A document being read. Memory of the result comes from the arena. */
struct lw_fields {
    struct lw_json *j; /* keeps the first error */
    struct lw_arena *arena;
    bool foreign; /* of another program: see lw_foreign_read */
    bool no_memory;
};

/* The object under the cursor into *base (all of it is set, absent fields too). False after an
 * error, which the document keeps. The table ends with name == NULL. */
bool lw_fields_read(struct lw_fields *r, const struct lw_field *table, void *base);
/* The fields of *base that are not as if absent, into the object that is open. */
void lw_fields_write(struct lw_jsonout *o, const struct lw_field *table, const void *base);

/* The array of objects under the cursor; *items in the arena. False after an error. */
bool lw_fields_read_list(struct lw_fields *r, const struct lw_field *table, size_t size,
                         void *items, int32_t *n);

/* A whole file: opened, "lapwing" and "kind" verified, *base read by the table. What was allocated
 * is in the arena also after an error; the caller frees it. */
enum lw_status lw_file_read(const char *file, const char *kind, const struct lw_field *table,
                            struct lw_arena *arena, void *base, struct lw_err *err);
/* The same from a text in memory, with LW_JSON_PADDING bytes after it. */
enum lw_status lw_text_read(const char *name, const char *text, size_t len, const char *kind,
                            const struct lw_field *table, struct lw_arena *arena, void *base,
                            struct lw_err *err);
/* A text of another program: fields that the table does not know are skipped, of one given twice
 * the last counts, null is as if absent (an item of numbers: -1). */
enum lw_status lw_foreign_read(const char *name, const char *text, size_t len,
                               const struct lw_field *table, struct lw_arena *arena, void *base,
                               struct lw_err *err);
/* The whole file as a text in memory, without a content_hash; *text with free. */
enum lw_status lw_text_write(const char *kind, const struct lw_field *table, const void *base,
                             char **text, size_t *len, struct lw_err *err);
/* The same into an open stream; whether that failed is the caller's to see. */
void lw_stream_write(FILE *f, const char *kind, const struct lw_field *table, const void *base);
/* "-" is standard output; a regular file appears whole or not at all. */
enum lw_status lw_file_write(const char *file, const char *kind, const struct lw_field *table,
                             const void *base, struct lw_err *err);
