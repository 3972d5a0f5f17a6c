/* libFuzzer entry for measured-run files; tests/analysis/validate/test_validate_ddp_runs.c
 * replays the corpus without it. */
#include "tests/fuzz/memory_bound.h"

#define LLVMFuzzerTestOneInput read_input
#include "tests/fuzz/groundtruth_target.h"
#include "tests/fuzz/bounded_entry.h"
