#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/cluster/cluster.h"
#include "shared/timeline/timeline.h"
#include "shared/workload/workload.h"

struct lw_plan;

/* The results database: every plan once for its times, every run with its spans and measures. One
 * writer at a time; a second one waits up to ten seconds. Errors name the file and keep SQLite's
 * words: LW_EFORMAT (no database, another program's, a newer Lapwing's), LW_EIO (absent, read-only,
 * locked, disk full), LW_ENOMEM. See docs/design/store.md and docs/formats/schema.md. */
struct lw_store;

enum lw_store_mode {
    LW_STORE_READ,  /* must exist; all is read as it is at this moment */
    LW_STORE_WRITE, /* created when absent, brought to this version's schema; runs whose process is
                     * dead become failed */
    LW_STORE_FINISH, /* the same, without the last: to end a run that a dead process began */
    LW_STORE_TRY     /* as LW_STORE_WRITE, but one of an older schema stays so, and only closes */
};

enum lw_status lw_store_open(const char *file, enum lw_store_mode mode, struct lw_store **out,
                             struct lw_err *err);
/* Before a run that is to be stored: the file is a database that can be written, or can be made;
 * else the run is refused with what to give instead. Nothing is made or brought up to date yet. */
enum lw_status lw_store_usable(const char *file, struct lw_err *err);
void lw_store_close(struct lw_store *s); /* NULL is fine */
const char *lw_store_file(const struct lw_store *s);
const char *lw_store_version(void); /* of SQLite: "3.40.1" */
void lw_store_wait_at_most(struct lw_store *s, int ms); /* for another writer; 10 000 unless set */

/* --- writing ---------------------------------------------------------------------------------- */

enum lw_run_kind { LW_RUN_SIM, LW_RUN_EXEC, LW_RUN_IMPORT };
enum lw_run_status { LW_RUN_RUNNING, LW_RUN_OK, LW_RUN_FAILED, LW_RUN_TIMEOUT };

const char *lw_run_kind_name(int kind); /* of enum lw_run_kind */
const char *lw_run_status_name(int status);

/* What is known before a run begins. Pointers are borrowed; NULL = not known. */
struct lw_run_info {
    enum lw_run_kind kind;
    const struct lw_plan *plan;         /* hashed; stored unless it is there with these times */
    const struct lw_cluster *cluster;   /* what it was predicted for, or ran on */
    const struct lw_workload *workload; /* name and provenance are kept */
    /* exec: "threads"; "real", "spin", "sleep", "paced" or "emulated" */
    const char *backend;
    const char *honesty; /* lw_run_sources_text of an execution; NULL = none */
    const char *command;                /* as the user typed it */
    const char *name;                   /* the user's; "" and NULL: made when it is read */
    int64_t seed;
    int32_t n_warmup;                   /* first steps that are not measured */
    bool over;                          /* it has run: what is left is to store it */
};

/* Store the run as running, with this process: when the process dies, the next command that
 * opens the database finds it failed. One that is over is stored as failed, "not stored whole",
 * which it stays when the disk is full or the process ends before lw_store_finish_run. *run =
 * its id: 1, 2, ... */
enum lw_status lw_store_begin_run(struct lw_store *s, const struct lw_run_info *info, int64_t *run,
                                  struct lw_err *err);
/* A run that is not over fails, and why: this is kept when nothing more can be stored. Until
 * lw_store_end_of_run it may be called again. */
enum lw_status lw_store_blame(struct lw_store *s, int64_t run, const char *why, struct lw_err *err);
/* The message of a failed run begins with `cause` ("rank 1 was ended by signal 9"), unless it names
 * that rank; where the cause is not sure, unless it names any rank. */
enum lw_status lw_store_name_cause(struct lw_store *s, int64_t run, int rank, const char *cause,
                                   bool sure, struct lw_err *err);
/* The run is over and this process stores it: until lw_store_finish_run it is a failed one that was
 * not stored whole, for the reason that it was blamed for, else for `why` (NULL: none). *mine
 * false: another process already stores it, or its process is dead. */
enum lw_status lw_store_end_of_run(struct lw_store *s, int64_t run, const char *why,
                                   const char *honesty, int32_t n_warmup, bool *mine,
                                   struct lw_err *err);
/* Between which times such a step would be measured, and by the errors of which runs. */
enum lw_status lw_store_interval(struct lw_store *s, int64_t run, lw_ps p10, lw_ps p90,
                                 const char *of, struct lw_err *err);
