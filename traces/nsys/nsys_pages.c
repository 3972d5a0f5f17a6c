/* Pages of an SQLite file as rows. The format is that of SQLite's own description ("Database File
 * Format", sqlite.org/fileformat2.html): a table is a tree of pages; leaves (type 13) hold rows,
 * inner pages (type 5) pairs of a page and the largest rowid below it, and one page more. A row is
 * its payload's length, its rowid, and a record: the header's length, a type for each column, and
 * the values. Lengths, rowids and types are varints: 7 bits a byte, highest first, at most 9 bytes.
 *
 * Rowids must ascend and no more pages be visited than the file has, so that damaged trees end. */
#include "traces/nsys/nsys_pages.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/arena.h"

enum { HEADER = 100, LEAF = 13, INNER = 5, MOST_DEPTH = 12, MOST_WINDOW = 256 << 10,
       MOST_TABLE_COLUMNS = 64 };

typedef uint8_t byte;

struct level { /* an inner page on the way to the leaf */
    byte *page;
    int64_t next, n; /* the child to visit next: 0 .. n, n = the one that is not in a pair */
};

struct nsys_pages {
    struct nsys_image in;
    int64_t page_bytes, usable, n_pages, n_visited;
    byte *window; /* a run of pages that were read from a file */
    int64_t window_first, window_n, window_pages; /* pages there; how many the next run has */
    struct level levels[MOST_DEPTH];
    int depth;
    const byte *leaf;
    int64_t row, n_rows; /* of the leaf */
    int64_t rowid;
    bool failed;
    int n_wanted, n_needed;               /* columns up to the last that is wanted */
    int8_t place[MOST_TABLE_COLUMNS];     /* of a column of the table: which is wanted, -1 */
    struct nsys_cell cell[NSYS_PAGES_MOST_COLUMNS];
    char digits[24];
};

/* ---- pages ---- */

