#pragma once

/* A subcommand: argv[0] is its name; returns the exit status (shared/cli/cli.h). */
typedef int lw_command_fn(int argc, char **argv);

struct lw_command {
    const char *name, *about;
    lw_command_fn *run;
};

/* The table in lapwing.c; ends with name == NULL. */
extern const struct lw_command lw_commands[];

lw_command_fn cmd_version, cmd_help;
lw_command_fn cmd_import, cmd_inspect;
lw_command_fn cmd_model, cmd_cluster, cmd_framework;
lw_command_fn cmd_plan;
lw_command_fn cmd_cost, cmd_sim, cmd_bench;
lw_command_fn cmd_exec, cmd_calibrate;
lw_command_fn cmd_golden;
lw_command_fn cmd_validate;
lw_command_fn cmd_runs, cmd_compare, cmd_plot, cmd_report, cmd_export, cmd_doctor;
lw_command_fn cmd_recommend, cmd_tune, cmd_explain;
