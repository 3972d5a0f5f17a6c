/* The life of a sharded optimizer: shared/shard/shard_oss.h, with the examples of
 * docs/design/shard.md. The reference system's own answers are checked by test_golden. */
#include <stdio.h>
#include "tests/lib/unit.h"

#include "shared/shard/shard_oss.h"
#include "tests/lib/failing_alloc.h"
#include "tests/lib/prng.h"

enum { N_MAX = 40 };

static struct lw_shard_param f32(int64_t numel)
{
    return (struct lw_shard_param){.numel = numel, .dtype = LW_F32, .trainable = true};
}

/* "d0r1=60[1,3]" per buffer, in broadcast order */
static const char *buffers(const struct lw_oss *o)
{
    static char text[1024];
    size_t at = 0;

    text[0] = 0;
    for (int32_t i = 0; i < lw_oss_n_buffers(o); i++) {
        const struct lw_oss_buffer *b = lw_oss_buffer(o, i);
        at += (size_t)snprintf(text + at, sizeof text - at, "%sd%dr%d=%d[", i ? " " : "", b->device,
                               b->owner, (int)b->numel);
        for (int32_t k = 0; k < b->n_items; k++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%d", k ? "," : "", b->items[k]);
        at += (size_t)snprintf(text + at, sizeof text - at, "]");
    }
    return text;
}

static const char *owners(const struct lw_oss *o)
{
    static char text[256];

    for (int32_t p = 0; p < lw_oss_n_params(o); p++)
        text[p] = (char)('0' + lw_oss_owner(o, p));
    text[lw_oss_n_params(o)] = 0;
    return text;
}

static struct lw_oss *four(bool compat)
{
    struct lw_shard_param p[] = {f32(10), f32(20), f32(30), f32(40)};
    struct lw_oss *o;
    struct lw_err err;

    assert_int_equal(lw_oss_new(p, 4, NULL, NULL, 0, 2, compat, &o, &err), LW_OK);
    return o;
}

TEST(buffers_hold_each_owners_parameters_by_size)
{
    /* groups (2 0) (1 3): visited 30, 10, 20, 40 -> ranks 0 1 1 0(30=30: first) */
    static const int32_t first[] = {0, 2, 4}, items[] = {2, 0, 1, 3};
    struct lw_shard_param p[] = {f32(10), f32(20), f32(30), f32(40)};
    struct lw_oss *o;
    struct lw_err err;
    int32_t list[4];

    assert_int_equal(lw_oss_new(p, 4, first, items, 2, 2, true, &o, &err), LW_OK);
    assert_string_equal(owners(o), "1100");
    assert_string_equal(buffers(o), "d0r0=70[2,3] d0r1=30[0,1]");
    assert_int_equal(lw_oss_partition(o, 1, 0, list), 1);
    assert_int_equal(list[0], 0);
    lw_oss_free(o);
}

TEST(devices_are_kept_apart_in_order_of_appearance)
{
    struct lw_shard_param p[] = {f32(5), f32(6), f32(5), f32(1)};
    struct lw_oss *o;
    struct lw_err err;
    int32_t list[4];

    p[0].device = p[2].device = 3;
    /* owners 0, 1, 0, 1; devices 3 then 0 */
    assert_int_equal(lw_oss_new(p, 4, NULL, NULL, 0, 2, true, &o, &err), LW_OK);
    assert_int_equal(lw_oss_n_devices(o), 2);
    assert_int_equal(lw_oss_device(o, 0), 3);
    assert_string_equal(buffers(o), "d3r0=10[0,2] d0r1=7[3,1]");
    assert_int_equal(lw_oss_of_device(o, 1, 1, list), 2);
    assert_int_equal(list[0], 3); /* the smaller first */
    lw_oss_in_buffer_order(o, list); /* device 3: 0, 2; device 0: 3, 1 */
    assert_int_equal(list[0] * 1000 + list[1] * 100 + list[2] * 10 + list[3], 231);
    assert_int_equal(lw_oss_device_index(o, 1), 1);
    lw_oss_free(o);
}

TEST(a_frozen_owner_keeps_its_stale_buffer_in_compat_only)
{
    static const int32_t one[] = {1}, rest[] = {0, 2, 3};
    struct lw_err err;

    for (int compat = 0; compat < 2; compat++) {
        struct lw_oss *o = four(compat);
        lw_oss_set_trainable(o, one, 1, false, &err);
        assert_string_equal(buffers(o), "d0r0=40[0,2] d0r1=60[1,3]"); /* not before the refresh */
        assert_int_equal(lw_oss_refresh(o, &err), LW_OK);
        assert_string_equal(buffers(o), "d0r0=40[0,2] d0r1=40[3]");
        lw_oss_set_trainable(o, rest, 3, false, &err);
        assert_int_equal(lw_oss_refresh(o, &err), LW_OK);
        assert_string_equal(buffers(o), compat ? "d0r0=40[0,2] d0r1=40[3]" : "");
        lw_oss_set_trainable(o, rest, 1, true, &err);
        assert_int_equal(lw_oss_refresh(o, &err), LW_OK);
        assert_string_equal(buffers(o), compat ? "d0r0=10[0] d0r1=40[3]" : "d0r0=10[0]");
        lw_oss_free(o);
    }
}

TEST(a_later_owner_broadcasts_after_the_earlier_ones)
{
    static const int32_t zero[] = {0};
    struct lw_shard_param p[] = {f32(10), f32(20)};
    struct lw_oss *o;
    struct lw_err err;

    p[0].trainable = false; /* counts 1: owners 0, 1 */
    assert_int_equal(lw_oss_new(p, 2, NULL, NULL, 0, 2, true, &o, &err), LW_OK);
    assert_string_equal(buffers(o), "d0r1=20[1]");
    lw_oss_set_trainable(o, zero, 1, true, &err);
    assert_int_equal(lw_oss_refresh(o, &err), LW_OK);
    assert_string_equal(buffers(o), "d0r1=20[1] d0r0=10[0]");
    lw_oss_free(o);
}

TEST(a_group_added_after_freezing_moves_parameters)
{
    /* With 20 frozen: 10 -> 0, 20 (counts 1) -> 1, 30 -> 1, 40 -> 0, 7 -> 1 (31), 8 -> 1 (38).
     * The state of parameters 2 and 3 stays behind in compat and moves along by default. */
    static const int32_t one[] = {1};
    struct lw_shard_param more[] = {f32(7), f32(8)};
    struct lw_err err;
    int32_t list[6];

    for (int compat = 0; compat < 2; compat++) {
        struct lw_oss *o = four(compat);
        assert_string_equal(owners(o), "0101");
        lw_oss_set_trainable(o, one, 1, false, &err);
        assert_int_equal(lw_oss_add_group(o, more, 2, &err), LW_OK);
        assert_string_equal(owners(o), "011011");
        assert_string_equal(buffers(o), "d0r0=50[0,3] d0r1=45[4,5,2]");
        assert_int_equal(lw_oss_n_groups(o), 2);
        /* rank 0's optimizer holds 0 and 2 in compat */
        assert_int_equal(lw_oss_local(o, 0, 0, list), 2);
        assert_int_equal(list[1], compat ? 2 : 3);
        lw_oss_free(o);
    }
}

TEST(mixed_buffers_and_wrong_groups_are_refused)
{
    static const int32_t first[] = {0, 2, 3}, twice[] = {0, 1, 1}, nine[] = {0, 1, 9};
    struct lw_shard_param p[] = {f32(4), f32(4), f32(1)};
    struct lw_oss *o;
    struct lw_err err;

    assert_int_equal(lw_oss_new(p, 3, first, twice, 2, 2, true, &o, &err), LW_EINVAL);
    assert_string_equal(err.msg, "parameter 1 is in param groups 0 and 1, allowed: one");
    assert_int_equal(lw_oss_new(p, 3, first, nine, 2, 2, true, &o, &err), LW_EINVAL);
    assert_string_equal(err.msg, "param group 1 names parameter 9, allowed: 0 to 2");
    assert_int_equal(lw_oss_new(p, 3, first, twice, 1, 2, true, &o, &err), LW_EINVAL);
    assert_string_equal(err.msg, "parameter 2 is in no param group");
    p[1].dtype = LW_F16;
    assert_int_equal(lw_oss_new(p, 2, NULL, NULL, 0, 1, true, &o, &err), LW_EINVAL);
    assert_string_equal(err.msg, "parameter 1 is f16, the flat buffer of device 0 and rank 0 holds "
                                 "f32: one buffer has one dtype");
    p[1].trainable = false; /* a frozen one is in no buffer */
    assert_int_equal(lw_oss_new(p, 2, NULL, NULL, 0, 1, true, &o, &err), LW_OK);
    assert_int_equal(lw_oss_add_group(o, p + 1, 1, &err), LW_OK);
    struct lw_shard_param half = {.numel = 1, .dtype = LW_F16, .trainable = true};
    assert_int_equal(lw_oss_add_group(o, &half, 1, &err), LW_EINVAL);
    assert_int_equal(lw_oss_n_params(o), 3); /* nothing changed */
    assert_string_equal(buffers(o), "d0r0=4[0]");
    lw_oss_free(o);
}

/* Whatever happens: partition and buffers tile what they should; by default holders are owners. */
TEST(a_random_life_keeps_its_invariants)
{
    struct prng r = prng_start(__func__);

    for (int i = 0; i < 500; i++) {
        struct lw_shard_param p[N_MAX];
        int32_t n = (int32_t)prng_in(&r, 0, 12), world = (int32_t)prng_in(&r, 1, 5), list[N_MAX];
        struct lw_oss *o;
        struct lw_err err;
        for (int32_t k = 0; k < N_MAX; k++) {
            p[k] = f32(prng_in(&r, 0, 9));
            p[k].trainable = prng_in(&r, 0, 3) > 0;
            p[k].device = (int32_t)prng_in(&r, 0, 1);
        }
        assert_int_equal(lw_oss_new(p, n, NULL, NULL, 0, world, false, &o, &err), LW_OK);
        for (int step = 0; step < 6; step++) {
            int32_t one = n > 0 ? (int32_t)prng_in(&r, 0, n - 1) : 0, add;
            switch (prng_in(&r, 0, 2)) {
            case 0:
                if (n > 0) {
                    p[one].trainable = !p[one].trainable;
                    lw_oss_set_trainable(o, &one, 1, p[one].trainable, &err);
                }
                /* fall through */
            case 1: assert_int_equal(lw_oss_refresh(o, &err), LW_OK); break;
            case 2:
                add = (int32_t)prng_in(&r, 0, 4);
                assert_int_equal(lw_oss_add_group(o, p + n, add, &err), LW_OK);
                n += add;
                break;
            }
            int seen[N_MAX] = {0}, n_trainable = 0;
            for (int32_t b = 0; b < lw_oss_n_buffers(o); b++)
                for (int32_t k = 0; k < lw_oss_buffer(o, b)->n_items; k++) {
                    int32_t q = lw_oss_buffer(o, b)->items[k];
                    seen[q]++;
                    assert_int_equal(lw_oss_owner(o, q), lw_oss_buffer(o, b)->owner);
                    assert_int_equal(p[q].device, lw_oss_buffer(o, b)->device);
                }
            for (int32_t q = 0; q < n; q++) {
                assert_int_equal(seen[q], p[q].trainable);
                n_trainable += p[q].trainable;
            }
            int32_t total = 0;
            for (int32_t rank = 0; rank < world; rank++)
                for (int32_t g = 0; g < lw_oss_n_groups(o); g++)
                    total += lw_oss_partition(o, rank, g, list);
            assert_int_equal(total, n);
        }
        lw_oss_free(o);
    }
}

TEST(failing_allocations_change_nothing)
{
    struct lw_shard_param p[] = {f32(10), f32(20)};
    struct lw_oss *o = NULL;
    struct lw_err err;

    EACH_ALLOCATION_FAILS(0, lw_oss_new(p, 2, NULL, NULL, 0, 2, true, &o, &err), o,
                          lw_oss_free(o));
    o = four(true);
    for (int64_t n = 1;; n++) {
        int64_t live = lw_alloc_live();
        lw_alloc_fail_at(n);
        enum lw_status s = lw_oss_add_group(o, p, 2, &err);
        lw_alloc_fail_at(0);
        if (s == LW_OK)
            break;
        assert_int_equal(s, LW_ENOMEM);
        assert_int_equal(lw_alloc_live(), live);
        assert_string_equal(buffers(o), "d0r0=40[0,2] d0r1=60[1,3]");
    }
    for (int64_t n = 1;; n++) {
        lw_alloc_fail_at(n);
        enum lw_status s = lw_oss_refresh(o, &err);
        lw_alloc_fail_at(0);
        if (s == LW_OK)
            break;
        assert_int_equal(lw_oss_n_params(o), 6);
    }
    lw_oss_free(o);
    assert_int_equal(lw_alloc_live(), 0);
}
