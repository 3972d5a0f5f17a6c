/* Statements over the results database, and SQLite's errors in the words of this project. */
#include "analysis/store/sql.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/store/store_state.h"
#include "shared/base/arena.h"

struct lw_sql {
    struct lw_store *store;
    sqlite3_stmt *stmt;
    int rc; /* SQLITE_OK until the first error */
};

/* Why a database cannot be opened. SQLite tries again without writing, and then reports that a file
 * which it may not create is not there. */
static int why_not_open(const struct lw_store *s, int system)
{
    char folder[PATH_MAX];
    char *slash;

    if (!s->write || access(s->file, F_OK) == 0 ||
        snprintf(folder, sizeof folder, "%s", s->file) >= (int)sizeof folder)
        return system;
    slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    return access(slash ? folder : ".", W_OK | X_OK) == 0 ? system : errno;
}

/* Another call may have come after the one that failed. */
static const char *words_of(const struct lw_store *s, int rc)
{
    return s->db && (sqlite3_errcode(s->db) & 0xff) == (rc & 0xff) ? sqlite3_errmsg(s->db)
                                                                  : sqlite3_errstr(rc);
}

enum lw_status lw_sql_fail(struct lw_store *s, int rc, struct lw_err *err)
{
    const char *words = words_of(s, rc);
    int system = s->db ? sqlite3_system_errno(s->db) : 0;

    s->was_busy = (rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED ||
                  (rc & 0xff) == SQLITE_PROTOCOL;
    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return lw_fail_nomem(err);
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return lw_fail_at(err, LW_EFORMAT, s->file, 0,
                          "not a usable SQLite database (%s); use another --db", words);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return lw_fail_at(err, LW_EIO, s->file, 0,
                          "another process has been writing for %g s (%s); use another --db",
                          s->wait_ms / 1e3, words);
    case SQLITE_FULL:
        return lw_fail_at(err, LW_EIO, s->file, 0, "cannot write (%s); is the disk full?", words);
    case SQLITE_READONLY:
        if (access(s->file, W_OK) != 0)
            words = strerror(errno);
        return lw_fail_at(err, LW_EIO, s->file, 0, "cannot be written (%s); use another --db",
                          words);
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
        if (rc == SQLITE_IOERR && s->db && sqlite3_extended_errcode(s->db) == SQLITE_IOERR_WRITE)
            return lw_fail_at(err, LW_EIO, s->file, 0, "cannot write (%s); is the disk full?",
                              system ? strerror(system) : words);
        system = why_not_open(s, system);
        return lw_fail_at(err, LW_EIO, s->file, 0, "%s%s%s", words, system ? ": " : "",
                          system ? strerror(system) : "");
    case SQLITE_ERROR: /* a statement does not fit the tables */
        return lw_fail_at(err, LW_EFORMAT, s->file, 0,
                          "its tables are not those of schema version %lld (this lapwing knows 1 "
                          "to %lld): edited or damaged; use another --db",
                          (long long)s->version, (long long)s->newest);
    default:
        return lw_fail_at(err, LW_EIO, s->file, 0, "SQLite: %s", words);
    }
}

enum lw_status lw_sql_exec(struct lw_store *s, const char *text, struct lw_err *err)
{
    int rc = sqlite3_exec(s->db, text, NULL, NULL, NULL);
    return rc == SQLITE_OK ? LW_OK : lw_sql_fail(s, rc, err);
}

enum lw_status lw_sql_prepare(struct lw_store *s, const char *text, struct lw_sql **out,
                              struct lw_err *err)
{
    struct lw_sql *q;

    LW_NEW(q, 1, err);
    q->store = s;
    int rc = sqlite3_prepare_v2(s->db, text, -1, &q->stmt, NULL);
    if (rc != SQLITE_OK) {
        lw_free(q);
        return lw_sql_fail(s, rc, err);
    }
    *out = q;
    return LW_OK;
}

static void bind_all(struct lw_sql *q, const char *types, va_list ap)
{
    for (int i = 1; types[i - 1] && q->rc == SQLITE_OK; i++) {
        switch (types[i - 1]) {
        case 'i':
            q->rc = sqlite3_bind_int64(q->stmt, i, va_arg(ap, int));
            break;
        case 'l':
            q->rc = sqlite3_bind_int64(q->stmt, i, va_arg(ap, int64_t));
            break;
        case 'd':
            q->rc = sqlite3_bind_double(q->stmt, i, va_arg(ap, double));
            break;
        case 'b': {
            const char *bytes = va_arg(ap, const char *);
            q->rc = sqlite3_bind_blob64(q->stmt, i, bytes, va_arg(ap, size_t), SQLITE_STATIC);
            break;
        }
        default:
            q->rc = sqlite3_bind_text(q->stmt, i, va_arg(ap, const char *), -1, SQLITE_STATIC);
            break;
        }
    }
}

bool lw_sql_next(struct lw_sql *q)
{
    if (q->rc != SQLITE_OK)
        return false;
    int rc = sqlite3_step(q->stmt);
    if (rc == SQLITE_ROW)
        return true;
    q->rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
    if (q->rc == SQLITE_OK)
        sqlite3_reset(q->stmt); /* an error keeps its message until lw_sql_finish */
    return false;
}

