/* Published tables through the command: agreement, missed digits, refusals. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "analysis/validate/validate_kinds.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/says.h"

/* Validating the table exits with rc and says so: on standard output where all is well, else on
 * standard error. */
static void validate(const char *text, int rc, const char *says)
{
    fixture_put(fixture_path("t.csv"), text);
    expect("validate t.csv --format json", rc, says);
    assert_int_equal(text_says(shell_err(), says), rc != 0);
}

/* 30 G parameters on 8: 4 * 30 + 12 * 30 / 8 = 165; 2 * 30 + 14 * 30 / 8 = 112.5, which may be
 * printed as 112 or 113; 16 * 30 / 8 = 60. */
TEST(zero_memory_agrees_to_one_unit_of_the_last_digit)
{
    static const char *const right = "model,dp_degree,P_os,P_os_g,P_os_g_p\n30B,8,165,112,60\n";
    validate(right, 0,
             "\"id\": \"30B__N8__P_os_g\", \"family\": \"zero-memory\", \"predicted\": 112.5, "
             "\"measured\": 112, \"unit\": \"GB\"");
    validate(right, 0, "\"n_beyond_digits\": 0");
    validate("dp_degree,P_os,model\n8,166.1,30B\n", 3,
             "1 of 1 cases differ by more than their printed digits allow; 30B__N8__P_os: 165 GB, "
             "printed 166.1");
}

/* A blank cell is what the source does not give: no case, and no miss; a table of them has none. */
TEST(blank_cells_make_no_case)
{
    validate("model,dp_degree,P_os,P_os_g\n30B,8,,112\n", 0, "\"n\": 1,");
    validate("model,dp_degree,P_os\n30B,8,\n", 1,
             "t.csv: every cell of P_os, P_os_g and P_os_g_p is blank");
    validate("model,heads,hidden,seq,p,m,T_F,T_B,T_W,T_comm,bubble_1f1b,bubble_zb_h1\n"
             "x,2,8,16,2,3,4,3,2,0,,0.1563\n", 0, "\"n\": 1,");
    validate("model,heads,hidden,seq,p,m,T_F,T_B,T_W,T_comm,bubble_1f1b\n"
             "x,2,8,16,2,3,4,3,2,0,\n", 1, "t.csv: every cell of bubble_* is blank");
}

/* p 2, m 3, F 4, B 3, W 2, no transfers: 1f1b's bubble is (p - 1)(F + B + W) = 9 of 36: 0.25;
 * zb-h1's (F + B - W) = 5 of 32: 0.15625; 1f1b_i with v 3 is 9 / 3 = 3 of 30: 0.1 by its form. */
TEST(bubble_rates_agree_to_the_printed_digits)
{
    static const char *const head =
        "model,layers,heads,hidden,seq,p,micro_batch,m,v_for_1f1b_i,T_F,T_B,T_W,T_comm,bubble_1f1b,"
        "bubble_1f1b_i,bubble_zb_h1\n";
    char text[400];
    snprintf(text, sizeof text, "%sx,4,2,8,16,2,1,3,3,4,3,2,0,0.2500,0.10,0.1563\n", head);
    validate(text, 0, "\"x__p2__m3__b1__1f1b\", \"family\": \"zero-bubble\", \"predicted\": 0.25,");
    validate(text, 0, "closed form; the engine");
    snprintf(text, sizeof text, "%sx,4,2,8,16,2,1,3,3,4,3,2,0,0.2501,0.10,0.1563\n", head);
    validate(text, 3, "x__p2__m3__b1__1f1b");
}

static volatile sig_atomic_t asked;

static void ask_at_the_third(void *rows, const char *what, double share)
{
    int *n = rows;

    assert_non_null(strstr(what, "t.csv"));
    assert_float_equal(share, *n / 4.0, 1e-9);
    asked = ++*n == 3;
}

/* Four rows; a signal comes as the third begins. */
TEST(an_interrupt_keeps_the_rows_that_are_done)
{
    int n = 0;
    const struct lw_progress progress = {ask_at_the_third, &n, &asked};
    struct lw_validation v = {.progress = &progress, .n_files = 1};
    struct lw_validate_file file;
    struct lw_err err;

    fixture_put(fixture_path("t.csv"),
                "model,heads,hidden,seq,p,m,T_F,T_B,T_W,T_comm,bubble_1f1b\n"
                "x,2,8,16,2,3,4,3,2,0,0.25\nx,2,8,16,2,6,4,3,2,0,0.1429\n"
                "x,2,8,16,2,9,4,3,2,0,0.1\nx,2,8,16,2,12,4,3,2,0,0.0769\n");
    assert_ok(lw_validate_open(fixture_path("t.csv"), &v, &file, &err), err);
    assert_ok(lw_validate_add(&file, &v, &err), err);
    lw_validate_close(&file);
    assert_int_equal(v.n_cases, 2);
    lw_validation_free(&v);
}

TEST(invalid_cell_is_refused_with_its_place)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"model,dp_degree,P_os\n7.5X,8,1\n",
         "t.csv:2: model: found '7.5X', allowed: parameters with"},
        {"model,dp_degree,P_os\n7.5B,0,1\n",
         "t.csv:2: dp_degree: found '0', allowed: whole numbers"},
        {"model,dp_degree,P_os\n7.5B,8,about 1\n", "t.csv:2: P_os: found 'about 1', allowed"},
        {"p,m,T_F,T_B,T_W,T_comm,hidden,heads,seq\n2,2,1,1,1,0,8,2,4\n",
         "t.csv:1: found no column of rates, known: bubble_1f1b,"},
        {"p,m,T_F,T_B,T_W,T_comm,hidden,heads,seq,bubble_none\n2,2,1,1,1,0,8,2,4,0.1\n",
         "t.csv:1: found the column 'bubble_none', known: bubble_1f1b,"},
        {"p,m,T_F,T_B,T_W,T_comm,hidden,heads,bubble_1f1b\n2,2,1,1,1,0,8,2,0.1\n",
         "t.csv:2: seq: found '', allowed: whole numbers"},
        {"p,m,T_F,T_B,T_W,T_comm,hidden,heads,seq,bubble_1f1b\n2,2,1,1,?,0,8,2,4,0.1\n",
         "t.csv:2: T_W: found '?', allowed: decimal numbers"},
        {"a,b\n1,2\n", "nothing that can be validated; expected a measured-run file"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        validate(cases[k].text, 1, cases[k].message);
}

/* Every visible row, where the published files are. */
TEST(published_tables_are_reproduced)
{
    static const char *const files[] = {"../shared/papers/zero2020_table1_memory_gb.csv",
                                        "../shared/papers/qi2024_zero_bubble_bubble_rates.csv"};
    for (int k = 0; k < 2; k++) {
        char args[400];
        FILE *f = fopen(files[k], "r");
        if (!f) {
            print_message("SKIP: %s is not there\n", files[k]);
            skip();
        }
        fclose(f);
        snprintf(args, sizeof args, "validate $P/%s --format json", files[k]);
        expect(args, 0, "\"n\": 36,");
        expect(args, 0, "\"n_beyond_digits\": 0");
    }
}

TEST_GROUP(fixture_open, fixture_close)
