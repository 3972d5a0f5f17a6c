/* lapwing cluster: the known systems, or one system with every figure, its unit and its source. */
#include "shared/cli/cli.h"
#include "shared/cli/cluster_warning.h"
#include "shared/cli/command.h"
#include "shared/files/files.h"
#include "shared/show/cluster_show.h"

static enum lw_status show(const char *name, const char *output, enum lw_format format,
                           struct lw_err *err)
{
    struct lw_cluster c;

    LW_TRY(lw_cluster_find(name, &c, err));
    lw_cluster_warn(&c);
    enum lw_status s = output ? lw_cluster_write(&c, output, err)
                              : lw_cluster_print(&c, format, err);
    lw_cluster_free(&c);
    return s;
}

int cmd_cluster(int argc, char **argv)
{
    const char *output = NULL;
    enum lw_format format = LW_FORMAT_TEXT;
    bool list = false;
    const struct lw_opt options[] = {
        {"list", 0, LW_OPT_FLAG, &list, NULL, "list the known systems, as without a name"},
        {"output", 'o', LW_OPT_STRING, &output, "FILE", "write the cluster file instead"},
        LW_OPTION_FORCE,
        LW_OPTION_FORMAT(&format),
        {0},
    };
    const struct lw_usage usage = {
        "cluster", "[options] [NAME|FILE]",
        "List the systems that are known by name, or show one (or a cluster file) with every "
        "figure, "
        "its unit and where it comes from. -o writes it as a file, to be edited.",
        0, 1};
    struct lw_err err = {0};
    int n, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n)) >= 0)
        return rc;
    if (n == 0 && output)
        return lw_cli_usage("cluster", "-o needs a name or a file");
    if (n > 0 && list)
        return lw_cli_usage("cluster", "--list takes no NAME");
    enum lw_status s = n ? show(argv[1], output, format, &err) : lw_clusters_list(format, &err);
    return lw_cli_end("cluster", s, &err);
}
