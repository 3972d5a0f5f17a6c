/* Pickles without code. Python's pickle is a program for a stack machine; plain data needs only
 * the operations below, and every other one (GLOBAL, REDUCE, BUILD, ...) is refused, since it would
 * name or call something. Values are a tree in an arena; a value that the pickle refers to twice is
 * written twice, so the written text is limited to a multiple of the pickle (a short file can refer
 * to itself exponentially often), and the depth too (a list can hold itself). */
#include "traces/collectives/pickle.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/json/json.h"

enum { MOST_DEPTH = 32, MOST_TIMES = 64, LEAST_MOST = 1 << 20, MOST_MEMO = 1 << 24 };

struct value {
    enum { NOTHING, TRUE, FALSE, INT, REAL, TEXT, LIST, DICT, MARK } kind;
    int64_t number;
    double real;
    const char *text;
    size_t len;
    struct value *first, *last, *next; /* of a list its items; of a dict keys and values in turn */
};

struct machine {
    const char *name;
    const unsigned char *p;
    size_t len, at;
    struct lw_arena scratch;
    struct value **stack;
    int64_t n, cap;
    struct value **memo;
    int64_t n_memo, memo_cap;
    struct lw_err *err;
};

bool pickle_is(const char *text, size_t len)
{
    return len > 2 && (unsigned char)text[0] == 0x80 && text[1] >= 2 && text[1] <= 5;
}

static enum lw_status fail(struct machine *m, const char *what)
{
    return lw_fail_at(m->err, LW_EFORMAT, m->name, 0, "byte %zu: %s", m->at, what);
}

static enum lw_status need(struct machine *m, uint64_t n)
{
    return n <= m->len - m->at ? LW_OK : fail(m, "the pickle ends early");
}

static enum lw_status number(struct machine *m, int bytes, uint64_t *n)
{
    LW_TRY(need(m, (uint64_t)bytes));
    *n = 0;
    for (int i = 0; i < bytes; i++)
        *n |= (uint64_t)m->p[m->at + (size_t)i] << 8 * i;
    m->at += (size_t)bytes;
    return LW_OK;
}

static enum lw_status push(struct machine *m, struct value v)
{
    struct value *x = lw_arena_alloc(&m->scratch, 1, sizeof *x);

    if (!x)
        return lw_fail_nomem(m->err);
    *x = v;
    LW_ROOM(m->stack, m->cap, m->n + 1, m->err);
    m->stack[m->n++] = x;
    return LW_OK;
}

static enum lw_status push_number(struct machine *m, int bytes, bool is_signed)
{
    uint64_t n;

    LW_TRY(number(m, bytes, &n));
    return push(m, (struct value){.kind = INT, .number = is_signed ? (int32_t)n : (int64_t)n});
}

/* Beyond 64 bits no number is one that is read. */
static enum lw_status push_long(struct machine *m, int bytes)
{
    uint64_t n, low = 0;

    LW_TRY(number(m, bytes, &n));
    LW_TRY(need(m, n));
    if (n > 8)
        return fail(m, "a number of more than 64 bits");
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t byte = i < n ? m->p[m->at + i] : n > 0 && m->p[m->at + n - 1] & 0x80 ? 0xff : 0;
        low |= byte << 8 * i;
    }
    m->at += n;
    return push(m, (struct value){.kind = INT, .number = (int64_t)low});
}

static enum lw_status push_text(struct machine *m, int bytes)
{
    uint64_t n;

    LW_TRY(number(m, bytes, &n));
    LW_TRY(need(m, n));
    struct value v = {.kind = TEXT, .text = (const char *)m->p + m->at, .len = n};
    m->at += n;
    return push(m, v);
}

static enum lw_status push_real(struct machine *m)
{
    uint64_t bits = 0;
    struct value v = {.kind = REAL};

    LW_TRY(need(m, 8));
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | m->p[m->at++];
    memcpy(&v.real, &bits, sizeof bits);
    return push(m, v);
}

/* A value is whole before it is put into another, so that a copy will do. */
static enum lw_status append(struct machine *m, struct value *to, const struct value *x)
{
    struct value *copy; /* its link to the next is its own */

    LW_TAKE(&m->scratch, copy, 1, m->err);
    *copy = *x;
    copy->next = NULL;
    if (to->last)
        to->last->next = copy;
    else
        to->first = copy;
    to->last = copy;
    return LW_OK;
}

