/* Damage that a reader must survive. Of lists and numbers only the content changes, so the file
 * still has the form that its reader expects and what is wrong is found late. */
#include "tests/lib/files/damaged_text.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

const char *damage_name(enum damage how)
{
    static const char *const names[N_DAMAGES] = {"bytes", "emptied lists", "overflows"};

    return names[how];
}

/* `with` in place of text[from, to); what does not fit stays as it is. */
static size_t replace(char *text, size_t n, size_t room, size_t from, size_t to, const char *with)
{
    size_t len = strlen(with);

    if (n - (to - from) + len > room)
        return n;
    memmove(text + from + len, text + to, n - to);
    memcpy(text + from, with, len);
    return n - (to - from) + len;
}

/* --- bytes ------------------------------------------------------------------------------------ */

static size_t damage_bytes(char *text, size_t n, uint64_t (*draw)(uint64_t below))
{
    static const char *const words[] = {
        "9223372036854775807", "-1", "1e308", "\"\\u0000\"", "[[[[[[[[", "null", "\xff\xfe", "{}",
        "`touch pwned`"};

    for (uint64_t k = 1 + draw(4); k > 0 && n > 0; k--) {
        size_t at = draw(n);
        const char *word = words[draw(sizeof words / sizeof words[0])];
        switch (draw(5)) {
        case 0:
            text[at] = (char)draw(256);
            break;
        case 1:
            text[at] ^= (char)(1 << draw(8));
            break;
        case 2:
            n = draw(8) == 0 ? at : n;
            break;
        case 3:
            memcpy(text + at, word, strlen(word) < n - at ? strlen(word) : n - at);
            break;
        default: {
            size_t from = draw(n), most = n - (from > at ? from : at), len = draw(most + 1);
            memmove(text + at, text + from, len);
        }
        }
    }
    return n;
}

/* --- lists ------------------------------------------------------------------------------------ */

/* The place of the bracket that closes the one at `from`; n: there is none. */
static size_t closing(const char *text, size_t n, size_t from)
{
    bool in_string = false;
    int depth = 0;

    for (size_t i = from; i < n; i++) {
        if (text[i] == '\\' && in_string)
            i++;
        else if (text[i] == '"')
            in_string = !in_string;
        else if (!in_string && (text[i] == '[' || text[i] == '{'))
            depth++;
        else if (!in_string && (text[i] == ']' || text[i] == '}') && --depth == 0)
            return i;
    }
    return n;
}

/* A list or an object of JSON, half of the time one of the outer three levels, of which a large
 * file has few; n: there is none. */
static size_t some_bracket(const char *text, size_t n, uint64_t (*draw)(uint64_t below))
{
    bool outer = draw(2), in_string = false;
    size_t found = n;
    int depth = 0;
    uint64_t n_seen = 0;

    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\\' && in_string)
            i++;
        else if (text[i] == '"')
            in_string = !in_string;
        else if (!in_string && (text[i] == ']' || text[i] == '}'))
            depth--;
        else if (!in_string && (text[i] == '[' || text[i] == '{') &&
                 (++depth <= 4 || !outer) && draw(++n_seen) == 0)
            found = i;
    }
    return found;
}

static size_t line_begin(const char *text, size_t at)
{
    while (at > 0 && text[at - 1] != '\n')
        at--;
    return at;
}

static size_t line_end(const char *text, size_t n, size_t at)
{
    const char *end = memchr(text + at, '\n', n - at);

    return end ? (size_t)(end - text) + 1 : n;
}

/* All lines that begin with the first word of the one at `at` are left out. */
static size_t without_lines_like(char *text, size_t n, size_t at)
{
    char word[32];
    size_t len = 0, kept = 0;

    for (size_t i = line_begin(text, at); i < n && len < sizeof word; i++) {
        if (!isalpha((unsigned char)text[i]) && text[i] != '_')
            break;
        word[len++] = text[i];
    }
    for (size_t from = 0, to; from < n; from = to) {
        to = line_end(text, n, from);
        bool like = to - from > len && memcmp(text + from, word, len) == 0 &&
                    (len > 0 || isdigit((unsigned char)text[from]) || text[from] == ' ');
        if (!like) {
            memmove(text + kept, text + from, to - from);
            kept += to - from;
        }
    }
    return kept;
}

/* Only the lines up to one of the first eight. */
static size_t only_first_lines(const char *text, size_t n, uint64_t (*draw)(uint64_t below))
{
    size_t end = 0;

    for (uint64_t k = 1 + draw(8); k > 0 && end < n; k--)
        end = line_end(text, n, end);
    return end;
}

static size_t without_a_cell(char *text, size_t n, size_t room, size_t at)
{
    static const char borders[] = ",;|\n\"";
    size_t to = at;

    while (at > 0 && !memchr(borders, text[at - 1], sizeof borders - 1))
        at--;
    while (to < n && !memchr(borders, text[to], sizeof borders - 1))
        to++;
    return replace(text, n, room, at, to, "");
}

static size_t empty_list(char *text, size_t n, size_t room, uint64_t (*draw)(uint64_t below))
{
    size_t open = draw(4) ? some_bracket(text, n, draw) : n;

    if (open < n) {
        size_t close = closing(text, n, open);
        return close < n ? replace(text, n, room, open + 1, close, "") : n;
    }
    switch (draw(3)) {
    case 0:
        return without_lines_like(text, n, draw(n));
    case 1:
        return only_first_lines(text, n, draw);
    default:
        return without_a_cell(text, n, room, draw(n));
    }
}

/* --- numbers ---------------------------------------------------------------------------------- */

static bool of_number(char c)
{
    return isdigit((unsigned char)c) || c == '.' || c == '-' || c == '+';
}

/* At the limits of 32 and 64 bits; in ns just beyond 64 bits of picoseconds, and 213 days, which
 * wrap to 384 ps; bytes whose bits wrap; what only a double holds. */
static size_t overflow(char *text, size_t n, size_t room, uint64_t (*draw)(uint64_t below))
{
    static const char *const numbers[] = {
        "9223372036854775807", "9223372036854775808", "-9223372036854775808",
        "18446744073709551616", "4611686018427387904", "1152921504606846976",
        "9223372036854776", "9223372036854775", "18446744073709936", "9223372036855",
        "2147483647", "2147483648", "-2147483648", "4294967296", "3037000500",
        "9.3e18", "1e15", "1e300", "-1"};

    for (uint64_t k = 1 + draw(3); k > 0; k--) {
        size_t at = draw(n), to;
        while (at < n && !isdigit((unsigned char)text[at]))
            at++;
        while (at > 0 && at < n && of_number(text[at - 1]))
            at--;
        for (to = at; to < n && of_number(text[to]);)
            to++;
        n = replace(text, n, room, at, to, numbers[draw(sizeof numbers / sizeof numbers[0])]);
    }
    return n;
}

size_t damage_text(enum damage how, char *text, size_t n, size_t room,
                   uint64_t (*draw)(uint64_t below))
{
    if (n == 0)
        return 0;
    return how == DAMAGE_EMPTY_LIST ? empty_list(text, n, room, draw)
           : how == DAMAGE_OVERFLOW ? overflow(text, n, room, draw)
                                    : damage_bytes(text, n, draw);
}
