/* Searches with noise: ranked by the p90 of samples, equal to drawing all samples of all
 * strategies. */
#include "tests/lib/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/tune_bound/tune_noise.h"
#include "shared/numbers/units.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/tune_help.h"
#include "tests/lib/files/csv_cells.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/files/sql_file.h"
#include "tests/lib/prng.h"
#include "tests/lib/sim/sim_help.h"

/* A small space at random, without noise: 4 to 20 strategies, twice as many with experts. Draws
 * take turns in what makes them longer and not different: tensor groups, caps and layers. */
static void draw_space(struct prng *r, char *out, size_t size)
{
    snprintf(out, size,
             "-w decoder --layers %s --hidden 512 --heads 8 --seq 512 --vocab 4096 %s -c %s "
             "--global-batch %s --ranks 8 --batch 1 --tp %s --pp %s --zero %s --recompute none "
             "--schedule %s --chunks 2 --sequence-parallel off --overlap-param-gather off "
             "--bucket-cap %s",
             tune_one_of(r, "8|8|8|16"),
             tune_one_of(r, "|--experts 8 --topk 2 --expert-ffn 512 --ep 1,2"),
             tune_one_of(r, "dgx-a100|dgx-h100|gb300"), tune_one_of(r, "16|32"),
             tune_one_of(r, "1|2|4|1,2"),
             tune_one_of(r, "1,2,4|2,4|1,4"), tune_one_of(r, "0,3|1,2|0,1"),
             tune_one_of(r, "1f1b,interleaved-1f1b|gpipe,zb-h1|1f1b,zb-v"),
             tune_one_of(r, "8MiB|1MiB"));
}

/* Without bounds all samples of each strategy are drawn. */
TEST_WITH(equal_to_drawing_all_samples, fixture_open, fixture_close)
{
    static const char *const noises[] = {"--noise 0.01 --samples 12", "--noise 0.1 --samples 7",
                                         "--noise 0.04 --rank-noise 0.03 --samples 11 --seed 9",
                                         "--rank-noise 0.05 --samples 1",
                                         "--noise 0.5 --samples 3"};
    struct prng r = prng_start("equal_to_drawing_all_samples");
    int n_draws = getenv("LAPWING_MANY") ? 60 : 5;

    for (int i = 0; i < n_draws; i++) {
        char space[600], args[800];
        draw_space(&r, space, sizeof space);
        snprintf(args, sizeof args, "%s %s --best %d", space, noises[i % 5], 1 + i % 4);
        char *found = tune_best_of(args);
        strcat(args, " --no-bounds");
        char *all = tune_best_of(args);
        if (strcmp(found, all) != 0)
            fail_msg("%s: %s\n%s", args, found, all);
        free(found);
        free(all);
    }
}

/* Every strategy is simulated and drawn in full: none of its samples' p90 is below its bound. */
TEST_WITH(no_bound_is_above_p90, fixture_open, fixture_close)
{
    static const char *const noises[] = {"0.001", "0.03", "0.15"};
    struct prng r = prng_start("no_bound_is_above_p90");
    int n_draws = getenv("LAPWING_MANY") ? 100 : 3, n_rows = 0;

    for (int i = 0; i < n_draws; i++) {
        char space[600];
        draw_space(&r, space, sizeof space);
        char *csv = strdup(lapwingf("tune %s --noise %s --samples 1 --seed %d --no-bounds --no-db "
                                    "--format csv -q", space, noises[i % 3], i));
        for (int line = 1, end = csv_n_lines(csv); line < end; line++, n_rows++)
            if (csv_figure(csv, line, "bound_ns") > csv_figure(csv, line, "step_p90_ns") ||
                csv_figure(csv, line, "bound_ns") <= 0)
                fail_msg("%s, noise %s, seed %d: %s: bound %lld of p90 %lld", space, noises[i % 3],
                         i, csv_cell(csv, line, 0), (long long)csv_figure(csv, line, "bound_ns"),
                         (long long)csv_figure(csv, line, "step_p90_ns"));
        free(csv);
    }
    assert_true(n_rows > 10);
}

/* The bound of 1 s where each op takes at least 1 - 6 x 0.02 of its time and ranks at least
 * 1 - 6 x 0.05 of theirs: 0.88 x 0.7 = 0.616, less 1e-8 of it all and one picosecond an op. */
