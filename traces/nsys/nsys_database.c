/* A report of Nsight Systems as tables.
 *
 * The database is somebody else's file: it is opened read only, by its name where it is a file as
 * it stands (its bytes are then given back at once) and else on the bytes that were read, and only
 * real tables are asked, so that no view, no virtual table and no trigger of the file runs
 * anything. One thread has one connection, so SQLite locks nothing. A file in write-ahead mode is
 * read as its last checkpoint left it, and is refused while the log beside it holds more. Tables
 * are created by the exporter only when it has rows for them,
 * and columns come and go between schemas: each query asks for the columns that the file has.
 *
 * SQLite tells what tables and columns there are; plain rows are read from the pages themselves
 * (nsys_pages.h), and SQLite reads on from the first row that is not plain. */
#include "traces/nsys/nsys_database.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/arena.h"
#include "shared/io/input.h"

enum { MOST_TEXT = 1 << 26, WRITE_VERSION = 18, READ_VERSION = 19, HEADER = 100 };

static enum lw_status fail(const struct nsys_database *d, struct lw_err *err)
{
    int rc = sqlite3_errcode(d->db);

    if (rc == SQLITE_NOMEM)
        return lw_fail_nomem(err);
    return lw_fail_at(err, LW_EFORMAT, d->name, 0,
                      "damaged database: %s; export the report again (nsys export --type sqlite)",
                      sqlite3_errmsg(d->db));
}

static enum lw_status setup(struct nsys_database *d, struct lw_err *err)
{
    static const int off[] = {SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW,
                              SQLITE_DBCONFIG_TRUSTED_SCHEMA};

    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        sqlite3_db_config(d->db, off[i], 0, NULL);
    sqlite3_db_config(d->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_limit(d->db, SQLITE_LIMIT_LENGTH, MOST_TEXT);
    if (sqlite3_exec(d->db, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL) != SQLITE_OK)
        return fail(d, err);
    return LW_OK;
}

/* A log beside the file holds what was not yet written into it. */
static enum lw_status check_log(const char *file, struct lw_err *err)
{
    char log[4096];
    struct stat s;

    if (snprintf(log, sizeof log, "%s-wal", file) < (int)sizeof log && stat(log, &s) == 0 &&
        s.st_size > 0)
        return lw_fail_at(err, LW_EFORMAT, file, 0,
                          "'%.200s' beside it holds rows that are not in it yet: close the program "
                          "that has it open, or run sqlite3 FILE 'PRAGMA wal_checkpoint(TRUNCATE)'",
                          log);
    return LW_OK;
}

/* The bytes are those of the file of that name, as it still is: its header counts its changes. */
static bool is_file(const struct lw_input *in)
{
    char head[HEADER];
    struct stat s;
    FILE *f = stat(in->name, &s) == 0 && S_ISREG(s.st_mode) && (uint64_t)s.st_size == in->len
                  ? fopen(in->name, "rb")
                  : NULL;

    if (!f)
        return false;
    bool same = fread(head, 1, HEADER, f) == HEADER && memcmp(head, in->text, HEADER) == 0;
    fclose(f);
    return same;
}

enum lw_status nsys_database_open(struct lw_input *in, struct nsys_database *out,
                                  struct lw_err *err)
{
    struct nsys_database d = {.name = in->name};

