/* Measured links as JSON, {"ops": {...}}: traces/nccl_tests/link_times.c. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/io/input.h"
#include "shared/json/json.h"
#include "tests/lib/failing_alloc.h"
#include "traces/nccl_tests/import_nccl_tests.h"

#define ROWS "[{\"bytes\": 4096, \"median\": 0.0002268565, \"n\": 60}, " \
             "{\"bytes\": 65536, \"median\": 5.35e-4}]"
#define FILE_OF(ops) "{\"net\": \"1g\", \"note\": \"x\", \"ops\": {" ops "}, \"other\": [1]}"

static enum lw_status read_text(const char *text, int64_t ranks, struct traces_bench *b,
                                struct lw_err *err)
{
    struct lw_input in = {.name = "net.json", .len = strlen(text)};
    struct traces_bench_hint hint = {.n_ranks = ranks, .n_nodes = ranks};

    in.text = calloc(in.len + LW_JSON_PADDING, 1);
    assert_non_null(in.text);
    memcpy(in.text, text, in.len);
    enum lw_status status = traces_bench_read(&in, &hint, b, err);
    free(in.text);
    return status;
}

TEST(each_operation_is_a_table)
{
    struct traces_bench b;
    struct lw_err err = {0};

    assert_ok(read_text(FILE_OF("\"all_reduce\": " ROWS ", \"send_recv\": " ROWS), 2, &b, &err),
              err);
    assert_int_equal(b.n, 2);
    assert_int_equal(b.tables[0].op, LW_OP_ALL_REDUCE);
    assert_int_equal(b.tables[1].op, LW_OP_SEND);
    assert_int_equal(b.tables[1].n_ranks, 2);
    assert_int_equal(b.tables[1].n_nodes, 2);
    assert_int_equal(b.tables[0].rows[0].bytes, 4096);
    assert_int_equal(b.tables[0].rows[0].time, 226856500); /* 226.8565 us */
    assert_int_equal(b.tables[0].rows[1].time, 535000000);
    traces_bench_free(&b);
}

static void refused(const char *text, int64_t ranks, const char *says)
{
    struct traces_bench b;
    struct lw_err err = {0};

    assert_int_not_equal(read_text(text, ranks, &b, &err), LW_OK);
    if (!strstr(err.msg, says))
        fail_msg("'%s' does not say '%s'", err.msg, says);
}

TEST(what_a_row_lacks_is_named)
{
    refused(FILE_OF("\"all_reduce\": " ROWS), 0, "give --ranks N and --nodes N");
    refused(FILE_OF("\"gather_all\": " ROWS), 2, "operation 'gather_all'");
    refused(FILE_OF("\"all_reduce\": [{\"bytes\": 4096, \"median\": 0}]"), 2, "found 0");
    refused(FILE_OF("\"all_reduce\": [{\"bytes\": 0, \"median\": 0.001}]"), 2,
            "needs \"bytes\" of 1 or more");
    refused(FILE_OF("\"all_reduce\": [{\"bytes\": 8, \"x\": {\"median\": 1}}]"), 2,
            "\"median\" in seconds");
    refused(FILE_OF("\"all_reduce\": [{\"bytes\": 4096, \"median\": 1e-9}]"), 2, "0.1 us");
}

/* Of a copy with the padding that a text of JSON has. */
static bool is_link_times(const char *text)
{
    static char padded[1024];

    assert_true(strlen(text) + LW_JSON_PADDING < sizeof padded);
    memset(padded, 0, sizeof padded);
    memcpy(padded, text, strlen(text));
    return traces_bench_is_link_times(padded, strlen(text));
}

TEST(other_json_is_not_taken)
{
    static const char *const others[] = {
        "{\"traceEvents\": [{\"ops\": 1, \"median\": 2}]}",
        "{\"ops\": [{\"bytes\": 1, \"median\": 2}]}",
        "{\"ops\": {\"all_reduce\": {\"bytes\": 1, \"median\": 2}}}",
        "{\"ops\": {\"all_reduce\": [{\"size\": 1, \"median\": 2}]}}",
        "{\"ops\": {}, \"median\": 1}",
        "{\"ops\": ",
    };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(is_link_times(others[i]));
    assert_true(is_link_times(FILE_OF("\"all_reduce\": " ROWS)));
}

TEST(without_memory_nothing_is_kept)
{
    struct traces_bench b = {0};
    struct lw_err err = {0};

    EACH_ALLOCATION_FAILS(2, read_text(FILE_OF("\"all_reduce\": " ROWS), 2, &b, &err), b,
                          traces_bench_free(&b));
}
