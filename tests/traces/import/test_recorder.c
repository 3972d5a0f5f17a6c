/* What lapwing_record.py writes of a loop that it knows nothing about, by torch generation and
 * wrapper: each stored recording is imported, planned and simulated. With torch at hand (python3
 * -c 'import torch') a fresh one is made as well. */
#include "tests/lib/unit.h"
#include <stdio.h>
#include <string.h>

#include "shared/files/files.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

enum { NUMEL = 199040, N_PARAMS = 29 };

static const struct {
    const char *files;
    int n_params, world_size;
    const char *strategy, *says, *next; /* next: the printed command ends so; NULL = strategy */
} loops[] = {
    {"ddp_torch2.15.rank*", N_PARAMS, 2, "--dp 2", "from a data-parallel run",
     "-w w.json --dp 2 --bucket-cap 1048576"},
    {"ddp_torch1.13.rank*", N_PARAMS, 2, "--dp 2", "from a data-parallel run",
     "-w w.json --dp 2 --bucket-cap 1048576"},
    {"fsdp1_torch2.15.rank0", 1, 2, "--dp 2 --zero 3", "FullyShardedDataParallel (FSDP1)"},
    {"fsdp2_torch2.15.rank0", N_PARAMS, 2, "--dp 2 --zero 3", "fully_shard (FSDP2)",
     "-w w.json --dp 2 --zero 3 --framework torch-fsdp2"},
    {"accumulate_torch2.15.rank0", N_PARAMS, 1, "--dp 2 --no-sync 2", "3 backward passes a step",
     "-w w.json --no-sync 2"},
    {"legacy_torch1.13.rank0", N_PARAMS, 1, "--dp 2", "stretched to what was measured",
     "-w w.json"},
};

static void check(const char *strategy, int n_params, int world_size, const char *note)
{
    struct lw_workload w;
    struct lw_err err = {0};
    char words[200];

    assert_ok(lw_workload_read(fixture_path("w.json"), &w, &err), err);
    assert_int_equal(w.n_params, n_params);
    assert_int_equal(w.n_ready, n_params);
    assert_int_equal(lw_workload_numel(&w, true), NUMEL);
    assert_int_equal(w.n_buffers, 3); /* of the BatchNorm */
    assert_int_equal(w.n_modules, 19);
    assert_int_equal(w.optimizer, LW_OPTIMIZER_ADAM);
    assert_int_equal(w.recorded.world_size, world_size);
    assert_true(n_params == 1 || strcmp(w.params[0].name, "emb.weight") == 0);
    if (!notes_say(w.notes, w.n_notes, note))
        fail_msg("no note says '%s'", note);
    lw_workload_free(&w);
    snprintf(words, sizeof words, "sim -w w.json -c dgx-a100 --as-recorded %s --no-db",
             strategy);
    lapwing(words, NULL);
}

TEST_WITH(every_stored_loop_becomes_a_workload, fixture_open, fixture_close)
{
    char words[400];

    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        snprintf(words, sizeof words, "import $R/loops/%s.json.gz -o w.json", loops[i].files);
        const char *out = lapwing(words, NULL);
        snprintf(words, sizeof words, " %s\n", loops[i].next ? loops[i].next : loops[i].strategy);
        if (!strstr(strstr(out, "next: lapwing sim -w w.json"), words))
            fail_msg("next is not with%s:\n%s", words, out);
        check(loops[i].strategy, loops[i].n_params, loops[i].world_size, loops[i].says);
    }
}

/* DDP logged 796,160 bytes in one bucket of at most 1 MiB: 199,040 floats. */
TEST_WITH(the_bucket_that_ddp_logged_is_planned, fixture_open, fixture_close)
{
    struct lw_workload w;

    lapwing("import $R/loops/ddp_torch2.15.rank*.json.gz -o w.json", NULL);
    assert_int_equal(lw_workload_read(fixture_path("w.json"), &w, NULL), LW_OK);
    assert_int_equal(w.recorded.n_buckets, 1);
    assert_int_equal(w.recorded.bucket_bytes[0], 4 * NUMEL);
    assert_int_equal(w.recorded.limit_bytes[0], 1 << 20);
    for (int32_t i = 0; i < w.n_params; i++) /* of the recorded shapes */
        assert_true(w.params[i].rows > 0 && w.params[i].numel % w.params[i].rows == 0);
    lw_workload_free(&w);
    expect("plan -w w.json --dp 2 --bucket-cap 1MiB", 0, "777.50 KiB");
    expect("plan -w w.json --dp 2 --zero 3 --shard-policy rows", 0, "rows");
}

TEST_WITH(the_sidecar_describes_links_and_wrapper, fixture_open, fixture_close)
{
    const char *out = shell("cat $R/loops/fsdp2_torch2.15.rank0.sidecar.json", NULL);
    assert_non_null(strstr(out, "\"wrapper\": \"fsdp2\""));
    assert_non_null(strstr(out, "\"ranks_per_node\": 2"));
    assert_non_null(strstr(out, "AdamW, lr "));
}

