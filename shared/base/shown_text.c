/* UTF-8 by the table of RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. What is
 * shown never holds a character that a terminal acts on. */
#include "shared/base/shown_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Bytes that follow `first`, and the smallest code point of that length; -1: no first byte. */
static int n_following(unsigned char first, uint32_t *smallest, uint32_t *bits)
{
    static const struct {
        unsigned char mask, lead;
        int n;
        uint32_t smallest;
    } forms[] = {{0x80, 0x00, 0, 0}, {0xe0, 0xc0, 1, 0x80}, {0xf0, 0xe0, 2, 0x800},
                 {0xf8, 0xf0, 3, 0x10000}};

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if ((first & forms[i].mask) == forms[i].lead) {
            *smallest = forms[i].smallest;
            *bits = first & (unsigned char)~forms[i].mask;
            return forms[i].n;
        }
    return -1;
}

uint32_t lw_utf8_next(const char **s)
{
    const unsigned char *p = (const unsigned char *)*s;
    uint32_t smallest = 0, code = 0;
    int n = n_following(p[0], &smallest, &code), k = 0;

    while (k < n && (p[k + 1] & 0xc0) == 0x80)
        code = code << 6 | (p[++k] & 0x3f);
    if (n < 0 || k < n || code < smallest || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
        *s += 1;
        return LW_UTF8_REPLACEMENT;
    }
    *s += n + 1;
    return code;
}

static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 ||
           (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

uint32_t lw_shown_next(const char **s)
{
    uint32_t c = lw_utf8_next(s);

    if (c == '\n' || c == '\r' || c == '\t')
        return ' ';
    return is_control(c) ? '?' : c;
}

int lw_utf8_encode(uint32_t c, char out[4])
{
    int n = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0x00, 0xc0, 0xe0, 0xf0};

    for (int i = n; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[n] | c);
    return n + 1;
}

char *lw_shown_text(char *buf, size_t size, const char *text)
{
    size_t n = 0;
    char one[4];

    while (*text) {
        int k = lw_utf8_encode(lw_shown_next(&text), one);
        if (n + (size_t)k >= size)
            break;
        memcpy(buf + n, one, (size_t)k);
        n += (size_t)k;
    }
    if (size > 0)
        buf[n] = '\0';
    return buf;
}

const char *lw_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Bytes of a known ending of text, or 0. */
static size_t ending(const char *text)
{
    static const char *const known[] = {".gz", ".json", ".csv", ".txt",   ".trace",
                                        ".pt", ".et",   ".db",  ".sqlite", ".goal"};
    const char *dot = strrchr(text, '.');

    if (!dot || dot == text)
        return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(dot, known[i]) == 0)
            return strlen(dot);
    if (strncmp(dot, ".rank", 5) == 0 && dot[5] && strspn(dot + 5, "0123456789") == strlen(dot + 5))
        return strlen(dot);
    return 0;
}

char *lw_file_stem(char *buf, size_t size, const char *path)
{
    snprintf(buf, size, "%s", lw_base_name(path));
    for (size_t n; (n = ending(buf)) > 0;)
        buf[strlen(buf) - n] = '\0';
    return buf;
}
