/* Reports of Nsight Systems, as its exporter writes them for SQLite. */
#include "shared/io/input.h"
#include "traces/import/convert.h"
#include "traces/nsys/import_nsys.h"

static bool is(const struct lw_input *in, const char *text, size_t len)
{
    (void)text;
    (void)len;
    return lw_nsys_is(in);
}

const struct lw_importer lw_importer_nsys = {
    .name = "nsys",
    .reads = "Nsight Systems reports exported to SQLite",
    .marks = "begin with 'SQLite format 3'",
    .import_help = "Reports of Nsight Systems, exported with 'nsys export --type sqlite', give a "
                   "workload where the program marked its ops (emit_nvtx) and iterations, and "
                   "collectives as --cluster-out; FILE#2 names the second rank of a report.",
    .inspect_help = "Nsight Systems reports (SQLite): the same of each rank of the report, with "
                    "NVTX ranges as iterations and the rows of each table.",
    .gives = LW_GIVES_WORKLOAD | LW_GIVES_CLUSTER,
    .timeline = true,
    .parts = true,
    .is = is,
    .take = lw_nsys_take,
    .convert = traces_convert_timeline,
};
