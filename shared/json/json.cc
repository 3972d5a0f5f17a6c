/* The pull reader of shared/json/json.h. simdjson finds the tokens: its first stage checks UTF-8
 * and the quoting of strings and writes the byte offset of every token, at several bytes per clock.
 * A text that is not UTF-8 is copied with U+FFFD for each such byte, and scanned again.
 * Long texts are scanned a piece at a time: the offsets of one piece stay in the cache, those of a
 * whole text would take up to its size and the time to page them in.
 * What is written here is the walk over these offsets, because simdjson's own (On-Demand) skips a
 * value by counting brackets and so accepts what it does not look at. docs/design/json.md compares
 * the two.
 *
 * Invariants:
 *   tokens   at[0] < at[1] < ... < len: each of { } [ ] : , and the first byte of each string,
 *            number and word; what stands between the end of a token and the next is blank. Of
 *            them at[base] .. at[base + count - 1] are known now: those from four before the one
 *            that was asked for last. Of earlier ones only the cursor is asked for (cur_at), and
 *            frames keep theirs
 *   cursor   the value that begins at token `cur`; `after` is the token after it once that is
 * known (0 before): values are checked when they are read or skipped, whichever comes first frames
 * the containers entered and not left, outermost first; a frame's `index` is -1 before its first
 * item Everything passed over is checked against the grammar of RFC 8259: brackets, commas, words,
 * numbers, escapes (a lone surrogate is refused: UTF-8 cannot hold it). Not checked: what follows
 * the last value read when the caller stops early, and that the keys of an object differ. */
#include <simdjson.h>

#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

extern "C" {
#include "shared/base/arena.h"
#include "shared/base/large_pages.h"
#include "shared/base/shown_text.h"
#include "shared/json/json.h"
}

namespace
{

constexpr int MAX_DEPTH = 1024;
constexpr size_t SHOWN_BYTES = 32;
constexpr size_t PIECE_BYTES = 256 << 10;
constexpr uint32_t KEPT = 4; /* tokens before the one that is asked for */
constexpr int MOST_PLAIN_DEPTH = 60;
constexpr uint64_t ZEROS = UINT64_C(0x3030303030303030); /* "00000000" */
size_t piece_bytes = PIECE_BYTES;

struct frame {
    uint32_t open, open_at;  /* token, and where it is */
    bool object;
    uint32_t key, key_bytes; /* the key under the cursor: its place in the text, between quotes */
    int64_t index;
};

} // namespace

struct lw_json {
    const char *name, *text;
    char *repaired; /* text, where what was given is not UTF-8 */
    const char *given; /* with `repaired`: the text before */
    size_t given_len, walked, walked_given; /* of given_at: a place in `text` and in `given` */
    size_t len;
    int64_t skipped; /* bytes of a byte order mark before `text` */
    std::unique_ptr<simdjson::internal::dom_parser_implementation> scanner;
    const uint32_t *at; /* by number of the token, of those that are known */
    uint32_t base, count, cur, after;
    size_t cur_at;
    uint32_t *window;               /* room for the known ones of a piece; NULL: all are known */
    size_t window_room, scanned;    /* tokens; bytes of the text */
    bool has_value, failed;
    bool checked; /* the scalar under the cursor passed */
    int depth;
    const frame *field;               /* the frame whose key is under the cursor, or NULL */
    size_t backslash, backslash_from; /* none in text[backslash_from .. backslash) */
    lw_arena strings; /* those handed out */
    char *key;
    int64_t key_cap;
    lw_err err;
    frame frames[MAX_DEPTH];
};

