/* libFuzzer entry for tables of collectives; tests/test_import_bench.c replays the corpus without it. */
#include "tests/fuzz/memory_bound.h"

#define LLVMFuzzerTestOneInput read_input
#include "tests/fuzz/bench_target.h"
#include "tests/fuzz/bounded_entry.h"
