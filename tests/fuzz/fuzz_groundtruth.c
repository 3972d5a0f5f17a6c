/* libFuzzer entry for measured-run files; tests/test_groundtruth.c replays the corpus without it. */
#include "tests/fuzz/groundtruth_target.h"
