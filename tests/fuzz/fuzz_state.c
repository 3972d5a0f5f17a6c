/* libFuzzer entry for saved states; tests/exec/tensors/test_state.c replays the corpus without it. */
#include "tests/fuzz/memory_bound.h"

#define LLVMFuzzerTestOneInput read_input
#include "tests/fuzz/state_target.h"
#undef LLVMFuzzerTestOneInput

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bound_begin();
    int result = read_input(data, size);
    bound_end(size);
    return result;
}
