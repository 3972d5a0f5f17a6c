#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/err.h"

/* A pull reader over one JSON document, in document order, each value visited at most once.
 * What is not read is skipped. The first error sticks: every later call answers "nothing" (false,
 * 0, ""), so a reader is written without a test after each line and asks lw_json_done at the end.
 *
 *     while (lw_json_next(j)) {                   // fields of the object that was entered
 *         if (lw_json_key_is(j, "bytes"))  bytes = lw_json_int64(j);
 *         else if (lw_json_key_is(j, "deps") && lw_json_enter(j, LW_JSON_ARRAY)) {
 *             while (lw_json_next(j)) add(lw_json_int64(j));
 *         }                                       // next() == false also leaves the container
 *     }
 *
 * Everything passed over is checked, whether read or skipped; only what follows the last call is
 * not. At most 1024 containers lie inside each other. Error messages read "NAME: at ops[3].bytes
 * (byte 8123): found string "x", expected an integer". */
struct lw_json;

enum lw_json_type {
    LW_JSON_NONE, /* at the end, or after an error */
    LW_JSON_OBJECT,
    LW_JSON_ARRAY,
    LW_JSON_STRING,
    LW_JSON_NUMBER,
    LW_JSON_BOOL,
    LW_JSON_NULL,
};

/* Bytes that must be allocated (and readable) after the text given to lw_json_open. */
#define LW_JSON_PADDING 64

/* Open a document held in memory: text[len] borrowed until lw_json_close, with LW_JSON_PADDING
 * allocated bytes after it. `name` (borrowed) begins every message. The cursor stands on the root
 * value. A byte that is not UTF-8 reads as U+FFFD. LW_EFORMAT when it is not JSON at all;
 * LW_ENOTSUP beyond 4 GiB. */
enum lw_status lw_json_open(const char *name, const char *text, size_t len, struct lw_json **out,
                            struct lw_err *err);
/* The same, but a text that is not UTF-8 is refused, where the reader comes to it: no pass over the
 * whole text comes first. */
enum lw_status lw_json_open_unmended(const char *name, const char *text, size_t len,
                                     struct lw_json **out, struct lw_err *err);
/* The same for a text that may be cut or damaged: what is before the first byte that cannot be
 * part of JSON is opened, and *broken says what is wrong there (code LW_OK: nothing was seen; the
 * reader still finds what only reading shows). */
enum lw_status lw_json_open_broken(const char *name, const char *text, size_t len,
                                   struct lw_json **out, struct lw_err *broken, struct lw_err *err);
/* Opens what is left of a text from text[at] on, where an element begins of the list that is the
 * root, or the value of one of the root's fields (of_field): as if that list had just been entered.
 * It stands before that element; after the list come the root's other fields. What is before `at`
 * is not looked at, paths in messages count from there, and text that is not UTF-8 is refused. */
enum lw_status lw_json_open_within(const char *name, const char *text, size_t len, size_t at,
                                   bool of_field, struct lw_json **out, struct lw_err *err);
void lw_json_close(struct lw_json *j);
/* Test hook: texts longer than this are scanned a piece of this size at a time; 0 = as usual. A
 * long text that is no JSON fails where the reader comes to it, not when it is opened. */
void lw_json_pieces(size_t bytes);

/* Back to the root, to read the document once more. An error stays. */
void lw_json_rewind(struct lw_json *j);

/* The value under the cursor. */
enum lw_json_type lw_json_type(struct lw_json *j);
int64_t lw_json_offset(struct lw_json *j); /* byte offset of that value in the text */

/* Step into the value under the cursor; false (and an error) when it is of another type. The cursor
 * is before the first field or element. */
bool lw_json_enter(struct lw_json *j, enum lw_json_type type);
/* To the next field or element of the container entered last; false at its end, and then the
 * container has been left and the cursor stands on it again, consumed. */
bool lw_json_next(struct lw_json *j);
/* Leave the container entered last before its end; the rest of it is skipped. */
void lw_json_leave(struct lw_json *j);

/* The key of the field under the cursor, unescaped; valid until the next call of lw_json_next. */
const char *lw_json_key(struct lw_json *j, size_t *len);
bool lw_json_key_is(struct lw_json *j, const char *key);

/* Keys that a reader looks for, found in one step. */
enum { LW_JSON_MOST_KEYS = 32, LW_JSON_KEY_SLOT_BITS = 7 };
struct lw_json_keys {
    const char *key[LW_JSON_MOST_KEYS]; /* borrowed */
    size_t len[LW_JSON_MOST_KEYS];
    uint64_t head[LW_JSON_MOST_KEYS];   /* the first 8 bytes */
    uint8_t slot[1 << LW_JSON_KEY_SLOT_BITS]; /* number of the key + 1; 0 = free */
};
/* key[n] differ; n is at most LW_JSON_MOST_KEYS. */
void lw_json_keys_init(struct lw_json_keys *keys, const char *const *key, int n);
/* lw_json_next to the next field whose key is one of them: its number. Other fields are passed
 * over, checked as lw_json_next checks them. -1 at the end, where the object has been left, or
 * after an error. */
int lw_json_next_of(struct lw_json *j, const struct lw_json_keys *keys);

/* The scalar under the cursor. Strings are unescaped, NUL-terminated, and valid until the document
 * is closed (they live in the reader's own buffer); len may be NULL, and then a string that holds a
 * zero character is refused. lw_json_int64 refuses fractions and numbers
 * beyond int64; lw_json_number_text gives a number's own characters (not terminated), so that
 * decimal times lose nothing, and also accepts a string that holds a number. */
const char *lw_json_string(struct lw_json *j, size_t *len);
/* The same without a copy: characters in the text itself unless the string holds an escape, not
 * terminated, valid as long as the text. The key of the field likewise. */
const char *lw_json_view(struct lw_json *j, size_t *len);
const char *lw_json_key_view(struct lw_json *j, size_t *len);
int64_t lw_json_int64(struct lw_json *j);
double lw_json_double(struct lw_json *j);
bool lw_json_bool(struct lw_json *j);
const char *lw_json_number_text(struct lw_json *j, size_t *len);

/* The number under the cursor times 10^power (0 or more), where it is written without an exponent,
 * with at most 19 digits then, and that is a whole number above -2^63 and below 2^63. False:
 * nothing was read, and the calls above tell more. */
bool lw_json_decimal(struct lw_json *j, int power, int64_t *value);

/* Record an error of the caller's own at the cursor ("at PATH (byte N): ..."); sticks. */
void lw_json_fail(struct lw_json *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool lw_json_failed(const struct lw_json *j);

/* LW_OK when everything so far was read without error and, if the root was left, nothing but blanks
 * follows it; else the first error. */
enum lw_status lw_json_done(struct lw_json *j, struct lw_err *err);