/* DDP on an H200 logged 13 and 35 buckets: under the same cap the plan has these, in this order. */
static void expect_logged_buckets(const char *recording, const char *cap)
{
    struct lw_workload w;
    struct lw_plan p;
    struct lw_err err = {0};
    char words[200];

    snprintf(words, sizeof words, "import $R/h200/%s.rank0.json.gz -o w.json --force", recording);
    lapwing(words, NULL);
    snprintf(words, sizeof words,
             "plan -w w.json -c dgx-h200 --dp 2 %s -o p.json --force", cap);
    lapwing(words, NULL);
    assert_ok(lw_workload_read(fixture_path("w.json"), &w, &err), err);
    assert_ok(lw_plan_read(fixture_path("p.json"), false, &p, &err), err);
    const struct lw_bucket_set *set = &p.sets[p.n_sets - 1];
    assert_string_equal(set->name, "rebuilt");
    assert_int_equal(set->n_buckets, w.recorded.n_buckets);
    for (int32_t b = 0; b < set->n_buckets; b++)
        assert_int_equal(p.buckets[set->first_bucket + b].bytes, w.recorded.bucket_bytes[b]);
    lw_plan_free(&p);
    lw_workload_free(&w);
}

TEST_WITH(buckets_that_ddp_logged_on_a_gpu_are_planned, fixture_open, fixture_close)
{
    expect_logged_buckets("gpt2__nccl1__capdefault", "");
    expect_logged_buckets("gpt2__nccl1__cap1", "--bucket-cap 1MiB");
    expect_logged_buckets("resnet50__nccl1__capdefault", "");
    expect_logged_buckets("resnet50__nccl1__cap1", "--bucket-cap 1MiB");
}

/* A loop of a few lines, recorded as a module around a script that does not mention it. */
TEST_WITH(with_torch_at_hand_a_script_is_recorded, fixture_open, fixture_close)
{
    int rc;

    shell("python3 -c 'import torch' 2>/dev/null", &rc);
    if (rc != 0) {
        fprintf(stderr, "python3 has no torch: no loop is recorded, the stored ones are checked\n");
        skip();
    }
    fixture_put(fixture_path("train.py"),
                "import torch\n"
                "m = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), "
                "torch.nn.Linear(16, 4))\n"
                "o = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)\n"
                "for k in range(20):\n"
                "    o.zero_grad()\n"
                "    with torch.autocast('cpu', torch.bfloat16):\n"
                "        loss = m(torch.ones(2, 8)).sum()\n"
                "    loss.backward()\n"
                "    o.step()\n");
    shell("PYTHONPATH=$P/traces python3 -m lapwing_record -o run --name tiny --steps 2,4,2,2 "
          "train.py && mv run/* . && rmdir run && $L import tiny.rank0.json.gz -o w.json",
          NULL);
    const char *out = shell("cat tiny.rank0.sidecar.json", NULL);
    assert_non_null(strstr(out, "\"autocast\": \"bfloat16\""));
    struct lw_workload w;
    assert_int_equal(lw_workload_read(fixture_path("w.json"), &w, NULL), LW_OK);
    assert_int_equal(lw_workload_numel(&w, true), 8 * 16 + 16 + 16 * 4 + 4);
    assert_int_equal(w.n_ready, 4);
    lw_workload_free(&w);
}

/* torch 2 keeps whether bucket_cap_mb was given; before, 25 given and 25 by default are the same.
 * The recorder runs beside a torch that has nothing. */
TEST_WITH(a_given_cap_of_25_is_no_default, fixture_open, fixture_close)
{
    fixture_put(fixture_path("cap.py"),
                "import sys\n"
                "from unittest.mock import MagicMock\n"
                "for name in ('torch', 'torch.distributed', 'torch.nn', 'torch.autograd',\n"
                "             'torch.autograd.profiler'):\n"
                "    sys.modules[name] = MagicMock()\n"
                "import lapwing_record as r\n"
                "class Ddp:\n"
                "    def __init__(self, cap, **more):\n"
                "        self.bucket_bytes_cap = cap << 20\n"
                "        self.__dict__.update(more)\n"
                "print(r.cap_is_explicit(Ddp(25, bucket_bytes_cap_default=False)),\n"
                "      r.cap_is_explicit(Ddp(25, bucket_bytes_cap_default=True)),\n"
                "      r.cap_is_explicit(Ddp(25)), r.cap_is_explicit(Ddp(5)))\n"
                "class FSDPModule: pass\n"
                "class FSDPBlock(FSDPModule): pass\n"
                "class Model:\n"
                "    def named_modules(self):\n"
                "        return [('', FSDPBlock()), ('0', FSDPBlock()), ('0.fc', Ddp(1)),\n"
                "                ('1', FSDPBlock())]\n"
                "print(r.fsdp_units(Model()))\n");
    const char *out = shell("PYTHONPATH=$P/traces python3 cap.py", NULL);
    if (strcmp(out, "True False False True\n['0', '1']\n") != 0)
        fail_msg("%s", out);
}

/* The sidecar says what was wrapped, and the import how to say it. */
TEST_WITH(wrapped_modules_are_named, fixture_open, fixture_close)
{
    const char *out =
        shell("cp $R/loops/fsdp2_torch2.15.rank0.json.gz u.rank0.json.gz && "
              "sed 's/\"wrapper\": *\"fsdp2\",/& \"fsdp_units\": [\"a\", \"b.0\"],/' "
              "$R/loops/fsdp2_torch2.15.rank0.sidecar.json > u.rank0.sidecar.json && "
              "grep -c fsdp_units u.rank0.sidecar.json && $L import u.rank0.json.gz -o u.json",
              NULL);
    if (!strstr(out, "plan it with --units a,b.0"))
        fail_msg("%s", out);
}