/* The place above the topmost mark; -1 = none. */
static int64_t above_mark(const struct machine *m)
{
    for (int64_t i = m->n - 1; i >= 0; i--)
        if (m->stack[i]->kind == MARK)
            return i + 1;
    return -1;
}

/* What is above `from` goes into the container below it. */
static enum lw_status fill(struct machine *m, int64_t from, int64_t container, int kind)
{
    if (from < 1 || container < 0 || m->n < from || (int)m->stack[container]->kind != kind ||
        (kind == DICT && (m->n - from) % 2 != 0))
        return fail(m, "nothing to put the values into");
    for (int64_t i = from; i < m->n; i++) {
        if (m->stack[i]->kind == MARK)
            return fail(m, "a mark among values");
        LW_TRY(append(m, m->stack[container], m->stack[i]));
    }
    m->n = container + 1;
    return LW_OK;
}

/* The values from `from` on as one list or dict; the mark below goes too. */
static enum lw_status collect(struct machine *m, int64_t from, bool mark, int kind)
{
    struct value v = {.kind = kind};

    if (from < 0 || from > m->n || (kind == DICT && (m->n - from) % 2 != 0))
        return fail(m, "too few values");
    for (int64_t i = from; i < m->n; i++) {
        if (m->stack[i]->kind == MARK)
            return fail(m, "a mark among values");
        LW_TRY(append(m, &v, m->stack[i]));
    }
    m->n = from - mark;
    return push(m, v);
}

static enum lw_status put_memo(struct machine *m, uint64_t i)
{
    if (m->n < 1 || m->stack[m->n - 1]->kind == MARK || i >= MOST_MEMO || i > m->len)
        return fail(m, "nothing to remember");
    while (m->n_memo <= (int64_t)i) {
        LW_ROOM(m->memo, m->memo_cap, m->n_memo + 1, m->err);
        m->memo[m->n_memo++] = NULL;
    }
    m->memo[i] = m->stack[m->n - 1];
    return LW_OK;
}

static enum lw_status get_memo(struct machine *m, uint64_t i)
{
    if (i >= (uint64_t)m->n_memo || !m->memo[i])
        return fail(m, "refers to a value that was not remembered");
    LW_ROOM(m->stack, m->cap, m->n + 1, m->err);
    m->stack[m->n++] = m->memo[i];
    return LW_OK;
}

static enum lw_status refuse(struct machine *m, unsigned op)
{
    static const char calls[] = "cRbioPQ\x81\x92\x93\x82\x83\x84";

    m->at--;
    return lw_fail_at(m->err, LW_EFORMAT, m->name, 0,
                      strchr(calls, (int)op) && op
                          ? "byte %zu: the pickle's operation 0x%02x would call code, which is not "
                            "done; dump the recorder as JSON"
                          : "byte %zu: unknown pickle operation 0x%02x; expected plain data",
                      m->at, op);
}

static enum lw_status step(struct machine *m, bool *done)
{
    unsigned op = m->p[m->at++];
    uint64_t n;

    switch (op) {
    case 0x80: return number(m, 1, &n);         /* PROTO */
    case 0x95: return number(m, 8, &n);         /* FRAME */
    case '.': *done = true; return LW_OK;       /* STOP */
    case '(': return push(m, (struct value){.kind = MARK});
    case 'N': return push(m, (struct value){.kind = NOTHING});
    case 0x88: return push(m, (struct value){.kind = TRUE});
    case 0x89: return push(m, (struct value){.kind = FALSE});
    case ']':
    case ')': return push(m, (struct value){.kind = LIST});
    case '}': return push(m, (struct value){.kind = DICT});
    case 'a': return fill(m, m->n - 1, m->n - 2, LIST);
    case 'e': return (n = (uint64_t)above_mark(m), fill(m, (int64_t)n, (int64_t)n - 2, LIST));
    case 's': return fill(m, m->n - 2, m->n - 3, DICT);
    case 'u': return (n = (uint64_t)above_mark(m), fill(m, (int64_t)n, (int64_t)n - 2, DICT));
    case 't':
    case 'l': return collect(m, above_mark(m), true, LIST);
    case 'd': return collect(m, above_mark(m), true, DICT);
    case 0x85: return collect(m, m->n - 1, false, LIST);
    case 0x86: return collect(m, m->n - 2, false, LIST);
    case 0x87: return collect(m, m->n - 3, false, LIST);
    case 'K': return push_number(m, 1, false);
    case 'M': return push_number(m, 2, false);
    case 'J': return push_number(m, 4, true);
    case 0x8a: return push_long(m, 1);
    case 0x8b: return push_long(m, 4);
    case 'G': return push_real(m);
    case 'U':
    case 'C':
    case 0x8c: return push_text(m, 1);
    case 'T':
    case 'B':
    case 'X': return push_text(m, 4);
    case 0x8d: return push_text(m, 8);
    case 'q': LW_TRY(number(m, 1, &n)); return put_memo(m, n);
    case 'r': LW_TRY(number(m, 4, &n)); return put_memo(m, n);
    case 0x94: return put_memo(m, (uint64_t)m->n_memo);
    case 'h': LW_TRY(number(m, 1, &n)); return get_memo(m, n);
    case 'j': LW_TRY(number(m, 4, &n)); return get_memo(m, n);
    case '0':
        if (m->n < 1)
            return fail(m, "too few values");
        m->n--;
        return LW_OK;
    }
    return refuse(m, op);
}

