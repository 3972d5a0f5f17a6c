/* Kernels of workload files: written and read again, taken for the times beside them, timed for
 * another device, and refused where they cannot be. LAPWING_TEST_SEED repeats a run. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/device/file_kernels.h"
#include "shared/files/files.h"
#include "shared/framework/framework_rates.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/prng.h"
#include "traces/models/model_workload.h"

TEST_GROUP(fixture_open, fixture_close)

/* Kernels are those of the device that the file was made for: all of these have TF32. */
static const char *const systems[] = {"dgx-h100", "dgx-a100", "l40s"};

struct drawn {
    char model[64], framework[64];
    struct lw_strategy s;
    struct lw_cluster cluster;
    struct lw_framework f;
};

static void set(struct lw_strategy *s, const char *name, int64_t value)
{
    struct lw_err err = {0};
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)value);
    assert_ok(lw_strategy_set(s, name, text, &err), err);
}

static void draw(struct prng *r, struct drawn *d)
{
    static const char *const models[] = {"gpt2", "llama-3-8b", "mixtral-8x7b", "bert-base",
                                         "resnet18", "vit-b-16", "deepseek-v2", "mlp"};
    struct lw_err err = {0};
    int n = 0;

    *d = (struct drawn){.s = lw_strategy_default()};
    snprintf(d->model, sizeof d->model, "%s", models[prng_below(r, 8)]);
    while (lw_framework_known(n, d->framework))
        n++;
    assert_true(lw_framework_known((int)prng_below(r, n), d->framework));
    assert_ok(lw_framework_find(d->framework, &d->f, &err), err);
    set(&d->s, "dp", 1 << prng_below(r, 3));
    set(&d->s, "tp", 1 << prng_below(r, 3));
    set(&d->s, "cp", 1 << prng_below(r, 2));
    set(&d->s, "ep", 1 << prng_below(r, 2));
    d->s.sequence_parallel = d->s.tp > 1 && prng_below(r, 2);
    assert_ok(lw_cluster_find(systems[prng_below(r, 3)], &d->cluster, &err), err);
}

static void forget(struct drawn *d)
{
    lw_framework_free(&d->f);
    lw_cluster_free(&d->cluster);
}

static enum lw_status make(const struct drawn *d, struct lw_workload *w, struct lw_err *err)
{
    const struct lw_model_request request = {.name = d->model, .batch = 2,
                                             .layers = d->model[0] == 'r' ? 0 : 3};
    const struct lw_model_target target = {.strategy = &d->s, .cluster = &d->cluster,
                                           .framework = &d->f};

    return traces_model_workload(&request, &target, w, err);
}

static void write_and_read(const struct lw_workload *w, struct lw_workload *r)
{
    struct lw_err err = {0};

    assert_ok(lw_workload_write(w, fixture_path("w.json"), &err), err);
    assert_ok(lw_workload_read(fixture_path("w.json"), r, &err), err);
}

static struct lw_measured_modules take_on(struct lw_workload *w, const struct lw_cluster *c,
                                          const struct lw_framework *f)
{
    const struct lw_device *const d[2] = {&c->device, NULL};
    const struct lw_kernel_rates rates = lw_framework_rates(f, &c->device);
    struct lw_measured_modules measured;
    struct lw_err err = {0};

    assert_ok(lw_kernels_take(w, d, &rates, &measured, &err), err);
    return measured;
}

static void assert_same_kernels(const struct lw_workload *a, const struct lw_workload *b)
{
    assert_true(a->n_kernels > 0);
    assert_int_equal(a->n_kernels, b->n_kernels);
    assert_memory_equal(a->kernels, b->kernels, (size_t)a->n_kernels * sizeof *a->kernels);
    assert_memory_equal(a->kernel_times, b->kernel_times,
                        (size_t)a->n_kernels * sizeof *a->kernel_times);
    assert_memory_equal(a->grad_kernel, b->grad_kernel, (size_t)a->n_params * sizeof(int32_t));
    assert_memory_equal(&a->step_traffic, &b->step_traffic, sizeof a->step_traffic);
    assert_int_equal(a->n_products, b->n_products);
    for (int32_t i = 0; i < a->n_products; i++)
        assert_true(lw_product_equal(&a->products[i], &b->products[i]));
    for (int32_t i = 0; i < a->n_modules; i++) {
        const struct lw_module *m = &a->modules[i], *n = &b->modules[i];
        assert_int_equal(m->n_kernels, n->n_kernels);
        assert_true(m->n_kernels == 0 || m->first_kernel == n->first_kernel);
        assert_memory_equal(m->bound_ps, n->bound_ps, sizeof m->bound_ps);
        assert_memory_equal(m->n_products, n->n_products, sizeof m->n_products);
    }
}

