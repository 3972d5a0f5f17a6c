/* A cluster file may hold any number; a prediction from an absurd one looks like any other. */
#include "shared/cli/cluster_warning.h"

#include "shared/base/shown_text.h"
#include "shared/cluster/cluster_doubts.h"
#include "shared/text/wrap.h"

void lw_cluster_warn(const struct lw_cluster *c, int64_t n_ranks)
{
    char text[256], name[200];

    for (int k = 0; (k = lw_cluster_doubt(c, n_ranks, k, text, sizeof text)) >= 0; k++)
        lw_printf_paragraph(stderr, "lapwing: cluster '%s': %s",
                            lw_shown_text(name, sizeof name, c->name), text);
}
