#pragma once

#include <stdbool.h>

/* Which files an output may replace without being asked: none at that path, an empty one, or one
 * that begins as the files of this program do. */
bool lw_may_replace(const char *path);
/* A database holds runs that nothing else has: no output replaces one, nor a file that SQLite keeps
 * beside it (NAME-wal, NAME-shm, NAME-journal), which may hold its last runs. */
bool lw_is_database(const char *path);
bool lw_belongs_to_database(const char *path);
/* What --force sets: any file but a database may be replaced. */
bool *lw_force_option(void);