void lw_sql_bind(struct lw_sql *q, const char *types, ...)
{
    va_list ap;

    va_start(ap, types);
    bind_all(q, types, ap);
    va_end(ap);
}

void lw_sql_run(struct lw_sql *q, const char *types, ...)
{
    va_list ap;

    va_start(ap, types);
    bind_all(q, types, ap);
    va_end(ap);
    lw_sql_next(q);
}

void lw_sql_run_values(struct lw_sql *q, const struct lw_sql_value *v, int n)
{
    for (int i = 0; i < n && q->rc == SQLITE_OK; i++)
        q->rc = v[i].null   ? sqlite3_bind_null(q->stmt, i + 1)
                : v[i].text ? sqlite3_bind_text(q->stmt, i + 1, v[i].text, -1, SQLITE_STATIC)
                            : sqlite3_bind_int64(q->stmt, i + 1, v[i].number);
    lw_sql_next(q);
}

static enum lw_status prepare_bound(struct lw_store *s, struct lw_sql **out, struct lw_err *err,
                                    const char *text, const char *types, va_list ap)
{
    LW_TRY(lw_sql_prepare(s, text, out, err));
    bind_all(*out, types, ap);
    return LW_OK;
}

enum lw_status lw_sql_query(struct lw_store *s, struct lw_sql **out, struct lw_err *err,
                            const char *text, const char *types, ...)
{
    va_list ap;

    va_start(ap, types);
    enum lw_status status = prepare_bound(s, out, err, text, types, ap);
    va_end(ap);
    return status;
}

enum lw_status lw_sql_do(struct lw_store *s, struct lw_err *err, const char *text,
                         const char *types, ...)
{
    struct lw_sql *q;
    va_list ap;

    va_start(ap, types);
    enum lw_status status = prepare_bound(s, &q, err, text, types, ap);
    va_end(ap);
    LW_TRY(status);
    lw_sql_next(q);
    return lw_sql_finish(q, err);
}

enum lw_status lw_sql_number(struct lw_store *s, int64_t *value, struct lw_err *err,
                             const char *text, const char *types, ...)
{
    struct lw_sql *q;
    va_list ap;

    va_start(ap, types);
    enum lw_status status = prepare_bound(s, &q, err, text, types, ap);
    va_end(ap);
    LW_TRY(status);
    *value = lw_sql_next(q) ? lw_sql_int(q, 0) : 0;
    return lw_sql_finish(q, err);
}

int64_t lw_sql_int(struct lw_sql *q, int column)
{
    return q->rc == SQLITE_OK ? sqlite3_column_int64(q->stmt, column) : 0;
}

double lw_sql_real(struct lw_sql *q, int column)
{
    return q->rc == SQLITE_OK ? sqlite3_column_double(q->stmt, column) : 0;
}

const char *lw_sql_text(struct lw_sql *q, int column)
{
    if (q->rc != SQLITE_OK || sqlite3_column_type(q->stmt, column) == SQLITE_NULL)
        return "";
    const unsigned char *text = sqlite3_column_text(q->stmt, column);
    if (!text)
        q->rc = SQLITE_NOMEM;
    return text ? (const char *)text : "";
}

const void *lw_sql_bytes(struct lw_sql *q, int column, size_t *n)
{
    const void *bytes = q->rc == SQLITE_OK ? sqlite3_column_blob(q->stmt, column) : NULL;

    *n = bytes ? (size_t)sqlite3_column_bytes(q->stmt, column) : 0;
    return bytes;
}

bool lw_sql_is_null(struct lw_sql *q, int column)
{
    return q->rc != SQLITE_OK || sqlite3_column_type(q->stmt, column) == SQLITE_NULL;
}

bool lw_sql_failed(const struct lw_sql *q)
{
    return q->rc != SQLITE_OK;
}

enum lw_status lw_sql_finish(struct lw_sql *q, struct lw_err *err)
{
    if (!q)
        return LW_OK;
    enum lw_status st = q->rc == SQLITE_OK ? LW_OK : lw_sql_fail(q->store, q->rc, err);
    sqlite3_finalize(q->stmt);
    lw_free(q);
    return st;
}

enum lw_status lw_sql_end(struct lw_sql *q, enum lw_status st, struct lw_err *err)
{
    enum lw_status end = lw_sql_finish(q, st == LW_OK ? err : NULL);
    return st != LW_OK ? st : end;
}

int64_t lw_sql_last_id(struct lw_store *s)
{
    return sqlite3_last_insert_rowid(s->db);
}

int64_t lw_sql_changed(struct lw_store *s)
{
    return sqlite3_changes(s->db);
}

enum lw_status lw_sql_begin(struct lw_store *s, struct lw_err *err)
{
    return lw_sql_exec(s, "BEGIN IMMEDIATE", err);
}

enum lw_status lw_sql_commit(struct lw_store *s, enum lw_status st, struct lw_err *err)
{
    if (st == LW_OK)
        st = lw_sql_exec(s, "COMMIT", err);
    if (st != LW_OK)
        lw_sql_rollback(s);
    return st;
}

void lw_sql_rollback(struct lw_store *s)
{
    if (!sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}