/* Models under any framework, of any groups: what is read is what was made, to the bit. */
TEST(a_file_has_the_models_kernels)
{
    struct prng r = prng_start("kernels of files");
    int made = 0, refused = 0;

    while (made < unit_cases(40, 400)) {
        struct lw_err err = {0};
        struct lw_workload w, file;
        struct drawn d;
        draw(&r, &d);
        if (make(&d, &w, &err) == LW_OK) {
            write_and_read(&w, &file);
            assert_int_equal(take_on(&file, &d.cluster, &d.f).n, 0);
            assert_same_kernels(&w, &file);
            lw_workload_free(&w);
            lw_workload_free(&file);
            made++;
        } else {
            refused++;
        }
        forget(&d);
        assert_true(refused < 1000);
    }
}

/* Another device: the kernels of a file take there what the model's take. */
TEST(kernels_of_a_file_are_timed_for_another_device)
{
    struct prng r = prng_start("other devices");
    int made = 0;

    for (int tries = 0; made < unit_cases(20, 200) && tries < 4000; tries++) {
        struct lw_err err = {0};
        struct lw_workload w, there, file;
        struct lw_cluster c;
        struct drawn d;
        draw(&r, &d);
        if (make(&d, &w, &err) == LW_OK) {
            write_and_read(&w, &file);
            assert_ok(lw_cluster_find(systems[prng_below(&r, 3)], &c, &err), err);
            lw_cluster_free(&d.cluster);
            d.cluster = c;
            assert_ok(make(&d, &there, &err), err);
            const struct lw_kernel_rates rates = lw_framework_rates(&d.f, &c.device);
            const struct lw_kernel_groups groups = lw_workload_groups(&file);
            assert_ok(lw_kernels_retime(&file, &c.device, &rates, &groups, &err), err);
            assert_same_kernels(&there, &file);
            assert_int_equal(lw_workload_step_ps(&there), lw_workload_step_ps(&file));
            for (int32_t i = 0; i < file.n_params; i++)
                assert_int_equal(there.params[i].ready_ps, file.params[i].ready_ps);
            lw_workload_free(&w);
            lw_workload_free(&there);
            lw_workload_free(&file);
            made++;
        }
        forget(&d);
    }
    assert_true(made >= unit_cases(20, 200));
}

/* A module whose times were edited is measured, the others are not; so is one of whose parameters
 * the gradient is ready at another time. */
TEST(an_edited_time_is_measured)
{
    struct drawn d = {.model = "gpt2", .s = lw_strategy_default()};
    struct lw_workload w, file;
    struct lw_err err = {0};

    assert_ok(lw_cluster_find("dgx-h100", &d.cluster, &err), err);
    assert_ok(lw_framework_find("megatron-lm", &d.f, &err), err);
    assert_ok(make(&d, &w, &err), err);
    lw_ps forward = ++w.modules[2].forward_ps;
    int32_t last = w.ready_order[w.n_ready - 1];
    w.params[last].ready_ps--;
    write_and_read(&w, &file);
    struct lw_measured_modules measured = take_on(&file, &d.cluster, &d.f);
    assert_int_equal(measured.n, 2);
    assert_int_equal(measured.first, w.params[last].module);
    for (int32_t i = 0; i < file.n_modules; i++)
        assert_int_equal(file.modules[i].measured, i == 2 || i == w.params[last].module);
    assert_int_equal(file.modules[2].forward_ps, forward);
    lw_workload_free(&w);
    lw_workload_free(&file);
    forget(&d);
}

/* --- damaged files ---------------------------------------------------------------------------- */