    if (in->len < HEADER)
        return lw_fail_at(err, LW_EFORMAT, in->name, 0,
                          "damaged database: %zu bytes, fewer than its header has", in->len);
    if (is_file(in)) {
        lw_input_free_text(in);
        return nsys_database_open_file(d.name, out, err);
    }
    LW_TRY(check_log(in->name, err));
    if (in->text[WRITE_VERSION] == 2 && in->text[READ_VERSION] == 2) /* an image has no log */
        in->text[WRITE_VERSION] = in->text[READ_VERSION] = 1;
    enum lw_status status = LW_OK;
    if (sqlite3_open_v2(":memory:", &d.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        status = lw_fail_nomem(err);
    else if (sqlite3_deserialize(d.db, "main", (unsigned char *)in->text, (sqlite3_int64)in->len,
                                 (sqlite3_int64)in->len, SQLITE_DESERIALIZE_READONLY) != SQLITE_OK)
        status = fail(&d, err);
    if (status == LW_OK)
        status = setup(&d, err);
    d.image = (struct nsys_image){.image = in->text, .len = in->len};
    LW_GIVE(status, out, d, nsys_database_close(&d));
}

static void open_pages(const char *file, struct nsys_image *image)
{
    struct stat s;
    int fd = open(file, O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0)
        *image = (struct nsys_image){.fd = fd, .len = (uint64_t)s.st_size};
    else if (fd >= 0)
        close(fd);
}

enum lw_status nsys_database_open_file(const char *file, struct nsys_database *out,
                                       struct lw_err *err)
{
    struct nsys_database d = {.name = file};
    char *uri = sqlite3_mprintf("%s", "file:");

    LW_TRY(check_log(file, err));
    for (const char *c = file; uri && *c; c++) {
        char *longer = sqlite3_mprintf(strchr("?#%", *c) ? "%s%%%02X" : "%s%c", uri,
                                       (unsigned char)*c);
        sqlite3_free(uri);
        uri = longer;
    }
    char *whole = uri ? sqlite3_mprintf("%s?mode=ro&immutable=1", uri) : NULL;
    sqlite3_free(uri);
    if (!whole)
        return lw_fail_nomem(err);
    enum lw_status status = LW_OK;
    if (sqlite3_open_v2(whole, &d.db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        status = lw_fail_at(err, LW_EIO, file, 0, "%s", d.db ? sqlite3_errmsg(d.db) : "no memory");
    sqlite3_free(whole);
    if (status == LW_OK)
        status = setup(&d, err);
    if (status == LW_OK)
        open_pages(file, &d.image);
    LW_GIVE(status, out, d, nsys_database_close(&d));
}

void nsys_database_close(struct nsys_database *d)
{
    sqlite3_close(d->db);
    if (d->image.len > 0 && !d->image.image)
        close(d->image.fd);
    *d = (struct nsys_database){0};
}

bool nsys_database_has(const struct nsys_database *d, const char *table)
{
    sqlite3_stmt *s;
    bool found = false;

    if (sqlite3_prepare_v2(d->db,
                           "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1 "
                           "AND sql LIKE 'CREATE TABLE%'",
                           -1, &s, NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
    found = sqlite3_step(s) == SQLITE_ROW;
    sqlite3_finalize(s);
    return found;
}

enum lw_status nsys_database_number(const struct nsys_database *d, const char *query,
                                    int64_t *value, struct lw_err *err)
{
    sqlite3_stmt *s;

    if (sqlite3_prepare_v2(d->db, query, -1, &s, NULL) != SQLITE_OK)
        return fail(d, err);
    int rc = sqlite3_step(s);
    bool is = rc == SQLITE_ROW && sqlite3_column_type(s, 0) == SQLITE_INTEGER;
    if (is)
        *value = sqlite3_column_int64(s, 0);
    enum lw_status status = is ? LW_OK
                            : rc == SQLITE_ROW || rc == SQLITE_DONE
                                ? lw_fail_at(err, LW_EFORMAT, d->name, 0,
                                             "damaged database: no number from '%s'", query)
                                : fail(d, err);
    sqlite3_finalize(s);
    return status;
}

/* ---- whose database it is ---- */

static bool has_like(const struct nsys_database *d, const char *pattern)
{
    sqlite3_stmt *s;

    if (sqlite3_prepare_v2(d->db, "SELECT 1 FROM sqlite_master WHERE name LIKE ?1", -1, &s,
                           NULL) != SQLITE_OK)
        return false;
    sqlite3_bind_text(s, 1, pattern, -1, SQLITE_STATIC);
    bool found = sqlite3_step(s) == SQLITE_ROW;
    sqlite3_finalize(s);
    return found;
}

enum lw_status nsys_database_check(const struct nsys_database *d, struct lw_err *err)
{
    static const struct {
        const char *table, *says;
    } others[] = {
        {"rocpd%", "a database of ROCm's profiler (rocpd), which is not read here; record the run "
                   "with torch.profiler (export_chrome_trace), whose traces are"},
        {"CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL",
         "a database of nvprof, which is not read here; record the run with Nsight Systems (nsys "
         "profile) and export that (nsys export --type sqlite)"},
    };
    bool is = nsys_database_has(d, "META_DATA_EXPORT") ||
              nsys_database_has(d, "EXPORT_META_DATA") ||
              (nsys_database_has(d, "StringIds") &&
               (nsys_database_has(d, "CUPTI_ACTIVITY_KIND_KERNEL") ||
                nsys_database_has(d, "CUPTI_ACTIVITY_KIND_RUNTIME") ||
                nsys_database_has(d, "NVTX_EVENTS")));

    if (is)
        return LW_OK;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has_like(d, others[i].table))
            return lw_fail_at(err, LW_EFORMAT, d->name, 0, "%s", others[i].says);
    if (nsys_database_has(d, "run") && nsys_database_has(d, "span"))
        return lw_fail_at(err, LW_EFORMAT, d->name, 0,
                          "a database of Lapwing's own; 'lapwing runs --db FILE' lists it");
    return lw_fail_at(err, LW_EFORMAT, d->name, 0,
                      "an SQLite database without the tables of Nsight Systems (META_DATA_EXPORT, "
                      "StringIds); write one with 'nsys export --type sqlite REPORT.nsys-rep'");
}

/* ---- rows ---- */

static bool has_column(const struct nsys_database *d, const char *table, const char *column)
{
    return sqlite3_table_column_metadata(d->db, "main", table, column, NULL, NULL, NULL, NULL,
                                         NULL) == SQLITE_OK;
}

/* The query for the columns, of rows after `rowid`; INT64_MIN: of all. */
static enum lw_status prepare(struct nsys_rows *r, int64_t rowid, const char *order,
                              struct lw_err *err)
{
    char query[1024] = "SELECT ", after[48] = "";

    for (int i = 0; i < r->n_columns; i++) {
        const char *name = r->columns[i] + (*r->columns[i] == '?');
        size_t at = strlen(query);
        bool has = has_column(r->d, r->table, name);
        snprintf(query + at, sizeof query - at, has ? "%s\"%s\"" : "%sNULL", i ? ", " : "", name);
    }
    if (rowid != INT64_MIN)
        snprintf(after, sizeof after, " WHERE rowid > %lld", (long long)rowid);
    size_t at = strlen(query);
    snprintf(query + at, sizeof query - at, " FROM %s%s%s", r->table, after, order);
    if (sqlite3_prepare_v2(r->d->db, query, -1, &r->statement, NULL) != SQLITE_OK)
        return fail(r->d, err);
    return LW_OK;
}

/* Of a value in a column of this type what SQLite hands out may not be what the file holds. */
static bool is_converted(const char *type)
{
    static const char *const parts[] = {"%REAL%", "%FLOA%", "%DOUB%"};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (sqlite3_strlike(parts[i], type ? type : "", 0) == 0)
            return true;
    return false;
}

/* The wanted column that a row of table_xinfo describes; -1. */
static int wanted(const struct nsys_rows *r, const char *name)
{
    for (int i = 0; i < r->n_columns && name; i++)
        if (sqlite3_stricmp(r->columns[i] + (*r->columns[i] == '?'), name) == 0)
            return i;
    return -1;
}

/* Where the wanted columns are in a row; false: they are not stored as they are handed out. */
static bool find_places(const struct nsys_rows *r, int *place)
{
    enum { CID, NAME, TYPE, KEY = 5, HIDDEN };
    char query[128];
    sqlite3_stmt *s;
    bool plain = true;

    for (int i = 0; i < NSYS_MOST_COLUMNS; i++)
        place[i] = -1;
    snprintf(query, sizeof query, "PRAGMA table_xinfo(\"%s\")", r->table);
    if (sqlite3_prepare_v2(r->d->db, query, -1, &s, NULL) != SQLITE_OK)
        return false;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(s, NAME);
        int i = wanted(r, name);
        bool key = sqlite3_column_int(s, KEY) != 0; /* the rowid itself, perhaps */
        plain = plain && name && sqlite3_column_int(s, HIDDEN) == 0 &&
                sqlite3_stricmp(name, "rowid") != 0;
        if (i >= 0) {
            place[i] = sqlite3_column_int(s, CID);
            plain = plain && !key && !is_converted((const char *)sqlite3_column_text(s, TYPE));
        }
    }
    sqlite3_finalize(s);
    return plain && rc == SQLITE_DONE;
}

static int64_t root_of(const struct nsys_database *d, const char *table)
{
    sqlite3_stmt *s;
    int64_t root = 0;

    if (sqlite3_prepare_v2(d->db,
                           "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?1",
                           -1, &s, NULL) != SQLITE_OK)
        return 0;
    sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
    if (sqlite3_step(s) == SQLITE_ROW)
        root = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return root;
}

enum lw_status nsys_rows_open(const struct nsys_database *d, const char *table,
                              const char *const *columns, const char *order,
                              struct nsys_rows *out, struct lw_err *err)
{
    struct nsys_rows r = {.d = d, .table = table, .columns = columns};
    int place[NSYS_MOST_COLUMNS];

    *out = r;
    if (!nsys_database_has(d, table))
        return LW_OK;
    r.present = true;
    for (; columns[r.n_columns]; r.n_columns++) {
        const char *name = columns[r.n_columns];
        if (*name != '?' && !has_column(d, table, name))
            return lw_fail_at(err, LW_EFORMAT, d->name, 0,
                              "table %s has no column '%s': not a schema of Nsight Systems that is "
                              "known; export the report again with a newer nsys",
                              table, name);
    }
    if (!*order && d->image.len > 0 && find_places(&r, place))
        LW_TRY(nsys_pages_open(&d->image, root_of(d, table), place, r.n_columns, &r.pages, err));
    if (!r.pages)
        LW_TRY(prepare(&r, INT64_MIN, order, err));
    *out = r;
    return LW_OK;
}

enum lw_status nsys_rows_next(struct nsys_rows *r, bool *more, struct lw_err *err)
{
    *more = false;
    if (r->pages) {
        enum nsys_pages_state state = nsys_pages_next(r->pages);
        *more = state == NSYS_PAGES_ROW;
        r->n += *more;
        if (state != NSYS_PAGES_UNTOLD)
            return LW_OK;
        int64_t rowid = nsys_pages_rowid(r->pages);
        nsys_pages_free(r->pages);
        r->pages = NULL;
        LW_TRY(prepare(r, rowid, "", err));
    }
    if (!r->statement)
        return LW_OK;
    int rc = sqlite3_step(r->statement);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return fail(r->d, err);
    *more = rc == SQLITE_ROW;
    r->n += *more;
    return LW_OK;
}

void nsys_rows_close(struct nsys_rows *r)
{
    nsys_pages_free(r->pages);
    r->pages = NULL;
    sqlite3_finalize(r->statement);
    r->statement = NULL;
}

static enum lw_status no_number(const struct nsys_rows *r, const char *column, struct lw_err *err)
{
    return lw_fail_at(err, LW_EFORMAT, r->d->name, 0,
                      "table %s, row %lld: '%s' holds no whole number", r->table, (long long)r->n,
                      column);
}

/* What the column holds, a number and its value; NSYS_TEXT: anything else. */
static inline int cell_of(const struct nsys_rows *r, int column, int64_t *value)
{
    if (r->pages) {
        const struct nsys_cell *c = nsys_pages_cell(r->pages, column);
        if (c->kind == NSYS_INT)
            *value = c->number;
        return (int)c->kind;
    }
    sqlite3_value *v = sqlite3_column_value(r->statement, column);
    int type = sqlite3_value_type(v);
    if (type == SQLITE_INTEGER)
        *value = sqlite3_value_int64(v);
    return type == SQLITE_INTEGER ? NSYS_INT : type == SQLITE_NULL ? NSYS_NULL : NSYS_TEXT;
}

enum lw_status nsys_rows_int(const struct nsys_rows *r, int column, int64_t *value,
                             struct lw_err *err)
{
    if (cell_of(r, column, value) != NSYS_INT)
        return no_number(r, r->columns[column], err);
    return LW_OK;
}

enum lw_status nsys_rows_maybe(const struct nsys_rows *r, int column, int64_t absent,
                               int64_t *value, struct lw_err *err)
{
    *value = absent;
    int kind = cell_of(r, column, value);
    return kind == NSYS_NULL || kind == NSYS_INT ? LW_OK
                                                 : no_number(r, r->columns[column] + 1, err);
}

const char *nsys_rows_text(const struct nsys_rows *r, int column, int *len)
{
    if (r->pages)
        return nsys_pages_text(r->pages, column, len);
    const char *text = (const char *)sqlite3_column_text(r->statement, column);
    *len = text ? sqlite3_column_bytes(r->statement, column) : 0;
    return text ? text : "";
}
