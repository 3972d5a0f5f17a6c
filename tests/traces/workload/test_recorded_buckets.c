/* The plan's buckets are those that DistributedDataParallel itself logged in our recordings:
 * each traces/recorded/MODEL__gloo2__CAP is imported, planned with the caps that its sidecar
 * records, and compared gradient by gradient. The recording of one process alone, planned for
 * two, gives the same bucket sizes: what a user who records before buying gets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "shared/files/files.h"
#include "shared/io/input.h"
#include "shared/json/json.h"
#include "shared/lower/lower.h"

enum { MAX_BUCKETS = 64, MAX_PARAMS = 256 };

struct logged {
    bool explicit_cap;
    int64_t cap_bytes, bytes[MAX_BUCKETS];
    int32_t n_buckets, n_sizes, n_items, first[MAX_BUCKETS + 1], items[MAX_PARAMS];
};

static void read_logged(struct lw_json *j, struct logged *out)
{
    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j)) {
        if (lw_json_key_is(j, "rebuilt_bucket_sizes_bytes") && lw_json_enter(j, LW_JSON_ARRAY)) {
            while (lw_json_next(j))
                out->bytes[out->n_sizes++] = lw_json_int64(j);
        } else if (lw_json_key_is(j, "rebuilt_per_bucket_param_indices") &&
                   lw_json_enter(j, LW_JSON_ARRAY)) {
            while (lw_json_next(j)) {
                assert_true(lw_json_enter(j, LW_JSON_ARRAY));
                while (lw_json_next(j))
                    out->items[out->n_items++] = (int32_t)lw_json_int64(j);
                out->first[++out->n_buckets] = out->n_items;
            }
        }
    }
}

static struct logged read_sidecar(const char *stem)
{
    struct logged out = {0};
    char file[256];
    struct lw_input in;
    struct lw_json *j;
    struct lw_err err = {0};

    snprintf(file, sizeof file, "%s.sidecar.json", stem);
    assert_ok(lw_input_read(file, 0, &in, &err), err);
    assert_int_equal(lw_json_open(file, in.text, in.len, &j, &err), LW_OK);
    assert_true(lw_json_enter(j, LW_JSON_OBJECT));
    while (lw_json_next(j)) {
        if (!lw_json_key_is(j, "ddp") || !lw_json_enter(j, LW_JSON_OBJECT))
            continue;
        while (lw_json_next(j)) {
            if (lw_json_key_is(j, "bucket_cap_explicit"))
                out.explicit_cap = lw_json_bool(j);
            else if (lw_json_key_is(j, "bucket_cap_mb"))
                out.cap_bytes = lw_json_int64(j) << 20;
            else if (lw_json_key_is(j, "logged"))
                read_logged(j, &out);
        }
    }
    assert_ok(lw_json_done(j, &err), err);
    lw_json_close(j);
    lw_input_free(&in);
    assert_true(out.n_buckets > 0 && out.n_buckets == out.n_sizes);
    return out;
}

/* Import a recording with the program under test and plan it for two ranks. */
static struct lw_plan plan_recording(const char *stem, const struct logged *how)
{
    char file[] = "/tmp/lapwing-recorded-XXXXXX", command[1024];
    struct lw_workload w = {0};
    struct lw_strategy s = lw_strategy_default();
    struct lw_plan p = {0};
    struct lw_err err = {0};
    int fd = mkstemp(file);

    assert_true(fd >= 0);
    close(fd);
    snprintf(command, sizeof command, "%s import %s.json.gz -o %s >/dev/null",
             getenv("LAPWING") ? getenv("LAPWING") : "build/lapwing", stem, file);
    assert_int_equal(system(command), 0);
    assert_ok(lw_workload_read(file, &w, &err), err);
    unlink(file);
    s.dp = 2;
    if (how->explicit_cap)
        s.bucket_cap_bytes = how->cap_bytes;
    if (lw_plan_build(&w, &s, NULL, &p, &err) != LW_OK)
        fail_msg("%s: %s", stem, err.msg);
    lw_workload_free(&w);
    return p;
}

static const struct lw_bucket_set *rebuilt(const struct lw_plan *p)
{
    for (int32_t s = 0; s < p->n_sets; s++)
        if (strcmp(p->sets[s].name, "rebuilt") == 0)
            return &p->sets[s];
    fail_msg("the plan has no rebuilt buckets");
    return NULL;
}

static const char *const models[] = {"resnet18", "gpt6"};
static const char *const caps[] = {"capdefault", "cap1", "cap5", "cap25"};

TEST(buckets_equal_those_that_ddp_logged)
{
    for (int i = 0; i < 8; i++) {
        char stem[128];
        snprintf(stem, sizeof stem, "traces/recorded/%s__gloo2__%s.rank0", models[i / 4],
                 caps[i % 4]);
        struct logged l = read_sidecar(stem);
        struct lw_plan p = plan_recording(stem, &l);
        const struct lw_bucket_set *set = rebuilt(&p);
        if (set->n_buckets != l.n_buckets)
            fail_msg("%s: %d buckets, DDP logged %d", stem, set->n_buckets, l.n_buckets);
        for (int32_t b = 0; b < l.n_buckets; b++) {
            const struct lw_bucket *k = &p.buckets[set->first_bucket + b];
            assert_int_equal(k->bytes, l.bytes[b]);
            assert_int_equal(k->n_slots, l.first[b + 1] - l.first[b]);
            for (int32_t s = 0; s < k->n_slots; s++)
                assert_int_equal(p.slots[k->first_slot + s], l.items[l.first[b] + s]);
        }
        lw_plan_free(&p);
    }
}

TEST(one_process_alone_predicts_the_sizes_that_two_logged)
{
    for (int i = 0; i < 8; i++) {
        char stem[128], local[128];
        snprintf(stem, sizeof stem, "traces/recorded/%s__gloo2__%s.rank0", models[i / 4],
                 caps[i % 4]);
        snprintf(local, sizeof local, "traces/recorded/%s__local.rank0", models[i / 4]);
        struct logged l = read_sidecar(stem);
        struct lw_plan p = plan_recording(local, &l);
        const struct lw_bucket_set *set = rebuilt(&p);
        assert_int_equal(set->n_buckets, l.n_buckets);
        for (int32_t b = 0; b < l.n_buckets; b++)
            assert_int_equal(p.buckets[set->first_bucket + b].bytes, l.bytes[b]);
        lw_plan_free(&p);
    }
}
