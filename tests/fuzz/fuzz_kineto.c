/* libFuzzer entry for Kineto traces; tests/traces/kineto/test_kineto.c replays the corpus
 * without it. */
#include "tests/fuzz/memory_bound.h"

#define LLVMFuzzerTestOneInput read_input
#include "tests/fuzz/kineto_target.h"
#include "tests/fuzz/bounded_entry.h"
