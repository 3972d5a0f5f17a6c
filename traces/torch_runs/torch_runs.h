#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"

/* Measured runs of torch.distributed on two processes, MODEL__NET.json: what was run (read here)
 * and how long it took (lw_torch_measured_read, after the prediction). Beside it lie local.json,
 * whose "local" says which recording of one process has which batch, and net__NET.json with the
 * times of the links. docs/design/torch_runs.md. */
struct lw_input;

struct lw_torch_config {
    const char *name;     /* "ddp_cap25" */
    const char *kind;     /* "ddp", "fsdp2", "pipeline", or one that begins with "compute" */
    const char *units;    /* fsdp2: what was wrapped, in words */
    const char *schedule; /* pipeline: "1f1b", "gpipe" */
    double cap_mb;        /* ddp: bucket_cap_mb; 0 = not given */
    int64_t batch;        /* samples of one micro-batch */
    int64_t micro_batches, stages;
    int64_t first_module; /* pipeline: child that the second stage begins at */
    bool view, no_sync, reshard;
};

struct lw_torch_runs {
    struct lw_arena arena; /* owns everything below */
    const char *model, *net, *torch;
    int32_t n, n_ranks;
    struct lw_torch_config *configs; /* in file order */
};

/* A JSON object with "model", "net", "ranks" and "step_s". */
bool lw_torch_runs_are(const char *text, size_t len);
/* LW_EFORMAT names file, JSON path, what was found and what is allowed. Nothing measured is
 * read. */
enum lw_status lw_torch_runs_read(const struct lw_input *in, struct lw_torch_runs *out,
                                  struct lw_err *err);
void lw_torch_runs_free(struct lw_torch_runs *r);

/* Recordings of one process, of the file local.json. */
struct lw_torch_recording {
    const char *name; /* "gpt_b8" */
    const char *file; /* relative to the folder of local.json */
    int64_t batch;
    int64_t peak_rss_bytes; /* of the process; 0 = not there */
};
struct lw_torch_local {
    struct lw_arena arena;
    int32_t n;
    struct lw_torch_recording *v;
};
enum lw_status lw_torch_local_read(const struct lw_input *in, struct lw_torch_local *out,
                                   struct lw_err *err);
/* Of the model with that batch; NULL = there is none. */
const struct lw_torch_recording *lw_torch_recording_of(const struct lw_torch_local *l,
                                                       const char *model, int64_t batch);
void lw_torch_local_free(struct lw_torch_local *l);

struct lw_torch_measured {
    double step_s;          /* step_s.CONFIG; 0 = not there */
    int64_t peak_rss_bytes; /* the larger of ranks[].CONFIG.peak_rss_bytes; 0 = not there. Of the
                             * process until then: configurations that ran before count too */
};

/* out[runs->n]: of each configuration. */
enum lw_status lw_torch_measured_read(const struct lw_input *in, const struct lw_torch_runs *runs,
                                      struct lw_torch_measured *out, struct lw_err *err);
