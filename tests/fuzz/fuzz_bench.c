/* libFuzzer entry for tables of collectives; tests/traces/nccl_tests/test_import_nccl_tests.c
 * replays the corpus without it. */
#include "tests/fuzz/memory_bound.h"

#define LLVMFuzzerTestOneInput read_input
#include "tests/fuzz/bench_target.h"
#include "tests/fuzz/bounded_entry.h"
