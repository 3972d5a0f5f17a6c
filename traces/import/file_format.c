/* Which format a file has, from its first bytes: names and endings say nothing. JSON that names no
 * other schema is left to the Kineto reader, whose metadata may stand before "traceEvents" for
 * any length; it refuses what is not a trace. */
#include "traces/import/file_format.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "shared/base/input.h"
#include "traces/calls/import_calls.h"
#include "traces/nccl_tests/import_nccl_tests.h"
#include "traces/ddp_runs/import_ddp_run.h"
#include "traces/pipedream/import_pipedream.h"

enum { LOOKED_AT = 4096, MOST_MEASURED = 64 << 20 };

static const char READ[] =
    "what is: PyTorch profiler traces (Kineto, Chrome JSON), nccl-tests output and tables of "
    "collectives as CSV (op, nranks, nnodes, size_bytes, time_us), PipeDream profiles, recorded calls of NCCL and MPI, measured-run "
    "JSON; each may be gzipped";

const char *traces_format_name(enum traces_format f)
{
    static const char *const names[TRACES_N_FORMATS] = {
        "kineto", "measured-run", "nccl-tests", "pipedream", "calls", "pipedream-nodes",
        "pipedream-edges"};

    return names[f];
}

/* Formats that are known and not read, by how they begin. */
static const char *other_format(const char *text, size_t len)
{
    static const struct {
        const char *begin, *is;
    } others[] = {
        {"SQLite format 3", "an SQLite database (of Nsight Systems, perhaps)"},
        {"num_ranks", "a GOAL schedule"},
        {"\x1f\x8b", "gzip data inside gzip data"},
        {"PK\x03\x04", "a ZIP archive: unpack it first"},
        {"<", "HTML or XML"},
    };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (len >= strlen(others[i].begin) &&
            memcmp(text, others[i].begin, strlen(others[i].begin)) == 0)
            return others[i].is;
    for (size_t i = 0; i < len && i < LOOKED_AT; i++)
        if (text[i] == '\0')
            return "binary data (a Chakra trace, perhaps)";
    return "text of no format that is known";
}

/* A trace of hundreds of megabytes is not walked through for its schema. */
static bool is_measured(const struct lw_input *in)
{
    static const char mark[] = "lapwing-groundtruth";

    return in->len <= MOST_MEASURED && memmem(in->text, in->len, mark, strlen(mark)) &&
           lw_groundtruth_is(in->text, in->len);
}

enum lw_status traces_format_of(const struct lw_input *in, enum traces_format *out,
                                struct lw_err *err)
{
    const char *p = in->text, *end = in->text + in->len;

    if (in->len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        p += 3;
    while (p < end && isspace((unsigned char)*p))
        p++;
    if (p == end)
        return lw_fail(err, LW_EFORMAT, "%s: empty", in->name);
    if (*p == '{' || *p == '[')
        *out = is_measured(in)                            ? TRACES_MEASURED
               : traces_bench_is_json(in->text, in->len) ? TRACES_NCCL_TESTS
                                                         : TRACES_KINETO;
    else if (traces_pipedream_is(p, (size_t)(end - p)))
        *out = TRACES_PIPEDREAM;
    else if (strncmp(p, "node,op,fwd_ms,", 15) == 0)
        *out = TRACES_PIPEDREAM_NODES;
    else if (strncmp(p, "src,dst", 7) == 0)
        *out = TRACES_PIPEDREAM_EDGES;
    else if (traces_recorded_is(p, (size_t)(end - p)))
        *out = TRACES_CALLS;
    else if (traces_bench_is(in->text, in->len))
        *out = TRACES_NCCL_TESTS;
    else
        return lw_fail(err, LW_EFORMAT, "%s: this is %s, which is not read here; %s",
                       in->name, other_format(p, (size_t)(end - p)), READ);
    return LW_OK;
}
