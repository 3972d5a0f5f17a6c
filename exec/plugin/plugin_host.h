#pragma once

#include "exec/backend/backend.h"

/* What every plugin has in common: its one symbol, which returns the plugin's table, and
 * shared/base/arena.h's lw_alloc and its kin, which lead to what the program lends. */
extern const struct exec_backend exec_plugin_backend; /* each plugin defines it */
