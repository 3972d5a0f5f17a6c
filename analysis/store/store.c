/* The results database: connection and schema. This file, sql.c, which has the statements, and
 * span_rows.c and op_row_table.c, which unpack spans and ops for them, know SQLite; runs and plans
 * are written and read by store_*.c through analysis/store/sql.h.
 *
 * Invariants: the file carries Lapwing's application_id, so that another program's database is
 * refused and never altered; user_version is the number of the last schema part that was run, and a
 * part runs in one transaction with the change of that number; a database of a newer Lapwing is
 * refused. WAL with synchronous=NORMAL: a killed process loses at most its open transaction and
 * never the file (SQLite, "Write-Ahead Logging"). Not covered: network file systems, where SQLite's
 * locks do not hold. */
#include "analysis/store/store.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "analysis/store/op_row_table.h"
#include "analysis/store/run_process.h"
#include "analysis/store/span_rows.h"
#include "analysis/store/sql.h"
#include "analysis/store/store_memory.h"
#include "analysis/store/store_ops.h"
#include "analysis/store/store_plan.h"
#include "analysis/store/store_spans.h"
#include "analysis/store/store_state.h"
#include "shared/base/clock.h"
#include "shared/io/embedded.h"
#include "shared/io/own_output.h"
#include "shared/io/used_files.h"

enum { APPLICATION_ID = 0x4c617077 /* "Lapw" */, BUSY_MS = 10000 };
/* Versions: a plan's hash leaves out times, spans are packed, ops and memory are pieces. */
enum { HASHES_ANEW = 8, SPANS_PACKED = 12, IN_PIECES = 16 };
/* Of this version on a database is read as it is: what came later is not looked for in it. */
enum { OLDEST_READ = 14 };
enum { MANY_PAGES = 1024 }; /* unused pages of a file that is worth writing anew */
enum { MOST_TEXT = 512 << 20 }; /* bytes of one value: a packed plan */

/* The part of the schema that brings a database from version - 1 to version: the text between its
 * "-- version N" line and the next. *len = 0 when there is none. */
static const char *schema_part(const char *text, size_t text_len, int64_t version, size_t *len)
{
    char head[32];
    int head_len = snprintf(head, sizeof head, "-- version %lld\n", (long long)version);
    const char *from = memmem(text, text_len, head, (size_t)head_len);

    *len = 0;
    if (!from)
        return NULL;
    size_t rest = text_len - (size_t)(from - text);
    const char *next = memmem(from + head_len, rest - (size_t)head_len, "-- version ", 11);
    *len = next ? (size_t)(next - from) : rest;
    return from;
}

static enum lw_status run_part(struct lw_store *s, const char *part, size_t len, int64_t version,
                               struct lw_err *err)
{
    char *text = lw_alloc(len + 96);
    if (!text)
        return lw_fail_nomem(err);
    memcpy(text, part, len);
    snprintf(text + len, 96, "\nPRAGMA application_id = %d;\nPRAGMA user_version = %lld;",
             APPLICATION_ID, (long long)version);
    enum lw_status st = lw_sql_exec(s, text, err);
    lw_free(text);
    return st;
}

/* Which program does the database belong to? An empty one belongs to none yet. */
static enum lw_status check_owner(struct lw_store *s, bool *empty, struct lw_err *err)
{
    int64_t id, tables;

    LW_TRY(lw_sql_number(s, &id, err, "PRAGMA application_id", ""));
    LW_TRY(lw_sql_number(s, &tables, err, "SELECT count(*) FROM sqlite_schema", ""));
    *empty = id == 0 && tables == 0;
    if (*empty || id == APPLICATION_ID)
        return LW_OK;
    return lw_fail_at(err, LW_EFORMAT, s->file, 0,
                      "a database of another program (application_id %lld), not of lapwing; use "
                      "another --db",
                      (long long)id);
}

/* A number that lapwing writes goes with the tables that it writes. */
static enum lw_status check_version(struct lw_store *s, bool empty, struct lw_err *err)
{
    long long have = s->version, newest = s->newest;
    int64_t runs;

