/* Files of measurements: one row for each kind that can be validated, found by its contents. */
#include <stdio.h>

#include "analysis/evidence/runs_file.h"
#include "analysis/validate/validate_kinds.h"

static const struct lw_validate_kind kinds[] = {
    {"a measured-run file (JSON, \"schema\": \"lapwing-groundtruth/1\")",
     .is = lw_validate_is_groundtruth, .add = lw_validate_groundtruth,
     .no_framework = "records times of modules"},
    {"measured runs of torch.distributed (JSON with model, net, ranks and step_s, beside "
     "local.json and net__NET.json)",
     .is = lw_validate_is_torch_runs, .add = lw_validate_torch_runs,
     .no_framework = "records times of modules"},
    {"a table of memory under ZeRO (CSV with model, dp_degree and P_os...)", "model dp_degree P_os",
     .add_rows = lw_validate_zero, .no_framework = "has bytes by the paper's formula"},
    {"a table of bubble rates (CSV with T_F, T_B, T_W, T_comm and bubble_...)",
     "p m T_F T_B T_W T_comm", .add_rows = lw_validate_bubble,
     .no_framework = "gives the times of passes"},
    {"a published nccl-tests table (CSV with op, algo, nranks, nnodes, gpu, intra, inter...)",
     "op algo nranks nnodes gpu intra inter size_bytes time_us", .add = lw_validate_netbench,
     .no_framework = "is of collectives without a training program"},
    {"measured training runs (CSV with model, cluster, options of sim and step_s...: "
     "docs/formats/runs.md)",
     .is = lw_runs_are, .runs = true},
};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

static bool is_kind(const struct lw_validate_kind *k, const struct lw_input *in)
{
    return k->titles ? lw_rows_have(in, k->titles) : k->is(in);
}

static enum lw_status foreign(const struct lw_input *in, struct lw_err *err)
{
    char list[900] = "";
    size_t used = 0;

    for (int k = 0; k < N_KINDS && used < sizeof list; k++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", k ? ", or " : "",
                                 kinds[k].what);
    return lw_fail(err, LW_EFORMAT, "%s: %s; expected %s", in->name,
                   in->len == 0 ? "an empty file" : "nothing that can be validated", list);
}

static enum lw_status add_rows(const struct lw_validate_file *f, struct lw_validation *v,
                               struct lw_err *err)
{
    struct lw_rows rows;

    LW_TRY(lw_rows_read(&f->in, &rows, err));
    enum lw_status status = f->kind->add_rows(&rows, v, err);
    lw_rows_free(&rows);
    return status;
}

enum lw_status lw_validate_open(const char *name, struct lw_validation *v,
                                struct lw_validate_file *out, struct lw_err *err)
{
    struct lw_validate_file f = {.kind = kinds};
    enum lw_status status = LW_OK;

    LW_TRY(lw_input_read(name, 0, &f.in, err));
    while (f.kind < kinds + N_KINDS && !is_kind(f.kind, &f.in))
        f.kind++;
    if (f.kind == kinds + N_KINDS)
        status = foreign(&f.in, err);
    else if (v->framework_file && f.kind->no_framework)
        status = lw_fail(err, LW_EINVAL, "%s: --framework is for tables of training runs; this "
                                         "file %s", name, f.kind->no_framework);
    else if (f.kind->runs)
        status = lw_validate_read_runs(&f.in, v, &f.runs, err);
    LW_GIVE(status, out, f, lw_validate_close(&f));
}

enum lw_status lw_validate_add(const struct lw_validate_file *f, struct lw_validation *v,
                               struct lw_err *err)
{
    if (f->runs)
        return lw_validate_runs(f->runs, v, err);
    return f->kind->add ? f->kind->add(&f->in, v, err) : add_rows(f, v, err);
}

void lw_validate_close(struct lw_validate_file *f)
{
    if (f->runs)
        lw_runs_free(f->runs);
    lw_free(f->runs);
    lw_input_free(&f->in);
    *f = (struct lw_validate_file){.kind = NULL};
}