/* ---- as JSON ---- */

struct writer {
    struct machine *m;
    FILE *f;
    size_t most;
};

static void put_string(FILE *f, const char *text, size_t len)
{
    fputc('"', f);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < 0x20)
            fprintf(f, "\\u%04x", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}

static enum lw_status put_value(struct writer *w, const struct value *v, int depth)
{
    bool dict = v->kind == DICT;

    if (depth > MOST_DEPTH || (size_t)ftell(w->f) > w->most)
        return fail(w->m, "the data holds itself, or refers to itself too often");
    switch (v->kind) {
    case TRUE: fputs("true", w->f); return LW_OK;
    case FALSE: fputs("false", w->f); return LW_OK;
    case INT: fprintf(w->f, "%" PRId64, v->number); return LW_OK;
    case REAL: isfinite(v->real) ? fprintf(w->f, "%.17g", v->real) : fputs("null", w->f);
        return LW_OK;
    case TEXT: put_string(w->f, v->text, v->len); return LW_OK;
    case NOTHING:
    case MARK: fputs("null", w->f); return LW_OK;
    case LIST:
    case DICT: break;
    }
    fputc(dict ? '{' : '[', w->f);
    for (const struct value *x = v->first; x; x = x->next) {
        fputs(x == v->first ? "" : ",", w->f);
        if (dict) {
            if (x->kind != TEXT || !x->next)
                return fail(w->m, "a dict whose keys are not texts");
            put_string(w->f, x->text, x->len);
            fputc(':', w->f);
            x = x->next;
        }
        LW_TRY(put_value(w, x, depth + 1));
    }
    fputc(dict ? '}' : ']', w->f);
    return LW_OK;
}

static enum lw_status write_json(struct machine *m, struct lw_arena *arena, char **json,
                                 size_t *json_len)
{
    char *text = NULL;
    size_t len = 0;
    struct writer w = {m, open_memstream(&text, &len),
                       m->len > LEAST_MOST ? m->len * MOST_TIMES : LEAST_MOST * MOST_TIMES};

    if (!w.f)
        return lw_fail_nomem(m->err);
    enum lw_status status = put_value(&w, m->stack[m->n - 1], 0);
    if (fclose(w.f) != 0 && status == LW_OK)
        status = lw_fail_nomem(m->err);
    if (status == LW_OK) {
        *json = lw_arena_alloc(arena, (int64_t)(len + LW_JSON_PADDING), 1);
        if (*json)
            memcpy(*json, text, len);
        else
            status = lw_fail_nomem(m->err);
        *json_len = len;
    }
    free(text);
    return status;
}

enum lw_status pickle_to_json(const char *name, const char *text, size_t len,
                              struct lw_arena *arena, char **json, size_t *json_len,
                              struct lw_err *err)
{
    struct machine m = {.name = name, .p = (const unsigned char *)text, .len = len, .err = err};
    enum lw_status status = LW_OK;
    bool done = false;

    while (status == LW_OK && !done)
        status = m.at < m.len ? step(&m, &done) : fail(&m, "the pickle ends early");
    if (status == LW_OK && (m.n != 1 || m.stack[0]->kind == MARK))
        status = fail(&m, "the pickle ends without one value");
    if (status == LW_OK)
        status = write_json(&m, arena, json, json_len);
    lw_free(m.stack);
    lw_free(m.memo);
    lw_arena_free(&m.scratch);
    return status;
}
