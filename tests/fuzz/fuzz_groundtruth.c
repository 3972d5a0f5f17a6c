/* libFuzzer entry for measured-run files; tests/test_groundtruth.c replays the corpus without it. */
#include "tests/fuzz/memory_bound.h"

#define LLVMFuzzerTestOneInput read_input
#include "tests/fuzz/groundtruth_target.h"
#include "tests/fuzz/bounded_entry.h"
