#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/arena.h"
#include "shared/base/err.h"
#include "shared/numbers/units.h"
#include "shared/cluster/cluster.h"
#include "shared/plan/op.h"

/* Measured collectives: what nccl-tests prints (2.0 to today, its CSV and its JSON too), or a CSV
 * with titles op, nranks, nnodes, size_bytes, time_us in any order. See
 * docs/design/import_nccl_tests.md. */
struct lw_input;

struct traces_bench_row {
    int64_t bytes;       /* as in shared/plan/cost.h, > 0 */
    lw_ps time, in_place; /* medians where a size was measured more than once; -1 = not there */
    int64_t line;
};

struct traces_bench_table {
    enum lw_op_kind op;
    enum lw_dtype dtype;
    int32_t n_ranks, n_nodes;
    int32_t n_rows;
    struct traces_bench_row *rows; /* ascending by bytes, each size once */
    const char *gpu, *algo, *source; /* "" = not said */
    bool only_in_place; /* out of place was not measured: time is in_place */
};

struct traces_bench {
    struct lw_arena arena; /* owns everything below */
    const char *file, *version; /* borrowed; of the library, "" = not said */
    const char *network;        /* "AWS Libfabric", "IB": as NCCL's log says; "" = not said */
    bool is_nccl;               /* of NCCL */
    const char *time_is;        /* what a time is, "mean of the iterations"; NULL = not said */
    int32_t n;
    struct traces_bench_table *tables;
};

/* What a file may leave out; 0 and NULL = it must say. */
struct traces_bench_hint {
    const char *op;
    int64_t n_ranks, n_nodes;
    const char *loggops; /* GOAL schedules: their parameters; NULL = as they say */
    const char *where; /* CSV: rows whose cells hold these values, "gpu=H200-SXM;algo=NVLS" */
};

/* LW_EINVAL: op is no operation of nccl-tests; where has another form than the one above. */
enum lw_status traces_bench_op_check(const char *op, struct lw_err *err);
enum lw_status traces_bench_where_check(const char *where, struct lw_err *err);

bool traces_bench_is(const char *text, size_t len);
bool traces_bench_is_json(const char *text, size_t len); /* nccl-tests -J; reads the head */
/* {"ops": {"all_reduce": [{"bytes", "median"}, ...], ...}}: medians in seconds */
bool traces_bench_is_link_times(const char *text, size_t len);

/* LW_EFORMAT names file and line, or what the file leaves out and which option gives it;
 * LW_ENOTSUP: an operation that no plan has (gather, scatter, hypercube). */
enum lw_status traces_bench_read(const struct lw_input *in, const struct traces_bench_hint *hint,
                                 struct traces_bench *out, struct lw_err *err);
void traces_bench_free(struct traces_bench *b);

/* One cluster with the tables of all files. LW_EINVAL: different devices, one table twice, or
 * in_place where that was not measured. */
enum lw_status lw_cluster_from_bench(const struct traces_bench *b, int n, bool in_place,
                                     struct lw_cluster *out, struct lw_err *err);

/* Whether the network that a log names can be the inter-node link of the cluster; true also where
 * it is not known. */
bool traces_same_network(const struct lw_cluster *base, const char *network);

/* Nodes of base on which ranks lie that were measured on n_nodes hosts: hosts of one NVLink domain
 * are one node where the measured rate is beyond what the adapters of the hosts carry. */
int32_t traces_domains(const struct lw_cluster *base, enum lw_op_kind op, int32_t n_ranks,
                       int32_t n_nodes, double bytes_per_s);

/* Puts the tables of such a cluster before those of base, and the version of its library.
 * LW_EINVAL: more ranks on a node than base has devices, more nodes, another device, or faster than
 * the links of base. */
enum lw_status lw_cluster_lay_onto(struct lw_cluster *base, const struct lw_cluster *tables,
                                   struct lw_err *err);