/* "NCCL_ALGO=Ring": what steered the library of the run's backend. */
enum lw_status lw_store_settings(struct lw_store *s, int64_t run, const char *settings,
                                 struct lw_err *err);
/* Append spans, in transactions of 10 000; the timeline must be sorted. May be called once. */
enum lw_status lw_store_spans(struct lw_store *s, int64_t run, const struct lw_timeline *t,
                              struct lw_err *err);
/* The spans hold the rows of some ranks only: those of rank r are the rows of rows_of[r]. */
enum lw_status lw_store_rows_of_ranks(struct lw_store *s, int64_t run, const int32_t *rows_of,
                                      int32_t n, struct lw_err *err);
/* Memory over time of the rank that holds most at its peak, by category. plan: the one that ran,
 * with its fixed bytes; t: sorted. */
enum lw_status lw_store_memory(struct lw_store *s, int64_t run, const struct lw_timeline *t,
                               const struct lw_plan *plan, struct lw_err *err);
/* A measure beside those of the summary. The name ends in its unit: "wall_s", "n_events". */
enum lw_status lw_store_metric_int(struct lw_store *s, int64_t run, const char *name, int32_t step,
                                   int32_t rank, int64_t value, struct lw_err *err);
enum lw_status lw_store_metric_real(struct lw_store *s, int64_t run, const char *name,
                                    int32_t step, int32_t rank, double value, struct lw_err *err);
/* The end: measures (NULL: none) and the status in one transaction. message: "" or what went
 * wrong. Stored measures: step_ps (step -1: the median; step k: the k-th measured step); of
 * shown_step, the step nearest the median, and every rank (rank -1: worst_rank's): period_ps,
 * compute_busy_ps, host_update_ps, copy_busy_ps, comm_busy_ps, exposed_copy_ps, exposed_comm_ps,
 * exposed_transfer_ps, wait_tensor_ps, wait_pipeline_ps, wait_data_ps, wait_tied_ps,
 * wait_other_ps and idle_ps; span_ps, bubble_ratio, compute_share, peak_memory_bytes, n_ops.
 * docs/glossary.md defines them. Of more ranks than LW_RANKS_STORED_EACH those alike are stored
 * once (schema.sql, metric). */
enum { LW_RANKS_STORED_EACH = 4096 };
enum lw_status lw_store_finish_run(struct lw_store *s, int64_t run,
                                   const struct lw_summary *summary, enum lw_run_status status,
                                   const char *message, struct lw_err *err);

/* Delete runs with all that belongs to them, and plans that no other run has; or none at all. */
struct lw_run;
enum lw_status lw_store_delete_runs(struct lw_store *s, const struct lw_run *runs, int32_t n,
                                    struct lw_err *err);
/* Take over every run and search of another database, which must have the same schema: how
 * many. */
enum lw_status lw_store_merge(struct lw_store *s, const char *file, int32_t *n,
                              int64_t *n_searches, struct lw_err *err);

/* --- reading ---------------------------------------------------------------------------------- */

/* One stored run. Strings belong to the arena given to the call; "" = unknown. */
struct lw_run {
    const char *name;            /* what it is, for people: the user's, else lw_run_texts' */
    bool named;                  /* the user's */
    int64_t id;
    enum lw_run_kind kind;
    enum lw_run_status status;
    int64_t plan;                /* plan.id; -1 = none */
    const char *plan_hash, *plan_name;
    const char *plan_times;      /* the hash of its times; "" = of a plan without a file */
    const char *options;         /* of the plan's strategy: "name=value" lines */
    int32_t n_ranks;             /* of the plan; 0 without one */
    int32_t n_buckets; /* of the set that the plan settles on (rebuilt, where there is one) */
    int64_t bucket_cap_bytes;    /* requested; -1 = the policy's default */
    const char *workload_name, *workload_hash, *workload_from;
    const char *cluster_name, *cluster_hash;
    const char *framework, *framework_hash; /* of the plan; "" = a replay */
    const char *backend, *command, *message, *version;
    const char *compute_source, *network; /* of an execution (shared/timeline/run_sources.h) */
    const char *honesty;         /* the last word of both */
    int64_t seed, started_at, n_spans;
    int32_t n_warmup;
    int64_t samples;             /* of one step, over all ranks; -1 = not known */
    lw_ps step, exposed_comm, compute_busy, comm_busy; /* -1 = not stored */
    double tokens;               /* of one step, over all ranks; NAN = not known, as below */
    double tokens_per_s, mfu_pct, overlap_pct, price_per_device_hour, cost_per_trillion_tokens;
    int64_t memory_bytes, device_memory_bytes; /* of a device: taken, and there; -1 = not known */
    int32_t fits;                /* 1, 0, or -1 = not known */
    lw_ps p10, p90;              /* the interval of a predicted step; -1 = none */
    const char *interval_of;     /* the runs that it comes from */
    double others_pct; /* of the processors, that other programs took during it; NAN = not known */
    double machine_speed, machine_speed_p10, machine_speed_p90; /* shares of the calibrated speed
                                                                 * during it; NAN = not known */
};

