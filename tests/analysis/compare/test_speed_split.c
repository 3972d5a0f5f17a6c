/* What the machine's speed explains of a difference of compute, by hand, and what compare then
 * says: docs/design/machine_speed.md. */
#include "tests/lib/unit.h"

#include <math.h>

#include "analysis/compare/speed_split.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/commands/run_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/prng.h"

TEST(the_parts_are_as_by_hand)
{
    struct lw_speed_split s = lw_speed_split_of(320, 370, 0.8);

    assert_int_equal(s.by_speed, 320 - 400);
    assert_int_equal(s.left, 400 - 370);
    s = lw_speed_split_of(320, 370, 1);
    assert_int_equal(s.by_speed, 0);
    assert_int_equal(s.left, -50);
}

TEST(what_is_not_known_is_not_split)
{
    const struct lw_speed_split cases[] = {lw_speed_split_of(320, 370, NAN),
                                           lw_speed_split_of(320, 370, 0),
                                           lw_speed_split_of(-1, 370, 0.8),
                                           lw_speed_split_of(320, -1, 0.8)};

    for (int i = 0; i < 4; i++) {
        assert_true(isnan(cases[i].compute_speed));
        assert_int_equal(cases[i].by_speed, 0);
        assert_int_equal(cases[i].left, 0);
    }
}

TEST(the_parts_add_up_to_the_picosecond)
{
    struct prng rng = prng_start("splits");

    for (int i = 0; i < 10000; i++) {
        lw_ps p = prng_in(&rng, 0, LW_PS_PER_S);
        lw_ps m = prng_in(&rng, 0, LW_PS_PER_S);
        double speed = 0.3 + (double)prng_below(&rng, 1000000) * 1e-6;
        struct lw_speed_split s = lw_speed_split_of(p, m, speed);
        assert_int_equal(s.by_speed + s.left, p - m);
        assert_true(speed > 1 ? s.by_speed >= 0 : s.by_speed <= 0);
    }
}

/* 320 us of compute predicted; measured are made 720. At 0.4 of the speed they would take 800: 480
 * too long by the machine, 80 too short by the model. The transfers are 80 apart. */
TEST_WITH(what_the_speed_explains_is_not_the_models, runs_open, fixture_close)
{
    runs_store(&runs_predicted);
    runs_store(&runs_measured);
    runs_sql("UPDATE metric SET value = value + 400000000 WHERE run = 2 AND name ="
             " 'compute_busy_ps' AND step = -1");
    EXPECT("compare 1 2", /* an older run */
           {"", 0, "the largest part of it is compute, predicted 400.000 us too short",
            .lacks = "speed"},
           {"--format json", 0, "\"compute_split\": null", {"\"machine_speed\": null"}});
    EXPECT("compare", {"", 0, "framework", .lacks = "machine"});
    runs_sql("INSERT INTO metric VALUES (2, 'machine_speed', -1, -1, 0.91),"
             " (2, 'machine_speed_p10', -1, -1, 0.86), (2, 'machine_speed_p90', -1, -1, 0.97),"
             " (2, 'compute_speed', -1, 0, 0.4), (2, 'compute_speed', -1, 1, 0.4)");
    EXPECT("compare 1 2",
           {"", 0, "in run 2 the machine ran at 0.910 (0.860 to 0.970) of the calibrated speed",
            {"of its difference -480.000 us is the machine's, +80.000 us is left to the model",
             "the largest part of it is the machine's speed in compute, predicted 480.000 us too "
             "short"}},
           {"--format json", 0,
            "\"compute_split\": {\"compute_speed\": 0.4000, \"by_speed_ns\": -480000, "
            "\"left_ns\": 80000}", {"\"machine_speed_p10\": 0.8600"}});
    EXPECT("compare", {"", 0, "0.910", {"machine"}, "framework"},
           {"--format json", 0, "\"machine_speed\": 0.9100"},
           {"--format csv", 0, "machine speed", {",0.910"}});
    runs_sql("UPDATE metric SET value = 0.5 WHERE name = 'compute_speed'"); /* -320 and -80 */
    expect("compare 1 2", 0, "of its difference -320.000 us is the machine's, -80.000 us is left");
    runs_sql("UPDATE metric SET value = 1 WHERE name = 'compute_speed'");
    expect("compare 1 2", 0, "the largest part of it is compute beyond the machine's speed");
    runs_sql("DELETE FROM metric WHERE name LIKE 'machine_speed%'"); /* no probe was calibrated */
    EXPECT("compare 1 2", {"", 0, "ran at 1.000 of the speed that its prediction assumes",
                           .lacks = "of the calibrated speed"});
    runs_sql("INSERT INTO metric VALUES (2, 'others_pct', -1, -1, 40.0)");
    EXPECT("compare 1 2", {"", 0, "was measured under load", .lacks = "left to the model"},
           {"--format json", 0, "\"compute_split\": null"});
}

/* Two executions: each one's speed, and no split, since neither predicts the other. */
TEST_WITH(two_executions_show_their_speeds, runs_open, fixture_close)
{
    runs_store(&runs_measured);
    runs_store(&runs_measured);
    runs_sql("INSERT INTO metric SELECT id, 'machine_speed', -1, -1, 1 - id / 10.0 FROM run"
             " UNION SELECT id, 'machine_speed_p10', -1, -1, 0.5 FROM run"
             " UNION SELECT id, 'machine_speed_p90', -1, -1, 1 FROM run"
             " UNION SELECT id, 'compute_speed', -1, 0, 0.5 FROM run");
    EXPECT("compare 1 2",
           {"", 0, "in run 1 the machine ran at 0.900 (0.500 to 1.000) of the calibrated speed",
            {"in run 2 the machine ran at 0.800"}, "prediction assumes"},
           {"--format json", 0, "\"compute_split\": null"});
}