TEST(a_bound_falls_by_the_least_draw)
{
    struct lw_cluster c;
    struct lw_tune_noise n = {.sigma = 0.02, .rank_sigma = 0.05, .seed = -1};
    struct lw_err err = {0};

    make_cluster(&c, 2, 50e9, 0);
    assert_int_equal(lw_tune_noise_bound(&n, &c, LW_PS_PER_S, 1000), LW_PS_PER_S); /* not on */
    lw_tune_noise_complete(&n);
    assert_int_equal(n.n_samples, LW_TUNE_SAMPLES);
    lw_ps least = lw_tune_noise_bound(&n, &c, LW_PS_PER_S, 1000);
    assert_in_range(616 * LW_PS_PER_MS - 10000 - 1000 - least, 0, 1);
    n.sigma = 0.2;
    assert_int_equal(lw_tune_noise_bound(&n, &c, LW_PS_PER_S, 1000), 0);
    n.sigma = n.rank_sigma = 0;
    assert_int_equal(lw_tune_noise_check(&n, &c, &err), LW_EINVAL);
    lw_cluster_free(&c);
}

#define SMALL                                                                                     \
    "-w gpt2 --layers 4 -c dgx-a100 --ranks 8 --global-batch 16 --batch 1,2 --tp 1,2 "            \
    "--recompute none --schedule 1f1b,zb-h1 --best 4 --interference off -q "

/* The printed commands of rows, as they are typed. */
TEST_WITH(the_command_of_a_row_draws_its_samples, fixture_open, fixture_close)
{
    static const char *const noises[] = {"--noise 0.03 --samples 12", "--noise 0.07 --seed 5",
                                         "--rank-noise 0.012345678901234 --samples 3 --noise 1e-3"};

    for (size_t i = 0; i < 3; i++) {
        char *csv = strdup(lapwingf("tune " SMALL "%s --no-db --format csv", noises[i]));
        assert_true(csv_n_lines(csv) > 4);
        for (int line = 1; line < 4; line++) {
            char words[900];
            snprintf(words, sizeof words, "%s --no-db --format json",
                     csv_cell(csv, line, csv_column(csv, "command")) + strlen("lapwing "));
            const char *json = lapwing(words, NULL);
            assert_int_equal((int64_t)number_after(json, "\"step_ns\": "),
                             csv_figure(csv, line, "step_ns"));
            assert_int_equal((int64_t)number_after(json, "\"step_p90_ns\": "),
                             csv_figure(csv, line, "step_p90_ns"));
            assert_int_equal((int64_t)number_after(json, "\"n_samples\": "),
                             i == 0 ? 12 : i == 1 ? LW_TUNE_SAMPLES : 3);
        }
        free(csv);
    }
}

/* Noise of the cluster's file is drawn as `sim` draws it: with --samples or --seed. */
TEST_WITH(a_cluster_has_noise_of_its_own, fixture_open, fixture_close)
{
    shell("$L cluster dgx-a100 -o c.json && sed -i 's/^{/{\"noise\": {\"compute_sigma\": "
          "{\"value\": 0.05, \"source\": \"test\"}, \"comm_sigma\": {\"value\": 0.02, "
          "\"source\": \"test\"}},/' c.json", NULL);
    for (int i = 0; i < 2; i++) {
        char *json = strdup(lapwingf("tune -w gpt2 -c c.json --ranks 4 --global-batch 16 --batch 1 "
                                     "--tp 1 --pp 1,2 --recompute none --best 2 --no-db -q "
                                     "--format json %s", i ? "--seed 3" : "--samples 6"));
        const char *at = strstr(json, "\"best\"");
        char words[900];
        const char *command = strstr(at, "\"command\": \"lapwing ") + 20;
        snprintf(words, sizeof words, "%.*s --no-db --format json", (int)strcspn(command, "\""),
                 command);
        const char *sim = lapwing(words, NULL);
        assert_true(number_after(sim, "\"step_p90_ns\": ") > 0);
        assert_true(number_after(sim, "\"step_p90_ns\": ") ==
                    number_after(at, "\"step_p90_ns\": "));
        assert_true(number_after(sim, "\"step_ns\": ") == number_after(at, "\"step_ns\": "));
        free(json);
    }
}

/* Without what may differ. */
#define LESS "| sed -e '/\"wall_s\"/d' -e '/\"search\"/d'"
#define NOISY SMALL "--noise 0.04 --samples 10 --format json "

TEST_WITH(threads_change_nothing, fixture_open, fixture_close)
{
    char *one = strdup(shell("$L tune " NOISY "--no-db --threads 1 " LESS, NULL));

    assert_string_equal(shell("$L tune " NOISY "--no-db --threads 3 " LESS, NULL), one);
    free(one);
}

