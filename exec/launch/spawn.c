/* Starting the processes of a run on this machine. The parent picks a free port and a token, starts
 * n copies of the program with their ranks in the environment, and waits. Copies die with their
 * parent. One that a signal stopped is seen as such: when the run has failed it will not end by
 * itself.
 *
 * Ranks of MPI are started by mpirun, the parent's only child. mpirun ends all ranks when one dies;
 * it is asked to give them time to store and print that. It names the rank on its standard error,
 * which passes through the parent.
 *
 * The standard output of all is a file of the parent: a rank may be killed in the middle of an
 * object, and an object that is not whole is not passed on. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exec/cpu/clock_wait.h"
#include "exec/launch/mpirun.h"
#include "exec/launch/spawn.h"
#include "exec/launch/rendezvous_star.h"
#include "shared/base/arena.h"
#include "shared/json/value.h"

/* Below the range from which the system takes ports for outgoing connections, so that none of those
 * gets it before rank 0 listens. */
enum { FIRST_PORT = 20000, N_PORTS = 12000 };

/* Ranks that met end soon after rank 0 did. Those that did not wait for it: they are signalled to
 * end, and killed if they do not. */
#define TOLD_WITHOUT_0_NS INT64_C(1000000000)
#define MOST_WITHOUT_0_NS INT64_C(6000000000)
#define MPIRUN_NS INT64_C(10000000000) /* what mpirun itself takes to end */

