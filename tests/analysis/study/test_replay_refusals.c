/* What cannot be answered is refused with its own reason and what to do instead, and no run says
 * that it took recorded times where it took others. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

#define TRACES "$P/../shared/traces/"

static void need_traces(void)
{
    if (access("../shared/traces/chakra", R_OK) == 0)
        return;
    print_message("SKIP: ../shared/traces is absent\n");
    skip();
}

TEST_WITH(a_trace_of_nothing_is_refused_by_every_reader, fixture_open, fixture_close)
{
    static const char *const commands[] = {"inspect", "inspect --report", "import -o w.json",
                                           "import --cluster-out c.json", "sim --no-db --replay"};

    fixture_put(fixture_path("list.json"), "[]");
    fixture_put(fixture_path("object.json"), "{\"traceEvents\": []}");
    fixture_put(fixture_path("names.json"),
                "[{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": 1, \"args\": {}}]");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        expectf(1, "list.json: its list of events is empty", "%s list.json", commands[i]);
        expectf(1, "object.json: its list of events is empty", "%s object.json", commands[i]);
        expectf(1, "names.json: of its 1 events none is an op", "%s names.json", commands[i]);
    }
}

TEST_WITH(one_rank_is_told_what_makes_a_plan_of_more, fixture_open, fixture_close)
{
    EXPECT("sim --no-db --replay $R/gpt6__local.rank0.json.gz",
           {"--ranks 8", 1, "shows one rank and no collective", {"lapwing sim -w W.json"}},
           {"-c dgx-a100 --as-recorded", 1, "a run of one rank launches none",
            {"lapwing sim -w W.json -c dgx-a100 --dp N"}},
           {"--bucket-cap 1MiB", 1, "a run of one rank launches none"},
           {"--device dgx-h100", 1, "holds no kernel of a device",
            {"'AMD EPYC'"}, "is not a known device"});
}

TEST_WITH(a_graph_of_one_rank_takes_the_ranks_that_are_given, fixture_open, fixture_close)
{
    need_traces();
    EXPECT("sim --no-db --replay " TRACES "chakra/megatron_tp2_rank0.et.gz",
           {"--ranks 2", 1, "do not contain the number of ranks", {"(-c CLUSTER)"}},
           {"-c dgx-a100 --as-recorded", 1, "give the files of all ranks, or --ranks N"},
           {"--ranks 2 -c dgx-a100 --as-recorded", 0,
            "on cluster 'recorded with the network of dgx-a100'",
            {"13 collectives whose number of ranks is not recorded have 2"},
            "collectives keep their recorded times"});
    /* both files: the same network, and so the same times */
    const char *out = lapwing("sim --no-db -q --replay " TRACES "chakra/megatron_tp2_rank0.et.gz "
                              "--ranks 2 -c dgx-a100 --as-recorded --format json", NULL);
    double alone = number_after(out, "\"step_ns\": ");
    out = lapwing("sim --no-db -q --replay " TRACES "chakra/megatron_tp2_rank0.et.gz " TRACES
                  "chakra/megatron_tp2_rank1.et.gz -c dgx-a100 --as-recorded --format json", NULL);
    assert_true(alone == number_after(out, "\"step_ns\": "));
    has(out, "recorded with the network of dgx-a100");
    has(out, "recorded times, or those of the what-if");
}

/* An option of a plan alone changes nothing in a replay. */
TEST_WITH(options_of_a_plan_alone_are_refused, fixture_open, fixture_close)
{
    EXPECT("sim --no-db --replay $R/gpt6__local.rank0.json.gz",
           {"--node-gbps 10", 2, "--node-gbps is for a plan", {"lapwing cluster NAME -o FILE"}},
           {"--interference off", 2, "--interference is for a plan: a replay has recorded times"},
           {"--published-interference", 2, "--published-interference is for a plan"},
           {"--max-ops 1", 2, "--max-ops limits a plan that is made"},
           {"--price 2", 2, "--price is for a plan: a replay does not know the tokens"});
}

TEST_WITH(a_step_of_negative_duration_is_refused, fixture_open, fixture_close)
{
    static const char event[] = "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,"
                                "\"tid\":1,\"ts\":%d,\"dur\":%d}%s";
    static const struct {
        const char *cat, *name;
        int ts, dur;
    } of[] = {{"user_annotation", "ProfilerStep#0", 0, 50}, {"cpu_op", "aten::mm", 10, 5},
              {"user_annotation", "ProfilerStep#1", 60, -50}, {"cpu_op", "aten::mm", 70, 5},
              {"user_annotation", "ProfilerStep#2", 120, 50}, {"cpu_op", "aten::mm", 130, 5}};
    char text[2000] = "{\"traceEvents\": [";

    for (int i = 0; i < 6; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, event, of[i].cat, of[i].name, of[i].ts, of[i].dur,
                 i < 5 ? "," : "]}");
    }
    fixture_put(fixture_path("t.json"), text);
    expect("sim --no-db --replay t.json", 1,
           "t.json: 'ProfilerStep#1' lasts no time (negative durations count as 0)");
    expect("inspect t.json", 0, "1 negative durations taken as 0");
}

TEST_WITH(a_trace_without_a_host_is_for_inspect_alone, fixture_open, fixture_close)
{
    fixture_put(fixture_path("t.json"),
                "{\"traceEvents\": [{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,"
                "\"tid\":7,\"ts\":1,\"dur\":1,\"args\":{\"stream\":7}}]}");
    const char *out = shell("$L import t.json -o w.json || true", NULL);
    has(out, "inspect takes this file as it is");
    expect("inspect t.json", 0, "1 events");
    expect("sim --no-db --replay t.json", 1, "no event of the host");
}