namespace
{

inline bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

struct kinds {
    enum lw_json_type of[256];
    constexpr kinds() : of()
    {
        for (int c = 0; c < 256; c++)
            of[c] = c == '{'                            ? LW_JSON_OBJECT
                    : c == '['                          ? LW_JSON_ARRAY
                    : c == '"'                          ? LW_JSON_STRING
                    : c == 't' || c == 'f'              ? LW_JSON_BOOL
                    : c == 'n'                          ? LW_JSON_NULL
                    : c == '-' || (c >= '0' && c <= '9') ? LW_JSON_NUMBER
                                                        : LW_JSON_NONE;
    }
};

constexpr kinds KINDS;

/* What a value that begins with c must be; NONE: no value begins so. */
inline enum lw_json_type kind_of(char c)
{
    return KINDS.of[(unsigned char)c];
}

size_t find_token(lw_json *j, uint32_t i);

inline size_t token_begin(lw_json *j, uint32_t i)
{
    return i - j->base < j->count ? j->at[i] : find_token(j, i);
}

/* First byte of token i; 0 after the last (no token begins with a zero byte that passes). */
inline char peek(lw_json *j, uint32_t i)
{
    size_t at = token_begin(j, i);
    return at < j->len ? j->text[at] : 0;
}

/* Where what stands before text[end] ends. */
inline size_t before_blanks(const lw_json *j, size_t end)
{
    while (is_blank(j->text[end - 1]))
        end--;
    return end;
}

inline size_t token_end(lw_json *j, uint32_t i)
{
    return before_blanks(j, token_begin(j, i + 1));
}

/* First byte of the value under the cursor. */
inline char here(const lw_json *j)
{
    return j->text[j->cur_at];
}

__attribute__((noinline)) bool find_backslash(lw_json *j, size_t begin, size_t end)
{
    if (begin < j->backslash_from)
        return memchr(j->text + begin, '\\', end - begin) != nullptr;
    if (j->backslash < end && (j->backslash < begin || j->text[j->backslash] != '\\')) {
        size_t to = j->scanned > end ? j->scanned : end;
        const void *p = memchr(j->text + begin, '\\', to - begin);
        j->backslash = p ? (size_t)((const char *)p - j->text) : to;
        j->backslash_from = begin;
    }
    return j->backslash < end;
}

inline bool has_backslash(lw_json *j, size_t begin, size_t end)
{
    bool none = begin >= j->backslash_from && j->backslash >= end;
    return !none && find_backslash(j, begin, end);
}

/* --- errors ----------------------------------------------------------------------------------- */

/* The place of the cursor, "ops[3].bytes", innermost parts kept when it is long. */
void describe_path(const lw_json *j, char *buf, size_t size)
{
    char part[80];
    size_t from = size - 1;

    buf[from] = 0;
    for (int d = j->depth - 1; d >= 0; d--) {
        const frame *f = &j->frames[d];
        if (f->index < 0)
            continue;
        if (!f->object) {
            snprintf(part, sizeof part, "[%lld]", (long long)f->index);
        } else {
            size_t b = f->key, n = f->key_bytes;
            bool cut = n > 60;
            for (n = cut ? 60 : n; cut && n > 0 && (j->text[b + n] & 0xc0) == 0x80; n--)
                ;
            snprintf(part, sizeof part, ".%.*s%s", (int)n, j->text + b, cut ? "..." : "");
        }
        size_t n = strlen(part);
        if (from < n + 4) {
            memcpy(buf + (from -= 3), "...", 3);
            break;
        }
        memcpy(buf + (from -= n), part, n);
    }
    if (buf[from] == '.' && buf[from + 1] != '.')
        from++;
    memmove(buf, buf + from, size - from);
    if (!buf[0])
        snprintf(buf, size, "the top level");
}

/* Bytes of the UTF-8 character at p; 0 when it is not one. p[0..2] may lie in the padding. */
size_t utf8_length(const char *p, const char *end)
{
    const char *next = p;

    if ((unsigned char)*p < 0x80)
        return 1;
    bool bad = lw_utf8_next(&next) == LW_UTF8_REPLACEMENT && next == p + 1;
    return bad || next > end ? 0 : (size_t)(next - p);
}

/* Where a byte of `text` stands in what was given. Asked in rising order, as a reader does, it
 * passes over the text once. */
size_t given_at(lw_json *j, size_t at)
{
    const char *end = j->given + j->given_len;

    if (!j->repaired)
        return at + (size_t)j->skipped;
    if (at < j->walked)
        j->walked = j->walked_given = 0;
    while (j->walked < at && j->walked_given < j->given_len) {
        size_t n = utf8_length(j->given + j->walked_given, end), to = n ? n : 3;
        if (j->walked + to > at) /* within a character */
            return j->walked_given + (n ? at - j->walked : 0) + (size_t)j->skipped;
        j->walked += to;
        j->walked_given += n ? n : 1;
    }
    return j->walked_given + (size_t)j->skipped;
}

void fail_at(lw_json *j, lw_status code, size_t byte, const char *what)
{
    char path[160];

    if (j->failed)
        return;
    describe_path(j, path, sizeof path);
    j->failed = true;
    lw_fail(&j->err, code, "%s: at %s (byte %lld): %s", j->name, path,
            (long long)given_at(j, byte), what);
}

void fail_nomem(lw_json *j)
{
    if (!j->failed)
        lw_fail_nomem(&j->err);
    j->failed = true;
}

/* What stands at token i, in words and cut short. */
void describe_found(lw_json *j, uint32_t i, char *buf, size_t size)
{
    char c = peek(j, i);

    if (token_begin(j, i) >= j->len) {
        snprintf(buf, size, "the end of the text");
    } else if (c == '\0') {
        snprintf(buf, size, "a zero byte");
    } else if (c == '{' || c == '[') {
        snprintf(buf, size, c == '{' ? "an object" : "an array");
    } else if (c && strchr("}],:", c)) {
        snprintf(buf, size, "'%c'", c);
    } else {
        size_t b = token_begin(j, i), n = token_end(j, i) - b;
        bool cut = n > SHOWN_BYTES;
        char shown[SHOWN_BYTES + 1] = "";
        if (cut)
            for (n = SHOWN_BYTES; n > 0 && (j->text[b + n] & 0xc0) == 0x80; n--)
                ;
        for (size_t k = 0; k < n; k++) {
            unsigned char byte = (unsigned char)j->text[b + k];
            shown[k] = byte < ' ' || byte == 127 ? '?' : (char)byte;
        }
        snprintf(buf, size, "%s%s%s", c == '"' ? "string " : "", shown, cut ? "..." : "");
    }
}

bool fail_found(lw_json *j, uint32_t i, const char *expected)
{
    char found[SHOWN_BYTES + 16], what[160];

    describe_found(j, i, found, sizeof found);
    snprintf(what, sizeof what, "found %s, expected %s", found, expected);
    fail_at(j, LW_EFORMAT, token_begin(j, i), what);
    return false;
}

/* --- scalars ---------------------------------------------------------------------------------- */

/* The lowest n bytes of a word, 1 to 8. */
inline uint64_t low_bytes(uint64_t word, size_t n)
{
    return word & (UINT64_MAX >> (64 - 8 * n));
}

/* Eight bytes from p on, the first one lowest; the padding makes them readable. */
inline uint64_t load8(const char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof word);
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(word) : word;
}

/* 0: eight digits; else the lowest byte that is not 0 is at the first that is no digit. */
inline uint64_t not_digits(uint64_t eight)
{
    uint64_t high = eight + UINT64_C(0x0606060606060606); /* 0x3a .. 0x3f leave 0x3_ */
    return ((eight & high) & UINT64_C(0xf0f0f0f0f0f0f0f0)) ^ ZEROS;
}

/* Times of traces have 13 to 19 digits: eight are looked at at once. */
inline const char *after_digits(const char *p, const char *end)
{
    for (; end - p >= 8 && not_digits(load8(p)) == 0; p += 8)
        ;
    while (p < end && is_digit(*p))
        p++;
    return p;
}

/* The end of the number that begins at p; NULL when none does. */
const char *number_end(const char *p, const char *end)
{
    if (p < end && *p == '-')
        p++;
    if (p == end || !is_digit(*p))
        return nullptr;
    if (*p == '0')
        p++;
    else
        p = after_digits(p, end);
    if (p < end && *p == '.') {
        const char *first = ++p;
        p = after_digits(p, end);
        if (p == first)
            return nullptr;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        const char *first = p;
        p = after_digits(p, end);
        if (p == first)
            return nullptr;
    }
    return p;
}

bool is_number(const char *p, const char *end)
{
    return number_end(p, end) == end;
}

bool is_word(lw_json *j, uint32_t i, const char *word)
{
    size_t b = token_begin(j, i), n = strlen(word);
    return token_end(j, i) - b == n && memcmp(j->text + b, word, n) == 0;
}

int hex4(const char *p, const char *end)
{
    int v = 0;

    if (end - p < 4)
        return -1;
    for (int k = 0; k < 4; k++) {
        char c = p[k], l = (char)(c | 0x20);
        if (is_digit(c))
            v = v * 16 + (c - '0');
        else if (l >= 'a' && l <= 'f')
            v = v * 16 + (l - 'a' + 10);
        else
            return -1;
    }
    return v;
}

/* The character of one escape, p after its backslash; -1: no escape, -2: half of a pair. */
int escape_code(const char **at, const char *end)
{
    static const char names[] = "\"\\/bfnrt", codes[] = "\"\\/\b\f\n\r\t";
    const char *p = *at;
    const char *k = p < end && *p ? strchr(names, *p) : nullptr;

    if (k) {
        *at = p + 1;
        return (unsigned char)codes[k - names];
    }
    int code = p < end && *p == 'u' ? hex4(p + 1, end) : -1;
    if (code < 0)
        return -1;
    *at = p += 5;
    if (code < 0xd800 || code > 0xdfff)
        return code;
    int low = end - p >= 6 && p[0] == '\\' && p[1] == 'u' ? hex4(p + 2, end) : -1;
    if (code > 0xdbff || low < 0xdc00 || low > 0xdfff)
        return -2;
    *at = p + 6;
    return 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
}

