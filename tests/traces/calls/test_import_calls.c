/* Recorded calls: lines, damage, the period of a recording, tables of several ranks. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "shared/io/input.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"
#include "traces/calls/import_calls.h"

static const char head[] = "# lapwing-calls 1\n# library nccl 2.28.9\n# host n1 pid 7\n";

static enum lw_status read_text(const char *text, struct traces_recorded *c, struct lw_err *err)
{
    struct lw_input in = {.name = "calls.csv", .text = (char *)text, .len = strlen(text)};

    return traces_recorded_read(&in, c, err);
}

TEST(lines_become_calls)
{
    struct traces_recorded c;
    struct lw_err err;
    char text[1024];

    snprintf(text, sizeof text, "%s%s", head,
             "comm,1,00000000000000ff,2,4\n"
             "call,1,1000,50,all_gather,256,bf16,-1,1,94620242292496,0\n"
             "call,2,2000,60,send,10,?,3,1,0,5\n"
             "span,1,1100,1900\n"
             "call,3,30"); /* cut short */
    assert_int_equal(read_text(text, &c, &err), LW_OK);
    assert_string_equal(c.library, "nccl 2.28.9");
    assert_string_equal(c.host, "n1");
    assert_int_equal(c.n, 2);
    assert_int_equal(c.comms[0].id, 255);
    assert_int_equal(c.comms[0].n_ranks, 4);
    assert_int_equal(c.calls[0].op, LW_OP_ALL_GATHER);
    assert_int_equal(traces_recorded_bytes(&c, &c.calls[0]), 256 * 2 * 4); /* the gathered whole */
    assert_int_equal(c.calls[0].end_ns - c.calls[0].start_ns, 800);
    assert_int_equal(c.calls[1].peer, 3);
    assert_int_equal(c.calls[1].group, 5);
    assert_int_equal(c.calls[1].start_ns, -1);
    assert_int_equal(traces_recorded_bytes(&c, &c.calls[1]), -1); /* of an unknown type */
    traces_recorded_free(&c);
}

/* Calls that no plan has are read; what was not recorded is a list. A gather counts per rank. */
TEST(calls_that_no_plan_has_are_read)
{
    struct traces_recorded c;
    struct lw_err err;
    char text[1024];

    snprintf(text, sizeof text, "%s%s", head,
             "# not recorded MPI_Put\n# not recorded MPI_Get\n"
             "comm,1,00000000000000ff,2,4\n"
             "call,1,1000,50,gather,256,bf16,0,1,0,0\n"
             "call,2,2000,60,neighbor_all_to_all,10,u8,-1,1,0,0\n");
    assert_int_equal(read_text(text, &c, &err), LW_OK);
    assert_string_equal(c.lost, "MPI_Put, MPI_Get");
    assert_string_equal(traces_call_name(c.calls[0].op), "gather");
    assert_int_equal(traces_recorded_bytes(&c, &c.calls[0]), 256 * 2 * 4);
    assert_string_equal(traces_call_name(c.calls[1].op), "neighbor_all_to_all");
    assert_int_equal(traces_recorded_bytes(&c, &c.calls[1]), 10);
    traces_recorded_free(&c);
}

TEST(a_long_list_of_what_was_not_recorded_is_whole)
{
    enum { LINES = 80 };
    struct traces_recorded c;
    struct lw_err err;
    char text[8192], lost[8192] = "";
    size_t n = (size_t)snprintf(text, sizeof text, "%s", head), m = 0;

    for (int i = 0; i < LINES; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "# not recorded MPI_Function_number_%d\n",
                              i);
        m += (size_t)snprintf(lost + m, sizeof lost - m, "%sMPI_Function_number_%d", i ? ", " : "",
                              i);
    }
    assert_int_equal(read_text(text, &c, &err), LW_OK);
    assert_string_equal(c.lost, lost);
    traces_recorded_free(&c);
}

