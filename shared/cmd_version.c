/* lapwing version: which program this is; with -v, what it was built from. */
#include <gnu/libc-version.h>
#include <libdeflate.h>
#include <stdio.h>
#include <xxhash.h>

#include "shared/cli.h"
#include "shared/command.h"

int cmd_version(int argc, char **argv)
{
    bool verbose = false;
    const struct lw_opt options[] = {
        {"verbose", 'v', LW_OPT_FLAG, &verbose, NULL, "compiler, flags and library versions", 0, 0},
        {0},
    };
    const struct lw_usage usage = {"version", "[-v]", "Print the version.", 0, 0};
    struct lw_err err = {0};
    int n_operands, rc;

    if ((rc = lw_cli_begin(&usage, options, argc, argv, &n_operands)) >= 0)
        return rc;
    printf("lapwing %s\n", LW_VERSION);
    if (verbose) {
        printf("compiler    %s\n", __VERSION__);
        printf("flags       %s\n", LW_BUILD_FLAGS);
        printf("libc        %s\n", gnu_get_libc_version());
        printf("libdeflate  %s\n", LIBDEFLATE_VERSION_STRING);
        printf("xxHash      %d.%d.%d\n", XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE);
        printf("backends    see 'lapwing exec --list-backends' and 'lapwing doctor'\n");
    }
    return lw_cli_end("version", LW_OK, &err);
}
