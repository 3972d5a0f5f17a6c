/* Spans as JSON text that packs well and that SQL can read (json_each): an array of rows, each
 *   [op, kind, stream, comm, start, ready, issue, all_in, end]
 * op and start are less those of the row before (in the first row: 0), ready and issue say
 * how long before the start they are, all_in and end how long after; null = unknown (-1). Layers
 * and micro-batches that take equally long are then equal text. Sums and differences wrap, so that
 * every int64 comes back. */
#include "analysis/store/span_pack.h"

#include <string.h>

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static char *write_int(char *to, int64_t v)
{
    char digits[20];
    int n = 0;
    uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;

    do
        digits[n++] = (char)('0' + u % 10);
    while (u /= 10);
    if (v < 0)
        *to++ = '-';
    while (n > 0)
        *to++ = digits[--n];
    return to;
}

static char *write_known(char *to, int64_t time, int64_t difference)
{
    if (time != -1)
        return write_int(to, difference);
    memcpy(to, "null", 4);
    return to + 4;
}

size_t span_write(const int64_t (*rows)[SPAN_N_VALUES], int64_t n, char *to)
{
    int64_t op = n > 0 ? rows[0][SPAN_OP] : 0, start = n > 0 ? rows[0][SPAN_START] : 0;
    char *at = to;

    *at++ = '[';
    for (int64_t i = 0; i < n; i++) {
        const int64_t *r = rows[i], s = r[SPAN_START];
        const int64_t plain[] = {minus(r[SPAN_OP], op), r[SPAN_KIND], r[SPAN_STREAM], r[SPAN_COMM],
                                 minus(s, start), minus(s, r[SPAN_READY])};
        *at++ = '[';
        for (size_t k = 0; k < sizeof plain / sizeof *plain; k++) {
            at = write_int(at, plain[k]);
            *at++ = ',';
        }
        at = write_known(at, r[SPAN_ISSUE], minus(s, r[SPAN_ISSUE]));
        *at++ = ',';
        at = write_known(at, r[SPAN_ALL_IN], minus(r[SPAN_ALL_IN], s));
        *at++ = ',';
        at = write_int(at, minus(r[SPAN_END], s));
        *at++ = ']';
        *at++ = i + 1 < n ? ',' : ']';
        op = r[SPAN_OP];
        start = s;
    }
    if (n == 0)
        *at++ = ']';
    return (size_t)(at - to);
}

/* --- reading --------------------------------------------------------------------------------- */

struct reader {
    const char *at, *end;
};

static bool take(struct reader *r, char c)
{
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool take_int(struct reader *r, int64_t *v)
{
    bool negative = take(r, '-');
    const char *first = r->at;
    uint64_t u = 0;

    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        u = u * 10 + (uint64_t)(*r->at++ - '0');
    *v = (int64_t)(negative ? -u : u);
    return r->at > first && r->at - first <= 20;
}

static bool take_known(struct reader *r, int64_t *v, bool *known)
{
    *known = !(r->end - r->at >= 4 && memcmp(r->at, "null", 4) == 0);
    if (*known)
        return take_int(r, v);
    r->at += 4;
    return true;
}

static bool take_row(struct reader *r, int64_t v[SPAN_N_VALUES], bool known[SPAN_N_VALUES])
{
    if (!take(r, '['))
        return false;
    for (int k = 0; k < SPAN_N_VALUES; k++)
        if (!take_known(r, &v[k], &known[k]) || !take(r, k + 1 < SPAN_N_VALUES ? ',' : ']'))
            return false;
    for (int k = 0; k < SPAN_N_VALUES; k++)
        if (!known[k] && k != SPAN_ISSUE && k != SPAN_ALL_IN)
            return false;
    return true;
}

bool span_read(const char *text, size_t len, int64_t op, int64_t start,
               int64_t (*rows)[SPAN_N_VALUES], int64_t n)
{
    struct reader r = {text, text + len};

    if (!take(&r, '['))
        return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t *v = rows[i];
        bool known[SPAN_N_VALUES];
        if (!take_row(&r, v, known) || !take(&r, i + 1 < n ? ',' : ']'))
            return false;
        v[SPAN_OP] = op = plus(op, v[SPAN_OP]);
        v[SPAN_START] = start = plus(start, v[SPAN_START]);
        v[SPAN_READY] = minus(start, v[SPAN_READY]);
        v[SPAN_ISSUE] = known[SPAN_ISSUE] ? minus(start, v[SPAN_ISSUE]) : -1;
        v[SPAN_ALL_IN] = known[SPAN_ALL_IN] ? plus(start, v[SPAN_ALL_IN]) : -1;
        v[SPAN_END] = plus(start, v[SPAN_END]);
    }
    return (n > 0 || take(&r, ']')) && r.at == r.end;
}
