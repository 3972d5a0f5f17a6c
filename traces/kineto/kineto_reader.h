#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/json/json.h"
#include "traces/trace/trace.h"

/* What the files of this room share while a trace is read. */

/* kineto_event.class, beside enum lw_row_class */
enum { KINETO_UNKNOWN = -2, KINETO_SKIPPED = -1 };

struct kineto_event {
    int class; /* enum lw_row_class, or KINETO_* */
    char ph;
    bool has_ts, has_dur, has_detail;
    bool no_tensor; /* the first input's type is "": it was none, and its shape [] means nothing */
    int64_t ts_ns, dur_ns, correlation, sequence, stream, device;
    int32_t record, external; /* Record function id, External id */
    const char *name, *tid; /* NULL until seen */
    size_t name_len, tid_len, pid_len;
    char pid[32];
    struct lw_row_detail detail;
};

/* A category that was seen; len 0: none. */
struct kineto_category {
    char text[24];
    size_t len;
    int class;
};
enum { KINETO_CATEGORIES = 32 };

struct kineto_reader {
    struct lw_json_keys of_event, of_skipped, of_arguments; /* traces_kineto_set_keys */
    struct kineto_category category[KINETO_CATEGORIES];
    struct lw_json *json;
    struct lw_trace *trace;
    const struct lw_progress *progress;
    const char *name;
    size_t len;
    bool nomem, has_events, has_nodes, is_own;
    char *mapped;   /* the text, where its pages may be given back once they were read; or NULL */
    size_t given_back; /* bytes from mapped[] on */
    int64_t stop;   /* byte of the event that the next part begins with; 0 = none */
    bool stopped;   /* it was come to */
    bool shapes;
    int64_t n_phases; /* entries with a "ph" */
    /* thread of the previous event: most events follow one of the same thread */
    char thread[96];
    size_t thread_len;
    int32_t thread_id;
};

/* --- values: what is of another type is `absent`, or -1 --- */
int32_t traces_kineto_intern(struct kineto_reader *r, const char *text, size_t len);
/* A whole number, bare or as a string. */
int64_t traces_kineto_read_int(struct lw_json *j, int64_t absent);
int32_t traces_kineto_read_int32(struct lw_json *j, int32_t absent);
int32_t traces_kineto_read_text(struct kineto_reader *r);
/* Microseconds to ns; the JSON reader holds the error. */
int64_t traces_kineto_read_time(struct lw_json *j, bool *has);
/* Elements of a shape or of a list of shapes. */
int64_t traces_kineto_read_numel(struct lw_json *j, int depth);
/* Enter an array, let the caller read its first element, skip the rest. */
bool traces_kineto_enter_first(struct lw_json *j);

/* --- inputs of an operator --- */
bool traces_kineto_is_shaped(const struct kineto_event *e);
bool traces_kineto_is_typed(const struct kineto_event *e);
/* Of the first input. */
void traces_kineto_read_shape(struct kineto_reader *r, struct kineto_event *e);
void traces_kineto_read_shape_type(struct kineto_reader *r, struct kineto_event *e);
/* Of all, each as one text. */
void traces_kineto_read_sizes(struct kineto_reader *r, struct kineto_event *e);
void traces_kineto_read_types(struct kineto_reader *r, struct kineto_event *e);
int32_t traces_kineto_read_values(struct kineto_reader *r); /* number + 1; 0 = absent */

/* --- the document. LW_OK with an error that the JSON reader holds: see lw_json_done --- */
void traces_kineto_set_keys(struct kineto_reader *r); /* before any is read */
enum lw_status traces_kineto_read_event(struct kineto_reader *r, struct lw_err *err);
/* The events of the list that was entered, up to r->stop. */
enum lw_status traces_kineto_read_list(struct kineto_reader *r, struct lw_err *err);
enum lw_status traces_kineto_read_fields(struct kineto_reader *r, struct lw_err *err);
enum lw_status traces_kineto_read_root(struct kineto_reader *r, struct lw_err *err);
/* Is this what was read of a trace, and all of it? LW_EFORMAT: no. */
enum lw_status traces_kineto_check_kind(const struct kineto_reader *r, struct lw_err *err);
enum lw_status traces_kineto_parse_once(const char *name, char *text, size_t len,
                                        const struct lw_trace_reading *options,
                                        struct lw_trace *out, struct lw_err *err);
/* *done false: it is to be read in one go. */
enum lw_status traces_kineto_parse_parts(const char *name, char *text, size_t len,
                                         const struct lw_trace_reading *options, bool *done,
                                         struct lw_trace *out, struct lw_err *err);
