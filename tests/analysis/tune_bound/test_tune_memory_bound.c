/* The bounds of options that change what a device holds or when it computes: none is above what it
 * bounds. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/csv_cells.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/prng.h"

/* Every row is simulated and fits, so that no bound hides one. Their number. */
static int check_rows(const char *args)
{
    char command[1400];
    int n = 0, rc;

    snprintf(command, sizeof command, "$L tune %s --no-bounds --no-db --format csv -q 2>/dev/null",
             args);
    char *csv = strdup(shell(command, &rc));
    assert_in_range(rc, 0, 1); /* none is valid */
    for (const char *c = csv; *c; c++)
        n += *c == '\n';
    for (int line = 1; line < n; line++)
        if (csv_figure(csv, line, "bound_ns") > csv_figure(csv, line, "step_ns") ||
            csv_figure(csv, line, "needed_bound_bytes") > csv_figure(csv, line, "needed_bytes"))
            fail_msg("%s: bound %lld of step %lld, bytes %lld of %lld: %s", args,
                     (long long)csv_figure(csv, line, "bound_ns"),
                     (long long)csv_figure(csv, line, "step_ns"),
                     (long long)csv_figure(csv, line, "needed_bound_bytes"),
                     (long long)csv_figure(csv, line, "needed_bytes"), csv_cell(csv, line, 0));
    free(csv);
    return n > 0 ? n - 1 : 0;
}

static void check_bounds(const char *args, int n_rows)
{
    int n = check_rows(args);

    if (n != n_rows)
        fail_msg("%s: %d rows of %d", args, n, n_rows);
}

TEST_WITH(an_optimizer_on_the_host_takes_no_device_memory, fixture_open, fixture_close)
{
    check_bounds("-w gpt2 -c dgx-a100 --ranks 8 --global-batch 8 --batch 1 --tp 1 --pp 1,2 "
                 "--zero 0,1,2,3 --recompute none,full --schedule 1f1b "
                 "--overlap-param-gather off --offload none,optimizer",
                 32);
}

#define ON_THE_HOST                                                                              \
    "-w llama-3-8b -c dgx-h200 --ranks 8 --global-batch 8 --batch 1 --tp 1,2 --pp 1 --zero 1,2,3 " \
    "--recompute full --overlap-param-gather off --offload "

TEST_WITH(updates_of_the_host_are_bounded, fixture_open, fixture_close)
{
    check_bounds(ON_THE_HOST "update", 18);
}

static long long bound_of(const char *offload)
{
    const char *csv = shellf("$L tune -w llama-3-8b -c dgx-h200 --ranks 8 --global-batch 8 "
                             "--batch 1 --tp 1 --cp 1 --pp 1 --zero 1 --recompute full "
                             "--overlap-param-gather off --offload %s --no-bounds --no-db "
                             "--format csv -q", offload);

    return (long long)csv_figure(csv, 1, "bound_ns");
}

/* A rank's 8,030,261,248 / 8 elements: 28 bytes at 0.426 of 614.4 GB/s / 8 take 859.1 ms, and 4
 * bytes over a link of 64 GB/s 62.7 ms, in place of the device's own update, which takes more than
 * 28 bytes at 4.8 TB/s, 5.8 ms, and less than twice that. */
TEST_WITH(a_bound_has_the_hosts_update, fixture_open, fixture_close)
{
    assert_in_range(bound_of("update") - bound_of("none"), 921700000 - 11700000,
                    921900000 - 5800000);
}

TEST_WITH(recomputed_groups_of_layers_keep_one_input_each, fixture_open, fixture_close)
{
    check_bounds("-w llama-2-7b -c dgx-a100 --ranks 16 --global-batch 8 --batch 1 --tp 8 --cp 2 "
                 "--pp 1 --zero 1 --recompute full --recompute-layers 1,4,8,16 "
                 "--recompute-method uniform,block --schedule 1f1b --sequence-parallel off "
                 "--overlap-param-gather off",
                 8);
}

#define SMALL                                                                                     \
    "-w decoder --layers 8 --hidden 512 --heads 8 --vocab 4096 --seq 512 --ranks 16 --cp 1 "      \
    "--overlap-param-gather off "

/* Two directions, and units of a forward and a backward, whole ones among halves. */
TEST_WITH(two_directions_and_units, fixture_open, fixture_close)
{
    check_bounds(SMALL "-c dgx-a100 --framework megatron-lm --global-batch 64 --batch 1 --tp 2 "
                       "--sequence-parallel on --pp 2,4 --zero 0,1,2,3 --recompute none,full "
                       "--schedule dualpipe,dualpipev", 32);
}

/* In a V the first backward of the second rank repeats its last block while the head computes. */
TEST_WITH(a_first_backward_repeats_before_its_gradient, fixture_open, fixture_close)
{
    check_bounds(SMALL "-c dgx-h100 --framework megatron-mlperf-one-layout --global-batch 32 "
                       "--batch 2 --tp 4 --sequence-parallel on --pp 2 --zero 0 --recompute full "
                       "--schedule zbv,zbv-auto --partition uniform", 2);
}

/* Muon has one tensor of state of a matrix. */
TEST_WITH(the_state_of_muon, fixture_open, fixture_close)
{
    check_bounds(SMALL "-c dgx-a100 --framework megatron-lm --global-batch 16 --batch 1 --tp 2 "
                       "--sequence-parallel off --pp 2 --zero 0 --recompute none,full "
                       "--schedule 1f1b,gpipe --optimizer muon", 4);
}

