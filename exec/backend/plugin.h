#pragma once

#include "exec/backend/backend.h"

/* Load the backend in `file` ("lapwing-nccl.so") from the first of these folders that has it:
 * those of $LAPWING_PLUGINS (separated by ':', absolute), the program's own, ../lib/lapwing
 * beside that. Never the working directory. NULL: `reason` says where it is not, or why it does
 * not load. It stays loaded. */
const struct exec_backend *exec_plugin_load(const char *file, char reason[EXEC_REASON]);
