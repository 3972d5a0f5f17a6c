/* Starting the processes of a run on this machine. The parent picks a free port and a token, starts n
 * copies of the program with who they are in the environment, and waits. Copies die with their
 * parent. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exec/spin.h"
#include "exec/team.h"
#include "shared/arena.h"

/* Below the range from which the system takes ports for outgoing connections, so that none of those
 * gets it before rank 0 listens. */
enum { FIRST_PORT = 20000, N_PORTS = 12000 };

static bool is_free(int32_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0;

    if (fd >= 0)
        close(fd);
    return ok;
}

static enum lw_status free_port(int64_t token, int32_t *port, struct lw_err *err)
{
    for (int32_t i = 0; i < 1000; i++) {
        *port = FIRST_PORT + (int32_t)((uint64_t)(token + i * 7919) % N_PORTS);
        if (is_free(*port))
            return LW_OK;
    }
    return lw_fail(err, LW_EIO, "no free port between %d and %d for the processes to meet at",
                   FIRST_PORT, FIRST_PORT + N_PORTS - 1);
}

static void set_number(const char *name, int64_t n)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)n);
    setenv(name, text, 1);
}

static void become(int32_t rank, int32_t n_ranks, int32_t port, int64_t token, pid_t parent,
                   char *const argv[])
{
    char address[64];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    setenv("LAPWING_RENDEZVOUS", address, 1);
    set_number("LAPWING_RANK", rank);
    set_number("LAPWING_RANKS", n_ranks);
    set_number("LAPWING_LOCAL_RANK", rank);
    set_number("LAPWING_TOKEN", token);
    execv("/proc/self/exe", argv);
    _exit(127);
}

/* The command line as the system keeps it: NULL-ended, the words in *text. */
static enum lw_status own_arguments(char **text, char ***argv, struct lw_err *err)
{
    FILE *f = fopen("/proc/self/cmdline", "r");
    int64_t room = 0, n = 0, words = 0;
    size_t got = 1;

    *text = NULL;
    while (f && got > 0) {
        if (lw_reserve(text, &room, n + 4096, 1))
            break;
        got = fread(*text + n, 1, 4096, f);
        n += (int64_t)got;
    }
    if (f)
        fclose(f);
    for (int64_t i = 0; i < n; i++)
        words += (*text)[i] == '\0';
    *argv = words > 0 ? lw_calloc((size_t)words + 1, sizeof **argv) : NULL;
    if (!*argv) {
        lw_free(*text);
        return lw_fail(err, LW_EIO, "the command line of this process: cannot be read");
    }
    char *at = *text;
    for (int64_t i = 0; i < words; i++, at += strlen(at) + 1)
        (*argv)[i] = at;
    return LW_OK;
}

static void kill_all(const pid_t *pids, int32_t n)
{
    for (int32_t r = 0; r < n; r++)
        if (pids[r] > 0)
            kill(pids[r], SIGKILL);
}

/* What a shell would say of it. */
static int status_of(int wait_status)
{
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

static void wait_all(pid_t *pids, int32_t n, int64_t grace_ns, int *exit_status)
{
    int64_t until = INT64_MAX;
    int32_t left = n;

    *exit_status = 0;
    while (left > 0) {
        int status;
        pid_t gone = waitpid(-1, &status, WNOHANG);
        for (int32_t r = 0; r < n; r++) {
            if (gone <= 0 || pids[r] != gone)
                continue;
            pids[r] = 0;
            left--;
            if (*exit_status == 0)
                *exit_status = status_of(status);
        }
        if (*exit_status != 0 && until == INT64_MAX)
            until = exec_now_ns() + grace_ns;
        if (exec_now_ns() > until)
            kill_all(pids, n);
        if (gone <= 0)
            nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
}

static enum lw_status start_all(pid_t *pids, int32_t n_ranks, char *const argv[], struct lw_err *err)
{
    pid_t parent = getpid();
    int32_t port = 0;
    int64_t token = (int64_t)parent << 32 ^ exec_now_ns();

    LW_TRY(free_port(token, &port, err));
    fflush(NULL);
    for (int32_t r = 0; r < n_ranks; r++) {
        pids[r] = fork();
        if (pids[r] == 0)
            become(r, n_ranks, port, token, parent, argv);
        if (pids[r] < 0) {
            pids[r] = 0;
            return lw_fail(err, LW_EIO, "starting rank %d: %s", r, strerror(errno));
        }
    }
    return LW_OK;
}

enum lw_status exec_spawn(int32_t n_ranks, int64_t grace_ns, int *exit_status, struct lw_err *err)
{
    char *text, **argv;
    pid_t *pids;

    LW_TRY(own_arguments(&text, &argv, err));
    pids = lw_calloc((size_t)n_ranks, sizeof *pids);
    enum lw_status s = pids ? start_all(pids, n_ranks, argv, err) : lw_fail_nomem(err);
    int32_t n = 0;
    while (pids && n < n_ranks && pids[n] > 0)
        n++;
    if (s != LW_OK)
        kill_all(pids, n);
    wait_all(pids, n, grace_ns, exit_status);
    lw_free(pids);
    lw_free(argv);
    lw_free(text);
    return s;
}