/* Unescape text[begin..end) into `to` (NULL: only check); the length, or -1 after an error. */
int64_t unescape(lw_json *j, size_t begin, size_t end, char *to)
{
    const char *p = j->text + begin, *stop = j->text + end;
    char scratch[4];
    int64_t n = 0;

    while (p < stop) {
        const char *b = (const char *)memchr(p, '\\', (size_t)(stop - p));
        size_t plain = (size_t)((b ? b : stop) - p);
        if (to)
            memcpy(to + n, p, plain);
        n += (int64_t)plain;
        if (!b)
            break;
        p = b + 1;
        int code = escape_code(&p, stop);
        if (code < 0) {
            char what[80];
            snprintf(what, sizeof what,
                     code == -1 ? "found an unknown escape in a string, expected \\\" \\\\ \\/ "
                                  "\\b \\f \\n \\r \\t or \\uXXXX"
                                : "found half of a surrogate pair in a string, expected both");
            fail_at(j, LW_EFORMAT, (size_t)(b - j->text), what);
            return -1;
        }
        n += lw_utf8_encode((uint32_t)code, to ? to + n : scratch);
    }
    return n;
}

/* The bytes between the quotes of the string at token i. */
inline void string_range(lw_json *j, uint32_t i, size_t *begin, size_t *end)
{
    *begin = token_begin(j, i) + 1;
    *end = token_end(j, i) - 1;
}

inline bool check_escapes(lw_json *j, size_t begin, size_t end)
{
    return !has_backslash(j, begin, end) || unescape(j, begin, end, nullptr) >= 0;
}

bool check_any_scalar(lw_json *j, uint32_t i)
{
    char c = peek(j, i);

    if (c == '"') {
        size_t begin, end;
        string_range(j, i, &begin, &end);
        return check_escapes(j, begin, end);
    }
    if (c == '-' || is_digit(c)) {
        if (is_number(j->text + token_begin(j, i), j->text + token_end(j, i)))
            return true;
        return fail_found(j, i, "a number");
    }
    if ((c == 't' && is_word(j, i, "true")) || (c == 'f' && is_word(j, i, "false")) ||
        (c == 'n' && is_word(j, i, "null")))
        return true;
    return fail_found(j, i, "a value");
}

/* The usual scalars, from text[begin] to before the next token: a string without an escape, a
 * number. False: not told. */
inline bool passes_plainly(lw_json *j, size_t begin, size_t next)
{
    const char *p = j->text + begin;
    size_t end = before_blanks(j, next), n = end - begin;

    if (*p == '"') /* of fewer than two bytes: the text ends in it */
        return n >= 2 && !has_backslash(j, begin + 1, end - 1);
    if (!is_digit(*p))
        return false;
    if (n == 0 || n > 8 || *p == '0') /* 0: the text ends here */
        return is_number(p, j->text + end);
    return low_bytes(not_digits(load8(p)), n) == 0 || is_number(p, j->text + end);
}

/* A reader asks for a value's type before it reads or passes it: checked once. */
inline bool check_scalar(lw_json *j, uint32_t i)
{
    if (i != j->cur)
        return check_any_scalar(j, i);
    j->checked = j->checked || passes_plainly(j, j->cur_at, token_begin(j, i + 1)) ||
                 check_any_scalar(j, i);
    return j->checked;
}

/* --- walking ---------------------------------------------------------------------------------- */

inline bool is_container(char c)
{
    return c == '{' || c == '[';
}

inline bool check_key(lw_json *j, uint32_t i, size_t *begin, size_t *end)
{
    if (peek(j, i) != '"')
        return fail_found(j, i, "a key in quotes");
    if (peek(j, i + 1) != ':')
        return fail_found(j, i + 1, "':' after the key");
    string_range(j, i, begin, end);
    return check_escapes(j, *begin, *end);
}

/* Tokens t[0] and t[1] are a key without an escape. */
inline bool plain_key(lw_json *j, const uint32_t *t)
{
    return j->text[t[0]] == '"' && j->text[t[1]] == ':' &&
           !has_backslash(j, t[0] + 1, before_blanks(j, t[1]) - 1);
}

bool fail_depth(lw_json *j, uint32_t i)
{
    char what[80];
    snprintf(what, sizeof what, "found more than %d containers inside each other", MAX_DEPTH);
    fail_at(j, LW_EFORMAT, token_begin(j, i), what);
    return false;
}

bool fail_separator(lw_json *j, uint32_t i, bool in_object)
{
    return fail_found(j, i, in_object ? "',' or '}'" : "',' or ']'");
}

/* Pass over the container that opens at token i, checking all of it; the token after it, or 0
 * after an error. A bit per level tells objects from arrays. */
uint32_t skip_container(lw_json *j, uint32_t i)
{
    uint64_t objects[MAX_DEPTH / 64];
    int depth = 0;
    bool in_object = false;
    size_t begin, end;

    for (;;) { /* token i begins a value */
        char c = peek(j, i);
        if (is_container(c)) {
            if (j->depth + depth >= MAX_DEPTH)
                return fail_depth(j, i), 0;
            uint64_t bit = UINT64_C(1) << (depth % 64), *word = &objects[depth / 64];
            in_object = c == '{';
            *word = in_object ? *word | bit : *word & ~bit;
            depth++;
            i++;
            if (peek(j, i) != (in_object ? '}' : ']')) {
                if (in_object && !check_key(j, i, &begin, &end))
                    return 0;
                i += in_object ? 2 : 0;
                continue;
            }
        } else {
            if (!passes_plainly(j, token_begin(j, i), token_begin(j, i + 1)) && !check_scalar(j, i))
                return 0;
            i++;
        }
        while (peek(j, i) == (in_object ? '}' : ']')) {
            i++;
            if (--depth == 0)
                return i;
            in_object = objects[(depth - 1) / 64] >> ((depth - 1) % 64) & 1;
        }
        if (peek(j, i) != ',')
            return fail_separator(j, i, in_object), 0;
        i++;
        if (in_object && !check_key(j, i, &begin, &end))
            return 0;
        i += in_object ? 2 : 0;
    }
}

/* The last token from which n are known; before the first when there is none. */
inline const uint32_t *last_known(const lw_json *j, uint32_t n)
{
    return j->at + j->base + j->count - n;
}

/* Any value that begins at *t, if its tokens are known and its strings hold no escape: the token
 * after it, else NULL. last[1] .. last[5] are known too.
 * A bit tells objects from arrays; the lowest is that of the innermost. */
