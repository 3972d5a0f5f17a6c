#pragma once

#include "shared/base/err.h"

/* The completion script of a shell, to standard output. LW_EUSAGE: not bash, zsh or fish. */
enum lw_status lw_completion_print(const char *shell, struct lw_err *err);
