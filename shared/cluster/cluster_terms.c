/* Words of --interference, applied to a cluster and found again from the hash of a stored run. */
#include "shared/cluster/cluster_terms.h"

#include <string.h>

#include "shared/base/nearest.h"

static const char *const words[] = {"channels", "published", "off", NULL};

enum lw_status lw_cluster_terms_check(const char *word, struct lw_err *err)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(word, words[i]) == 0)
            return LW_OK;
    return lw_fail_word(err, NULL, word, words);
}

enum lw_status lw_cluster_take_terms(struct lw_cluster *c, const char *word, struct lw_err *err)
{
    c->own_terms_only = word && strcmp(word, "off") == 0;
    return word && strcmp(word, "published") == 0 ? lw_cluster_use_published(c, err) : LW_OK;
}

struct lw_cluster lw_cluster_before_job(const struct lw_cluster *c)
{
    struct lw_cluster own = *c;

    if (own.unplaced)
        own.devices_per_node = own.unplaced;
    own.unplaced = 0;
    if (own.uses_published)
        own.interference = own.unpublished;
    own.uses_published = own.own_terms_only = false;
    return own;
}

static bool has_hash(const struct lw_cluster *c, const char *hash)
{
    struct lw_err unused;
    char own[33];

    return lw_cluster_hash(c, own, &unused) == LW_OK && strcmp(own, hash) == 0;
}

/* Before there were channels a cluster had no peak of TF32, which only products of TF32 ask for. */
static struct lw_cluster before_channels(const struct lw_cluster *c)
{
    struct lw_cluster old = *c;

    old.device.tf32_peak_flops = (struct lw_figure){.source = NULL};
    return old;
}

const char *lw_cluster_terms_of_hash(const struct lw_cluster *c, const char *hash)
{
    for (int before = 0; before < 2; before++)
        for (int i = before; words[i]; i++) { /* channels are the first word */
            struct lw_cluster copy = *c, old; /* borrow everything */
            struct lw_err unused;
            if (lw_cluster_take_terms(&copy, words[i], &unused) != LW_OK)
                continue;
            old = before_channels(&copy);
            if (has_hash(before ? &old : &copy, hash))
                return words[i];
        }
    return NULL;
}
