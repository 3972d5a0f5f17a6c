#pragma once

/* Ranks of the NCCL backend as processes against the fakes of tests/fake_gpu. The libraries a
 * process gets are fixed when it starts, so each rank is a process of its own: this program again,
 * with --rank and an environment. A rank prints one line, and the parent reads it. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "exec/run/run.h"

enum { NCCL_MAX_RANKS = 8, NCCL_LINE = 1024 };

struct nccl_job {
    int32_t n;              /* processes */
    bool alone;             /* no rendezvous: one process */
    const char *set[12][2]; /* environment of all, NULL-ended */
    const char *only[4][3]; /* rank, name, value; NULL-ended */
    pid_t pid[NCCL_MAX_RANKS];
    int out[NCCL_MAX_RANKS];
    char line[NCCL_MAX_RANKS][NCCL_LINE];
    int code[NCCL_MAX_RANKS]; /* as printed; 999: killed, nothing printed */
};

/* Starts all ranks, unless nccl_start has, and waits until each has ended; the test fails where one
 * has to be killed. Jobs that are started before the first of them runs wait for their time limits
 * together. */
void nccl_start(struct nccl_job *j);
void nccl_run(struct nccl_job *j);

/* The options that the T_ variables of the environment ask for. */
struct lw_exec_options nccl_options(const struct exec_process *process);

/* For TEST_MAIN: a rank, where the arguments say so. */
int nccl_rank(int argc, char **argv);

/* FAKE_GPU_LOG of a test, and what it holds at the end (free). */
char *nccl_log_path(char path[64]);
char *nccl_read_log(const char *path);
