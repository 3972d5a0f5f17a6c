/* Reading the files of a command line: what each is, and for traces everything up to its steps. */
#include "traces/import/read_traces.h"

#include <string.h>

#include "shared/base/parallel.h"
#include "traces/import/join_traces.h"
#include "traces/import/trace_names.h"

struct job {
    const struct traces_reading *reading;
    char **names;
    int n;
    struct traces_file *out;
};

static enum lw_status open_named(const char *name, const struct lw_trace_reading *reading,
                                 size_t len, struct lw_input *in, struct lw_err *damage,
                                 struct lw_err *err)
{
    const struct lw_input_reading how = {.damage = reading->salvage ? damage : NULL,
                                         .unhashed = reading->unhashed};
    char path[4096];

    if (!name[len])
        return lw_input_read_as(name, &how, in, err);
    if (len >= sizeof path)
        return lw_fail(err, LW_EIO, "%s: the name is too long", name);
    memcpy(path, name, len);
    path[len] = '\0';
    LW_TRY(lw_input_read_as(path, &how, in, err));
    in->name = name;
    return LW_OK;
}

enum lw_status traces_file_open(const char *name, struct lw_trace_reading *reading,
                                struct lw_input *in, struct lw_err *damage,
                                const struct lw_importer **importer, struct lw_err *err)
{
    struct lw_input opened;
    size_t len = traces_name_part(name, &reading->part);
    struct lw_err found = {0};

    enum lw_status opening = open_named(name, reading, len, &opened, damage, &found);
    if (opening != LW_OK)
        return lw_fail(err, opening, "%s%s", found.msg,
                       !reading->salvage && strstr(found.msg, "ends too early")
                           ? "; 'lapwing inspect --salvage' reads the events in them" : "");
    enum lw_status status = lw_importer_of(&opened, importer, err);
    if (status == LW_OK && !(*importer)->timeline && damage->code != LW_OK) {
        status = damage->code;
        *err = *damage;
    }
    if (status == LW_OK && reading->part > 0 && !(*importer)->parts)
        status = lw_fail(err, LW_EINVAL, "%s: a file of format %s holds one rank: leave '%s' out",
                         name, (*importer)->name, name + len);
    LW_GIVE(status, in, opened, lw_input_free(&opened));
}

static enum lw_status read_one(void *ctx, int i, const struct lw_progress *p, struct lw_err *err)
{
    const struct job *job = ctx;
    struct lw_trace_reading options = {.salvage = job->reading->salvage,
                                       .shapes = job->reading->shapes, .alone = job->n == 1,
                                       .progress = p};
    struct traces_file f = {.file = job->names[i]};
    struct lw_err damage = {0};
    struct lw_input in;

    LW_TRY(traces_file_open(f.file, &options, &in, &damage, &f.importer, err));
    if (f.importer->timeline)
        LW_TRY(traces_source_take(f.importer, f.file, &in, &damage, &options,
                                  job->reading->sidecar, &f.source, err));
    else
        f.in = in;
    job->out[i] = f;
    return LW_OK;
}

enum lw_status traces_files_read(const struct traces_reading *r, char **names, int *n,
                                 struct traces_file *out, struct lw_err *err)
{
    struct job job = {r, names, *n, out};
    struct lw_parallel_work work = {read_one, &job, *n, "reading", r->progress};

    for (int i = 0; i < *n; i++)
        out[i] = (struct traces_file){0};
    enum lw_status status = lw_parallel(&work, err);
    if (status == LW_OK)
        status = traces_join_files(out, n, err);
    if (status != LW_OK)
        traces_files_free(out, *n);
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
