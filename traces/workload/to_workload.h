#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"
#include "shared/workload/workload.h"
#include "traces/kineto/sidecar.h"
#include "traces/steps/step_phases.h"
#include "traces/trace/trace.h"

/* One trace with what belongs to it. */
struct traces_source {
    const char *file;                /* as the user wrote it */
    const char *named;               /* the device, as the user names it; NULL = see below */
    char hash[33];                   /* of its bytes */
    struct lw_trace trace;
    struct lw_steps steps;
    bool has_sidecar, parallel;      /* parallel: a data-parallel run's trace */
    struct traces_sidecar sidecar;
};

/* From what was read of a file, which is freed (see lw_kineto_take). sidecar NULL: the one beside
 * the trace, if there is one. */
struct lw_input;
struct lw_importer;
enum lw_status traces_source_take(const struct lw_importer *importer, const char *file,
                                  struct lw_input *in, const struct lw_err *damage,
                                  const struct lw_trace_reading *options, const char *sidecar,
                                  struct traces_source *out, struct lw_err *err);
void traces_source_free(struct traces_source *s);

bool traces_ran_on_device(const struct lw_trace *t); /* holds an op of a device */
/* What was recorded on, as the user, else the trace, else its sidecar names it; "cpu core" of one
 * without device ops, "" of a device without a name. */
const char *traces_source_device(const struct traces_source *s);
/* LW_EFORMAT says what differs between traces that are given as ranks of one run. */
enum lw_status traces_sources_of_one_run(const struct traces_source *v, int n, struct lw_err *err);

/* Memory bandwidth of the device that was recorded on: known from its name, or assumed. */
struct traces_memory {
    double bytes_per_s; /* 0 = not looked up */
    char source[200];
};

struct traces_choice {
    int64_t n_elements;              /* trainable parameters in all, for traces without shapes; 0 */
    struct traces_memory memory;
    int64_t step;                    /* as in traces_profile_build; -1 = median */
    bool as_traced;                  /* do not stretch to what was measured without the profiler */
    /* --model-params: parameters in registration order; NULL */
    const struct traces_sidecar *params;
};

/* How much of the recorded step the workload holds. */
struct traces_coverage {
    int64_t traced_ns;               /* step in the trace */
    int64_t excluded_ns;             /* of it, left out as data parallelism's */
    int64_t measured_ns;             /* step without the profiler; -1 = not measured or not used */
    int64_t workload_ns;             /* step of the workload */
    int32_t n_passes;                /* backward passes of a step; 0: not said */
    bool sharded;                    /* the run used FSDP: its plans are ZeRO-3 */
    bool fsdp2;                      /* of it the form of today: fully_shard */
    bool is_stage;                   /* of a pipeline: its ranks have other modules each */
    bool scaled;                     /* host gaps, so that a device's step is the measured one */
};

/* The workload of one device from source[0 .. n): the first one that is not data-parallel gives the
 * profile, else the lowest rank with data parallelism's part taken out; data-parallel ones give
 * what was recorded (world size, step, buckets). Every assumption becomes a note.
 * LW_EFORMAT: no step, sizes nowhere to be had, a sidecar of another model. */
enum lw_status lw_workload_from_traces(const struct traces_source *source, int n,
                                       const struct traces_choice *choice, struct lw_workload *out,
                                       struct traces_coverage *coverage, struct lw_err *err);

/* Parameters, buffers and modules from a sidecar or one of our workload files. */
enum lw_status traces_params_read(const char *file, struct traces_sidecar *out, struct lw_err *err);