static const char small[] =
    "{\"lapwing\": 1, \"kind\": \"workload\", \"name\": \"x\", \"update_bytes\": 28,\n"
    "\"kernels\": [\n"
    "{\"kind\": \"gemm\", \"split\": \"column\", \"batch\": 1, \"m\": 64, \"n\": 32, \"k\": 16, "
    "\"trained\": true},\n"
    "{\"kind\": \"attention\", \"batch\": 2, \"m\": 32, \"heads\": 4, \"kv_heads\": 2, "
    "\"qk_width\": 8, \"v_width\": 8},\n"
    "{\"forward_bytes\": 100, \"input_bytes\": 200},\n"
    "{\"kind\": \"gemm\", \"m\": 64, \"n\": 32, \"k\": 16, \"experts\": 4, \"capacity\": 1.5}],\n"
    "\"modules\": [{\"name\": \"a\", \"n_kernels\": 2},\n"
    "{\"name\": \"b\", \"first_kernel\": 2, \"n_kernels\": 1},\n"
    "{\"name\": \"c\", \"first_kernel\": 3, \"n_kernels\": 1}],\n"
    "\"params\": [{\"name\": \"p\", \"numel\": 512, \"module\": 0}],\n"
    "\"grad_kernel\": [0]}";

TEST(a_damaged_kernel_is_refused_by_place)
{
    static const struct {
        const char *from, *to, *says;
    } cases[] = {
        {"\"m\": 64", "\"m\": -64", "at kernels[0].m (byte 134): found -64, allowed: 0 or more"},
        {"\"m\": 64", "\"m\": 0", "at kernels[0].m: found 0, allowed: 1 to 2147483647"},
        {"\"batch\": 1,", "", "at kernels[0].batch: found 0, allowed: 1 to 2147483647"},
        {"\"n\": 32", "\"n\": 4294967296",
         "at kernels[0].n: found 4294967296, allowed: 1 to 2147483647"},
        {"\"m\": 64, \"n\": 32, \"k\": 16, \"t", "\"m\": 2147483647, \"n\": 32, \"k\": 65536, \"t",
         "at kernels[0]: its dimensions give 140737488289792 elements of an operand, allowed: 2^44 "
         "in one kernel; give smaller ones, or cut it into several"},
        {"\"m\": 64, \"n\": 32, \"k\": 16, \"t",
         "\"m\": 1048576, \"n\": 1048576, \"k\": 1048576, \"t",
         "at kernels[0]: its dimensions give 2305843009213693952 FLOPs, allowed: 2^58 in one "
         "kernel; give smaller ones, or cut it into several"},
        {"\"heads\": 4", "\"heads\": 0", "at kernels[1].heads: found 0, allowed: 1 to 2147483647"},
        {"\"forward_bytes\": 100", "\"forward_bytes\": 9223372036854775807",
         "at kernels[2].forward_bytes: found 9223372036854775807, allowed: 0 to 1125899906842624"},
        {"\"capacity\": 1.5", "\"capacity\": -1",
         "at kernels[3].capacity: found -1, allowed: 0 to 1e6, and times m to 2147483647"},
        {"\"attention\", \"b", "\"atention\", \"b",
         "at kernels[1].kind (byte 183): found \"atention\", allowed: traffic, gemm, "
         "attention, counted"},
        {"\"first_kernel\": 2", "\"first_kernel\": 7",
         "at modules[1].first_kernel: found 7, allowed: 0 to 3"},
        {"\"first_kernel\": 2", "\"first_kernel\": 1",
         "at modules[1].first_kernel: found 1 with n_kernels 1, allowed: 2, the first that no "
         "module before it has, of 4 in kernels, or both numbers of a module before it"},
        {"\"n_kernels\": 2}", "\"n_kernels\": 5}",
         "at modules[0].n_kernels: found 5, allowed: 0 to 4"},
        {"\"first_kernel\": 3, \"n_kernels\": 1", "\"first_kernel\": 0, \"n_kernels\": 2",
         "at kernels[3]: no module has it; a module names its kernels by first_kernel and "
         "n_kernels"},
        {"[0]}", "[2]}",
         "at grad_kernel[0]: found 2, allowed: 0 to 1, a kernel of module 'a', whose parameter it "
         "is"},
        {"[0]}", "[0, 0]}",
         "at grad_kernel: found 2 numbers, allowed: one for each of the 1 parameters, or none"},
        {"\"update_bytes\": 28", "\"update_bytes\": 2000",
         "at update_bytes: found 2000, allowed: 0 to 1023"},
        {"\"update_bytes\"", "\"products\": [{\"m\": 1, \"n\": 1, \"k\": 1}], \"update_bytes\"",
         "at products: found 1 beside kernels, allowed: none; leave them out, products follow from "
         "kernels, and ops are of recordings"},
    };
    const char *path = fixture_path("w.json");
    struct lw_workload w;
    struct lw_err err = {0};

    fixture_put(path, small);
    assert_ok(lw_workload_read(path, &w, &err), err);
    assert_int_equal(w.kernels[3].experts, 4);
    lw_workload_free(&w);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bad = fixture_replaced(small, cases[i].from, cases[i].to), expected[600];
        fixture_put(path, bad);
        assert_int_equal(lw_workload_read(path, &w, &err), LW_EFORMAT);
        snprintf(expected, sizeof expected, "%s: %s", path, cases[i].says);
        assert_string_equal(err.msg, expected);
        free(bad);
    }
}

