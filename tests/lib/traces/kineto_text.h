#pragma once

#include <stdlib.h>
#include <string.h>

#include "shared/json/json.h"
#include "traces/kineto/import_kineto.h"

/* The text as the file t.json; options NULL: none. Rows are not sorted. */
static inline enum lw_status kineto_text(const char *text, const struct lw_trace_reading *options,
                                         struct lw_trace *t, struct lw_err *err)
{
    size_t len = strlen(text);
    char *copy = calloc(len + LW_JSON_PADDING, 1);

    memcpy(copy, text, len);
    enum lw_status status = lw_kineto_parse("t.json", copy, len, options, t, err);
    free(copy);
    return status;
}

/* Events as texts. */
#define X(cat, name, tid, ts, dur, args) \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"pid\":1,\"tid\":" tid \
    ",\"ts\":" ts ",\"dur\":" dur ",\"args\":{" args "}}"
#define STEP(n, ts, dur) X("user_annotation", "ProfilerStep#" n, "1", ts, dur, "")
#define LAUNCH(correlation, ts) \
    X("cuda_runtime", "cudaLaunchKernel", "1", ts, "1", "\"correlation\":" correlation)
#define KERNEL(name, stream, correlation, ts, dur) \
    X("kernel", name, stream, ts, dur, \
      "\"device\":0,\"stream\":" stream ",\"correlation\":" correlation)