inline const uint32_t *plain_value(lw_json *j, const uint32_t *t, const uint32_t *last)
{
    const char *const text = j->text;
    uint64_t objects = 0;
    int depth = 0;

    while (t <= last) { /* *t begins a value */
        char c = text[*t];
        if (is_container(c)) {
            if (++depth > MOST_PLAIN_DEPTH)
                return nullptr;
            objects = objects << 1 | (c == '{');
            if (text[*++t] != c + 2) { /* '[' ']', '{' '}' */
                if (c == '{' && !plain_key(j, t))
                    return nullptr;
                t += c == '{' ? 2 : 0;
                continue;
            }
        } else {
            if (!passes_plainly(j, t[0], t[1]))
                return nullptr;
            t++;
        }
        for (; depth > 0 && t <= last + 4 && text[*t] == (objects & 1 ? '}' : ']'); depth--, t++)
            objects >>= 1;
        if (depth == 0)
            return t;
        if (t > last + 4 || text[*t++] != ',' || t > last)
            return nullptr;
        if (objects & 1) {
            if (!plain_key(j, t))
                return nullptr;
            t += 2;
        }
    }
    return nullptr;
}

uint32_t pass_container(lw_json *j)
{
    bool known = j->cur - j->base < j->count && j->depth + MOST_PLAIN_DEPTH < MAX_DEPTH;
    const uint32_t *next = known ? plain_value(j, j->at + j->cur, last_known(j, 6)) : nullptr;

    return next ? (uint32_t)(next - j->at) : skip_container(j, j->cur);
}

/* Make `after` known: the value under the cursor has been passed. */
bool pass_value(lw_json *j)
{
    if (j->after)
        return true;
    if (is_container(here(j)))
        j->after = pass_container(j);
    else if (check_scalar(j, j->cur))
        j->after = j->cur + 1;
    return j->after != 0;
}

bool scalar_under_cursor(lw_json *j)
{
    return !j->failed && j->has_value && !is_container(here(j));
}

/* True when the value under the cursor looks like one of this type. */
bool wants(lw_json *j, enum lw_json_type type, const char *expected)
{
    if (j->failed)
        return false;
    if (!j->has_value) {
        fail_at(j, LW_EINVAL, j->cur_at, "a value was asked for before the first");
        return false;
    }
    return kind_of(here(j)) == type || fail_found(j, j->cur, expected);
}

/* --- opening ---------------------------------------------------------------------------------- */

/* A text that is not UTF-8 is read with U+FFFD for each byte that is not: a copy. */
lw_status repair(lw_json *j, bool *repaired, lw_err *err)
{
    const char *end = j->text + j->len;
    size_t n_bad = 0, n;

    for (const char *p = j->text; p < end; p += n ? n : 1) {
        n = utf8_length(p, end);
        n_bad += n == 0;
    }
    *repaired = n_bad > 0;
    if (n_bad == 0)
        return LW_OK;
    char *to = j->repaired = (char *)lw_calloc(j->len + 2 * n_bad + LW_JSON_PADDING, 1);
    if (!to)
        return lw_fail_nomem(err);
    for (const char *p = j->text; p < end; p += n ? n : 1) {
        n = utf8_length(p, end);
        if (n > 0)
            memcpy(to, p, n);
        to += n > 0 ? n : (size_t)lw_utf8_encode(LW_UTF8_REPLACEMENT, to);
    }
    j->given = j->text;
    j->given_len = j->len;
    j->text = j->repaired;
    j->len += 2 * n_bad;
    return LW_OK;
}

/* The first stage says that a text is bad, not where: look for the place, byte by byte. *good: the
 * text before that byte passes, or at least gets further when it is scanned alone. */
lw_status fail_scan(lw_json *j, simdjson::error_code code, size_t *good, lw_err *err)
{
    const unsigned char *t = (const unsigned char *)j->text;
    size_t quote = 0;
    bool in_string = false, escaped = false;

    for (size_t i = 0; i < j->len; i++) {
        *good = in_string ? quote : i;
        if (in_string && t[i] < ' ')
            return lw_fail(err, LW_EFORMAT,
                           "%s: at byte %lld: found control character 0x%02x in a string, expected "
                           "\\u%04x",
                           j->name, (long long)given_at(j, i), t[i], t[i]);
        if (t[i] == '"' && !escaped) {
            in_string = !in_string;
            quote = i;
        }
        escaped = t[i] == '\\' && !escaped;
    }
    *good = in_string ? quote : 0;
    if (in_string)
        return lw_fail(err, LW_EFORMAT,
                       "%s: at byte %lld: found a string that is not closed before the end of the "
                       "text (byte %lld)",
                       j->name, (long long)given_at(j, quote), (long long)given_at(j, j->len));
    return lw_fail(err, LW_EFORMAT, "%s: not JSON: %s", j->name, simdjson::error_message(code));
}

lw_status scan(lw_json *j, size_t *good, lw_err *err)
{
    auto impl = simdjson::get_active_implementation().operator->();
    simdjson::error_code code = impl->create_dom_parser_implementation(j->len, 1, j->scanner);
    if (!code)
        lw_alloc_large(j->scanner->structural_indexes.get(), j->len);
    if (!code)
        code = j->scanner->stage1((const uint8_t *)j->text, j->len, simdjson::stage1_mode::regular);
    if (code == simdjson::MEMALLOC)
        return lw_fail_nomem(err);
    if (code == simdjson::EMPTY)
        return lw_fail(err, LW_EFORMAT, "%s: found no text, expected JSON", j->name);
    if (code && !j->repaired) {
        bool repaired;
        LW_TRY(repair(j, &repaired, err));
        if (repaired)
            return scan(j, good, err);
    }
    if (code)
        return fail_scan(j, code, good, err);
    j->at = j->scanner->structural_indexes.get();
    j->base = 0;
    j->count = j->scanner->n_structural_indexes;
    j->scanned = j->len;
    return LW_OK;
}

/* --- a piece at a time ------------------------------------------------------------------------ */

/* A place near text[to] where a token begins, or to: after a line break, else before the object
 * that follows another. Whether a string runs over it is told by the scan. */
size_t likely_begin(const lw_json *j, size_t from, size_t to)
{
    const char *text = j->text, *p = (const char *)memrchr(text + from, '\n', to - from);

    if (p && (size_t)(p - text) > from + (to - from) / 2)
        return (size_t)(p - text) + 1;
    for (size_t i = to - 1; i > from + (to - from) / 2; i--)
        if (text[i] == '{' && (text[i - 1] == ',' || (text[i - 1] == ' ' && text[i - 2] == ',')))
            return i;
    return to;
}

simdjson::error_code scan_piece(lw_json *j, size_t from, size_t to)
{
    return j->scanner->stage1((const uint8_t *)j->text + from, to - from,
                              simdjson::stage1_mode::regular);
}