TEST(damaged_lines_are_named)
{
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"call,1,1,1,all_reduce,1,f32,-1,1,0,0\n", "calls.csv:4: communicator '1'"},
        {"comm,2,ff,0,2\n", "calls.csv:4: communicator '2': expected the next number"},
        {"comm,1,xyz,0,2\n", "id 'xyz'"},
        {"comm,1,ff,2,2\n", "rank '2'"},
        {"comm,1,ff,0,2\ncall,1,1,1,forward,1,f32,-1,1,0,0\n", "calls.csv:5: op 'forward'"},
        {"comm,1,ff,0,2\ncall,1,1,1,all_reduce,1,f33,-1,1,0,0\n", "dtype 'f33'"},
        {"comm,1,ff,0,2\ncall,1,1,1,all_reduce,-1,f32,-1,1,0,0\n", "count '-1'"},
        {"comm,1,ff,0,2\ncall,1,1,1,all_reduce,9000000000000000000,f32,-1,1,0,0\n", "count"},
        {"comm,1,ff,0,2\ncall,1,1,1,all_reduce,1,f32,-1,1,0\n", "group ''"},
        {"span,1,1,2\n", "call '1'"},
        {"comm,1,ff,0,1000001\n",
         "calls.csv:4: ranks '1000001': expected a whole number from -1 to 1000000"},
        {"comm,1,ff,0,4294967298\n", "ranks '4294967298'"},
        {"comm,1,ff,0,2\ncall,1,1,1,send,1,f32,4294967296,1,0,0\n", "peer '4294967296'"},
        /* 213 days: as picoseconds in 64 bits they wrap to 384 */
        {"comm,1,ff,0,2\ncall,1,1,1,all_reduce,1,f32,-1,1,0,0\nspan,1,0,18446744073709552\n",
         "calls.csv:6: the span is too long: 213.5 days, allowed: 106 days"},
        {"comm,1,ff,0,2\ncall,1,1,9223372036854776,all_reduce,1,f32,-1,1,0,0\n",
         "calls.csv:5: the duration is too long: 106.8 days, allowed: 106 days"},
        {"comm,1,ff,0,2\ncall,1,1,1,barrier,0,u8,-1,1,0,0\nspan,1,5,4\n", "end '4'"},
        {"what,1\n", "line 'what': expected comm, call or span"},
        {"a,b,c,d,e,f,g,h,i,j,k,l,m\n", "at most 12 fields"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_recorded c;
        struct lw_err err = {0};
        char text[512];
        snprintf(text, sizeof text, "%s%s", head, cases[i].line);
        assert_int_equal(read_text(text, &c, &err), LW_EFORMAT);
        if (!strstr(err.msg, cases[i].words))
            fail_msg("case %zu: '%s' lacks '%s'", i, err.msg, cases[i].words);
    }
}

/* Text of `warm` odd calls and then `n` periods of 3 calls, 1,000 ns apart. */
static void periodic(char *text, size_t size, int warm, int n)
{
    size_t at = (size_t)snprintf(text, size, "%scomm,1,ff,0,2\n", head);
    int call = warm;

    for (int i = 0; i < warm; i++)
        at += (size_t)snprintf(text + at, size - at, "call,%d,%d,1,broadcast,%d,f32,0,1,0,0\n",
                               i + 1, (i + 1) * 10, i + 1);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 3; k++)
            at +=
                (size_t)snprintf(text + at, size - at, "call,%d,%d,1,all_reduce,%d,f32,-1,1,0,0\n",
                                 ++call, 1000 * (i + 1) + k, k == 2 ? 7 : 5);
}

TEST(the_period_is_that_of_the_end)
{
    static const struct {
        int warm, n, n_calls, n_periods;
    } cases[] = {{0, 5, 3, 5}, {4, 3, 3, 3}, {2, 2, 0, 0}, {3, 0, 0, 0}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct traces_recorded c;
        struct lw_err err;
        int64_t n_calls, n_periods, ns;
        char text[4096];
        periodic(text, sizeof text, cases[i].warm, cases[i].n);
        assert_int_equal(read_text(text, &c, &err), LW_OK);
        assert_int_equal(traces_recorded_period(&c, &n_calls, &n_periods, &ns, &err), LW_OK);
        assert_int_equal(n_calls, cases[i].n_calls);
        assert_int_equal(n_periods, cases[i].n_periods);
        assert_int_equal(ns, cases[i].n_calls ? 1000 : 0);
        traces_recorded_free(&c);
    }
}

