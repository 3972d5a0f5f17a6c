/* JSON writing: one place for commas, quotes, escapes and indentation. A plan of many ranks has
 * millions of numbers and keys: they are written without formats and locks; a file is written by
 * one thread. */
#include "shared/json/jsonout.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/shown_text.h"

/* A byte that stands for itself inside quotes: ASCII but '"', '\\', controls and DEL. */
static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void put_character(FILE *f, uint32_t c)
{
    char bytes[4];

    if (c == '"' || c == '\\')
        fprintf(f, "\\%c", (int)c);
    else if (c == '\n')
        fputs("\\n", f);
    else if (c == '\t')
        fputs("\\t", f);
    else if (c < 0x20 || (c >= 0x7f && c < 0xa0))
        fprintf(f, "\\u%04x", (unsigned)c);
    else
        fwrite(bytes, 1, (size_t)lw_utf8_encode(c, bytes), f);
}

/* Strict JSON (RFC 8259): invalid UTF-8 becomes U+FFFD. Control characters that a terminal obeys
 * are escaped although the standard allows some of them, because JSON is also shown. */
static void quoted(FILE *f, const char *s)
{
    putc_unlocked('"', f);
    while (*s) {
        size_t n = 0;
        while (is_plain((unsigned char)s[n]))
            n++;
        if (n > 0)
            fwrite_unlocked(s, 1, n, f);
        s += n;
        if (*s)
            put_character(f, lw_utf8_next(&s));
    }
    putc_unlocked('"', f);
}

static void indent(struct lw_jsonout *o)
{
    putc_unlocked('\n', o->file);
    for (int i = 0; i < o->depth; i++)
        fputs_unlocked("  ", o->file);
}

enum { HEAD = 80 };

/* A key of plain bytes that leaves room in a head, in quotes and with ": ", into to; the bytes
 * written, 0 for another key. */
static size_t plain_key(const char *key, char *to)
{
    size_t n = 0;

    to[n++] = '"';
    for (; *key; to[n++] = *key++)
        if (n > HEAD - 8 || !is_plain((unsigned char)*key))
            return 0;
    memcpy(to + n, "\": ", 3);
    return n + 3;
}

/* What stands before a value of a line, into to[HEAD], to be written with the value at once: a line
 * of an op has twenty. Other values' is written. Returns the bytes that are left to write. */
static size_t head_of(struct lw_jsonout *o, const char *key, char *to)
{
    size_t n = 0, of_key = 0;

    if (o->depth > 0) {
        bool compact = o->compact_from[o->depth];
        if (o->has_item[o->depth])
            to[n++] = ',';
        if (compact && n > 0)
            to[n++] = ' ';
        o->has_item[o->depth] = true;
        if (!compact) {
            fwrite_unlocked(to, 1, n, o->file);
            indent(o);
            n = 0;
        }
    }
    if (key)
        of_key = plain_key(key, to + n);
    if (key && of_key == 0) {
        fwrite_unlocked(to, 1, n, o->file);
        quoted(o->file, key);
        fputs_unlocked(": ", o->file);
        return 0;
    }
    return n + of_key;
}

static void before_value(struct lw_jsonout *o, const char *key)
{
    char text[HEAD];
    size_t n = head_of(o, key, text);

    if (n > 0)
        fwrite_unlocked(text, 1, n, o->file);
}

static void open_container(struct lw_jsonout *o, const char *key, bool is_array, bool compact)
{
    assert(o->depth + 1 < LW_JSONOUT_DEPTH);
    before_value(o, key);
    putc_unlocked(is_array ? '[' : '{', o->file);
    bool inherited = o->depth > 0 && o->compact_from[o->depth];
    o->depth++;
    o->is_array[o->depth] = is_array;
    o->has_item[o->depth] = false;
    o->compact_from[o->depth] = compact || inherited;
}

void lw_jsonout_object(struct lw_jsonout *o, const char *key)
{
    open_container(o, key, false, false);
}

