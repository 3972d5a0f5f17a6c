/* lapwing: one program, many subcommands. This file is their table and nothing else; each lives in
 * the cmd_*.c of the folder that does its work. */
#include <signal.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/base/nearest.h"
#include "shared/text/shown_stdout.h"
#include "shared/io/used_files.h"
#include "shared/cli/cli.h"
#include "shared/cli/command.h"

const struct lw_command lw_commands[] = {
    {"import", "turn recorded traces into a workload", cmd_import},
    {"inspect", "show the contents of recorded traces", cmd_inspect},
    {"model", "make a workload from a model's shape", cmd_model},
    {"cluster", "list the known systems, or show one", cmd_cluster},
    {"framework", "list the known frameworks, or show one", cmd_framework},
    {"calibrate", "measure this machine into a cluster file", cmd_calibrate},
    {"cost", "what communication costs on a cluster", cmd_cost},
    {"plan", "decide a training step: buckets, launches, ops", cmd_plan},
    {"sim", "predict a plan's timeline from a plan or a workload", cmd_sim},
    {"exec", "run a plan for real and check what it computed", cmd_exec},
    {"golden", "repeat recorded decisions of reference systems", cmd_golden},
    {"runs", "list the runs of the results database", cmd_runs},
    {"compare", "compare two runs: step, buckets, ops", cmd_compare},
    {"explain", "explain the duration of a stored step", cmd_explain},
    {"validate", "predict what files measured, and print the errors", cmd_validate},
    {"plot", "draw stored runs: timeline, overlap, predicted, sweep", cmd_plot},
    {"report", "write stored runs as one HTML page", cmd_report},
    {"recommend", "find the best bucket cap, and how certain it is", cmd_recommend},
    {"tune", "find the best strategies for a model on a cluster", cmd_tune},
    {"export", "write a stored run for Perfetto, or as CSV", cmd_export},
    {"bench", "measure the speed of planning and of the simulator", cmd_bench},
    {"doctor", "show what this machine has and what is missing", cmd_doctor},
    {"version", "print the version; -v: compiler, libraries, backends", cmd_version},
    {"help", "explain a command, or every strategy option", cmd_help},
    {NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "help";

    lw_alloc_setup();
    lw_cli_signals();
    lw_stdout_show_only();
    lw_used_files_begin();
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error to report, not a death */
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-v") == 0)
        name = "version";
    for (const struct lw_command *c = lw_commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c->run(argc > 1 ? argc - 1 : 1, argc > 1 ? argv + 1 : argv);
    char hint[96];
    struct lw_nearest near = lw_nearest_begin(name);
    for (const struct lw_command *c = lw_commands; c->name; c++)
        lw_nearest_try(&near, c->name);
    return lw_cli_no_command(argc, argv, lw_nearest_hint(&near, "", hint, sizeof hint));
}
