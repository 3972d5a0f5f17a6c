/* mpirun as a child of `lapwing exec --spawn --backend mpi`. mpirun ends all ranks when one dies;
 * it is asked to give them time to store and print that. Which rank ended first is read from its
 * standard error, which passes through the parent, and else from the list of its children, because
 * mpirun names one rank and not always that one. Open MPI 4 was seen to wait for ever with none of
 * its ranks left: exec_mpirun_hangs finds this state. */
#include "exec/launch/mpirun.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "exec/cpu/clock_wait.h"
#include "shared/base/arena.h"

#define LOOK_NS INT64_C(20000000)
#define IDLE_NS INT64_C(10000000000)

enum lw_status exec_mpirun_begin(struct exec_mpirun *m, struct lw_err *err)
{
    return pipe2(m->notes, O_CLOEXEC) == 0 ? LW_OK
                                           : lw_fail(err, LW_EIO, "a pipe: %s", strerror(errno));
}

void exec_mpirun_become(struct exec_mpirun *m, int32_t n_ranks, pid_t parent, char *const argv[])
{
    char n[16], self[PATH_MAX] = "";
    char *const own[] = {"mpirun", "--oversubscribe", "--mca", "odls_base_sigkill_timeout", "5",
                         "-n", n, self};
    size_t n_own = sizeof own / sizeof own[0], argc = 1;

    while (argv[argc])
        argc++;
    char **all = lw_calloc(n_own + argc, sizeof *all);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* on which it ends its ranks */
    if (getppid() != parent)
        _exit(1);
    dup2(m->notes[1], STDERR_FILENO);
    snprintf(n, sizeof n, "%d", n_ranks);
    if (all && readlink("/proc/self/exe", self, sizeof self - 1) > 0) {
        memcpy(all, own, sizeof own);
        memcpy(all + n_own, argv + 1, (argc - 1) * sizeof *all);
        execvp(all[0], all);
    }
    _exit(EXEC_NO_PROGRAM);
}

void exec_mpirun_watch(struct exec_mpirun *m, int32_t n_ranks, pid_t pid)
{
    m->pid = pid;
    m->n_ranks = n_ranks;
    close(m->notes[1]);
    m->notes[1] = -1;
    fcntl(m->notes[0], F_SETFL, O_NONBLOCK);
}

void exec_mpirun_end(struct exec_mpirun *m)
{
    for (int i = 0; i < 2; i++)
        if (m->notes[i] >= 0)
            close(m->notes[i]);
    lw_free(m->ranks);
}

/* "mpirun noticed that process rank 1 with PID 0 on node n exited on signal 9 (Killed)." */
static void read_line(struct exec_mpirun *m)
{
    const char *rank = strstr(m->line, "process rank "), *by = strstr(m->line, "exited on signal ");
    int who, signal;

    if (m->signal_no || !rank || !by || sscanf(rank, "process rank %d", &who) != 1 ||
        sscanf(by, "exited on signal %d", &signal) != 1)
        return;
    m->first = who;
    m->signal_no = signal;
}

static void read_notes(struct exec_mpirun *m)
{
    char part[4096];
    ssize_t n;

    while ((n = read(m->notes[0], part, sizeof part)) > 0) {
        fwrite(part, 1, (size_t)n, stderr);
        for (ssize_t i = 0; i < n; i++) {
            m->line[m->n_line] = part[i];
            m->n_line += m->n_line + 2 < sizeof m->line;
            if (part[i] != '\n')
                continue;
            m->line[m->n_line] = '\0';
            read_line(m);
            m->n_line = 0;
        }
    }
}

/* By the variable that mpirun gives each rank; -1: none, as before it has become this program. */
static int rank_of(pid_t pid)
{
    static const char name[] = "OMPI_COMM_WORLD_RANK=";
    char path[64], *word = NULL;
    size_t room = 0;
    int rank = -1;

    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    FILE *f = fopen(path, "r");
    while (f && rank < 0 && getdelim(&word, &room, '\0', f) > 0)
        if (strncmp(word, name, sizeof name - 1) == 0)
            rank = atoi(word + sizeof name - 1);
    free(word); /* getdelim's */
    if (f)
        fclose(f);
    return rank;
}

static bool has_ended(pid_t pid)
{
    char path[64], state = 'Z';

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    if (f)
        fclose(f);
    return state == 'Z' || state == 'X';
}

static void add_rank(struct exec_mpirun *m, pid_t pid)
{
    int rank;

    for (int64_t i = 0; i < m->n; i++)
        if (m->ranks[i].pid == pid)
            return;
    if ((rank = rank_of(pid)) < 0 || lw_reserve(&m->ranks, &m->room, m->n + 1, sizeof *m->ranks))
        return;
    m->ranks[m->n++] = (struct exec_mpirun_rank){.pid = pid, .rank = rank};
}

static void scan(struct exec_mpirun *m)
{
    char path[64];
    long child;
    bool any = false;

    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)m->pid, (long)m->pid);
    FILE *f = fopen(path, "r");
    while (f && fscanf(f, "%ld", &child) == 1)
        add_rank(m, (pid_t)child);
    if (f)
        fclose(f);
    for (int64_t i = 0; i < m->n; i++) {
        m->ranks[i].gone = m->ranks[i].gone || has_ended(m->ranks[i].pid);
        any |= !m->ranks[i].gone;
        if (m->ranks[i].gone && m->first < 0)
            m->first = m->ranks[i].rank;
    }
    if (any || m->n == 0)
        m->idle_since_ns = exec_now_ns();
}

void exec_mpirun_look(struct exec_mpirun *m)
{
    read_notes(m);
    if (exec_now_ns() < m->look_ns)
        return;
    m->look_ns = exec_now_ns() + (m->n < m->n_ranks ? 0 : LOOK_NS); /* until all are seen */
    scan(m);
}

/* A rank may end before it is seen: the one that is missing ended first. */
int exec_mpirun_first(const struct exec_mpirun *m)
{
    int64_t missing = (int64_t)m->n_ranks * (m->n_ranks - 1) / 2;

    if (m->signal_no || m->n != m->n_ranks - 1)
        return m->first;
    for (int64_t i = 0; i < m->n; i++)
        missing -= m->ranks[i].rank;
    return missing >= 0 && missing < m->n_ranks ? (int)missing : m->first;
}

bool exec_mpirun_hangs(const struct exec_mpirun *m)
{
    return m->n > 0 && exec_now_ns() - m->idle_since_ns > IDLE_NS;
}
