/* Arbitrary bytes as a table of measured collectives, up to the cluster. */
#include "tests/fuzz/text_input.h"
#include "traces/import/importer.h"
#include "traces/nccl_tests/import_nccl_tests.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct traces_bench_hint hints[] = {
        {0}, {.op = "all_reduce", .n_ranks = 8, .n_nodes = 2}};
    struct lw_input in = fuzz_input_begin(data, size);
    const struct lw_importer *importer;
    struct lw_err err;

    (void)lw_importer_of(&in, &importer, &err);
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++) {
        struct traces_bench b;
        struct lw_cluster c;
        if (traces_bench_read(&in, &hints[i], &b, &err) != LW_OK)
            continue;
        for (int in_place = 0; in_place < 2; in_place++)
            if (lw_cluster_from_bench(&b, 1, in_place, &c, &err) == LW_OK)
                lw_cluster_free(&c);
        traces_bench_free(&b);
    }
    fuzz_input_end(&in);
    return 0;
}
