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
            const char *found = lw_cluster_terms_of_hash(&c, hex);
            assert_non_null(found);
            bool same = lw_figure_is_set(lw_cluster_sms_per_channel(&c)) ==
                        lw_figure_is_set(lw_cluster_sms_per_channel(&x));
            assert_string_equal(found, i == 2 && same ? "channels" : words[i]);
            x.devices_per_node++;
            hash(&x, hex);
            assert_null(lw_cluster_terms_of_hash(&c, hex));
        }
        lw_cluster_free(&c);
    }
    assert_true(n_published > 0);
}

/* Hashes of dgx-h100 by default, and with published terms, before there were channels and peaks of
 * TF32: they are those of `off` and of `published` without that peak. */
TEST(a_hash_of_before_channels_is_without_them)
{
    struct lw_cluster c;
    struct lw_err err = {0};
    char hex[33];

    assert_ok(lw_cluster_find("dgx-h100", &c, &err), err);
    assert_true(lw_figure_is_set(c.device.tf32_peak_flops));
    struct lw_cluster old = c;
    old.device.tf32_peak_flops = (struct lw_figure){.source = NULL};
    assert_ok(lw_cluster_take_terms(&old, "off", &err), err);
    hash(&old, hex);
    assert_string_equal(lw_cluster_terms_of_hash(&c, hex), "off");
    old.own_terms_only = false;
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
