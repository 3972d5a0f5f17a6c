/* libFuzzer entry for tables of collectives; tests/test_import_bench.c replays the corpus without it. */
#include "tests/fuzz/memory_bound.h"

#define LLVMFuzzerTestOneInput read_input
#include "tests/fuzz/bench_target.h"
#undef LLVMFuzzerTestOneInput

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bound_begin();
    int result = read_input(data, size);
    bound_end(size);
    return result;
}
