#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "shared/base/err.h"

/* An output file that exists whole or not at all: written without a name (or under a temporary
 * one where the file system has no such files), synced and renamed into place by
 * lw_output_commit. A symbolic link stays and what it leads to is written. "-", and any other
 * name of standard output, is standard output; devices, pipes and /dev/fd/N are written in
 * place. A file that exists is replaced only if it is of the same kind and still as this program
 * wrote it (shared/io/own_output.h), when the output is opened and when it is committed. */
struct lw_output {
    FILE *file;
    char *path, *temp; /* where it goes, NULL for standard output; "" = it has no name yet */
    const char *kind;  /* kept */
    bool in_place;
};

bool lw_output_is_stdout(const char *path); /* "-", /dev/stdout and its other names */
/* kind: what the file will hold, a word of shared/io/own_output.h. LW_EINVAL: this command also
 * reads that file, or writes it elsewhere (shared/io/used_files.h), or it may not be replaced. */
enum lw_status lw_output_open(const char *path, const char *kind, struct lw_output *out,
                              struct lw_err *err);
/* The errors of lw_output_open now, for a command that works long before it writes; no file is
 * made. */
enum lw_status lw_output_try(const char *path, const char *kind, struct lw_err *err);
/* Flush, check every earlier write, add the content hash, rename. On failure the temporary file is
 * gone. */
enum lw_status lw_output_commit(struct lw_output *out, struct lw_err *err);
/* Give up: remove the temporary file. Fine on a zeroed or committed output. */
void lw_output_abort(struct lw_output *out);

/* Flush standard output and check it: the last act of every command. */
enum lw_status lw_stdout_close(struct lw_err *err);
