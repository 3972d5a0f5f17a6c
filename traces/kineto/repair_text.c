/* In the values of a few keys a quote ends a string only where what follows can follow one: a
 * closing brace, or a comma and the next key with its colon. Any other quote belongs to the name
 * and becomes an apostrophe. Control characters become blanks, backslashes that begin no escape
 * sequence become slashes. Not mended: a name that holds the text of a field (", "pid": 1"). */
#include "traces/kineto/repair_text.h"

#include <stdbool.h>
#include <string.h>

enum { MOST_DEPTH = 64, MOST_KEY = 64 };

struct repairer {
    char *text;
    size_t len;
    char open[MOST_DEPTH]; /* '{' or '[' */
    int depth;
    bool key; /* the next string of an object is a key */
    bool loose; /* the value of the last key may hold quotes */
    int64_t n;
};

static size_t skip_blanks(const struct repairer *r, size_t i)
{
    while (i < r->len && strchr(" \t\r\n", r->text[i]))
        i++;
    return i;
}

/* "key" : begins at i. */
static bool is_key(const struct repairer *r, size_t i)
{
    size_t end = i + 1;

    if (i >= r->len || r->text[i] != '"')
        return false;
    while (end < r->len && end - i <= MOST_KEY && r->text[end] != '"' && r->text[end] != '\n')
        end++;
    if (end >= r->len || r->text[end] != '"')
        return false;
    end = skip_blanks(r, end + 1);
    return end < r->len && r->text[end] == ':';
}

static bool is_loose(const char *key, size_t len)
{
    static const char *const keys[] = {"name", "Call stack", "Module Hierarchy"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i]) == len && memcmp(keys[i], key, len) == 0)
            return true;
    return false;
}

/* The quote at i ends its string. */
static bool ends(const struct repairer *r, size_t i)
{
    size_t at = skip_blanks(r, i + 1);
    bool object = r->depth > 0 && r->open[r->depth - 1] == '{';

    if (at >= r->len || r->key || !object || !r->loose)
        return true;
    if (r->text[at] == ',')
        return is_key(r, skip_blanks(r, at + 1));
    if (r->text[at] != '}')
        return false;
    at = skip_blanks(r, at + 1);
    return at >= r->len || (r->text[at] && strchr(",}]", r->text[at]) != NULL);
}

static void put(struct repairer *r, size_t i, char c)
{
    r->text[i] = c;
    r->n++;
}

static bool is_hex4(const struct repairer *r, size_t i)
{
    return i + 4 <= r->len && strspn(r->text + i, "0123456789abcdefABCDEF") >= 4;
}

/* A backslash at i of a string; returns the first byte after its escape sequence. */
static size_t escape(struct repairer *r, size_t i)
{
    char next = i + 1 < r->len ? r->text[i + 1] : 0;

    if (next == '"' && r->loose && !r->key && ends(r, i + 1)) {
        put(r, i, '/');
        return i + 1;
    }
    if (next == 'u' ? is_hex4(r, i + 2) : next && strchr("\"\\/bfnrt", next) != NULL)
        return i + 2;
    put(r, i, '/');
    return i + 1;
}

/* From the byte after an opening quote; returns the one after the closing quote. */
static size_t string(struct repairer *r, size_t i)
{
    while (i < r->len) {
        unsigned char c = (unsigned char)r->text[i];
        if (c == '\\') {
            i = escape(r, i);
            continue;
        }
        if (c == '"' && ends(r, i))
            return i + 1;
        if (c == '"')
            put(r, i, '\'');
        else if (c < 0x20)
            put(r, i, ' ');
        i++;
    }
    return i;
}

int64_t traces_repair_text(char *text, size_t len)
{
    struct repairer r = {.text = text, .len = len};

    for (size_t i = 0; i < len;) {
        char c = text[i++];
        if (c == '"') {
            size_t from = i;
            i = string(&r, i);
            if (r.key)
                r.loose = is_loose(text + from, i - 1 - from);
        } else if (c == '{' || c == '[') {
            if (r.depth == MOST_DEPTH)
                return r.n;
            r.open[r.depth++] = c;
            r.key = c == '{';
        } else if (c == '}' || c == ']') {
            r.depth -= r.depth > 0;
            r.key = false;
        } else if (c == ':') {
            r.key = false;
        } else if (c == ',') {
            r.key = r.depth > 0 && r.open[r.depth - 1] == '{';
        }
    }
    return r.n;
}