/* Printed again, gone on with for more of the best, and put together of shards. */
TEST_WITH(a_stored_search_has_its_samples, fixture_open, fixture_close)
{
    for (int i = 0; i < 2; i++) {
        char *printed = strdup(lapwingf("tune " SMALL "--noise 0.04 --samples 10 --db p.db %s",
                                        i ? "--format csv" : ""));
        assert_string_equal(lapwingf("runs --db p.db --search last %s", i ? "--format csv" : ""),
                            printed);
        free(printed);
    }
    char *one = strdup(shell("$L tune " NOISY "--db one.db " LESS, NULL));
    assert_non_null(strstr(one, "\"step_p90_ns\": "));
    double step = number_after(strstr(one, "\"best\""), "\"step_ns\": ");
    const char *listed = lapwing("runs --searches --db one.db --format json", NULL);
    assert_true(number_after(listed, "\"step_ns\": ") == step);
    assert_true(number_after(strstr(one, "\"best\""), "\"step_p90_ns\": ") != step);
    for (int i = 1; i <= 3; i++) {
        shellf("$L tune " NOISY "--shard %d/3 --db s%d.db", i, i);
        shellf("$L runs --merge s%d.db --db all.db", i);
    }
    assert_string_equal(shell("$L tune " NOISY "--resume --db all.db " LESS, NULL), one);
    assert_string_equal(shell("$L tune " NOISY "--resume --db all.db " LESS, NULL), one);
    shell("$L tune " NOISY "--best 9 --db few.db", NULL);
    assert_string_equal(shell("$L tune " NOISY "--resume --db few.db " LESS, NULL), one);
    has(lapwing("runs --search last --losers --db one.db", NULL), ": p90 ");
    has(shell("$L plot tune --db one.db -o t.gp >&2 && cat t.gp", NULL), "'p90 of the step [ms]'");
    free(one);
}

/* The database has a search, which goes on. */
static bool is_searched(const char *db)
{
    return access(db, F_OK) == 0 && sql_ask(db, "PRAGMA user_version") > 0 &&
           sql_ask(db, "SELECT count(*) FROM search") > 0;
}

/* Interrupted before a strategy has all of its samples: none is known, and it says so. */
TEST_WITH(an_interrupted_search_has_no_part_of_a_sample, fixture_open, fixture_close)
{
    const char *db = fixture_path("i.db");

    shell("($L tune " SMALL "--noise 0.04 --samples 900000 --db i.db >i.txt 2>&1 & echo $! >pid; "
          "wait; touch ended) >/dev/null 2>&1 &", NULL);
    for (int i = 0; i < 3000 && !is_searched(db); i++)
        usleep(10000);
    shell("kill -INT $(cat pid); for i in $(seq 6000); do [ -e ended ] && break; sleep 0.01; done; "
          "ls ended", NULL);
    const char *text = shell("cat i.txt", NULL);
    has(text, "\n0 simulated, ");
    has(text, "--resume goes on");
    has(text, "ranked by the p90 of samples");
    has(lapwing("runs --search last --db i.db", NULL), "ranked by the p90 of samples");
}

TEST_WITH(bad_input_is_one_line, fixture_open, fixture_close)
{
    shell("$L tune " SMALL "--noise 0.04 --samples 10 --db a.db", NULL);
    EXPECT("tune " SMALL,
           {"--noise 2", 2, "--noise: '2' is not a number from 0 to 1"},
           {"--samples 0 --noise 0.1", 2, "--samples"},
           {"--samples 5 --no-db", 1, "cluster 'dgx-a100' has no noise, and no --noise or "
                                      "--rank-noise is given"},
           {"--seed 5 --no-db", 1, "leave out --samples and --seed"},
           {"--noise 0 --samples 5 --no-db", 1, "cluster 'dgx-a100' has no noise, and --noise is 0",
            {"give --noise X above 0"}},
           {"--rank-noise 0 --samples 5 --no-db", 1, "and --rank-noise is 0"},
           {"--noise 0 --rank-noise 0 --seed 5 --no-db", 1, "and --noise and --rank-noise are 0"},
           {"--iterations 5", 2, "iterations"},
           {"--noise 0.04 --samples 11 --resume --db a.db", 1,
            "--resume: no search of this space; the last one, search 1, has '--samples 10' where "
            "this one has '--samples 11'"},
           {"--resume --db a.db", 1, "--resume: no search of this space"});
    expect("tune --here --noise 0.1", 2, "--here does not go with --noise");
    expect("tune --here --rank-noise 0.1", 2, "--here does not go with --rank-noise");
    expect("tune --here --samples 9", 2, "--here does not go with --samples");
    expect("tune " SMALL "--repeats 3", 2, "--repeats goes with --here");
}
