/* What an import reads: a trace, its steps, and the sidecar beside it. A parameter list may also
 * come from a workload file; it then looks like a sidecar that has measured nothing. */
#include <string.h>
#include <unistd.h>

#include "shared/files/files.h"
#include "shared/io/input.h"
#include "shared/workload/buffer.h"
#include "traces/import/importer.h"
#include "traces/trace/data_parallel.h"
#include "traces/trace/kernel_class.h"
#include "traces/workload/to_workload.h"

static bool is_parallel(const struct traces_source *s)
{
    const struct lw_trace *t = &s->trace;

    if (s->has_sidecar)
        return s->sidecar.is_ddp ||
               (s->sidecar.world_size > 1 && lw_trace_wrapper(t) != TRACES_WRAPPER_NONE);
    if (t->world_size >= 0)
        return t->world_size > 1;
    for (int64_t i = 0; i < t->n; i++)
        if (t->class[i] == LW_ROW_KERNEL ? lw_kernel_is_comm(lw_trace_name(t, i))
                                         : lw_trace_name_begins(t, i, "gloo:") ||
                                               lw_trace_name_begins(t, i, "nccl:"))
            return true;
    return false;
}

static enum lw_status read_sidecar(const char *file, const char *sidecar, struct traces_source *s,
                                   struct lw_err *err)
{
    struct lw_arena scratch = {0};
    enum lw_status status = LW_OK;

    if (!sidecar) {
        char *beside = traces_sidecar_path(file, &scratch);
        if (!beside)
            return lw_fail_nomem(err);
        sidecar = strcmp(file, "-") != 0 && access(beside, F_OK) == 0 ? beside : NULL;
    }
    if (sidecar) {
        status = traces_sidecar_read(sidecar, &s->sidecar, err);
        s->has_sidecar = status == LW_OK;
    }
    lw_arena_free(&scratch);
    return status;
}

enum lw_status traces_source_take(const struct lw_importer *importer, const char *file,
                                  struct lw_input *in, const struct lw_err *damage,
                                  const struct lw_trace_reading *options, const char *sidecar,
                                  struct traces_source *out, struct lw_err *err)
{
    struct traces_source s = {.file = file};

    memcpy(s.hash, in->hash, sizeof s.hash);
    LW_TRY(importer->take(in, damage, options, &s.trace, err));
    enum lw_status status = read_sidecar(file, sidecar, &s, err);
    if (status == LW_OK)
        status = lw_steps_find(&s.trace, &s.steps, err);
    if (status != LW_OK) {
        traces_source_free(&s);
        return status;
    }
    s.parallel = is_parallel(&s);
    *out = s;
    return LW_OK;
}

void traces_source_free(struct traces_source *s)
{
    lw_steps_free(&s->steps);
    traces_sidecar_free(&s->sidecar);
    lw_trace_free(&s->trace);
    *s = (struct traces_source){0};
}

static enum lw_status copy_lists(const struct lw_workload *w, struct traces_sidecar *s,
                                 struct lw_err *err)
{
    s->n_params = w->n_params;
    s->n_buffers = w->n_buffers;
    s->n_modules = w->n_modules;
    s->model = lw_arena_strdup(&s->arena, w->name);
    s->params = lw_arena_alloc(&s->arena, w->n_params, sizeof *s->params);
    s->buffers = lw_arena_alloc(&s->arena, w->n_buffers, sizeof *s->buffers);
    s->modules = lw_arena_alloc(&s->arena, w->n_modules, sizeof *s->modules);
    if (!s->model || !s->params || !s->buffers || !s->modules)
        return lw_fail_nomem(err);
    for (int32_t i = 0; i < w->n_modules; i++)
        if (!(s->modules[i] = lw_arena_strdup(&s->arena, w->modules[i].name)))
            return lw_fail_nomem(err);
    for (int32_t i = 0; i < w->n_buffers; i++) {
        const struct lw_buffer *b = &w->buffers[i];
        s->buffers[i] = *b;
        LW_PRINT(&s->arena, s->buffers[i].name, err, "%s", b->name);
    }
    for (int32_t i = 0; i < w->n_params; i++) {
        const struct lw_param *p = &w->params[i];
        s->params[i] = (struct traces_param){
            .name = lw_arena_strdup(&s->arena, p->name), .numel = p->numel, .dtype = p->dtype,
            .requires_grad = p->trainable && p->used && p->tied < 0, .sparse = p->sparse,
            .ready_ns = -1, .module = p->module};
        if (!s->params[i].name)
            return lw_fail_nomem(err);
    }
    return LW_OK;
}

static enum lw_status from_workload(const char *file, struct traces_sidecar *out,
                                    struct lw_err *err)
{
    struct traces_sidecar s = {.torch_version = "", .cpu = "", .gpu = "", .backend = "",
                               .world_size = 1, .measured.step.median = -1};
    struct lw_workload w;

    LW_TRY(lw_workload_read(file, &w, err));
    enum lw_status status = copy_lists(&w, &s, err);
    lw_workload_free(&w);
    if (status == LW_OK && !(s.file = lw_arena_strdup(&s.arena, file)))
        status = lw_fail_nomem(err);
    LW_GIVE(status, out, s, traces_sidecar_free(&s));
}

enum lw_status traces_params_read(const char *file, struct traces_sidecar *out, struct lw_err *err)
{
    char kind[16];

    LW_TRY(lw_file_kind(file, kind, err));
    if (strcmp(kind, "workload") == 0)
        return from_workload(file, out, err);
    if (strcmp(kind, "recording") == 0)
        return traces_sidecar_read(file, out, err);
    return lw_fail(err, LW_EFORMAT,
                   "%s: kind '%s': parameters come from a workload or a recording's sidecar", file,
                   kind);
}