    if (have > newest)
        return lw_fail_at(err, LW_EFORMAT, s->file, 0,
                          "schema version %lld, of a newer lapwing (this one knows 1 to %lld): use "
                          "that one, or another --db", have, newest);
    LW_TRY(
        lw_sql_number(s, &runs, err, "SELECT count(*) FROM sqlite_schema WHERE name = 'run'", ""));
    if (have < 0 || (have == 0) != (runs == 0))
        return lw_fail_at(err, LW_EFORMAT, s->file, 0,
                          "schema version %lld and %s table 'run' (this lapwing knows 1 to %lld, "
                          "with that table): edited or damaged; use another --db",
                          have, runs ? "a" : "no", newest);
    if (s->write || have >= OLDEST_READ)
        return LW_OK;
    if (empty)
        return lw_fail_at(err, LW_EFORMAT, s->file, 0,
                          "an empty database: sim, exec and import --store fill one; --db FILE "
                          "names another");
    return lw_fail_at(err, LW_EFORMAT, s->file, 0,
                      "schema version %lld, of an older lapwing (this one reads %d on, and knows 1 "
                      "to %lld): a command that stores a run in it brings it up to date, as "
                      "`lapwing sim -w mlp --db %s`", have, OLDEST_READ, newest, s->file);
}

/* Whose it is and of which version, as of one moment: another process may be creating it. */
static enum lw_status look(struct lw_store *s, struct lw_err *err)
{
    bool empty;

    LW_TRY(lw_sql_exec(s, "BEGIN", err));
    enum lw_status st = check_owner(s, &empty, err);
    if (st == LW_OK)
        st = lw_sql_number(s, &s->version, err, "PRAGMA user_version", "");
    if (st == LW_OK)
        st = check_version(s, empty, err);
    if (s->write || st != LW_OK) /* else all is read at this moment, whatever others delete */
        lw_sql_rollback(s);
    return st;
}

/* Run every schema part that this database has not seen. */
static enum lw_status migrate(struct lw_store *s, const char *schema, size_t len,
                              struct lw_err *err)
{
    size_t part_len;

    if (s->version == s->newest)
        return LW_OK;
    LW_TRY(lw_sql_begin(s, err));
    enum lw_status st = lw_sql_number(s, &s->version, err, "PRAGMA user_version", "");
    bool packed = s->version >= SPANS_PACKED;
    for (int64_t v = s->version + 1; st == LW_OK && v <= s->newest; v++) {
        const char *part = schema_part(schema, len, v, &part_len);
        st = run_part(s, part, part_len, v, err);
        if (st == LW_OK && v == HASHES_ANEW)
            st = lw_store_hash_plans(s, err);
        if (st == LW_OK && v == IN_PIECES)
            st = lw_store_pack_ops(s, err);
        if (st == LW_OK && v == IN_PIECES)
            st = lw_store_pack_memory(s, err);
    }
    if (st == LW_OK && !packed) /* into the tables of the newest version */
        st = lw_store_pack_spans(s, err);
    return lw_sql_commit(s, st, err);
}

/* A WAL database in a folder that cannot be written can be read only while no process writes it:
 * then it is opened as immutable, which needs no lock files. Else a reader may write where it can,
 * though no statement of it does (query_only): only such a connection, where it is the last one,
 * takes away the files beside the database that it needed. Returns a URI to be freed with
 * sqlite3_free. */
static char *read_uri(const char *file)
{
    char *wal = sqlite3_mprintf("%s-wal", file);
    char *dir = sqlite3_mprintf("%s", file);
    char *uri = NULL;

    if (wal && dir) {
        char *slash = strrchr(dir, '/');
        if (slash)
            slash[slash == dir] = '\0';
        bool frozen = access(slash ? dir : ".", W_OK) != 0 && access(wal, F_OK) != 0;
        sqlite3_str *text = sqlite3_str_new(NULL);
        sqlite3_str_appendall(text, "file:");
        /* what a URI would read as its own, and what "%c" would write as a code point */
        for (const unsigned char *c = (const unsigned char *)file; *c; c++)
            sqlite3_str_appendf(text, strchr("?#%", *c) || *c >= 0x80 ? "%%%02X" : "%c", *c);
        sqlite3_str_appendall(text, frozen ? "?mode=ro&immutable=1" : "?mode=rw");
        uri = sqlite3_str_finish(text);
    }
    sqlite3_free(wal);
    sqlite3_free(dir);
    return uri;
}

/* The file may come from another person: none of its views and triggers is evaluated, which could
 * run without end, and no value is larger than MOST_TEXT. */
static void trust_nothing(sqlite3 *db)
{
    static const int off[] = {SQLITE_DBCONFIG_ENABLE_TRIGGER, SQLITE_DBCONFIG_ENABLE_VIEW,
                              SQLITE_DBCONFIG_TRUSTED_SCHEMA};

    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
        sqlite3_db_config(db, off[i], 0, NULL);
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, MOST_TEXT);
}

