/* libFuzzer entry for GOAL schedules; tests/traces/goal/test_goal.c replays the corpus
 * without it. */
#include "tests/fuzz/memory_bound.h"

#define LLVMFuzzerTestOneInput read_input
#include "tests/fuzz/goal_target.h"
#include "tests/fuzz/bounded_entry.h"