/* to[k] = v[k] + base. */
void copy_offsets(uint32_t *to, const uint32_t *v, uint32_t n, uint32_t base)
{
    typedef uint32_t four __attribute__((vector_size(16)));
    const four bases = {base, base, base, base};
    uint32_t k = 0;

    for (four x; n - k >= 4; k += 4) {
        memcpy(&x, v + k, sizeof x);
        x += bases;
        memcpy(to + k, &x, sizeof x);
    }
    for (; k < n; k++)
        to[k] = v[k] + base;
}

/* The tokens of text[scanned ..): as many as end in a piece, longer where a token does not. False
 * after an error. */
bool scan_next(lw_json *j)
{
    auto impl = simdjson::get_active_implementation().operator->();
    simdjson::error_code code = simdjson::CAPACITY;
    size_t from = j->scanned, to = 0, left = j->len - from;

    for (size_t size = piece_bytes; code; size *= 4) {
        bool rest = size >= left;
        size = rest ? left : size;
        if (size > j->scanner->capacity()) {
            code = impl->create_dom_parser_implementation(size, 1, j->scanner);
            if (code == simdjson::MEMALLOC)
                return fail_nomem(j), false;
        }
        to = rest ? j->len : likely_begin(j, from, from + size);
        code = scan_piece(j, from, to);
        for (int tries = 0; code && !rest && tries < 8; tries++) { /* in a string: before it */
            const char *quote = (const char *)memrchr(j->text + from, '"', to - from);
            if (!quote || quote == j->text + from)
                break;
            to = (size_t)(quote - j->text);
            code = scan_piece(j, from, to);
        }
        if (code && rest) { /* blanks alone, or an error whose place is looked for from the start */
            size_t good;
            if (code == simdjson::EMPTY)
                return j->scanned = j->len, true;
            fail_scan(j, code, &good, &j->err);
            return j->failed = true, false;
        }
        const uint32_t *v = j->scanner->structural_indexes.get();
        uint32_t n = j->scanner->n_structural_indexes;
        if (!code && !rest && !strchr("{}[]:,\"", j->text[from + v[n - 1]])) {
            to = from + v[n - 1]; /* a number or a word may go on */
            j->scanner->n_structural_indexes = --n;
            code = n == 0 ? simdjson::CAPACITY : code;
        }
    }
    j->scanned = to;
    uint32_t n = j->scanner->n_structural_indexes;
    if (j->count + n > j->window_room) {
        size_t room = j->count + n;
        void *grown = lw_realloc(j->window, room * sizeof *j->window);
        if (!grown)
            return fail_nomem(j), false;
        j->window = (uint32_t *)grown;
        j->window_room = room;
    }
    const uint32_t *v = j->scanner->structural_indexes.get();
    copy_offsets(j->window + j->count, v, n, (uint32_t)from);
    j->count += n;
    j->at = j->window - j->base;
    return true;
}

/* Where token i is that is not known now; len: there is none, or it cannot be found. */
size_t find_token(lw_json *j, uint32_t i)
{
    if (i < j->base)
        return i == j->cur ? j->cur_at : j->len; /* no other is asked for */
    while (i - j->base >= j->count) {
        if (j->scanned >= j->len || j->failed)
            return j->len;
        uint32_t end = j->base + j->count, from = end - j->base > KEPT ? end - KEPT : j->base;
        memmove(j->window, j->window + (from - j->base), (end - from) * sizeof *j->window);
        j->count = end - from;
        j->base = from;
        j->at = j->window - j->base;
        if (!scan_next(j))
            return j->len;
    }
    return j->at[i];
}

lw_status begin_pieces(lw_json *j, lw_err *err)
{
    auto impl = simdjson::get_active_implementation().operator->();
    simdjson::error_code code =
        impl->create_dom_parser_implementation(piece_bytes, 1, j->scanner);
    j->window_room = 1024;
    j->window = code ? nullptr : (uint32_t *)lw_alloc(j->window_room * sizeof *j->window);
    j->at = j->window;
    return j->window ? LW_OK : lw_fail_nomem(err);
}

/* Text that is longer than a piece. One to be mended that is not UTF-8 is left to be scanned whole,
 * which mends it. */
bool open_pieces(lw_json *j, bool mend, lw_status *status, lw_err *err)
{
    if (j->len <= piece_bytes || (mend && !simdjson::validate_utf8(j->text, j->len)))
        return false;
    *status = begin_pieces(j, err);
    return true;
}

/* A container as if it had been entered; its first item begins at token 0. */
void enter_before(lw_json *j, bool object, size_t at)
{
    frame *f = &j->frames[j->depth++];

    *f = frame{};
    f->open = UINT32_MAX;
    f->open_at = (uint32_t)at;
    f->object = object;
    f->index = -1;
}
} // namespace

/* --- the interface ---------------------------------------------------------------------------- */

/* Scan; with `broken`, the longest beginning that passes, which a text cut in a string still
 * has. */
static lw_status open_text(lw_json *j, struct lw_err *broken, struct lw_err *err)
{
    size_t good = 0;
    lw_err first = {};
    lw_status status = LW_EFORMAT;

    for (;;) {
        lw_err here = {};
        good = 0;
        status = j->len ? scan(j, &good, &here)
                        : lw_fail(&here, LW_EFORMAT, "%s: found no text, expected JSON", j->name);
        if (first.code == LW_OK || status == LW_ENOMEM)
            first = here;
        if (status != LW_EFORMAT || !broken || good == 0 || good >= j->len)
            break;
        j->len = good;
    }
    if (status != LW_OK && err)
        *err = first;
    else if (broken)
        *broken = first;
    return status;
}

static lw_status new_reader(const char *name, size_t len, lw_json **out, lw_err *err)
{
    if (len > simdjson::SIMDJSON_MAXSIZE_BYTES - 64)
        return lw_fail(err, LW_ENOTSUP, "%s: found %zu bytes of JSON, at most 4 GiB can be read",
                       name, len);
    void *room = lw_calloc(1, sizeof(lw_json));
    if (!room)
        return lw_fail_nomem(err);
    *out = new (room) lw_json();
    (*out)->name = name;
    return LW_OK;
}

static lw_status open_any(const char *name, const char *text, size_t len, bool mend,
                          struct lw_json **out, struct lw_err *broken, struct lw_err *err)
{
    lw_json *j = nullptr;
    LW_TRY(new_reader(name, len, &j, err));
    bool marked = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
    j->skipped = marked ? 3 : 0;
    j->text = text + j->skipped;
    j->len = len - (size_t)j->skipped;
    j->has_value = true;
    lw_status status = LW_OK;
    if (broken || !open_pieces(j, mend, &status, err))
        status = open_text(j, broken, err);
    if (status == LW_OK) {
        j->cur_at = token_begin(j, 0);
        if (!j->failed && j->cur_at >= j->len)
            fail_at(j, LW_EFORMAT, j->len, "found no text, expected JSON");
        if (j->failed) { /* in the first piece */
            status = j->err.code;
            if (err)
                *err = j->err;
        }
    }
    if (status != LW_OK) {
        lw_json_close(j);
        return status;
    }
    *out = j;
    return LW_OK;
}