/* The file's view of this name is not evaluated; this one is Lapwing's own, and goes first. Outside
 * of a transaction, which an error would roll back; after a migration, whose `op` is a table. */
static enum lw_status show_ops(struct lw_store *s, struct lw_err *err)
{
    return lw_sql_exec(s, "CREATE TEMP VIEW op AS SELECT r.plan AS plan, r.op AS op,"
                          " a.kind AS kind,"
                          " a.class AS class, a.dtype AS dtype, a.stream AS stream,"
                          " a.comm AS comm, a.call AS call, a.bytes AS bytes,"
                          " a.work_ps AS work_ps, a.peer AS peer, a.operand AS operand,"
                          " a.module AS module, a.stage AS stage, r.micro_batch AS micro_batch,"
                          " a.bucket AS bucket, a.name AS name FROM op_rows AS r"
                          " JOIN main.op_alike AS a ON a.plan = r.plan AND a.alike = r.alike", err);
}

static enum lw_status open_handle(struct lw_store *s, struct lw_err *err)
{
    int rc;

    if (s->write) {
        rc = sqlite3_open_v2(s->file, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    } else {
        char *uri = read_uri(s->file);
        if (!uri)
            return lw_fail_nomem(err);
        rc = sqlite3_open_v2(uri, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI, NULL);
        sqlite3_free(uri);
    }
    if (rc != SQLITE_OK)
        return lw_sql_fail(s, rc, err);
    trust_nothing(s->db);
    lw_store_wait_at_most(s, BUSY_MS);
    rc = span_rows_register(s->db);
    if (rc == SQLITE_OK)
        rc = op_row_table_register(s->db);
    if (rc != SQLITE_OK)
        return lw_sql_fail(s, rc, err);
    if (s->write)
        return LW_OK;
    LW_TRY(show_ops(s, err)); /* a view of this connection alone, which query_only would forbid */
    return lw_sql_exec(s, "PRAGMA query_only = ON", err);
}

static enum lw_status prepare_file(struct lw_store *s, struct lw_err *err)
{
    const struct lw_embedded *schema = lw_embedded_find("analysis/store/schema.sql");
    const char *text = (const char *)schema->text;
    int64_t unused;
    size_t part_len;

    for (s->newest = 0; schema_part(text, schema->len, s->newest + 1, &part_len);)
        s->newest++;
    LW_TRY(look(s, err)); /* before anything is changed */
    if (!s->write)
        return LW_OK;
    if (sqlite3_db_readonly(s->db, "main"))
        return lw_sql_fail(s, SQLITE_READONLY, err);
    LW_TRY(lw_sql_exec(s, "PRAGMA page_size = 8192", err));
    LW_TRY(lw_sql_number(s, &unused, err, "PRAGMA journal_mode = WAL", ""));
    LW_TRY(lw_sql_exec(s, "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = OFF", err));
    if (s->keeps_version && s->version > 0 && s->version < s->newest)
        return LW_OK;
    int64_t before = s->version, n_free = 0;
    LW_TRY(migrate(s, text, schema->len, err)); /* may make a table anew that others refer to */
    if (before > 0 && before < IN_PIECES)
        LW_TRY(lw_sql_number(s, &n_free, err, "PRAGMA freelist_count", ""));
    if (n_free > MANY_PAGES)
        lw_sql_exec(s, "VACUUM", NULL); /* gives back what rows took; may stay undone */
    LW_TRY(lw_sql_exec(s, "PRAGMA foreign_keys = ON", err));
    LW_TRY(show_ops(s, err));
    return s->finds_dead ? lw_run_process_end_dead(s, err) : LW_OK;
}

/* Opened and of this version. Where two processes create a database, or the last one closes it
 * while the next one opens it, SQLite answers "busy" at once for some steps: it is then opened
 * anew. */
static enum lw_status open_prepared(struct lw_store *s, struct lw_err *err)
{
    double until = lw_now_s() + BUSY_MS / 1e3;

