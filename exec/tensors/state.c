/* The bytes of a saved state and their index. A state that is made is indexed by the reader of
 * files, so that what can be written can be read; numbers are little-endian on any machine.
 *
 * Invariants: every range that the index names lies inside of `bytes`; names are different; a
 * parameter that shares values names one before it that has some; values are finite. */
#include "exec/tensors/state.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/hash.h"

enum { HEAD = LW_EXEC_STATE_HEAD, RECORD = 24, SUM = 32, VERSION = 1, MAX_NAME = 4096 };
static const char magic[8] = {'l', 'w', 's', 't', 'a', 't', 'e', '\n'};

/* --- numbers ---------------------------------------------------------------------------------- */

static uint32_t get32(const unsigned char *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint64_t get64(const unsigned char *b)
{
    return get32(b) | (uint64_t)get32(b + 4) << 32;
}

static void put32(unsigned char *b, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        b[i] = (unsigned char)(v >> 8 * i);
}

static void put64(unsigned char *b, uint64_t v)
{
    put32(b, (uint32_t)v);
    put32(b + 4, (uint32_t)(v >> 32));
}

static int64_t n_arrays(const struct lw_exec_state *s)
{
    return 1 + exec_optimizer_states(s->optimizer);
}

/* Names end where values begin, which are aligned for whoever maps the file. */
static int64_t name_room(size_t length)
{
    return ((int64_t)length + 3) / 4 * 4;
}

static int64_t range_at(const struct lw_exec_state *s, const struct lw_exec_state_range *r)
{
    const struct lw_exec_state_param *p = &s->params[r->param];

    return p->at + 4 * ((r->piece * n_arrays(s) + r->array) * p->numel + r->first);
}

void lw_exec_state_get(const struct lw_exec_state *s, const struct lw_exec_state_range *r,
                       float *to)
{
    const unsigned char *from = s->bytes + range_at(s, r);

    for (int64_t i = 0; i < r->n; i++) {
        uint32_t bits = get32(from + 4 * i);
        memcpy(&to[i], &bits, sizeof bits);
    }
}

void lw_exec_state_put(struct lw_exec_state *s, const struct lw_exec_state_range *r,
                       const float *from)
{
    unsigned char *to = s->bytes + range_at(s, r);

    for (int64_t i = 0; i < r->n; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        put32(to + 4 * i, bits);
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

struct reader {
    struct lw_exec_state *s;
    const char *file;
    int64_t at, end; /* end: where the checksum begins */
    struct lw_err *err;
};

enum lw_status lw_exec_state_check_head(const char *file, const unsigned char *head,
                                        int64_t n_bytes, struct lw_err *err)
{
    if (n_bytes < (int64_t)sizeof magic || memcmp(head, magic, sizeof magic) != 0)
        return lw_fail(err, LW_EFORMAT,
                       "%s: is no saved state (lapwing exec --save-state writes one)", file);
    if (n_bytes < HEAD + SUM)
        return lw_fail(err, LW_EFORMAT, "%s: is cut short: %lld bytes, a state has %d at least",
                       file, (long long)n_bytes, HEAD + SUM);
    if (get32(head + 8) != VERSION)
        return lw_fail(err, LW_EFORMAT,
                       "%s: is a state of version %u, this program reads version %d", file,
                       get32(head + 8), VERSION);
    if (get64(head + 16) != (uint64_t)n_bytes)
        return lw_fail(err, LW_EFORMAT, "%s: is %s: it has %lld bytes and says %llu", file,
                       get64(head + 16) > (uint64_t)n_bytes ? "cut short" : "longer than it was",
                       (long long)n_bytes, (unsigned long long)get64(head + 16));
    return LW_OK;
}

static enum lw_status check_sum(struct reader *r)
{
    char hash[33];

    lw_hash_of(r->s->bytes, (size_t)r->end, hash);
    memcpy(r->s->hash, r->s->bytes + r->end, SUM);
    if (memcmp(hash, r->s->hash, SUM) != 0)
        return lw_fail(r->err, LW_EFORMAT,
                       "%s: is damaged: its contents do not have its checksum "
                       "(hash %s)",
                       r->file, hash);
    return LW_OK;
}

static bool is_zero(const unsigned char *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (b[i])
            return false;
    return true;
}

/* The letters of the word, and zeros up to b[room]. */
static bool is_word(const unsigned char *b, int64_t room, const char *word)
{
    int64_t n = (int64_t)strlen(word);

    return n <= room && memcmp(b, word, (size_t)n) == 0 && is_zero(b + n, room - n);
}

/* What stands there instead, for people: word[room + 1]. */
static const char *letters(const unsigned char *b, int room, char *word)
{
    int n = 0;

    for (; n < room && b[n] >= ' ' && b[n] < 0x7f; n++)
        word[n] = (char)b[n];
    word[n] = '\0';
    return word;
}

static enum lw_status read_optimizer(struct reader *r, const unsigned char *b)
{
    char word[9];

    for (int k = 0; k < EXEC_N_OPTIMIZERS; k++)
        if (is_word(b, 8, exec_optimizer_name((enum exec_optimizer_kind)k))) {
            r->s->optimizer = (enum exec_optimizer_kind)k;
            return LW_OK;
        }
    return lw_fail(r->err, LW_EFORMAT, "%s: byte 32: optimizer '%s' (sgd, momentum, adam)", r->file,
                   letters(b, 8, word));
}

static enum lw_status read_head(struct reader *r)
{
    struct lw_exec_state *s = r->s;
    const unsigned char *b = s->bytes;
    uint64_t steps = get64(b + 24), params = get32(b + 12), tensor = get64(b + 40);

    LW_TRY(lw_exec_state_check_head(r->file, b, s->n_bytes, r->err));
    LW_TRY(check_sum(r));
    LW_TRY(read_optimizer(r, b + 32));
    if (steps >= INT32_MAX)
        return lw_fail(r->err, LW_EFORMAT, "%s: byte 24: %llu steps (at most %d)", r->file,
                       (unsigned long long)steps, INT32_MAX - 1);
    if (tensor < 1 || tensor > INT16_MAX)
        return lw_fail(r->err, LW_EFORMAT, "%s: byte 40: %llu tensor ranks (1 to %d)", r->file,
                       (unsigned long long)tensor, INT16_MAX);
    if (params > (uint64_t)(r->end - r->at) / RECORD)
        return lw_fail(r->err, LW_EFORMAT, "%s: byte 12: %llu parameters in %lld bytes", r->file,
                       (unsigned long long)params, (long long)s->n_bytes);
    s->n_steps = (int64_t)steps;
    s->n_tensor = (int32_t)tensor;
    s->n_params = (int32_t)params;
    return LW_OK;
}

static enum lw_status wrong(const struct reader *r, int32_t i, const char *what, int64_t value)
{
    return lw_fail(r->err, LW_EFORMAT, "%s: byte %lld: parameter %d: %s %lld", r->file,
                   (long long)r->at, i, what, (long long)value);
}

static enum lw_status read_name(struct reader *r, int32_t i, uint32_t length)
{
    const char *name = (const char *)r->s->bytes + r->at + RECORD;

    if (length == 0 || length > MAX_NAME || name_room(length) > r->end - r->at - RECORD)
        return wrong(r, i, "a name of this many bytes:", length);
    for (uint32_t k = 0; k < length; k++)
        if ((unsigned char)name[k] < ' ' || name[k] == 0x7f)
            return wrong(r, i, "its name holds the control character", name[k]);
    if (!is_zero((const unsigned char *)name + length, name_room(length) - length))
        return wrong(r, i, "no zeros behind its name of this many bytes:", length);
    r->s->params[i].name = lw_arena_strndup(&r->s->arena, name, length);
    return r->s->params[i].name ? LW_OK : lw_fail_nomem(r->err);
}

/* Every product is compared with the file's size before it is made. */
static enum lw_status read_values(struct reader *r, int32_t i)
{
    struct lw_exec_state_param *p = &r->s->params[i];
    int64_t one = 4 * n_arrays(r->s) * r->s->n_tensor, left = r->end - r->at;

    p->at = r->at;
    if (p->n_copies == 0 || p->numel == 0)
        return LW_OK;
    if (p->n_copies > left / one || p->numel > left / one / p->n_copies)
        return lw_fail(r->err, LW_EFORMAT,
                       "%s: byte %lld: parameter %d '%s' of %lld elements, %d times, in %lld bytes",
                       r->file, (long long)r->at, i, p->name, (long long)p->numel, p->n_copies,
                       (long long)left);
    r->at += one * p->n_copies * p->numel;
    return LW_OK;
}

static enum lw_status read_type(struct reader *r, int32_t i, const unsigned char *b)
{
    char word[5];

    for (int t = 0; t < LW_N_DTYPES; t++)
        if (is_word(b, 4, lw_dtype_name((enum lw_dtype)t))) {
            r->s->params[i].dtype = (enum lw_dtype)t;
            return LW_OK;
        }
    return lw_fail(r->err, LW_EFORMAT, "%s: byte %lld: parameter %d: type '%s'", r->file,
                   (long long)r->at + 8, i, letters(b, 4, word));
}

/* Of one before it that has values of its own. */
static bool can_share(const struct lw_exec_state_param *params, int32_t i)
{
    int32_t first = params[i].shares;

    return first == -1 ||
           (first >= 0 && first < i && params[i].n_copies == 0 && params[first].shares < 0 &&
            params[first].numel == params[i].numel && params[first].dtype == params[i].dtype);
}

static enum lw_status read_param(struct reader *r, int32_t i)
{
    struct lw_exec_state_param *p = &r->s->params[i];
    const unsigned char *b = r->s->bytes + r->at;

    if (r->end - r->at < RECORD)
        return wrong(r, i, "does not fit before byte", r->end);
    p->numel = (int64_t)get64(b);
    p->n_copies = (int32_t)get32(b + 12);
    p->shares = (int32_t)get32(b + 16);
    if (p->numel < 0)
        return wrong(r, i, "number of elements", p->numel);
    LW_TRY(read_type(r, i, b + 8));
    if (p->n_copies < 0)
        return wrong(r, i, "copies", p->n_copies);
    if (!can_share(r->s->params, i))
        return wrong(r, i, "shares the values of parameter", p->shares);
    LW_TRY(read_name(r, i, get32(b + 20)));
    r->at += RECORD + name_room(strlen(p->name));
    return read_values(r, i);
}

/* --- names ------------------------------------------------------------------------------------ */

struct named {
    const char *name;
    int32_t param;
};

static int by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->param > y->param) - (x->param < y->param);
}

static enum lw_status sort_names(struct reader *r)
{
    struct lw_exec_state *s = r->s;
    struct named *list = lw_alloc((size_t)s->n_params * sizeof *list + 1);
    enum lw_status status = list ? LW_OK : lw_fail_nomem(r->err);

    for (int32_t i = 0; list && i < s->n_params; i++)
        list[i] = (struct named){s->params[i].name, i};
    if (list)
        qsort(list, (size_t)s->n_params, sizeof *list, by_name);
    for (int32_t i = 0; status == LW_OK && i < s->n_params; i++) {
        s->by_name[i] = list[i].param;
        if (i > 0 && strcmp(list[i].name, list[i - 1].name) == 0)
            status = lw_fail(r->err, LW_EFORMAT, "%s: parameters %d and %d have one name, '%s'",
                             r->file, list[i - 1].param, list[i].param, list[i].name);
    }
    lw_free(list);
    return status;
}

int32_t lw_exec_state_find(const struct lw_exec_state *s, const char *name)
{
    int32_t low = 0, high = s->n_params;

    while (low < high) {
        int32_t middle = low + (high - low) / 2, param = s->by_name[middle];
        int order = strcmp(name, s->params[param].name);
        if (order == 0)
            return param;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

/* --- the whole -------------------------------------------------------------------------------- */

static enum lw_status check_finite(const struct reader *r, enum lw_status code)
{
    for (int32_t i = 0; i < r->s->n_params; i++) {
        const struct lw_exec_state_param *p = &r->s->params[i];
        int64_t n = p->numel * p->n_copies * r->s->n_tensor * n_arrays(r->s);
        for (int64_t e = 0; e < n; e++)
            if ((get32(r->s->bytes + p->at + 4 * e) & 0x7f800000) == 0x7f800000)
                return lw_fail(r->err, code,
                               "%s: byte %lld: parameter '%s': infinite, or no number", r->file,
                               (long long)(p->at + 4 * e), p->name);
    }
    return LW_OK;
}

/* From a head that was read, up to the checksum. */
static enum lw_status read_params(struct reader *r)
{
    struct lw_exec_state *s = r->s;

    s->params = lw_arena_alloc(&s->arena, s->n_params, sizeof *s->params);
    s->by_name = lw_arena_alloc(&s->arena, s->n_params, sizeof *s->by_name);
    if (!s->params || !s->by_name)
        return lw_fail_nomem(r->err);
    for (int32_t i = 0; i < s->n_params; i++)
        LW_TRY(read_param(r, i));
    if (r->at != r->end)
        return lw_fail(r->err, LW_EFORMAT, "%s: byte %lld: %lld bytes behind the last parameter",
                       r->file, (long long)r->at, (long long)(r->end - r->at));
    return sort_names(r);
}

enum lw_status lw_exec_state_parse(const char *file, unsigned char *bytes, int64_t n_bytes,
                                   struct lw_exec_state *s, struct lw_err *err)
{
    struct lw_exec_state made = {.bytes = bytes, .n_bytes = n_bytes};
    struct reader r = {.s = &made, .file = file, .at = HEAD, .end = n_bytes - SUM, .err = err};

    snprintf(made.file, sizeof made.file, "%s", file);
    enum lw_status status =
        n_bytes < HEAD + SUM ? lw_exec_state_check_head(file, bytes, n_bytes, err) : read_head(&r);
    if (status == LW_OK)
        status = read_params(&r);
    if (status == LW_OK)
        status = check_finite(&r, LW_EFORMAT);
    if (status == LW_OK)
        *s = made;
    else
        lw_exec_state_free(&made);
    return status;
}

/* false: more than can be counted. */
static bool add_record(const struct lw_exec_state *s, const struct lw_exec_state_param *p,
                       int64_t *n_bytes)
{
    int64_t values = 4 * n_arrays(s) * s->n_tensor, record = RECORD + name_room(strlen(p->name));

    return !__builtin_mul_overflow(values, p->n_copies, &values) &&
           !__builtin_mul_overflow(values, p->numel, &values) &&
           !__builtin_add_overflow(*n_bytes, values, n_bytes) &&
           !__builtin_add_overflow(*n_bytes, record, n_bytes);
}

static void write_head(const struct lw_exec_state *s)
{
    const char *kind = exec_optimizer_name(s->optimizer);

    memcpy(s->bytes, magic, sizeof magic);
    put32(s->bytes + 8, VERSION);
    put32(s->bytes + 12, (uint32_t)s->n_params);
    put64(s->bytes + 16, (uint64_t)s->n_bytes);
    put64(s->bytes + 24, (uint64_t)s->n_steps);
    memcpy(s->bytes + 32, kind, strlen(kind));
    put64(s->bytes + 40, (uint64_t)s->n_tensor);
}

static void write_record(unsigned char *b, const struct lw_exec_state_param *p)
{
    const char *type = lw_dtype_name(p->dtype);

    put64(b, (uint64_t)p->numel);
    memcpy(b + 8, type, strlen(type));
    put32(b + 12, (uint32_t)p->n_copies);
    put32(b + 16, (uint32_t)p->shares);
    put32(b + 20, (uint32_t)strlen(p->name));
    memcpy(b + RECORD, p->name, strlen(p->name));
}

enum lw_status lw_exec_state_make(struct lw_exec_state *s, const struct lw_exec_state_param *params,
                                  struct lw_err *err)
{
    struct lw_exec_state made = {.n_steps = s->n_steps,
                                 .optimizer = s->optimizer,
                                 .n_tensor = s->n_tensor,
                                 .n_params = s->n_params,
                                 .n_bytes = HEAD + SUM,
                                 .file = "the state in memory"};
    struct reader r = {.s = &made, .file = "the state of this plan", .at = HEAD, .err = err};
    int64_t at = HEAD;

    for (int32_t i = 0; i < s->n_params; i++)
        if (!add_record(s, &params[i], &made.n_bytes))
            return lw_fail_nomem(err);
    made.bytes = lw_calloc(1, (size_t)made.n_bytes);
    if (!made.bytes)
        return lw_fail_nomem(err);
    write_head(&made);
    for (int32_t i = 0; i < s->n_params; add_record(s, &params[i++], &at))
        write_record(made.bytes + at, &params[i]);
    r.end = made.n_bytes - SUM;
    enum lw_status status = read_params(&r);
    if (status == LW_OK)
        *s = made;
    else
        lw_exec_state_free(&made);
    return status == LW_EFORMAT ? LW_EINVAL : status;
}

enum lw_status lw_exec_state_seal(struct lw_exec_state *s, struct lw_err *err)
{
    struct reader r = {.s = s, .file = "the state of this run", .err = err};

    LW_TRY(check_finite(&r, LW_EFAILED));
    write_head(s);
    lw_hash_of(s->bytes, (size_t)s->n_bytes - SUM, s->hash);
    memcpy(s->bytes + s->n_bytes - SUM, s->hash, SUM);
    return LW_OK;
}

void lw_exec_state_free(struct lw_exec_state *s)
{
    lw_free(s->bytes);
    lw_arena_free(&s->arena);
    *s = (struct lw_exec_state){0};
}
