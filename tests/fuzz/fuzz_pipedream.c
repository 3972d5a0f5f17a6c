/* libFuzzer entry for profiled graphs; tests/traces/pipedream/test_import_pipedream.c replays
 * the corpus without it. */
#include "tests/fuzz/memory_bound.h"

#define LLVMFuzzerTestOneInput read_input
#include "tests/fuzz/pipedream_target.h"
#include "tests/fuzz/bounded_entry.h"