    for (long wait_ns = 200000;; wait_ns = wait_ns < 20000000 ? wait_ns * 2 : wait_ns) {
        s->was_busy = false;
        enum lw_status st = open_handle(s, err);
        if (st == LW_OK)
            st = prepare_file(s, err);
        if (st == LW_OK || !s->was_busy || lw_now_s() > until)
            return st;
        sqlite3_close(s->db);
        s->db = NULL;
        nanosleep(&(struct timespec){0, wait_ns}, NULL);
    }
}

/* A database is a file. SQLite would take these names for one that is gone when it is closed. */
static enum lw_status check_name(const char *file, struct lw_err *err)
{
    static const char *const beside[] = {"", "-wal", "-shm", "-journal"};
    char name[PATH_MAX];
    struct stat at;

    if (file[0] == '\0' || strcmp(file, ":memory:") == 0)
        return lw_fail(err, LW_EINVAL,
                       "--db '%s' stores nothing: give the name of a file, or --no-db", file);
    if (strncmp(file, "file:", 5) == 0) /* SQLite would read options of its own after it */
        return lw_fail(err, LW_EINVAL,
                       "--db '%s' is a URI: give the name of a file (./%s for one of this name)",
                       file, file);
    if (stat(file, &at) == 0 && !S_ISREG(at.st_mode))
        return lw_fail_at(err, LW_EIO, file, 0, "%s, not a database; give the name of a file to "
                                                "--db",
                          S_ISDIR(at.st_mode) ? "a folder" : "a device or pipe");
    if (lw_belongs_to_database(file))
        return lw_fail_at(err, LW_EINVAL, file, 0, "belongs to another database; give --db the "
                                                   "name of that, or of another file");
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
        if (snprintf(name, sizeof name, "%s%s", file, beside[i]) >= (int)sizeof name)
            return lw_fail_at(err, LW_EIO, file, 0, "%s", strerror(ENAMETOOLONG));
        LW_TRY(lw_used_file(name, LW_USE_DATABASE, err));
    }
    return LW_OK;
}

enum lw_status lw_store_open(const char *file, enum lw_store_mode mode, struct lw_store **out,
                             struct lw_err *err)
{
    struct lw_store *s = lw_calloc(1, sizeof *s + strlen(file) + 1);

    if (!s)
        return lw_fail_nomem(err);
    s->file = strcpy((char *)(s + 1), file);
    s->write = mode != LW_STORE_READ;
    s->finds_dead = mode == LW_STORE_WRITE || mode == LW_STORE_TRY;
    s->keeps_version = mode == LW_STORE_TRY;
    enum lw_status st = check_name(file, err);
    if (st == LW_OK && !s->write && access(file, R_OK) != 0)
        st = lw_fail_at(err, LW_EIO, file, 0, "cannot open the database (%s): sim, "
                                                "exec and import --store make one; --db FILE names "
                                                "another", strerror(errno));
    if (st == LW_OK)
        st = open_prepared(s, err);
    if (st != LW_OK) {
        lw_store_close(s);
        return st;
    }
    *out = s;
    return LW_OK;
}

/* Whether a file can be made in the folder of this one. */
static enum lw_status can_make(const char *file, struct lw_err *err)
{
    const char *slash = strrchr(file, '/');
    char folder[PATH_MAX] = "."; /* check_name has seen to its length */

    if (slash)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - file) + 1, file);
    if (access(folder, W_OK | X_OK) == 0)
        return LW_OK;
    return lw_fail_at(err, LW_EIO, file, 0, "unable to open database file: %s", strerror(errno));
}

enum lw_status lw_store_usable(const char *file, struct lw_err *err)
{
    struct lw_store *s = NULL;
    struct lw_err why = {0};
    enum lw_status st = check_name(file, &why);

    if (st == LW_OK)
        st = access(file, F_OK) == 0 ? lw_store_open(file, LW_STORE_TRY, &s, &why)
                                     : can_make(file, &why);
    lw_store_close(s);
    return st == LW_OK ? LW_OK
                       : lw_fail(err, st, "%s; nothing was run: give --db FILE that can be "
                                          "written, or leave storing out (--no-db, no --store)",
                                 why.msg);
}

void lw_store_close(struct lw_store *s)
{
    if (!s)
        return;
    if (s->db)
        lw_sql_rollback(s);
    sqlite3_close(s->db);
    lw_free(s);
}

const char *lw_store_version(void)
{
    return sqlite3_libversion();
}

void lw_store_wait_at_most(struct lw_store *s, int ms)
{
    s->wait_ms = ms;
    sqlite3_busy_timeout(s->db, ms);
}

const char *lw_store_file(const struct lw_store *s)
{
    return s->file;
}