/* The largest that a file may hold, on a device and in groups of any size: no number overflows
 * (the sanitizers look), and what adds up to too much is refused. */
TEST(large_kernels_do_not_overflow)
{
    static const char *const sizes[] = {
        "\"m\": 2147483647, \"n\": 4096, \"k\": 4096, \"sum_bytes\": 64, \"fp8\": true",
        "\"m\": 1, \"n\": 1, \"k\": 2147483647", "\"m\": 3, \"n\": 5, \"k\": 7"};
    static const struct lw_kernel_groups groups[] = {
        {.tp = 4096, .cp = 4096, .ep = 65536}, {.tp = 3, .cp = 5, .ep = 7},
        {.tp = 4096, .ep = 3, .whole_experts = true, .sequence_parallel = true}, {.tp = 1}};
    const struct lw_kernel_rates rates = {.host_op_ps = LW_PS_PER_S};
    struct lw_cluster c;
    struct lw_err err = {0};

    assert_ok(lw_cluster_find("dgx-h100", &c, &err), err);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
            char size[200];
            struct lw_workload w;
            snprintf(size, sizeof size, "%s, \"t", sizes[i]);
            char *text = fixture_replaced(small, "\"m\": 64, \"n\": 32, \"k\": 16, \"t", size);
            char *bf16 = fixture_replaced(text, "\"column\"", "\"column\", \"dtype\": \"bf16\"");
            fixture_put(fixture_path("w.json"), bf16);
            assert_ok(lw_workload_read(fixture_path("w.json"), &w, &err), err);
            enum lw_status s = lw_kernels_retime(&w, &c.device, &rates, &groups[g], &err);
            assert_true(s == LW_OK || s == LW_EFORMAT);
            lw_workload_free(&w);
            free(text);
            free(bf16);
        }
    lw_cluster_free(&c);
}

static enum lw_status read_and_take(const struct lw_device *d)
{
    const struct lw_device *const of[2] = {d, d};
    const struct lw_kernel_rates rates = {.host_op_ps = 0};
    const struct lw_kernel_groups groups = {.tp = 2};
    struct lw_measured_modules measured;
    struct lw_err err = {0};
    struct lw_workload w;
    enum lw_status s = lw_workload_read(fixture_path("w.json"), &w, &err);

    if (s == LW_OK) {
        s = lw_kernels_take(&w, of, &rates, &measured, &err);
        if (s == LW_OK)
            s = lw_kernels_retime(&w, d, &rates, &groups, &err);
        lw_workload_free(&w);
    }
    if (s != LW_OK)
        assert_string_equal(err.msg, "out of memory");
    return s;
}

TEST(failing_allocations_leave_nothing)
{
    struct lw_cluster c;
    struct lw_err err = {0};

    assert_ok(lw_cluster_find("dgx-h100", &c, &err), err);
    fixture_put(fixture_path("w.json"), small);
    EACH_ALLOCATION_FAILS_IN(8, read_and_take(&c.device));
    lw_cluster_free(&c);
}
