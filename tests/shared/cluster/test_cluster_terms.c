/* Words of --interference are found again from the hash of a cluster. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/cluster/cluster_terms.h"
#include "shared/files/files.h"

static const char *const words[] = {"channels", "published", "off"};

static void hash(const struct lw_cluster *c, char hex[33])
{
    struct lw_err err = {0};

    assert_ok(lw_cluster_hash(c, hex, &err), err);
}

/* Of every known cluster, and of one that has none of the hashes. */
TEST(terms_are_found_from_the_hash)
{
    int n_published = 0;

    for (int k = 0; lw_cluster_known(k); k++) {
        struct lw_cluster c;
        struct lw_err err = {0};
        char hex[33];
        assert_ok(lw_cluster_find(lw_cluster_known(k), &c, &err), err);
        for (int i = 0; i < 3; i++) {
            struct lw_cluster x = c;
            if (lw_cluster_take_terms(&x, words[i], &err) != LW_OK) {
                assert_string_equal(words[i], "published");
                continue;
            }
            n_published += i == 1;
            hash(&x, hex);
            assert_string_equal(lw_cluster_terms_of_hash(&c, hex), words[i]);
            x.devices_per_node++;
            hash(&x, hex);
            assert_null(lw_cluster_terms_of_hash(&c, hex));
        }
        lw_cluster_free(&c);
    }
    assert_true(n_published > 0);
}

/* Then the default was `off`, nothing in the hash said so, and there was no peak of TF32. */
TEST(a_hash_of_before_channels_is_without_them)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    char hex[33];

    assert_ok(lw_cluster_find("dgx-h100", &c, &err), err);
    assert_true(lw_figure_is_set(c.device.tf32_peak_flops));
    struct lw_cluster old = c;
    old.device.tf32_peak_flops = (struct lw_figure){.source = NULL};
    hash(&old, hex);
    assert_string_equal(lw_cluster_terms_of_hash(&c, hex), "off");
    assert_ok(lw_cluster_use_published(&old, &err), err);
    hash(&old, hex);
    assert_string_equal(lw_cluster_terms_of_hash(&c, hex), "published");
    lw_cluster_free(&c);
}

TEST(a_word_is_one_of_three)
{
    struct lw_err err = {0};

    for (int i = 0; i < 3; i++)
        assert_ok(lw_cluster_terms_check(words[i], &err), err);
    assert_int_equal(lw_cluster_terms_check("on", &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "channels"));
}
