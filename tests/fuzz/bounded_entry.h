/* Behind a target that was included under the name read_input: libFuzzer's entry, which holds it to
 * the memory that its input allows. */
#undef LLVMFuzzerTestOneInput

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bound_begin();
    int result = read_input(data, size);
    bound_end(size);
    return result;
}
