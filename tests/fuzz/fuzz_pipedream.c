/* libFuzzer entry for profiled graphs; tests/test_import_pipedream.c replays the corpus without it. */
#include "tests/fuzz/memory_bound.h"

#define LLVMFuzzerTestOneInput read_input
#include "tests/fuzz/pipedream_target.h"
#undef LLVMFuzzerTestOneInput

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bound_begin();
    int result = read_input(data, size);
    bound_end(size);
    return result;
}
