/* Files of measurements: one row for each kind that can be validated, found by its contents. */
#include <stdio.h>

#include "analysis/validate/validate_kinds.h"

static const struct lw_validate_kind kinds[] = {
    {"a measured-run file (JSON, \"schema\": \"lapwing-groundtruth/1\")",
     .is = lw_validate_is_groundtruth, .add = lw_validate_groundtruth},
    {"a table of memory under ZeRO (CSV with model, dp_degree and P_os...)", "model dp_degree P_os",
     .add_rows = lw_validate_zero},
    {"a table of bubble rates (CSV with T_F, T_B, T_W, T_comm and bubble_...)",
     "p m T_F T_B T_W T_comm", .add_rows = lw_validate_bubble},
    {"a table of training runs (CSV with model, gpu, gpus, gbs, mbs, precision, step_s...)",
     .is = lw_validate_is_runs, .add = lw_validate_runs},
    {"a published nccl-tests table (CSV with op, algo, nranks, nnodes, gpu, intra, inter...)",
     "op algo nranks nnodes gpu intra inter size_bytes time_us", .add = lw_validate_netbench},
};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

static bool is_kind(const struct lw_validate_kind *k, const struct lw_input *in)
{
    return k->titles ? lw_rows_have(in, k->titles) : k->is(in);
}

static enum lw_status foreign(const struct lw_input *in, struct lw_err *err)
{
    char list[512] = "";
    size_t used = 0;

    for (int k = 0; k < N_KINDS && used < sizeof list; k++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", k ? ", or " : "",
                                 kinds[k].what);
    return lw_fail(err, LW_EFORMAT, "%s: nothing that can be validated; expected %s", in->name,
                   list);
}

static enum lw_status add_file(const struct lw_validate_kind *k, const struct lw_input *in,
                               struct lw_validation *v, struct lw_err *err)
{
    struct lw_rows rows;

    if (k->add)
        return k->add(in, v, err);
    LW_TRY(lw_rows_read(in, &rows, err));
    enum lw_status status = k->add_rows(&rows, v, err);
    lw_rows_free(&rows);
    return status;
}

enum lw_status lw_validate_file(const char *name, struct lw_validation *v, struct lw_err *err)
{
    struct lw_input in;
    int k = 0;

    LW_TRY(lw_input_read(name, 0, &in, err));
    while (k < N_KINDS && !is_kind(&kinds[k], &in))
        k++;
    enum lw_status status = k < N_KINDS ? add_file(&kinds[k], &in, v, err) : foreign(&in, err);
    lw_input_free(&in);
    return status;
}