enum lw_status lw_json_open(const char *name, const char *text, size_t len, struct lw_json **out,
                            struct lw_err *err)
{
    return open_any(name, text, len, true, out, nullptr, err);
}

enum lw_status lw_json_open_unmended(const char *name, const char *text, size_t len,
                                     struct lw_json **out, struct lw_err *err)
{
    return open_any(name, text, len, false, out, nullptr, err);
}

enum lw_status lw_json_open_broken(const char *name, const char *text, size_t len,
                                   struct lw_json **out, struct lw_err *broken, struct lw_err *err)
{
    return open_any(name, text, len, true, out, broken, err);
}

enum lw_status lw_json_open_within(const char *name, const char *text, size_t len, size_t at,
                                   bool of_field, struct lw_json **out, struct lw_err *err)
{
    lw_json *j = nullptr;

    LW_TRY(new_reader(name, len, &j, err));
    j->text = text;
    j->len = len;
    j->scanned = j->cur_at = at;
    if (of_field) {
        enter_before(j, true, at);
        j->frames[0].index = 0;
    }
    enter_before(j, false, at);
    lw_status status = begin_pieces(j, err);
    if (status != LW_OK) {
        lw_json_close(j);
        return status;
    }
    *out = j;
    return LW_OK;
}

void lw_json_pieces(size_t bytes)
{
    piece_bytes = bytes ? bytes : PIECE_BYTES;
}

void lw_json_close(struct lw_json *j)
{
    if (!j)
        return;
    lw_arena_free(&j->strings);
    lw_free(j->key);
    lw_free(j->repaired);
    lw_free(j->window);
    j->~lw_json();
    lw_free(j);
}

void lw_json_rewind(struct lw_json *j)
{
    if (j->base > 0) {
        j->base = j->count = 0;
        j->scanned = 0;
    }
    j->cur = j->after = 0;
    j->checked = false;
    j->cur_at = token_begin(j, 0);
    j->depth = 0;
    j->field = nullptr;
    j->has_value = true;
}

enum lw_json_type lw_json_type(struct lw_json *j)
{
    if (j->failed || !j->has_value)
        return LW_JSON_NONE;
    if (is_container(here(j)) || check_scalar(j, j->cur))
        return kind_of(here(j));
    return LW_JSON_NONE;
}

int64_t lw_json_offset(struct lw_json *j)
{
    return (int64_t)given_at(j, j->cur_at);
}

bool lw_json_enter(struct lw_json *j, enum lw_json_type type)
{
    if (!wants(j, type, type == LW_JSON_OBJECT ? "an object" : "an array"))
        return false;
    if (j->after) {
        fail_at(j, LW_EINVAL, j->cur_at, "a container was entered twice");
        return false;
    }
    if (j->depth >= MAX_DEPTH)
        return fail_depth(j, j->cur);
    frame *f = &j->frames[j->depth++];
    f->open = j->cur;
    f->open_at = (uint32_t)j->cur_at;
    f->object = type == LW_JSON_OBJECT;
    f->index = -1;
    j->has_value = false;
    j->field = nullptr;
    return true;
}

/* A container was left: the field it belongs to is under the cursor again. */
static void set_field(lw_json *j)
{
    const frame *f = j->depth > 0 ? &j->frames[j->depth - 1] : nullptr;
    j->field = f && f->object ? f : nullptr;
}

/* The cursor moves to the value at token i. */
static inline void move_to(lw_json *j, frame *f, uint32_t i, size_t at)
{
    f->index++;
    j->field = f->object ? f : nullptr;
    j->cur = i;
    j->cur_at = at;
    j->checked = false;
    j->after = 0;
    j->has_value = true;
}

/* The usual case of lw_json_next: another item follows, without an escape in its key, and the
 * tokens to its value are known. False: nothing was done. */
static inline bool next_plain(lw_json *j, frame *f, uint32_t i)
{
    uint32_t k = i - j->base;
    if (k >= j->count || j->count - k < 5)
        return false;
    const uint32_t *t = j->at + i;
    const char *text = j->text;
    if (f->index >= 0 && text[*t++] != ',')
        return false;
    if (f->object) {
        if (text[t[0]] != '"' || text[t[1]] != ':')
            return false;
        size_t begin = t[0] + 1, end = before_blanks(j, t[1]) - 1;
        if (has_backslash(j, begin, end))
            return false;
        f->key = (uint32_t)begin;
        f->key_bytes = (uint32_t)(end - begin);
        t += 2;
    }
    if (kind_of(text[*t]) == LW_JSON_NONE)
        return false;
    move_to(j, f, (uint32_t)(t - j->at), *t);
    return true;
}

/* Token i closes the container that was entered last. */
static inline void close_container(lw_json *j, const frame *f, uint32_t i)
{
    j->depth--;
    j->cur = f->open;
    j->cur_at = f->open_at;
    j->checked = false;
    j->after = i + 1;
    j->has_value = true;
    set_field(j);
}

/* Any case: the next item or the container's end is looked for at token i. */
static __attribute__((noinline)) bool next_any(lw_json *j, frame *f, uint32_t i)
{
    bool object = f->object, first = f->index < 0;
    char c = peek(j, i);

    if (c == (object ? '}' : ']')) {
        close_container(j, f, i);
        return false;
    }
    if (!first) {
        if (c != ',')
            return fail_separator(j, i, object);
        i++;
    }
    if (object) {
        size_t begin = 0, end = 0;
        if (!check_key(j, i, &begin, &end))
            return false;
        f->key = (uint32_t)begin;
        f->key_bytes = (uint32_t)(end - begin);
        i += 2;
    }
    move_to(j, f, i, token_begin(j, i));
    return kind_of(peek(j, i)) != LW_JSON_NONE || fail_found(j, i, "a value");
}

bool lw_json_next(struct lw_json *j)
{
    if (j->failed || j->depth == 0)
        return false;
    frame *f = &j->frames[j->depth - 1];
    if (f->index >= 0 && !j->after && !pass_value(j))
        return false;
    uint32_t i = f->index < 0 ? f->open + 1 : j->after;
    return next_plain(j, f, i) || next_any(j, f, i);
}

/* --- fields by a table of keys --- */

static inline uint32_t slot_of_key(uint64_t head, size_t len)
{
    uint64_t mixed = (head ^ len * UINT64_C(0xff51afd7ed558ccd)) * UINT64_C(0x9e3779b97f4a7c15);

    return (uint32_t)(mixed >> (64 - LW_JSON_KEY_SLOT_BITS));
}

static uint64_t head_of_key(const char *key, size_t len)
{
    char head[8] = {0};

    memcpy(head, key, len < 8 ? len : 8);
    return load8(head);
}