static int64_t big_endian(const byte *p, int n)
{
    int64_t v = 0;

    for (int i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

static bool read_window(struct nsys_pages *p, int64_t page)
{
    int64_t most = MOST_WINDOW / p->page_bytes, left = p->n_pages - page + 1;

    /* pages of a table mostly follow each other; where they do not, single ones are read */
    p->window_pages = page == p->window_first + p->window_n ? 2 * p->window_pages : 1;
    p->window_pages = p->window_pages > most && most > 0 ? most : p->window_pages;
    p->window_pages = p->window_pages > left ? left : p->window_pages;
    size_t n = (size_t)(p->window_pages * p->page_bytes), done = 0;
    while (done < n) {
        ssize_t got = pread(p->in.fd, p->window + done, n - done,
                            (off_t)((page - 1) * p->page_bytes) + (off_t)done);
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    p->window_first = page;
    p->window_n = p->window_pages;
    return true;
}

/* Valid until the next call; NULL: there is none, or too many were asked for. */
static const byte *page_at(struct nsys_pages *p, int64_t page)
{
    if (page < 2 || page > p->n_pages || ++p->n_visited > p->n_pages)
        return NULL;
    if (p->in.image)
        return (const byte *)p->in.image + (page - 1) * p->page_bytes;
    if ((page < p->window_first || page >= p->window_first + p->window_n) && !read_window(p, page))
        return NULL;
    return p->window + (page - p->window_first) * p->page_bytes;
}

static bool push_level(struct nsys_pages *p, const byte *page)
{
    int64_t n = big_endian(page + 3, 2);
    struct level *x = &p->levels[p->depth];

    if (p->depth >= MOST_DEPTH || 12 + 2 * n > p->usable)
        return false;
    if (!x->page)
        x->page = lw_alloc((size_t)p->page_bytes);
    if (!x->page)
        return false;
    memcpy(x->page, page, (size_t)p->page_bytes);
    x->next = 0;
    x->n = n;
    p->depth++;
    return true;
}

/* The first leaf below this page. */
static bool descend(struct nsys_pages *p, int64_t number)
{
    for (;;) {
        const byte *page = page_at(p, number);
        if (page && page[0] == LEAF) {
            p->leaf = page;
            p->row = 0;
            p->n_rows = big_endian(page + 3, 2);
            return 8 + 2 * p->n_rows <= p->usable;
        }
        if (!page || page[0] != INNER || !push_level(p, page))
            return false;
        struct level *x = &p->levels[p->depth - 1];
        int64_t at = x->n > 0 ? big_endian(x->page + 12, 2) : 8;
        if (at + 4 > p->usable)
            return false;
        number = big_endian(x->page + at, 4);
        x->next = 1;
    }
}

/* *more false: no leaf is left. */
static bool next_leaf(struct nsys_pages *p, bool *more)
{
    while (p->depth > 0 && p->levels[p->depth - 1].next > p->levels[p->depth - 1].n)
        p->depth--;
    *more = p->depth > 0;
    if (!*more)
        return true;
    struct level *x = &p->levels[p->depth - 1];
    int64_t at = x->next < x->n ? big_endian(x->page + 12 + 2 * x->next, 2) : 8;
    x->next++;
    return at + 4 <= p->usable && descend(p, big_endian(x->page + at, 4));
}

/* ---- a row ---- */

/* Moves *at behind the varint; false: it does not end before `end`. */
static inline bool varint(const byte **at, const byte *end, uint64_t *value)
{
    const byte *p = *at;
    uint64_t v = 0;

    if (p < end && *p < 0x80) {
        *value = *p;
        *at = p + 1;
        return true;
    }
    for (int i = 0; i < 9 && p < end; i++, p++) {
        v = i == 8 ? v << 8 | *p : v << 7 | (*p & 0x7f);
        if (i == 8 || *p < 0x80) {
            *value = v;
            *at = p + 1;
            return true;
        }
    }
    return false;
}

static inline uint64_t load8(const byte *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? v : __builtin_bswap64(v);
}

/* A whole number of n bytes, which lies within a page: at least 8 bytes end where it does. */
static inline int64_t whole_number(const byte *p, int n)
{
    return (int64_t)(load8(p + n - 8) << (64 - 8 * n)) >> (64 - 8 * n);
}

/* The value of this type at `body`; false: it is none of those that are read, or is cut. */
static inline bool read_cell(struct nsys_cell *c, uint64_t type, const byte *body, int64_t n)
{
    *c = (struct nsys_cell){.kind = NSYS_INT};
    if (type == 0)
        c->kind = NSYS_NULL;
    else if (type <= 6)
        c->number = whole_number(body, (int)n);
    else if (type == 8 || type == 9)
        c->number = (int64_t)type - 8;
    else if (type >= 13 && type % 2 == 1)
        *c = (struct nsys_cell){.kind = NSYS_TEXT, .len = (int32_t)n, .text = (const char *)body};
    else
        return false;
    return true;
}

/* Bytes of a value of this type; -1: none has it. */
static inline int64_t bytes_of(uint64_t type)
{
    static const int8_t bytes[] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, -1, -1};

    return type < 12 ? bytes[type] : type > INT32_MAX ? -1 : (int64_t)(type - 12) / 2;
}

static bool read_record(struct nsys_pages *p, const byte *record, const byte *end)
{
    const byte *t = record, *types_end;
    uint64_t header, type;

    if (!varint(&t, end, &header) || header > (uint64_t)(end - record))
        return false;
    types_end = record + header;
    const byte *body = types_end;
    for (int column = 0; column < p->n_needed; column++) {
        if (!varint(&t, types_end, &type)) /* a column that was added later */
            return false;
        int64_t n = bytes_of(type);
        if (n < 0 || n > end - body)
            return false;
        int at = p->place[column];
        if (at >= 0 && !read_cell(&p->cell[at], type, body, n))
            return false;
        body += n;
    }
    return true;
}

static bool read_row(struct nsys_pages *p)
{
    int64_t at = big_endian(p->leaf + 8 + 2 * p->row, 2);
    const byte *cell = p->leaf + at, *end = p->leaf + p->usable;
    uint64_t payload, rowid;

    if (at < 8 + 2 * p->n_rows || at >= p->usable)
        return false;
    if (!varint(&cell, end, &payload) || !varint(&cell, end, &rowid) ||
        payload > (uint64_t)(p->usable - 35) || payload > (uint64_t)(end - cell))
        return false; /* the rest of a longer one is on other pages */
    if ((int64_t)rowid <= p->rowid || !read_record(p, cell, cell + payload))
        return false;
    p->rowid = (int64_t)rowid;
    p->row++;
    return true;
}

enum nsys_pages_state nsys_pages_next(struct nsys_pages *p)
{
    bool more = true;

    while (!p->failed && more && p->row >= p->n_rows)
        p->failed = !next_leaf(p, &more);
    if (!p->failed && !more)
        return NSYS_PAGES_END;
    p->failed = p->failed || !read_row(p);
    return p->failed ? NSYS_PAGES_UNTOLD : NSYS_PAGES_ROW;
}

const struct nsys_cell *nsys_pages_cell(const struct nsys_pages *p, int i)
{
    return &p->cell[i];
}

const char *nsys_pages_text(struct nsys_pages *p, int i, int *len)
{
    const struct nsys_cell *c = &p->cell[i];

    *len = c->len;
    if (c->kind == NSYS_INT)
        *len = snprintf(p->digits, sizeof p->digits, "%lld", (long long)c->number);
    return c->kind == NSYS_TEXT ? c->text : c->kind == NSYS_INT ? p->digits : "";
}

int64_t nsys_pages_rowid(const struct nsys_pages *p)
{
    return p->rowid;
}

/* ---- opening ---- */

static bool read_header(struct nsys_pages *p, const byte *h)
{
    enum { PAGE_BYTES = 16, RESERVED = 20, ENCODING = 56 };

    p->page_bytes = big_endian(h + PAGE_BYTES, 2);
    p->page_bytes = p->page_bytes == 1 ? 65536 : p->page_bytes;
    p->usable = p->page_bytes - h[RESERVED];
    if (p->page_bytes < 512 || (p->page_bytes & (p->page_bytes - 1)) || p->usable < 480)
        return false;
    p->n_pages = (int64_t)(p->in.len / (uint64_t)p->page_bytes);
    p->window_pages = 1;
    return big_endian(h + ENCODING, 4) == 1;
}

static bool place_columns(struct nsys_pages *p, const int *column, int n)
{
    memset(p->place, -1, sizeof p->place);
    p->n_wanted = n;
    for (int i = 0; i < n; i++) {
        if (column[i] >= MOST_TABLE_COLUMNS || (column[i] >= 0 && p->place[column[i]] >= 0))
            return false;
        if (column[i] >= 0)
            p->place[column[i]] = (int8_t)i;
        p->n_needed = column[i] >= p->n_needed ? column[i] + 1 : p->n_needed;
    }
    return true;
}

enum lw_status nsys_pages_open(const struct nsys_image *image, int64_t root, const int *column,
                               int n_columns, struct nsys_pages **out, struct lw_err *err)
{
    struct nsys_pages *p;
    byte header[HEADER];
    bool has = image->len >= HEADER;

    *out = NULL;
    if (has && image->image)
        memcpy(header, image->image, HEADER);
    else
        has = has && pread(image->fd, header, HEADER, 0) == HEADER;
    if (!has || n_columns > NSYS_PAGES_MOST_COLUMNS)
        return LW_OK;
    LW_NEW(p, 1, err);
    *p = (struct nsys_pages){.in = *image, .rowid = INT64_MIN};
    if (!read_header(p, header) || !place_columns(p, column, n_columns)) {
        nsys_pages_free(p);
        return LW_OK;
    }
    int64_t room = MOST_WINDOW > p->page_bytes ? MOST_WINDOW : p->page_bytes;
    if (!image->image && !(p->window = lw_alloc((size_t)room))) {
        nsys_pages_free(p);
        return lw_fail_nomem(err);
    }
    p->failed = !descend(p, root);
    *out = p;
    return LW_OK;
}

void nsys_pages_free(struct nsys_pages *p)
{
    if (!p)
        return;
    for (int i = 0; i < MOST_DEPTH; i++)
        lw_free(p->levels[i].page);
    lw_free(p->window);
    lw_free(p);
}
