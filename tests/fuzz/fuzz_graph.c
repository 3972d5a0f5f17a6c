/* libFuzzer entry for graphs of nodes; tests/traces/chakra/test_read_chakra.c replays the corpus
 * without it. */
#include "tests/fuzz/memory_bound.h"

#define LLVMFuzzerTestOneInput read_input
#include "tests/fuzz/graph_target.h"
#include "tests/fuzz/bounded_entry.h"