/* The number of a key whose first 8 bytes are `head`, or -1. */
static inline int find_key(const lw_json_keys *keys, uint64_t head, const char *text, size_t len)
{
    const uint32_t mask = (1 << LW_JSON_KEY_SLOT_BITS) - 1;

    for (uint32_t at = slot_of_key(head, len); keys->slot[at] != 0; at = (at + 1) & mask) {
        int k = keys->slot[at] - 1;
        if (keys->head[k] == head && keys->len[k] == len &&
            (len <= 8 || memcmp(keys->key[k] + 8, text + 8, len - 8) == 0))
            return k;
    }
    return -1;
}

void lw_json_keys_init(struct lw_json_keys *keys, const char *const *key, int n)
{
    const uint32_t mask = (1 << LW_JSON_KEY_SLOT_BITS) - 1;

    *keys = lw_json_keys{};
    for (int k = 0; k < n && k < LW_JSON_MOST_KEYS; k++) {
        size_t len = strlen(key[k]);
        uint32_t at = slot_of_key(keys->head[k] = head_of_key(key[k], len), len);
        keys->key[k] = key[k];
        keys->len[k] = len;
        while (keys->slot[at] != 0)
            at = (at + 1) & mask;
        keys->slot[at] = (uint8_t)(k + 1);
    }
}

/* Pass over fields with none of the keys, from token i on, to one with key *k (a number of `keys`).
 * The token of its value; *k = -1: that after the last field that was passed, of which more is not
 * told. */
static inline uint32_t plain_fields(lw_json *j, frame *f, uint32_t i, const lw_json_keys *keys,
                                    int *k)
{
    const char *const text = j->text;
    const uint32_t *t = j->at + i, *last = last_known(j, 6);
    size_t plain_from = j->backslash_from, plain_to = j->backslash;

    *k = -1;
    if (j->depth + MOST_PLAIN_DEPTH >= MAX_DEPTH)
        return i;
    for (bool first = f->index < 0; t <= last; first = false) {
        const uint32_t *v = t + !first;
        if ((!first && text[*t] != ',') || text[v[0]] != '"' || text[v[1]] != ':')
            break;
        size_t begin = v[0] + 1, end = before_blanks(j, v[1]) - 1, len = end - begin;
        if (begin < plain_from || v[3] > plain_to) {
            if (has_backslash(j, begin, v[3]))
                break;
            plain_from = j->backslash_from, plain_to = j->backslash;
        }
        uint64_t head = len > 0 ? low_bytes(load8(text + begin), len < 8 ? len : 8) : 0;
        int found = find_key(keys, head, text + begin, len);
        const uint32_t *next = found >= 0                           ? nullptr
                               : is_container(text[v[2]])           ? plain_value(j, v + 2, last)
                               : passes_plainly(j, v[2], v[3])      ? v + 3
                                                                    : nullptr;
        if (!next && (found < 0 || kind_of(text[v[2]]) == LW_JSON_NONE))
            break;
        f->key = (uint32_t)begin;
        f->key_bytes = (uint32_t)len;
        if (found >= 0)
            return *k = found, (uint32_t)(v + 2 - j->at);
        f->index++;
        t = next;
    }
    return (uint32_t)(t - j->at);
}

/* The next field with one of the keys, as long as what is passed over is plain; -1: not told, and
 * the reader stands where lw_json_next goes on. */
static int next_plain_of(lw_json *j, frame *f, const lw_json_keys *keys)
{
    int k;
    uint32_t i = plain_fields(j, f, f->index < 0 ? f->open + 1 : j->after, keys, &k);

    if (k >= 0)
        move_to(j, f, i, j->at[i]);
    else if (f->index >= 0)
        j->after = i;
    return k;
}

int lw_json_next_of(struct lw_json *j, const struct lw_json_keys *keys)
{
    int k = -1;

    while (k < 0 && !j->failed && j->depth > 0) {
        frame *f = &j->frames[j->depth - 1];
        if (f->index >= 0 && !j->after && !pass_value(j))
            return -1;
        k = f->object ? next_plain_of(j, f, keys) : -1;
        if (k >= 0)
            return k;
        if (f->object && f->index >= 0 && j->after - j->base < j->count &&
            j->text[j->at[j->after]] == '}') {
            close_container(j, f, j->after);
            return -1;
        }
        if (j->failed || !lw_json_next(j))
            return -1;
        size_t len;
        const char *key = lw_json_key_view(j, &len);
        k = f->object && !j->failed ? find_key(keys, head_of_key(key, len), key, len) : -1;
    }
    return k;
}

void lw_json_leave(struct lw_json *j)
{
    static const lw_json_keys none = {};
    int depth = j->depth;

    while (!j->failed && j->depth == depth && depth > 0)
        lw_json_next_of(j, &none);
}

const char *lw_json_key(struct lw_json *j, size_t *len)
{
    const frame *f = j->field;

    if (len)
        *len = 0;
    if (!f || j->failed)
        return "";
    int64_t n = f->key_bytes;
    if (lw_reserve(&j->key, &j->key_cap, n + 1, 1) != 0) {
        fail_nomem(j);
        return "";
    }
    if (has_backslash(j, f->key, f->key + (size_t)n))
        n = unescape(j, f->key, f->key + (size_t)n, j->key);
    else
        memcpy(j->key, j->text + f->key, (size_t)n);
    if (n < 0)
        return "";
    j->key[n] = 0;
    if (len)
        *len = (size_t)n;
    return j->key;
}

bool lw_json_key_is(struct lw_json *j, const char *key)
{
    const frame *f = j->field;

    if (!f || j->failed)
        return false;
    if (f->key_bytes > 0 && j->text[f->key] != *key && j->text[f->key] != '\\')
        return false; /* most keys that are asked for begin otherwise */
    size_t n = strlen(key), len;
    if (f->key_bytes == n)
        return memcmp(j->text + f->key, key, n) == 0;
    if (f->key_bytes < n || !has_backslash(j, f->key, f->key + f->key_bytes))
        return false;
    const char *plain = lw_json_key(j, &len);
    return len == n && memcmp(plain, key, n) == 0;
}

const char *lw_json_string(struct lw_json *j, size_t *len)
{
    size_t begin, end;

    if (len)
        *len = 0;
    if (!wants(j, LW_JSON_STRING, "a string"))
        return "";
    string_range(j, j->cur, &begin, &end);
    char *room = lw_arena_strndup(&j->strings, j->text + begin, end - begin);
    if (!room) {
        fail_nomem(j);
        return "";
    }
    int64_t n = (int64_t)(end - begin);
    if (has_backslash(j, begin, end))
        n = unescape(j, begin, end, room);
    if (n < 0)
        return "";
    room[n] = 0;
    if (!len && strlen(room) != (size_t)n) {
        fail_at(j, LW_EFORMAT, begin - 1, "found \\u0000 in a string, expected none");
        return "";
    }
    if (len)
        *len = (size_t)n;
    j->after = j->cur + 1;
    return room;
}

