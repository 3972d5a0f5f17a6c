#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* An open database, between store.c (opening, schema) and sql.c (statements). */
struct sqlite3;

struct lw_store {
    struct sqlite3 *db;
    char *file;
    bool write, finds_dead;
    bool keeps_version;   /* an older one is not brought up to date, and no statement follows */
    bool was_busy;        /* the last error: another process held the database */
    int wait_ms;          /* for another writer */
    int64_t version, newest; /* its user_version; the last one that this program knows */
};

/* SQLite's result in the words of this project. */
enum lw_status lw_sql_fail(struct lw_store *s, int rc, struct lw_err *err);
