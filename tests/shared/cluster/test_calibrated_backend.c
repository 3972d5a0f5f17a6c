/* Which backend a calibration measured, from the sources of its tables. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/cluster/calibrated_backend.h"
#include "shared/cluster/measured.h"

TEST(a_calibration_names_its_backend)
{
    static const struct {
        const char *source, *backend;
    } cases[] = {
        {"lapwing calibrate: all_reduce of backend threads, medians of up to 16", "threads"},
        {"lapwing calibrate: send of backend mpi; medians of up to 4", "mpi"},
        {"lapwing calibrate: send of backend nccl", "nccl"},
        {"all_reduce of backend threads, nccl-tests", ""},
        {"lapwing calibrate: copies", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct lw_cost_table table = {.source = cases[i].source};
        struct lw_cluster c = {.n_tables = 1, .tables = &table};
        char name[LW_CALIBRATED_BACKEND];
        assert_string_equal(lw_calibrated_backend(&c, name), cases[i].backend);
        assert_int_equal(lw_calibrated_for_another(&c, "mpi"),
                         *cases[i].backend && strcmp(cases[i].backend, "mpi") != 0);
    }
}

TEST(a_cluster_without_tables_names_none)
{
    struct lw_cluster c = {.n_tables = 0};

    assert_false(lw_calibrated_for_another(&c, "mpi"));
}