const char *lw_json_view(struct lw_json *j, size_t *len)
{
    size_t begin, end;

    *len = 0;
    if (!wants(j, LW_JSON_STRING, "a string"))
        return "";
    string_range(j, j->cur, &begin, &end);
    if (has_backslash(j, begin, end))
        return lw_json_string(j, len);
    *len = end - begin;
    j->after = j->cur + 1;
    return j->text + begin;
}

const char *lw_json_key_view(struct lw_json *j, size_t *len)
{
    const frame *f = j->field;

    if (!f || j->failed || has_backslash(j, f->key, f->key + f->key_bytes))
        return lw_json_key(j, len);
    *len = f->key_bytes;
    return j->text + f->key;
}

int64_t lw_json_int64(struct lw_json *j)
{
    if (!wants(j, LW_JSON_NUMBER, "an integer"))
        return 0;
    const char *begin = j->text + j->cur_at, *end = j->text + token_end(j, j->cur);
    int64_t v = 0;
    auto r = std::from_chars(begin, end, v);
    const char *digit = begin + (*begin == '-');
    bool padded = end - digit > 1 && *digit == '0';

    if (r.ec == std::errc() && r.ptr == end && !padded) {
        j->after = j->cur + 1;
        return v;
    }
    if (!check_scalar(j, j->cur))
        return 0;
    fail_found(j, j->cur, r.ptr == end ? "an integer from -2^63 to 2^63-1" : "an integer");
    return 0;
}

/* Fewer than 16 digits and nothing else: exact as an integer, and as a double. */
static inline bool short_integer(const char *p, const char *end, double *value)
{
    int64_t v = 0;

    if (end - p > 15)
        return false;
    for (; p < end; p++) {
        if (!is_digit(*p))
            return false;
        v = v * 10 + (*p - '0');
    }
    *value = (double)v;
    return true;
}

double lw_json_double(struct lw_json *j)
{
    if (!wants(j, LW_JSON_NUMBER, "a number") || !check_scalar(j, j->cur))
        return 0;
    const char *begin = j->text + j->cur_at, *end = j->text + token_end(j, j->cur);
    double v = 0;

    if (short_integer(begin, end, &v)) {
        j->after = j->cur + 1;
        return v;
    }
    auto r = std::from_chars(begin, end, v);

    if (r.ec ==
        std::errc::result_out_of_range) { /* tiny counts as 0 or denormal, huge is refused */
        char *copy = lw_arena_strndup(&j->strings, begin, (size_t)(end - begin));
        if (!copy)
            return fail_nomem(j), 0;
        v = strtod(copy, nullptr);
        if (std::isinf(v))
            return fail_found(j, j->cur, "a number of at most 1.797e308"), 0;
    }
    j->after = j->cur + 1;
    return v;
}

bool lw_json_bool(struct lw_json *j)
{
    if (!wants(j, LW_JSON_BOOL, "true or false") || !check_scalar(j, j->cur))
        return false;
    j->after = j->cur + 1;
    return here(j) == 't';
}

const char *lw_json_number_text(struct lw_json *j, size_t *len)
{
    size_t begin, end;

    *len = 0;
    bool quoted = !j->failed && j->has_value && here(j) == '"';
    if (!quoted && !wants(j, LW_JSON_NUMBER, "a number"))
        return "";
    if (quoted) {
        string_range(j, j->cur, &begin, &end);
    } else {
        begin = j->cur_at;
        end = token_end(j, j->cur);
    }
    if ((quoted || !j->checked) && !is_number(j->text + begin, j->text + end)) {
        fail_found(j, j->cur, "a number");
        return "";
    }
    *len = end - begin;
    j->after = j->cur + 1;
    return j->text + begin;
}

/* Up to eight digits at p: their value, and how many there are. */
static inline uint64_t digits_at(const char *p, size_t *n)
{
    uint64_t w = load8(p), bad = not_digits(w);

    *n = bad ? (size_t)__builtin_ctzll(bad) / 8 : 8;
    if (*n == 0)
        return 0;
    w = (w << (64 - 8 * *n)) & UINT64_C(0x0f0f0f0f0f0f0f0f); /* zeros before them */
    w = (w * 10 + (w >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
    w = (w * 100 + (w >> 16)) & UINT64_C(0x0000ffff0000ffff);
    return (w * 10000 + (w >> 32)) & UINT64_C(0xffffffff);
}

static inline const char *take_digits(const char *p, uint64_t *value, size_t *n_digits)
{
    static const uint64_t ten_to[] = {1,      10,      100,      1000,     10000,
                                      100000, 1000000, 10000000, 100000000};
    size_t n;

    do {
        uint64_t part = digits_at(p, &n);
        *value = *value * ten_to[n] + part;
        *n_digits += n;
        p += n;
    } while (n == 8 && *n_digits <= 16);
    return p;
}

bool lw_json_decimal(struct lw_json *j, int power, int64_t *value)
{
    if (j->failed || !j->has_value || j->after || kind_of(here(j)) != LW_JSON_NUMBER)
        return false;
    const char *end = j->text + token_end(j, j->cur), *p = j->text + j->cur_at;
    bool negative = *p == '-';
    size_t n = 0, before;
    uint64_t v = 0;

    p += negative;
    if (end - p > 20 || (*p == '0' && end - p > 1 && p[1] != '.'))
        return false;
    p = take_digits(p, &v, &n);
    before = n;
    if (n == 0 || n > 19)
        return false;
    if (p < end && *p == '.')
        p = take_digits(p + 1, &v, &n);
    size_t fraction = n - before, left = (size_t)power - fraction;
    if (p != end || p[-1] == '.' || fraction > (size_t)power || n + left > 19)
        return false;
    for (; left > 0; left--)
        v *= 10;
    if (v > INT64_MAX)
        return false;
    *value = negative ? -(int64_t)v : (int64_t)v;
    j->after = j->cur + 1;
    return true;
}

void lw_json_fail(struct lw_json *j, const char *fmt, ...)
{
    char what[900];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    fail_at(j, LW_EFORMAT, j->cur_at, what);
}

bool lw_json_failed(const struct lw_json *j)
{
    return j->failed;
}

enum lw_status lw_json_done(struct lw_json *j, struct lw_err *err)
{
    bool left = j->depth == 0 && (j->after || scalar_under_cursor(j));

    if (!j->failed && left && pass_value(j) && token_begin(j, j->after) < j->len)
        fail_found(j, j->after, "the end of the text");
    if (!j->failed)
        return LW_OK;
    if (err)
        *err = j->err;
    return j->err.code;
}
