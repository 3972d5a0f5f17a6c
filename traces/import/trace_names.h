#pragma once

#include "shared/base/arena.h"
#include "shared/base/err.h"

/* The recordings that a command line means: a folder stands for the files in it, a pattern
 * (rank*.json) that the shell left alone for those that match, a report that holds several ranks
 * for each of them ("report.sqlite#2"). In natural order: rank2 before rank10. */
struct traces_names {
    struct lw_arena arena;
    int n;
    char **names;
};

/* LW_EIO: a folder that cannot be read; LW_EINVAL: one without files, a pattern without match. */
enum lw_status traces_names_find(char **operands, int n, struct traces_names *out,
                                 struct lw_err *err);
/* LW_EINVAL: two names are of one file, or of one part of it: a rank would be there twice. */
enum lw_status traces_names_once(const struct traces_names *t, struct lw_err *err);
void traces_names_free(struct traces_names *t);

/* "report.sqlite#2": the file's length within the name, and 2; 0 where the name says none, or is
 * itself a file's. */
size_t traces_name_part(const char *name, int *part);
