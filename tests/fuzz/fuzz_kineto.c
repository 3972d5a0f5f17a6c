/* libFuzzer entry for Kineto traces; tests/test_kineto.c replays the corpus without it. */
#include "tests/fuzz/kineto_target.h"