void lw_jsonout_array(struct lw_jsonout *o, const char *key)
{
    open_container(o, key, true, false);
}

void lw_jsonout_line_object(struct lw_jsonout *o, const char *key)
{
    open_container(o, key, false, true);
}

void lw_jsonout_line_array(struct lw_jsonout *o, const char *key)
{
    open_container(o, key, true, true);
}

void lw_jsonout_end(struct lw_jsonout *o)
{
    assert(o->depth > 0);
    bool is_array = o->is_array[o->depth], had = o->has_item[o->depth];
    bool compact = o->compact_from[o->depth];
    o->depth--;
    if (had && !compact)
        indent(o);
    putc_unlocked(is_array ? ']' : '}', o->file);
    if (o->depth == 0)
        putc_unlocked('\n', o->file);
}

void lw_jsonout_string(struct lw_jsonout *o, const char *key, const char *value)
{
    before_value(o, key);
    if (value)
        quoted(o->file, value);
    else
        fputs("null", o->file);
}

void lw_jsonout_int(struct lw_jsonout *o, const char *key, int64_t value)
{
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    char text[HEAD + 20], digits[20]; /* filled from its end */
    size_t at = sizeof digits, n = head_of(o, key, text);

    do
        digits[--at] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (value < 0)
        digits[--at] = '-';
    memcpy(text + n, digits + at, sizeof digits - at);
    fwrite_unlocked(text, 1, n + sizeof digits - at, o->file);
}

void lw_jsonout_maybe(struct lw_jsonout *o, const char *key, struct lw_maybe value)
{
    if (value.known)
        lw_jsonout_int(o, key, value.value);
    else
        lw_jsonout_null(o, key);
}

void lw_jsonout_double(struct lw_jsonout *o, const char *key, double value)
{
    char text[40];

    before_value(o, key);
    if (!isfinite(value)) {
        fputs("null", o->file);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, o->file);
}

void lw_jsonout_decimals(struct lw_jsonout *o, const char *key, struct lw_decimals x)
{
    before_value(o, key);
    if (isfinite(x.value))
        fprintf(o->file, "%.*f", x.digits, x.value);
    else
        fputs("null", o->file);
}

void lw_jsonout_bool(struct lw_jsonout *o, const char *key, bool value)
{
    before_value(o, key);
    fputs(value ? "true" : "false", o->file);
}

void lw_jsonout_null(struct lw_jsonout *o, const char *key)
{
    lw_jsonout_string(o, key, NULL);
}

/* ns with as many of three decimals as it needs: nothing is lost ("0.32", "1234.567", "5"). */
static void exact_ns(struct lw_jsonout *o, const char *key, lw_ps value)
{
    uint64_t ps = value < 0 ? -(uint64_t)value : (uint64_t)value;
    int decimals = 3;

    while (decimals > 0 && ps % 10 == 0) {
        ps /= 10;
        decimals--;
    }
    uint64_t unit = decimals == 3 ? 1000 : decimals == 2 ? 100 : decimals == 1 ? 10 : 1;
    before_value(o, key);
    fprintf(o->file, "%s%" PRIu64, value < 0 ? "-" : "", ps / unit);
    if (decimals)
        fprintf(o->file, ".%0*" PRIu64, decimals, ps % unit);
}

void lw_jsonout_quantity(struct lw_jsonout *o, const char *key, struct lw_quantity x)
{
    if (x.as == LW_SHOW_EXACT_NS)
        exact_ns(o, key, x.value);
    else
        lw_jsonout_int(o, key,
                       x.as == LW_SHOW_PS || x.as == LW_SHOW_MS ? lw_ps_to_ns(x.value) : x.value);
}

void lw_jsonout_strings(struct lw_jsonout *o, const char *key, const char *const *items, int64_t n)
{
    lw_jsonout_array(o, key);
    for (int64_t i = 0; i < n; i++)
        lw_jsonout_string(o, NULL, items[i]);
    lw_jsonout_end(o);
}
