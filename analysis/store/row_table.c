/* The parts of virtual tables that do not know their rows. */
#include "analysis/store/row_table.h"

#include <stdarg.h>

int row_table_connect(sqlite3 *db, void *declared, int argc, const char *const *argv,
                      sqlite3_vtab **out, char **words)
{
    struct row_table *t;

    (void)argc, (void)argv, (void)words;
    int rc = sqlite3_declare_vtab(db, declared);
    if (rc != SQLITE_OK)
        return rc;
    t = sqlite3_malloc(sizeof *t);
    if (!t)
        return SQLITE_NOMEM;
    *t = (struct row_table){.db = db};
    *out = &t->base;
    return SQLITE_OK;
}

int row_table_disconnect(sqlite3_vtab *t)
{
    sqlite3_free(t);
    return SQLITE_OK;
}

sqlite3 *row_table_db(const sqlite3_vtab_cursor *c)
{
    return ((const struct row_table *)c->pVtab)->db;
}

int row_table_damaged(sqlite3_vtab_cursor *c, const char *fmt, ...)
{
    va_list ap;

    sqlite3_free(c->pVtab->zErrMsg);
    va_start(ap, fmt);
    c->pVtab->zErrMsg = sqlite3_vmprintf(fmt, ap);
    va_end(ap);
    return SQLITE_CORRUPT;
}
