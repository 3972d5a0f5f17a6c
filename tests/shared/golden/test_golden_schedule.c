/* Recorded schedule tables: own tables by hand, altered copies, the recorded ones where they are.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "shared/golden/golden.h"
#include "shared/golden/golden_schedule.h"
#include "shared/io/input.h"
#include "sim/predict/sim.h"
#include "tests/lib/failing_alloc.h"

#define TABLES "../shared/golden/schedules"

/* One table; the message of its failure, "" when it passes. */
static void expect_table(const char *name, const char *text, const char *message)
{
    struct lw_err err = {0};
    enum lw_status status = lw_golden_schedule_file(name, text, &err);

    assert_string_equal(err.msg, message);
    assert_int_equal(status == LW_OK, *message == '\0');
}

TEST(tables_by_hand_pass)
{
    /* idle cells count for nothing */
    expect_table("x/1f1b_p2_m2_v1.csv", "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n", "");
    expect_table("lowered_comms_zb_h1_p1_m1_v1.csv", "0F0,0B0\n", "");
    expect_table("lowered_comms_1f1b_p2_m1_v1.csv",
                 "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\r\n", "");
    expect_table("lowered_fsdp_gpipe_p1_m1_v1.csv", "0UNSHARD,0F0,0B0,0RESHARD", "");
    /* pytorch's old names: I is B there; the number of micro-batches comes from the cells */
    expect_table("upstream_zb1p_1rank_1stagep_compute.csv", "0F0,0B0,0W0,0F1,0B1,0W1\n", "");
    expect_table("upstream_zb1p_1rank_1stagep_comms.csv", "0F0,0BW0,0F1,0BW1\n", "");
    expect_table("upstream_dualpipev_1rank_2mb.csv",
                 "0F0,1F0,0F1,1B0,(1F1;0B0)OVERLAP_F_B,1B1,0I1,0W1\n", "");
}

TEST(differences_are_named)
{
    expect_table("gpipe_p1_m2_v1.csv", "0F0,0F1,0B1,0B0\n",
                 "rank 0, action 3: computed '0B0', the case says '0B1'");
    expect_table("gpipe_p1_m2_v1.csv", "0F0,0F1,0B0\n",
                 "rank 0, action 4: computed '0B1', the case says ''");
    expect_table("gpipe_p1_m1_v1.csv", "0F0,0B0,0F0\n",
                 "rank 0, action 3: computed '', the case says '0F0'");
    expect_table("gpipe_p2_m1_v1.csv", "0F0,0B0\n", "1 of 2 ranks");
    expect_table("gpipe_p1_m1_v1.csv", "0F0,0B0\n1F0\n", "more than 1 ranks");
    expect_table("gpipe_p2_m2_v3.csv", "",
                 "--schedule gpipe with --pp 2, --micro-batches 2, --chunks "
                 "3: it takes --chunks 1");
    expect_table(
        "upstream_zb1p_1rank_1stagep_compute.csv", "\n",
        "--schedule interleaved-zb with --pp 1, --micro-batches 0, --chunks 1: all must be at "
        "least 1");
}

