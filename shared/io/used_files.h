#pragma once

#include "shared/base/err.h"

/* Which files a command reads and writes, so that none of them destroys another: an output that is
 * also an input, the database or another output of the same command is refused, whichever is opened
 * first, under whatever name (links, other spellings of a path). The same holds for a file that the
 * shell opened as standard output or standard error (`>> x`, `1<> x`). */
enum lw_use { LW_USE_INPUT, LW_USE_DATABASE, LW_USE_OUTPUT, LW_USE_STDOUT, LW_USE_STDERR };

/* From here on files are noted; a program calls it once, at its start. Tests and libraries, which
 * read back what they wrote, do not. */
void lw_used_files_begin(void);

/* Note one more file. LW_EINVAL: this command uses it in another way; the message names both.
 * Devices and pipes are never the same. Any thread may call it. */
enum lw_status lw_used_file(const char *path, enum lw_use use, struct lw_err *err);

/* The output noted under this path will be written again by the same part of this command. */
void lw_used_file_again(const char *path);

/* The file that a path leads to through symbolic links, which need not exist. LW_EIO: too many
 * links, or the path is too long. */
enum lw_status lw_resolve_links(const char *path, char *out, int room, struct lw_err *err);
