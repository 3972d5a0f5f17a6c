/* lapwing cluster: the known systems, or one system with every figure, its unit and its source. */
#include "shared/cli/cluster_warning.h"
#include "shared/cli/command.h"
#include "shared/cli/known_command.h"
#include "shared/files/files.h"
#include "shared/show/cluster_show.h"

static enum lw_status show(const char *name, const char *output, enum lw_format format,
                           struct lw_err *err)
{
    struct lw_cluster c;

    LW_TRY(lw_cluster_find(name, &c, err));
    lw_cluster_warn(&c, 0);
    enum lw_status s = output ? lw_cluster_write(&c, output, err)
                              : lw_cluster_print(&c, format, err);
    lw_cluster_free(&c);
    return s;
}

int cmd_cluster(int argc, char **argv)
{
    static const struct lw_known_command known = {
        "cluster", "systems",
        "List the systems that are known by name, or show one (or a cluster file) with every "
        "figure, its unit and where it comes from. -o writes it as a file, to be edited.",
        lw_clusters_list, show};

    return lw_known_command_run(&known, argc, argv);
}
