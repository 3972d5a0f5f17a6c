#pragma once

#include "shared/base/err.h"
#include "shared/text/records.h"

/* A command that lists what is known by name, and shows one of them, or a file of that kind, or
 * writes it as a file. */
struct lw_known_command {
    const char *command, *many, *about; /* "cluster", "systems", the text of its help */
    enum lw_status (*list)(enum lw_format format, struct lw_err *err);
    /* output: NULL, or the file to write */
    enum lw_status (*show)(const char *name, const char *output, enum lw_format format,
                           struct lw_err *err);
};
int lw_known_command_run(const struct lw_known_command *k, int argc, char **argv);
