#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/base/err.h"

enum { EXEC_NO_PROGRAM = 127 }; /* exit status of a child that could not start its program */

/* mpirun as a child: which of its ranks ended first, and whether it still does anything. */
struct exec_mpirun {
    pid_t pid;
    int notes[2];  /* its standard error */
    char line[256];
    size_t n_line;
    struct exec_mpirun_rank {
        pid_t pid; /* a child of mpirun */
        int rank;
        bool gone;
    } *ranks;
    int64_t n, room;
    int32_t n_ranks;
    int first, signal_no; /* the rank that ended first (-1: none seen), and what ended it (0: not
                           * known) */
    int64_t look_ns, idle_since_ns;
};

#define EXEC_MPIRUN_NONE {.notes = {-1, -1}, .first = -1}

enum lw_status exec_mpirun_begin(struct exec_mpirun *m, struct lw_err *err);
/* In the child: becomes mpirun, which starts n_ranks of this program with argv[1..], NULL-ended. */
void exec_mpirun_become(struct exec_mpirun *m, int32_t n_ranks, pid_t parent, char *const argv[]);
/* In the parent. */
void exec_mpirun_watch(struct exec_mpirun *m, int32_t n_ranks, pid_t pid);
/* Now and then: passes on what mpirun writes to standard error, sees which ranks have ended. */
void exec_mpirun_look(struct exec_mpirun *m);
/* Which rank ended first; -1: not known. */
int exec_mpirun_first(const struct exec_mpirun *m);
/* It has started ranks, all have ended, and it has not done so for seconds. */
bool exec_mpirun_hangs(const struct exec_mpirun *m);
void exec_mpirun_end(struct exec_mpirun *m);