/* Two ranks; of each collective one comes last. Times: 100 and 200 ns for 20 bytes, 300 for 40. */
TEST(a_collective_takes_its_shortest_span)
{
    static const char *const ranks[] = {
        "comm,1,ff,0,2\n"
        "call,1,1,1,all_reduce,5,f32,-1,1,0,0\nspan,1,1000,1100\n"   /* came last */
        "call,2,2,1,all_reduce,5,f32,-1,1,0,0\nspan,2,2000,2900\n"
        "call,3,3,1,all_reduce,10,f32,-1,1,0,0\nspan,3,3000,3300\n",
        "comm,1,ff,1,2\n"
        "call,1,1,1,all_reduce,5,f32,-1,1,0,0\nspan,1,500,1100\n"
        "call,2,2,1,all_reduce,5,f32,-1,1,0,0\nspan,2,2700,2900\n"
        "call,3,3,1,all_reduce,10,f32,-1,1,0,0\nspan,3,2000,3300\n"};
    struct traces_recorded c[2];
    struct traces_bench b;
    struct lw_err err;

    for (int i = 0; i < 2; i++) {
        char text[1024];
        snprintf(text, sizeof text, "%s%s", head, ranks[i]);
        assert_int_equal(read_text(text, &c[i], &err), LW_OK);
    }
    assert_int_equal(traces_recorded_tables(c, 2, &b, &err), LW_OK);
    assert_int_equal(b.n, 1);
    assert_int_equal(b.tables[0].n_ranks, 2);
    assert_int_equal(b.tables[0].n_nodes, 1);
    assert_int_equal(b.tables[0].n_rows, 2);
    assert_int_equal(b.tables[0].rows[0].bytes, 20);
    assert_int_equal(b.tables[0].rows[0].time, 100 * LW_PS_PER_NS); /* lower median of 100, 200 */
    assert_int_equal(b.tables[0].rows[1].bytes, 40);
    assert_int_equal(b.tables[0].rows[1].time, 300 * LW_PS_PER_NS);
    assert_string_equal(b.version, "2.28.9");
    assert_non_null(
        strstr(b.tables[0].source, "3 recorded calls of nccl 2.28.9, shortest span of 2.0"));
    traces_bench_free(&b);
    /* one rank alone: an upper bound */
    assert_int_equal(traces_recorded_tables(c, 1, &b, &err), LW_OK);
    assert_int_equal(b.tables[0].rows[0].time, 100 * LW_PS_PER_NS);
    traces_bench_free(&b);
    struct traces_recorded twice[2] = {c[0], c[0]};
    assert_int_equal(traces_recorded_tables(twice, 2, &b, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "both of rank 0"));
    for (int i = 0; i < 2; i++)
        traces_recorded_free(&c[i]);
}

/* Under SAN=1 nothing is sorted where nothing is. */
TEST(a_recording_without_a_span_gives_no_table)
{
    struct traces_recorded c;
    struct traces_bench b;
    struct lw_err err;

    assert_int_equal(read_text(head, &c, &err), LW_OK);
    assert_true(traces_recorded_tables(&c, 1, &b, &err) != LW_OK);
    traces_recorded_free(&c);
}

static enum lw_status read_period(const char *text)
{
    struct traces_recorded c;
    struct lw_err err;
    int64_t a, b, d;
    enum lw_status s = read_text(text, &c, &err);

    if (s == LW_OK) {
        s = traces_recorded_period(&c, &a, &b, &d, &err);
        traces_recorded_free(&c);
    }
    return s;
}

TEST(failing_allocations_keep_nothing)
{
    char text[4096];

    periodic(text, sizeof text, 2, 6);
    EACH_ALLOCATION_FAILS_IN(3, read_period(text));
}

/* Any byte changed: read or refused, and nothing is kept. */
TEST(damaged_bytes_are_read_or_refused)
{
    char text[4096];
    struct prng r = prng_start("damaged bytes of calls");
    int64_t live = lw_alloc_live();

    periodic(text, sizeof text, 2, 6);
    size_t len = strlen(text);
    for (int i = 0; i < 3000; i++) {
        struct traces_recorded c;
        struct lw_err err;
        size_t at = (size_t)prng_in(&r, 0, (int64_t)len - 1);
        char was = text[at];
        text[at] = (char)prng_in(&r, 0, 127);
        struct lw_input in = {.name = "x", .text = text, .len = len};
        if (traces_recorded_read(&in, &c, &err) == LW_OK)
            traces_recorded_free(&c);
        text[at] = was;
        assert_int_equal(lw_alloc_live(), live);
    }
}