static bool is_free(int32_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
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

static void become(int32_t rank, int32_t n_ranks, const char *address, int64_t token, pid_t parent,
                   char *const argv[])
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    setenv("LAPWING_RENDEZVOUS", address, 1);
    set_number("LAPWING_RANK", rank);
    set_number("LAPWING_RANKS", n_ranks);
    set_number("LAPWING_LOCAL_RANK", rank);
    set_number("LAPWING_TOKEN", token);
    execv("/proc/self/exe", argv);
    _exit(EXEC_NO_PROGRAM);
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

/* The statuses of this program; a process that could not become it has none of them. */
static int status_of(int wait_status)
{
    int s = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 1;

    return s <= 3 ? s : 1;
}

struct family {
    const struct exec_spawning *s;
    bool by_mpirun; /* the only child */
    pid_t *pids;    /* [n] 0 = gone */
    bool *stopped;  /* [n] by a signal */
    int32_t n, left;
    int status;           /* of the first that did not succeed, */
    int32_t first;        /* which, */
    int signal_no;        /* and what ended it; 0: itself */
    bool rank_0_ended;    /* by itself */
    int64_t without_0_ns; /* since when the others are without rank 0, which failed */
    bool no_program;
    int64_t until_ns;
    bool killed; /* a rank that was still there then */
    bool told;   /* of the parent's signal */
    FILE *out;   /* what they print */
    struct exec_mpirun mpirun;
    struct exec_identity id; /* where rank 0 listens, and the token */
    bool rank_0_knows;       /* that `first` does not come, or it is too late to say so */
};

static void note(struct family *f, pid_t pid, int status)
{
    for (int32_t r = 0; r < f->n; r++) {
        if (f->pids[r] != pid)
            continue;
        f->stopped[r] = WIFSTOPPED(status);
        if (f->stopped[r])
            return;
        f->pids[r] = 0;
        f->left--;
        f->rank_0_ended |= r == 0 && WIFEXITED(status) && !f->by_mpirun;
        f->no_program |= WIFEXITED(status) && WEXITSTATUS(status) == EXEC_NO_PROGRAM;
        if (f->status != 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
            return;
        f->status = status_of(status);
        f->first = r;
        f->signal_no = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    }
}

static void signal_all(const struct family *f, int signal_no)
{
    for (int32_t r = 0; r < f->n; r++)
        if (f->pids[r] > 0)
            kill(f->pids[r], signal_no);
}

static void send_on(struct family *f)
{
    if (!f->s->signal || !*f->s->signal || f->told)
        return;
    f->told = true;
    signal_all(f, (int)*f->s->signal);
}

/* Once. */
static void end_without_rank_0(struct family *f)
{
    if (f->by_mpirun || f->pids[0] > 0 || f->status == 0)
        return;
    if (f->without_0_ns == 0)
        f->without_0_ns = exec_now_ns();
    else if (f->without_0_ns < INT64_MAX - TOLD_WITHOUT_0_NS &&
             exec_now_ns() > f->without_0_ns + TOLD_WITHOUT_0_NS) {
        signal_all(f, SIGTERM);
        f->without_0_ns = INT64_MAX;
    }
}

/* Rank 0 still waits for a process that ended before the ranks met, or they wait for rank 0. */
static void tell_rank_0(struct family *f)
{
    char why[96];

    if (f->by_mpirun || f->rank_0_knows || f->status == 0 || f->first == 0 || f->pids[0] == 0)
        return;
    f->id.rank = f->first;
    if (f->signal_no)
        snprintf(why, sizeof why, "it was ended by signal %d (%s)", f->signal_no,
                 strsignal(f->signal_no));
    else
        snprintf(why, sizeof why, "it ended with exit status %d; its own message says why",
                 f->status);
    f->rank_0_knows = exec_hello_give_up(&f->id, why, 0) == LW_OK;
}

static void end_rest(struct family *f)
{
    int64_t grace_ns = f->s->grace_ns + (f->by_mpirun ? MPIRUN_NS : 0);

    if (f->by_mpirun && f->pids[0] > 0 && exec_mpirun_hangs(&f->mpirun))
        kill(f->pids[0], SIGKILL);
    if (f->status == 0 && !f->told)
        return;
    tell_rank_0(f);
    end_without_rank_0(f);
    if (f->rank_0_ended && grace_ns > MOST_WITHOUT_0_NS)
        grace_ns = MOST_WITHOUT_0_NS;
    if (f->until_ns == 0 || f->until_ns > exec_now_ns() + grace_ns)
        f->until_ns = exec_now_ns() + grace_ns;
    for (int32_t r = 0; r < f->n; r++)
        if (f->pids[r] > 0 && (f->stopped[r] || exec_now_ns() > f->until_ns)) {
            f->killed = true;
            kill(f->pids[r], SIGKILL);
        }
}

static void wait_all(struct family *f)
{
    while (f->left > 0) {
        int status;
        pid_t one = waitpid(-1, &status, WNOHANG | WUNTRACED);
        if (one > 0)
            note(f, one, status);
        if (f->by_mpirun)
            exec_mpirun_look(&f->mpirun);
        send_on(f);
        end_rest(f);
        if (one <= 0)
            nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    if (!f->by_mpirun)
        return;
    exec_mpirun_look(&f->mpirun);
    f->first = exec_mpirun_first(&f->mpirun);
    f->signal_no = f->mpirun.signal_no;
}

static int64_t draw_token(void)
{
    int64_t token = 0;

    if (getrandom(&token, sizeof token, 0) != (ssize_t)sizeof token)
        token = (int64_t)getpid() << 32 ^ exec_now_ns();
    return token & INT64_MAX;
}

static enum lw_status start_one(struct family *f, int32_t r, struct lw_err *err)
{
    f->pids[r] = fork();
    if (f->pids[r] > 0)
        return LW_OK;
    if (f->pids[r] < 0) {
        f->pids[r] = 0;
        return lw_fail(err, LW_EIO, "starting rank %d: %s", r, strerror(errno));
    }
    if (f->out)
        dup2(fileno(f->out), STDOUT_FILENO);
    set_number("LAPWING_SPAWNED", 1);
    set_number("LAPWING_RUN", f->s->run);
    return LW_OK;
}

static enum lw_status start_all(struct family *f, char *const argv[], struct lw_err *err)
{
    pid_t parent = getpid();
    int32_t port = 0;
    int64_t token = draw_token();
    char loopback[64];

    fflush(NULL);
    if (f->by_mpirun) {
        LW_TRY(exec_mpirun_begin(&f->mpirun, err));
        LW_TRY(start_one(f, 0, err));
        if (f->pids[0] == 0)
            exec_mpirun_become(&f->mpirun, f->s->n_ranks, parent, argv);
        exec_mpirun_watch(&f->mpirun, f->s->n_ranks, f->pids[0]);
        return LW_OK;
    }
    if (!f->s->rendezvous)
        LW_TRY(free_port(token, &port, err));
    snprintf(loopback, sizeof loopback, "127.0.0.1:%d", port);
    const char *address = f->s->rendezvous ? f->s->rendezvous : loopback;
    LW_TRY(exec_identity_address(&f->id, address, err));
    snprintf(f->id.token, sizeof f->id.token, "%lld", (long long)token);
    f->id.n_ranks = f->n;
    for (int32_t r = 0; r < f->n; r++) {
        LW_TRY(start_one(f, r, err));
        if (f->pids[r] == 0)
            become(r, f->n, address, token, parent, argv);
    }
    return LW_OK;
}

/* What they printed, unless it begins as an object and is not a whole one. */
static enum lw_status pass_on(FILE *from, bool *printed, struct lw_err *err)
{
    struct lw_json *j = NULL;
    struct lw_value value;
    struct lw_arena arena = {0};

    long n = fseek(from, 0, SEEK_END) == 0 ? ftell(from) : 0;
    rewind(from);
    char *text = lw_calloc((size_t)n + LW_JSON_PADDING, 1);
    if (!text)
        return lw_fail_nomem(err);
    n = (long)fread(text, 1, (size_t)n, from);
    bool whole = n > 0 && text[0] != '{';
    if (n > 0 && !whole)
        whole = lw_json_open("", text, (size_t)n, &j, NULL) == LW_OK &&
                lw_value_read(j, &arena, &value, NULL) == LW_OK && lw_json_done(j, NULL) == LW_OK;
    lw_json_close(j);
    lw_arena_free(&arena);
    if (whole)
        *printed = fwrite(text, 1, (size_t)n, stdout) == (size_t)n;
    lw_free(text);
    return LW_OK;
}

static void describe_end(const struct family *f, struct exec_spawned *e)
{
    *e = (struct exec_spawned){
        .exit_status = f->status, .first = f->status ? f->first : -1, .signal_no = f->signal_no};
    if (f->signal_no)
        snprintf(e->how, sizeof e->how, "rank %d was ended by signal %d (%.30s)", f->first,
                 f->signal_no, strsignal(f->signal_no));
    else
        snprintf(e->how, sizeof e->how, "rank %d ended first", f->first);
}

/* How the run ended, where no rank could say it. */
static enum lw_status judge(const struct family *f, const struct exec_spawned *ended,
                            struct lw_err *err)
{
    if (f->no_program)
        return lw_fail(err, LW_EIO, "%s cannot be started",
                       f->by_mpirun ? "mpirun (install Open MPI, or set PATH)" : "this program");
    if (f->rank_0_knows && f->rank_0_ended) /* which gave the reason */
        return LW_OK;
    if (f->signal_no && f->first >= 0)
        return lw_fail(err, LW_EFAILED, "%s", ended->how);
    if (f->status == 0 || ended->printed)
        return LW_OK;
    if (f->by_mpirun && f->mpirun.n == 0 && f->first < 0)
        return lw_fail(err, LW_EFAILED,
                       "mpirun ended with exit status %d and no rank was seen; its messages say "
                       "why",
                       f->status);
    return lw_fail(err, LW_EFAILED, "%s%sthe ranks ended with exit status %d; %s",
                   f->first >= 0 ? ended->how : "", f->first >= 0 ? "; " : "", f->status,
                   f->killed ? "those that had not ended in time were killed"
                             : "their messages say why");
}

enum lw_status exec_spawn(const struct exec_spawning *s, struct exec_spawned *ended,
                          struct lw_err *err)
{
    struct family f = {.s = s, .mpirun = EXEC_MPIRUN_NONE};
    char *text, **argv;

    f.by_mpirun = s->backend->capabilities & EXEC_BY_MPIRUN;
    f.n = f.by_mpirun ? 1 : s->n_ranks;
    LW_TRY(exec_rendezvous_room(s->n_ranks, err));
    LW_TRY(own_arguments(&text, &argv, err));
    f.out = tmpfile();
    f.pids = lw_calloc((size_t)f.n, sizeof *f.pids);
    f.stopped = lw_calloc((size_t)f.n, sizeof *f.stopped);
    enum lw_status status = f.pids && f.stopped ? start_all(&f, argv, err) : lw_fail_nomem(err);
    for (int32_t r = 0; f.pids && f.stopped && r < f.n; r++)
        f.left += f.pids[r] > 0;
    if (f.pids && status != LW_OK)
        signal_all(&f, SIGKILL);
    wait_all(&f);
    describe_end(&f, ended);
    if (f.out && status == LW_OK)
        status = pass_on(f.out, &ended->printed, err);
    if (status == LW_OK)
        status = judge(&f, ended, err);
    if (f.out)
        fclose(f.out);
    exec_mpirun_end(&f.mpirun);
    lw_free(f.pids);
    lw_free(f.stopped);
    lw_free(argv);
    lw_free(text);
    return status;
}

bool exec_is_spawned(void)
{
    return getenv("LAPWING_SPAWNED") != NULL;
}

int64_t exec_spawned_run(void)
{
    const char *run = getenv("LAPWING_RUN");

    return exec_is_spawned() && run && *run ? strtoll(run, NULL, 10) : -1;
}

enum lw_status exec_can_spawn(const struct exec_backend *b, struct lw_err *err)
{
    if (!(b->capabilities & EXEC_CAN_PROCESS))
        return lw_fail(err, LW_ENOTSUP, "--spawn: backend '%s' has all ranks in one process",
                       b->name);
    if (!(b->capabilities & (EXEC_CAN_SPAWN | EXEC_BY_MPIRUN)))
        return lw_fail(err, LW_ENOTSUP, "--spawn: backend '%s' needs a launcher of its own",
                       b->name);
    if (b->capabilities & EXEC_BY_MPIRUN && geteuid() == 0 &&
        !(getenv("OMPI_ALLOW_RUN_AS_ROOT") && getenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")))
        return lw_fail(err, LW_ENOTSUP,
                       "--spawn: Open MPI's mpirun starts nothing for root: run as another user, "
                       "or export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 (in a "
                       "container, where root is the only user)");
    return LW_OK;
}

enum lw_status exec_ranks_find(struct exec_ranks *r, const struct exec_backend *b, int64_t *n_ranks,
                               int64_t otherwise, bool spawn, struct lw_err *err)
{
    struct exec_spawned ended = {0};
    bool found = false;

    LW_TRY(exec_identity_read(&r->id, &found, err));
    r->several = found && r->id.n_ranks > 1;
    if (*n_ranks == 0)
        *n_ranks = r->several ? r->id.n_ranks : otherwise;
    if (r->several && *n_ranks != r->id.n_ranks)
        return lw_fail(err, LW_EINVAL,
                       "--ranks is %lld, but %s started %d processes: leave out "
                       "--ranks, or make them equal",
                       (long long)*n_ranks, r->id.source, r->id.n_ranks);
    if (!spawn || r->several || *n_ranks == 1)
        return LW_OK;
    LW_TRY(exec_can_spawn(b, err));
    r->over = true;
    struct exec_spawning spawning = {
        .backend = b, .n_ranks = (int32_t)*n_ranks, .grace_ns = exec_opening_limit(0), .run = -1};
    enum lw_status s = exec_spawn(&spawning, &ended, err);
    r->exit_status = ended.exit_status;
    r->printed = ended.printed;
    return s;
}