/* Other programs took more than LW_LOADED_PCT of the processors. */
bool lw_run_under_load(const struct lw_run *r);

enum lw_status lw_store_runs(struct lw_store *s, struct lw_arena *a, struct lw_run **runs,
                             int32_t *n, struct lw_err *err);
/* The runs named by the operands of a command (lw_store_run_numbers), ascending by id; no operands:
 * all that ended well. LW_EINVAL also when there is none. */
enum lw_status lw_store_select_runs(struct lw_store *s, char **names, int n_names,
                                    struct lw_arena *a, struct lw_run **runs, int32_t *n,
                                    struct lw_err *err);
/* "last" or an id; LW_EINVAL says which ids there are. */
enum lw_status lw_store_find_run(struct lw_store *s, const char *text, struct lw_arena *a,
                                 struct lw_run *run, struct lw_err *err);
/* LW_EFORMAT: the database lacks spans of the run, or has them of kinds that it does not name. */
enum lw_status lw_store_check_spans(struct lw_store *s, int64_t run, struct lw_err *err);
/* The same by what blocks say of themselves, without reading their spans. */
enum lw_status lw_store_check_blocks(struct lw_store *s, int64_t run, struct lw_err *err);
/* All spans of a run, over all ranks. LW_EINVAL: stored without spans; LW_ENOTSUP: too many;
 * LW_EFORMAT as above. */
enum lw_status lw_store_load_timeline(struct lw_store *s, const struct lw_run *run,
                                      struct lw_timeline *t, struct lw_err *err);

/* The plan of a run. Of a run that was stored before version 7 of the schema as far as the tables
 * hold it: enough to read, export, explain and simulate at collective detail; without shards,
 * buffers and static memory, so not to be run. LW_EINVAL: the run has no plan; LW_EFORMAT: edited
 * tables, or a plan that is not the one with the run's hash. */
enum lw_status lw_store_load_plan(struct lw_store *s, const struct lw_run *run,
                                  struct lw_plan *plan, struct lw_err *err);

/* The plan file of a run in memory, `name` for messages (borrowed): free with lw_input_free.
 * LW_ENO: it was stored without one (version 6 of the schema and before), or has no plan. */
struct lw_input;
enum lw_status lw_store_plan_file(struct lw_store *s, const struct lw_run *run, const char *name,
                                  struct lw_input *in, struct lw_err *err);

/* The cluster file of a run in memory, `name` for messages (borrowed): free with lw_input_free.
 * LW_ENO: none is stored (a replay; version 16 of the schema and before). LW_EFORMAT: its row is
 * not there or damaged. */
enum lw_status lw_store_cluster_file(struct lw_store *s, const struct lw_run *run,
                                     const char *name, struct lw_input *in, struct lw_err *err);
/* The cluster in it, on which the run's ranks are placed, and which has not taken the word of
 * --interference that the run had: *terms, a constant. LW_EFORMAT: as above, or it is not the one
 * with the run's hash. */
enum lw_status lw_store_cluster(struct lw_store *s, const struct lw_run *run,
                                struct lw_cluster *out, const char **terms, struct lw_err *err);

/* How good predictions for a cluster were: over the stored comparisons of a prediction for that
 * cluster (by content) with an execution, each execution once. n = 0: none yet. */
struct lw_past_errors {
    int32_t n;
    double mean_abs_pct, max_abs_pct; /* of the step */
};
enum lw_status lw_store_past_errors(struct lw_store *s, const struct lw_cluster *c,
                                    struct lw_past_errors *out, struct lw_err *err);
