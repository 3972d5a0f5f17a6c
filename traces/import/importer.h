#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "shared/base/err.h"

struct lw_input;
struct lw_jsonout;
struct lw_trace;
struct lw_trace_reading;
struct traces_bench_hint;
struct traces_converted;
struct traces_file;
struct traces_plan_wanted;
struct traces_wanted;
struct lw_plan;

enum { LW_GIVES_WORKLOAD = 1, LW_GIVES_CLUSTER = 2, LW_GIVES_PLAN = 4 };

/* A measured collective, as a row of `inspect --format csv`; in_place_ns -1 = not measured. */
struct traces_measured_row {
    const char *op, *dtype;
    int32_t n_ranks;
    int64_t bytes, time_ns, in_place_ns;
};

/* A format of recordings: one file traces/import/importer_NAME.c that defines it, and one row of
 * LW_IMPORTERS. Words of help and refusals, detection, import and inspect come from the rows. */
struct lw_importer {
    const char *name;  /* "nccl-tests" */
    const char *reads; /* what files it is, after "what is read: " */
    const char *marks; /* how content shows it, after `reads`: "begin with {" */
    const char *import_help, *inspect_help; /* a sentence each; NULL = not inspected */
    unsigned gives;    /* LW_GIVES_...: what can be asked of an import */
    const char *instead; /* with less than both: what the other option gives, or NULL */
    bool timeline;     /* a recorded timeline: read into traces_file.source, replayed, stored */
    bool parts;        /* a file may hold several ranks: FILE#2 */
    bool one_file;     /* not several files at a time */
    bool untimed;      /* of graphs: no times, a device and a network give them */
    bool buffered;     /* of graphs: sends do not wait for their receives */
    const char *takes; /* options of import and inspect that few formats take: " op ranks " */
    bool reports;      /* without a timeline: what inspect shows is what --report asks for */

    /* Whether the file is of this format, by its content; text is in's without byte order mark and
     * blanks. Formats are asked in the order of the table. */
    bool (*is)(const struct lw_input *in, const char *text, size_t len);
    /* f[n], all of this format, into what is wanted, which is among `gives`. */
    enum lw_status (*convert)(const struct traces_file *f, int n, const struct traces_wanted *want,
                              struct traces_converted *out, struct lw_err *err);

    /* Formats of graphs: the files of all ranks of a run as a plan, which -o writes and
     * sim --replay runs; NULL = none. */
    enum lw_status (*plan)(const struct traces_file *f, int n,
                           const struct traces_plan_wanted *want, struct lw_plan *out,
                           struct lw_err *err);

    /* With a timeline: the file into sorted rows, and frees it. `damage` (code LW_OK: none) is what
     * lw_input_reading got. */
    enum lw_status (*take)(struct lw_input *in, const struct lw_err *damage,
                           const struct lw_trace_reading *options, struct lw_trace *out,
                           struct lw_err *err);

    /* inspect, of formats without a timeline. Facts are what look read, facts_size bytes that the
     * caller zeroes and owns; free releases what they hold. name is the file's. */
    size_t facts_size;
    enum lw_status (*look)(const struct lw_input *in, const struct traces_bench_hint *hint,
                           void *facts, struct lw_err *err);
    enum lw_status (*text)(const void *facts, const char *name, FILE *f, struct lw_err *err);
    enum lw_status (*json)(const void *facts, struct lw_jsonout *o, struct lw_err *err);
    /* several files of the format: what they say together; optional */
    enum lw_status (*compare_text)(const void *const *facts, int n, FILE *f, struct lw_err *err);
    enum lw_status (*compare_json)(const void *const *facts, int n, struct lw_jsonout *o,
                                   struct lw_err *err);
    bool (*measured)(const void *facts, int64_t k, struct traces_measured_row *row); /* optional */
    void (*free)(void *facts);
};

/* row(symbol): a format, whose file defines lw_importer_SYMBOL. Formats are asked in this order, so
 * Kineto's, which takes what JSON no other takes, is the last. */
#define LW_IMPORTERS(row)                                                                          \
    row(measured) row(pipedream) row(calls) row(chakra) row(goal) row(et) row(nsys)                \
    row(job_ops) row(flight_recorder) row(nccl_tests) row(nccl_log) row(kineto)
#define LW_ROW_IMPORTER(symbol) extern const struct lw_importer lw_importer_##symbol;
LW_IMPORTERS(LW_ROW_IMPORTER)

extern const struct lw_importer *const lw_importers[];
extern const int lw_n_importers;

/* Whether the format takes an option that is for some formats alone ("op"). */
bool lw_importer_takes(const struct lw_importer *x, const char *option);
/* An option that some formats take, was given and none of the files' formats takes: LW_EINVAL.
 * options end with a name NULL; the k-th file's format is of(files, k). */
struct lw_importer_option {
    const char *name;
    bool given;
};
enum lw_status lw_importer_refuse(const struct lw_importer_option *options, const void *files,
                                  const struct lw_importer *(*of)(const void *files, int k), int n,
                                  struct lw_err *err);
/* LW_EFORMAT: none of these; says what it looks like, where that is known, and what is read. */
enum lw_status lw_importer_of(const struct lw_input *in, const struct lw_importer **out,
                              struct lw_err *err);
enum { LW_IMPORTERS_HELP = 8192 }; /* more than any help has */
/* The sentences of all rows after `begin`. */
void lw_importers_help(const char *begin, bool inspect, const char *end,
                       char text[LW_IMPORTERS_HELP]);
