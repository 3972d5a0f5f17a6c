/* Reading the files of a command line: what each is, and for traces everything up to its steps. */
#include "traces/import/read_traces.h"

#include "traces/kineto/import_kineto.h"
#include "traces/import/parallel_files.h"

struct job {
    const struct traces_reading *reading;
    char **names;
    struct traces_file *out;
};

static enum lw_status read_one(void *ctx, int i, const struct lw_progress *p, struct lw_err *err)
{
    const struct job *job = ctx;
    struct lw_kineto_options options = {.salvage = job->reading->salvage, .progress = p};
    struct traces_file f = {.file = job->names[i]};
    struct lw_err damage = {0};
    struct lw_input in;

    if (options.salvage)
        LW_TRY(lw_input_read_broken(f.file, 0, &in, &damage, err));
    else
        LW_TRY(lw_input_read(f.file, 0, &in, err));
    enum lw_status status = lw_importer_of(&in, &f.importer, err);
    bool timeline = status == LW_OK && f.importer->timeline;
    if (status == LW_OK && !timeline && damage.code != LW_OK) {
        status = damage.code;
        *err = damage;
    }
    if (!timeline) {
        f.in = in;
        if (status != LW_OK)
            lw_input_free(&f.in);
    } else {
        status = traces_source_take(f.file, &in, &damage, &options, job->reading->sidecar,
                                    &f.source, err);
    }
    if (status == LW_OK)
        job->out[i] = f;
    return status;
}

enum lw_status traces_files_read(const struct traces_reading *r, char **names, int n,
                                 struct traces_file *out, struct lw_err *err)
{
    struct job job = {r, names, out};
    struct traces_work work = {read_one, &job, n, "reading", r->progress};

    for (int i = 0; i < n; i++)
        out[i] = (struct traces_file){0};
    enum lw_status status = traces_parallel(&work, err);
    if (status != LW_OK)
        traces_files_free(out, n);
    return status;
}

void traces_files_free(struct traces_file *f, int n)
{
    for (int i = 0; i < n; i++) {
        traces_source_free(&f[i].source);
        lw_input_free(&f[i].in);
        f[i] = (struct traces_file){0};
    }
}
