/* lapwing framework: the known frameworks, or one framework with every fact and its source. */
#include "shared/cli/command.h"
#include "shared/cli/known_command.h"
#include "shared/files/files.h"
#include "shared/show/framework_show.h"

static enum lw_status show(const char *name, const char *output, enum lw_format format,
                           struct lw_err *err)
{
    struct lw_framework f;

    LW_TRY(lw_framework_find(name, &f, err));
    enum lw_status s = output ? lw_framework_write(&f, output, err)
                              : lw_framework_print(&f, format, err);
    lw_framework_free(&f);
    return s;
}

int cmd_framework(int argc, char **argv)
{
    static const struct lw_known_command known = {
        "framework", "frameworks",
        "List the frameworks that are known by name, or show one (or a framework file) with every "
        "fact and where it comes from. -o writes it as a file, to be edited and given to "
        "--framework. Without --framework, other commands take the one that such a strategy is "
        "usually run with: on a CPU and with --compat ideal, with --tp, --pp, --cp or --ep "
        "megatron-lm (ideal, if the model is not a transformer), with --zero 3 torch-fsdp2, with "
        "--zero 1 or 2 deepspeed, else torch-ddp. Recorded times are ideal: nothing is added.",
        lw_frameworks_list, show};

    return lw_known_command_run(&known, argc, argv);
}