TEST(names_that_say_nothing_are_no_tables)
{
    static const char *const names[] = {
        "gpipe.csv",
        "gpipe_p2_m2.csv",
        "gpipe_p2_m2_v1.csv.old",
        "gpip_p2_m2_v1.csv",
        "lowered_gpipe_p2_m2_v1.csv",
        "gpipe_p0_m2_v1.csv",
        "upstream_zb1p_2rank_2stagep_other.csv",
        "upstream_zb9p_2rank_2stagep_comms.csv",
        "custom_p2_m2_v1.csv",
        "p2_m2_v1.csv",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_false(lw_golden_is_schedule(names[i]));
    assert_true(lw_golden_is_schedule("/a_p1/zb_auto_2p_p4_m8_v1.csv"));
}

/* 1f1b, p 2, m 2: docs/design/grid_time.md has 88 for the second run; with F = I = W = 1:
 * rank 1: F0 1-2, B0 2-4, F1 4-5, B1 5-7; rank 0: B0 4-6, B1 7-9. */
#define HEAD                                                                                       \
    "file,schedule,p,m,v,n_stages,layout,n_actions,makespan_unit,longest_rank_unit,"               \
    "makespan_F10_I11_W7_C2,longest_rank_F10_I11_W7_C2,peak_inflight_until_dgrad,"                 \
    "peak_inflight_until_wgrad,source,note\n"
#define ROW "1f1b_p2_m2_v1.csv,1f1b,2,2,1,2,loop,8,9,9,88,88,2;1,2;1,\"a, b\","
/* rank 1 of 2, 3 micro-batches in groups of 2, 2 chunks: warm-up (v-1) G + 2 (p-1-r) = 2 */
#define MEGATRON_HEAD                                                                              \
    "p,rank,v_blank_is_none,microbatch_group_size,m,warmup,chunk_order_pos_fwd_neg_bwd,"           \
    "schedule_table_mb.chunk\n"
#define MEGATRON_ROW "2,1,2,2,3,2,1;1;2;-2;2;-2;1;-1;2;-1;-2;-1,0.0;1.0;0.1;1.1;2.0;2.1"

static void run_text(const char *text, struct lw_golden_result *r)
{
    char path[] = "/tmp/lapwing_golden_XXXXXX";
    struct lw_err err;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    assert_ok(lw_golden_file(path, r, &err), err);
    unlink(path);
}

static void expect_row(const char *head, const char *row, bool passes)
{
    struct lw_golden_result r = {.engine = {lw_sim_alone, NULL}};
    char text[1024];

    snprintf(text, sizeof text, "%s%s\n", head, row);
    run_text(text, &r);
    if (r.n_passed != passes)
        fail_msg("%s: %s", row, passes ? r.failures[0].message : "passes");
    lw_golden_free(&r);
}

/* Every digit and letter of a row but those of the source. */
static void alter_row(const char *head, const char *row, size_t len)
{
    char text[1024];

    snprintf(text, sizeof text, "%s", row);
    for (size_t i = 0; i < len; i++) {
        char was = text[i];
        if (was == ',' || was == ';' || was == '-' || was == '.')
            continue;
        text[i] = was == '9' ? '0' : (char)(was + 1);
        expect_row(head, text, false);
        text[i] = was;
    }
}

TEST(rows_by_hand_pass_and_altered_ones_fail)
{
    expect_row(HEAD, ROW, true);
    alter_row(HEAD, ROW, strcspn(ROW, "\""));
    expect_row(MEGATRON_HEAD, MEGATRON_ROW, true);
    alter_row(MEGATRON_HEAD, MEGATRON_ROW, strlen(MEGATRON_ROW));
    expect_row(MEGATRON_HEAD, "3,1,,3,2,1,1;1;-1;-1,0.0;1.0", true);
}

/* The recorded tables in their folder, and each with one digit changed. */
TEST(recorded_tables_are_repeated_and_altered_ones_fail)
{
    DIR *d = opendir(TABLES);
    int n = 0;

    if (!d) {
        printf("SKIP recorded_tables_are_repeated_and_altered_ones_fail: no " TABLES "\n");
        skip();
    }
    for (struct dirent *e; (e = readdir(d));) {
        struct lw_input in;
        struct lw_err err = {0};
        char path[512];
        if (!lw_golden_is_schedule(e->d_name))
            continue;
        snprintf(path, sizeof path, TABLES "/%s", e->d_name);
        assert_int_equal(lw_input_read(path, 0, &in, &err), LW_OK);
        if (lw_golden_schedule_file(path, in.text, &err) != LW_OK)
            fail_msg("%s: %s", path, err.msg);
        char *digit = in.text + in.len / 2; /* some cell in the middle */
        digit = strpbrk(digit, "0123456789");
        assert_non_null(digit);
        *digit = *digit == '9' ? '0' : (char)(*digit + 1);
        assert_int_not_equal(lw_golden_schedule_file(path, in.text, &err), LW_OK);
        lw_input_free(&in);
        n++;
    }
    closedir(d);
    assert_int_equal(n, 78 + 6 + 3);
}

TEST(failing_allocations_end_the_run)
{
    struct lw_err err;

    EACH_ALLOCATION_FAILS_IN(1, lw_golden_schedule_file("lowered_fsdp_zb_h1_p1_m1_v1.csv",
                                                        "0UNSHARD,0F0,0B0,0RESHARD", &err));
}
