#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "traces/graph/graph.h"

/* Chakra execution traces of one rank: protobuf of any schema version, or the JSON of
 * {"workload_graph": [...]}. See docs/design/import_chakra.md. */
struct lw_input;

bool traces_chakra_is(const char *text, size_t len); /* protobuf */
bool traces_chakra_is_json(const char *text, size_t len);

/* LW_EFORMAT: damaged, with the byte at which it is; cyclic dependencies (traces_graph_check). */
enum lw_status traces_chakra_read(const struct lw_input *in, struct traces_graph *out,
                                  struct lw_err *err);
enum lw_status traces_chakra_read_json(const struct lw_input *in, struct traces_graph *out,
                                       struct lw_err *err);