/* Under ZeRO-3 the gathered weights: one module's while it computes, and without --reshard all
 * of a stage when a forward ends. 6,738,415,616 parameters of 16 bits are 13.5 GB. */
TEST_WITH(gathered_weights_take_memory, fixture_open, fixture_close)
{
#define GATHERED "-w llama-2-7b -c dgx-h100 --ranks 16 --global-batch 32 --batch 1 --zero 3 "     \
                 "--recompute none,full --tp 1 --schedule 1f1b "
    check_bounds(GATHERED "--framework megatron-lm --pp 1,2", 4);
    check_bounds(GATHERED "--framework fsdp --pp 1 --reshard on,off", 4);
    char *csv = strdup(shell("$L tune " GATHERED "--framework fsdp --pp 1 --reshard off "
                             "--no-bounds --no-db --format csv -q 2>/dev/null", NULL));
    for (int line = 1; line <= 2; line++)
        assert_true(csv_figure(csv, line, "needed_bound_bytes") > 2 * INT64_C(6738415616));
    free(csv);
#undef GATHERED
}

/* A buffer of fixed size takes the gradients of a pipeline under ZeRO-2. */
TEST_WITH(gradients_in_a_buffer_of_fixed_size, fixture_open, fixture_close)
{
    check_bounds(SMALL "-c dgx-a100 --framework internevo --global-batch 16 --batch 1 --tp 4 "
                       "--sequence-parallel on --pp 2 --zero 1,2 --recompute none --schedule 1f1b "
                       "--tied", 2);
}

/* With --etp 1 four ranks have a copy of an expert's weights, two of the others. */
TEST_WITH(experts_have_more_copies_than_a_group, fixture_open, fixture_close)
{
    check_bounds(SMALL "-c gb300 --framework torch-ddp --global-batch 32 --batch 1 --experts 8 "
                       "--topk 2 --expert-ffn 512 --tp 4 --pp 2 --ep 2 --etp 1 --zero 1,3 "
                       "--zero-group 2 --recompute none --schedule 1f1b --sequence-parallel off",
                 2);
}

/* One of the words, which are separated by '|'. */
static void put_one(struct prng *r, char *args, size_t size, const char *option,
                    const char *words)
{
    size_t at = strlen(args);
    int n = 1;

    for (const char *c = words; *c; c++)
        n += *c == '|';
    for (int skip = prng_below(r, n); skip > 0; skip--)
        words = strchr(words, '|') + 1;
    if (*words != '|' && *words)
        snprintf(args + at, size - at, "%s %.*s ", option, (int)strcspn(words, "|"), words);
}

/* Most options are left out of most draws. */
TEST_WITH(no_bound_of_random_strategies_is_above, fixture_open, fixture_close)
{
    static const struct {
        const char *option, *words;
    } options[] = {
        {"-w decoder --layers 8 --hidden 512 --heads 8",
         "--vocab 4096|--vocab 32000 --tied|--vocab 4096 --experts 8 --topk 2 --expert-ffn 512 "
         "--ep 1,2"},
        {"-c", "dgx-a100|dgx-h100|gb300|p4d"},
        {"--framework",
         "deepspeed|fsdp|ideal|internevo|maxtext|megatron-bridge|megatron-deepspeed|megatron-lm|"
         "megatron-lm-2021|megatron-mlperf|nanotron|nemo|oneflow|torch-ddp|torch-fsdp2|"
         "torch-pipelining|torchtitan"},
        {"--ranks", "8|16"},
        {"--global-batch", "16|32|64"},
        {"--batch", "1|2"},
        {"--seq", "512|1024"},
        {"--tp", "1|2|4"},
        {"--pp", "1|2|4"},
        {"--cp", "1|1|1|2"},
        {"--zero", "0,1,2,3"},
        {"--schedule", "gpipe,zbv|1f1b,zb-h1|interleaved-1f1b,v-half|interleaved-zb,dualpipe|"
                       "looped-bfs,dualpipev|zb-h2,zbv-auto|zb-auto-2p,v-min|colossal-1f1b"},
        {"--chunks", "2"},
        {"--recompute", "none|selective|full|full --recompute-layers 1|full --recompute-layers 2 "
                        "--recompute-method block"},
        {"--sequence-parallel", "on|off"},
        {"--overlap-param-gather", "on|off"},
        {"--offload", "|||optimizer|activations"},
        {"--optimizer", "|||muon|sgd|momentum"},
        {"--bucket-cap", "|||1MiB|64KiB|256MiB"},
        {"--partition", "|||uniform|pipedream"},
        {"--grad-dtype", "|||f32|bf16"},
        {"--shard-policy", "||||lpt|per-tensor"},
        {"--zero-group", "||||2"},
        {"--reshard", "||||off"},
        {"--async-messages", "|||off"},
        {"--expert-overlap", "|||on|off"},
        {"--dispatcher", "|||all-to-all|auto,all-to-all"},
    };
    struct prng r = prng_start("no_bound_of_random_strategies_is_above");
    int n_draws = getenv("LAPWING_MANY") ? 600 : 30, n_rows = 0;

    for (int i = 0; i < n_draws; i++) {
        char args[1200] = "";
        for (size_t k = 0; k < sizeof options / sizeof *options; k++)
            put_one(&r, args, sizeof args, options[k].option, options[k].words);
        n_rows += check_rows(args);
    }
    assert_true(n_rows > n_draws); /* some draws have no valid strategy */
}
