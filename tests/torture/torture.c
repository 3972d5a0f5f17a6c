/* The standing harness: for some minutes, kills in the middle of storing and of running, damaged
 * files (bytes, emptied lists, numbers beyond their limits), hostile connections. It ends with a
 * line for each, "N tried, 0 lost". Lost is: a run that has no row, two rows or a row that says
 * ok; a database that is not whole; a crash, a hang or an exit status above 3; ranks that strangers
 * keep from meeting. Inputs that crash are kept as ./torture-crash-*. Kills mostly wait, so several
 * processes attack at the same time, each in a folder of its own; they count in memory that they
 * share.
 *
 * Usage: torture SECONDS [SEED]. LAPWING is the program, LAPWING_SAN one built with sanitizers for
 * the damaged files (else LAPWING), LAPWING_MPI the folder of the Open MPI plugin (else without
 * MPI). */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exec/launch/rendezvous_star.h"
#include "tests/lib/files/damaged_text.h"

static char folder[PATH_MAX] = "/tmp/lapwing-torture-XXXXXX", home[PATH_MAX];
static char program[PATH_MAX], checked[PATH_MAX];
static uint64_t draws;

enum { STORE, RANKS, FILES, HELLOS, N_COUNTS };
static const char *const what_of[N_COUNTS] = {"kills while a prediction is stored",
                                              "kills of ranks", "damaged files",
                                              "hostile connections"};
static struct totals {
    _Atomic long tried[N_COUNTS], lost[N_COUNTS];
    _Atomic long tried_of[32];    /* damaged files of a kind */
    _Atomic long tried_damage[N_DAMAGES];
    _Atomic long spent_ms[32];    /* by the readers of a kind */
    _Atomic long cut_short;       /* kills between the first moment of a run and its end */
    _Atomic long launcher_blames; /* mpirun ended the others before they saw which rank is gone */
    _Atomic long launcher_hangs;  /* mpirun does not end although each of its ranks has */
    _Atomic long too_slow;        /* MPI did not start in its time: over before the kill */
} *totals;                        /* shared by all attackers */

static uint64_t draw(uint64_t below)
{
    draws = draws * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (draws >> 33) % below;
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void wait_s(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};

    nanosleep(&t, NULL);
}

static void lost(int what, const char *fmt, ...)
{
    va_list ap;

    totals->lost[what]++;
    printf("LOST (%s): ", what_of[what]);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

/* --- children --------------------------------------------------------------------------------- */

/* A shell's words in the folder, in a session of their own; $L and $S are the programs. */
static pid_t start(const char *words)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    setsid();
    if (chdir(folder) != 0)
        _exit(127);
    int out = open("out", O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(out, 1);
    dup2(out, 2);
    setenv("L", program, 1);
    setenv("S", checked, 1);
    execl("/bin/sh", "sh", "-c", words, (char *)NULL);
    _exit(127);
}

static pid_t one_of(pid_t session);

/* The processes that hang, for the report. */
static void show_session(pid_t session)
{
    char words[128];

    snprintf(words, sizeof words, "ps -s %ld -o pid,stat,etimes,wchan:20,args | cut -c1-150",
             (long)session);
    fflush(stdout);
    if (system(words) != 0)
        printf("ps: no answer\n");
}

enum { HANGS = -1, HANGS_ALONE = -2 }; /* the latter: no process of this program is left in it */

/* Its exit status, 128 + signal, or that it was killed after limit_s; its processes are shown. */
static int finish(pid_t child, double limit_s)
{
    double until = now_s() + limit_s;
    int status;

    while (waitpid(child, &status, WNOHANG) == 0) {
        if (now_s() > until) {
            bool alone = one_of(child) == 0;
            show_session(child);
            kill(-child, SIGKILL);
            waitpid(child, &status, 0);
            return alone ? HANGS_ALONE : HANGS;
        }
        wait_s(0.002);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run(double limit_s, const char *fmt, ...)
{
    char words[4096];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    return finish(start(words), limit_s);
}

static const char *in_folder(const char *name)
{
    static char path[2 * PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static char output[1 << 20]; /* what output_says read last */
static size_t output_bytes;

static bool output_says(const char *text)
{
    FILE *f = fopen(in_folder("out"), "r");

    output_bytes = f ? fread(output, 1, sizeof output - 1, f) : 0;
    output[output_bytes] = '\0';
    if (f)
        fclose(f);
    return strstr(output, text) != NULL;
}

static void forget_output(void)
{
    unlink(in_folder("out"));
}

/* --- databases -------------------------------------------------------------------------------- */

static long ask(const char *file, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *q = NULL;
    long n = -1;

    if (sqlite3_open(in_folder(file), &db) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW)
        n = (long)sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return n;
}

static char answer[4096];

static bool asks_text(const char *file, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *q = NULL;

    answer[0] = '\0';
    if (sqlite3_open(in_folder(file), &db) == SQLITE_OK &&
        sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW)
        snprintf(answer, sizeof answer, "%s", (const char *)sqlite3_column_text(q, 0));
    sqlite3_finalize(q);
    sqlite3_close(db);
    return answer[0] != '\0';
}

static bool is_whole(const char *file)
{
    return ask(file, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'") ==
           1;
}

/* The kill falls at any moment of the prediction, as long as the one before took. Those that left a
 * failed run are counted. */
static void kill_store(void)
{
    static double takes_s = 0.06;
    static long failed_before;
    static const char words[] =
        "exec \"$L\" sim -w w.json -c dgx-a100 --as-recorded --dp 4 --steps 200 --spans --db s.db "
        "-q";
    pid_t child = start(words);

    wait_s(takes_s * (double)draw(1000) * 1e-3);
    kill(child, SIGKILL);
    finish(child, 10);
    totals->tried[STORE]++;
    if (access(in_folder("s.db"), F_OK) != 0)
        return;
    double began = now_s(); /* the next command */
    int rc = run(20, "%s", words);
    takes_s = now_s() - began;
    if (rc != 0 || !is_whole("s.db"))
        lost(STORE, "the next prediction exits %d", rc);
    long failed = ask("s.db", "SELECT count(*) FROM run WHERE status = 'failed'");
    totals->cut_short += failed > failed_before;
    failed_before = failed;
    if (ask("s.db", "SELECT count(*) FROM run WHERE status = 'running'") != 0)
        lost(STORE, "a dead run stays running");
    if (ask("s.db", "SELECT count(*) FROM run WHERE status = 'ok' AND n_spans <> (SELECT "
                    "ifnull(sum(n), 0) FROM span_block WHERE span_block.run = run.id)") != 0)
        lost(STORE, "a run is good without its spans");
    if (ask("s.db", "SELECT count(*) FROM run") > 40) {
        run(5, "rm -f s.db*");
        failed_before = 0;
    }
}

/* --- ranks ------------------------------------------------------------------------------------ */

enum { THREADS, SPAWN, MPI, SPAWN_MPI };
#define WITH_MPI                                                                                   \
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "                            \
    "LAPWING_PLUGINS=\"$LAPWING_MPI\"; "
static const char *const launches[] = {
    "exec \"$L\" exec -w w.json --dp 3", "exec \"$L\" exec -w w.json --dp 3 --spawn",
    WITH_MPI "exec mpirun --oversubscribe -n 3 \"$L\" exec -w w.json --dp 3 --backend mpi",
    WITH_MPI "exec \"$L\" exec -w w.json --dp 3 --spawn --backend mpi"};

/* A process of the session that is this program, drawn; 0: none. mpirun gives each rank a process
 * group of its own. */
static pid_t one_of(pid_t session)
{
    char line[256], name[64];
    pid_t found[64];
    int n = 0;

    snprintf(line, sizeof line, "ps -eo pid=,sid=,stat=,comm=");
    FILE *f = popen(line, "r");
    while (f && fgets(line, sizeof line, f)) {
        int pid, sid;
        char stat[16];
        if (sscanf(line, "%d %d %15s %60s", &pid, &sid, stat, name) == 4 && n < 64 &&
            sid == session && stat[0] != 'Z' &&
            (strcmp(name, "lapwing") == 0 || strcmp(name, "exe") == 0))
            found[n++] = (pid_t)pid;
    }
    if (f)
        pclose(f);
    return n > 0 ? found[draw((uint64_t)n)] : 0;
}

static bool all_end(pid_t session, double limit_s)
{
    double until = now_s() + limit_s;

    while (one_of(session) > 0 && now_s() < until)
        wait_s(0.05);
    return one_of(session) == 0;
}

static bool has_mpi(void)
{
    const char *plugin = getenv("LAPWING_MPI");

    return plugin && *plugin && system("command -v mpirun >/dev/null") == 0;
}

/* Its rank by the variable of its launcher; -1: it has none, because it holds all ranks or starts
 * them. */
static int rank_of(pid_t process)
{
    static const char *const names[] = {"LAPWING_RANK=", "OMPI_COMM_WORLD_RANK="};
    static char all[1 << 16];
    char path[64];

    snprintf(path, sizeof path, "/proc/%ld/environ", (long)process);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(all, 1, sizeof all - 1, f) : 0;
    if (f)
        fclose(f);
    all[n] = '\0';
    for (const char *at = all; at < all + n; at += strlen(at) + 1)
        for (int i = 0; i < 2; i++)
            if (strncmp(at, names[i], strlen(names[i])) == 0)
                return atoi(at + strlen(names[i]));
    return -1;
}

/* Who may be blamed. A rank that had not met the others gave up, or has not come where the launcher
 * ended one that had. Where rank 0 or the process of all ranks is killed, its row is found by the
 * next command. mpirun ends the others by SIGTERM, sometimes before they saw that the rank is gone:
 * that is counted. So is mpirun that was killed before it had started all ranks, or a rank within
 * its exec, which has the program's name before its variables can be read: then none was seen. Of
 * --spawn the ranks that were started say who has not come. Where MPI did not start in its time,
 * the run was over before the kill, and says so.
 * rank -1: the launcher, or all ranks, of which any may be the first that is missed. */
static bool blames(int how, int rank, bool *by_launcher)
{
    static const char dead[] = "ended before the run was stored";
    char gone[32], gave_up[32], ended[32], first[32], absent[32];

    snprintf(gone, sizeof gone, "rank %d is gone", rank);
    snprintf(gave_up, sizeof gave_up, "rank %d gave up", rank);
    snprintf(ended, sizeof ended, "rank %d was ended", rank);
    snprintf(first, sizeof first, "rank %d ended first", rank);
    snprintf(absent, sizeof absent, "(not come: %d)", rank);
    if (asks_text("r.db", "SELECT message FROM run WHERE id = 1") &&
        (strstr(answer, gone) || strstr(answer, gave_up) || strstr(answer, ended) ||
         strstr(answer, first) || strstr(answer, absent)))
        return true;
    if (rank < 0 && (strstr(answer, " is gone") || strstr(answer, " was ended") ||
                     strstr(answer, " gave up") || strstr(answer, " ended first")))
        return true;
    if (rank < 0 && strstr(answer, "MPI_Init_thread did not return")) {
        totals->too_slow++;
        return true;
    }
    if (rank < 0 && how == SPAWN && strstr(answer, "have not come"))
        return true;
    *by_launcher = (how == MPI || (how == SPAWN_MPI && rank < 0)) &&
                   (strstr(answer, "stopped by signal 15") || strstr(answer, dead) ||
                    (rank < 0 && (strstr(answer, "have not come") ||
                                  strstr(answer, "no rank was seen"))));
    return *by_launcher || (rank <= 0 && strstr(answer, dead));
}

/* JSON objects that the run printed: lines "status" at the first level. */
static int objects_printed(void)
{
    int n = 0;

    if (output_says("\n  \"status\": "))
        for (const char *at = output; (at = strstr(at, "\n  \"status\": ")) != NULL; at++)
            n++;
    return n;
}

static void wait_for_row(const char *file, double limit_s)
{
    double until = now_s() + limit_s;

    while (ask(file, "SELECT count(*) FROM run") < 1 && now_s() < until)
        wait_s(0.01);
}

/* Killed when the run has its row: it is told exactly once, as failed, by the rank that died. A
 * process that was not killed itself exits 0 to 3. */
static void kill_rank(void)
{
    int how = (int)draw(has_mpi() ? 4 : 2), rc;
    char words[1024];
    bool by_launcher = false;

    run(5, "rm -f r.db*");
    snprintf(words, sizeof words,
             "%s --steps 100000 --warmup 0 --no-verify --compute sleep --timeout 2 --db r.db "
             "-q --format json",
             launches[how]);
    forget_output();
    pid_t child = start(words);
    wait_for_row("r.db", 20);
    wait_s((double)draw(1000) * 1e-3);
    pid_t victim = one_of(child);
    int rank = victim > 0 ? rank_of(victim) : -1;
    kill(victim > 0 ? victim : -child, SIGKILL);
    rc = finish(child, 60);
    kill(-child, SIGKILL);
    totals->tried[RANKS]++;
    totals->launcher_hangs += rc == HANGS_ALONE;
    bool killed = victim == child && rc == 128 + SIGKILL, own = how != MPI && !killed;
    if (rc == 0 || rc == HANGS || (own && rc > 3))
        lost(RANKS, "%s: rank %d killed, exit %d", words, rank, rc);
    if (!all_end(child, 30)) /* ranks of a dead mpirun see that it is gone */
        lost(RANKS, "%s: a rank outlives the others", words);
    int objects = objects_printed();
    if (run(20, "\"$L\" exec -w w.json --dp 2 --steps 1 --compute sleep --db r.db -q") != 0)
        lost(RANKS, "the next run fails");
    long bad = ask("r.db", "SELECT count(*) FROM run WHERE status IN ('failed', 'timeout')"
                           " AND id = 1");
    long all = ask("r.db", "SELECT count(*) FROM run");
    if (all != 2 || bad != 1)
        lost(RANKS, "%s: rank %d killed: %ld runs, %ld of them failed", words, rank, all, bad);
    else if (!blames(how, rank, &by_launcher))
        lost(RANKS, "%s: rank %d killed, and blamed is: %s", words, rank, answer);
    if (objects > 1 || (objects == 0 && own && rank >= 0))
        lost(RANKS, "%s: rank %d killed: %d objects are printed", words, rank, objects);
    totals->launcher_blames += by_launcher;
}

/* --- damaged files ---------------------------------------------------------------------------- */

/* Where the seeds of each kind of input lie (the folder of the run: seed-*), and who reads it. */
static const struct kind {
    const char *name, *seeds[4], *commands[5];
} kinds[] = {
    {"workload",
     {"seed-workload*", "tests/fuzz/corpus/files/workload.json"},
     {"plan -w x", "sim -w x --no-db", "sim -w x --dp 2 --zero 3 --no-db",
      "recommend x -c dgx-h100"}},
    {"cluster",
     {"traces/clusters/*.json", "tests/fuzz/corpus/files/cluster.json"},
     {"sim -w w.json -c x --no-db", "cost -c x", "cluster x"}},
    {"plan",
     {"seed-plan", "tests/fuzz/corpus/files/plan.json"},
     {"plan x", "sim x --no-db", "plan diff x x",
      "exec x --steps 1 --compute sleep --no-db "
      "--timeout 5"}},
    {"strategy",
     {"seed-strategy", "tests/fuzz/corpus/files/strategy.json"},
     {"plan -w w.json -s x", "sim -w w.json -s x --no-db"}},
    {"Kineto",
     {"seed-kineto*", "tests/fuzz/corpus/kineto/*", "traces/recorded/*.gz"},
     {"inspect x", "import x -o y.json", "sim --replay x --no-db", "inspect x --salvage",
      "import x --step 5 -o y.json"}},
    {"Chrome", {"seed-chrome"}, {"inspect x", "import x -o y.json"}},
    {"nccl-tests",
     {"tests/fuzz/corpus/bench/*"},
     {"import x --cluster-out y.json", "validate x", "cost -c dgx-a100 --measured x"}},
    {"calls", {"seed-calls*"}, {"import x --cluster-out y.json", "inspect x"}},
    {"database",
     {"seed-db"},
     {"runs --db x", "report --db x -o y.html", "explain 1 --db x", "plot timeline --db x -o y.svg",
      "sim -w w.json --db x"}},
    {"sidecar",
     {"traces/recorded/*.sidecar.json"},
     {"import seed-kineto --sidecar x -o y.json", "inspect x"}},
    {"config.json", {"seed-config"}, {"model x -o y.json", "model x"}},
    {"golden",
     {"seed-golden*", "tests/golden/*.json", "tests/fuzz/corpus/pipedream/*"},
     {"golden x", "import x -o y.json"}},
    {"validate",
     {"tests/fuzz/corpus/groundtruth/*", "seed-table*"},
     {"validate x", "import x -o y.json"}},
    {"framework",
     {"seed-framework*"},
     {"framework x", "sim -w gpt2 -c dgx-h100 --framework x --no-db"}},
    {"GOAL",
     {"tests/fuzz/corpus/goal/*"},
     {"inspect x", "sim --replay x --no-db", "import x -o y.json"}},
    {"graphs",
     {"tests/fuzz/corpus/graph/*"},
     {"inspect x", "sim --replay x --no-db", "import x -o y.json"}},
    {"nsys",
     {"tests/fuzz/corpus/nsys/*"},
     {"inspect x", "import x -o y.json", "sim --replay x --no-db"}},
    {"logs",
     {"tests/fuzz/corpus/collectives/*"},
     {"inspect x", "import x --cluster-out y.json", "import x -o y.json"}},
    {"results", {"seed-results"}, {"validate --coverage x"}},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };
_Static_assert(N_KINDS <= sizeof totals->tried_of / sizeof totals->tried_of[0], "room to count");
static glob_t seeds[N_KINDS];

enum { MOST_BYTES = 1 << 20, ROOM = MOST_BYTES + 4096 };

/* With ROOM bytes. */
static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(ROOM);

    *n = f ? fread(text, 1, MOST_BYTES, f) : 0;
    if (f)
        fclose(f);
    return text;
}

static void keep(const char *command)
{
    char name[PATH_MAX + 64];

    snprintf(name, sizeof name, "%s/torture-crash-%ld-%ld", home, (long)getpid(),
             totals->tried[FILES]);
    run(5, "cp x '%s'; echo '%s' > '%s.cmd'", name, command, name);
}

static const char *one_command(const struct kind *k)
{
    int n = 0;

    while (n < 5 && k->commands[n])
        n++;
    return k->commands[draw((uint64_t)n)];
}

/* Of two kinds, that whose readers had less time: each has about as much, so that a slow one leaves
 * time for the others. */
static uint64_t kind_of_reader(void)
{
    uint64_t a = draw(N_KINDS), b = draw(N_KINDS);

    return totals->spent_ms[a] < totals->spent_ms[b] ? a : b;
}

/* The smaller of two: what is damaged in it is read sooner, and so are more of them. */
static const char *one_seed(const glob_t *g)
{
    const char *a = g->gl_pathv[draw(g->gl_pathc)], *b = g->gl_pathv[draw(g->gl_pathc)];
    struct stat of_a, of_b;

    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_b.st_size < of_a.st_size ? b : a;
}

/* A file of one kind, given to a reader of that kind; one in four times to another's. */
static void try_file(void)
{
    uint64_t reader = kind_of_reader(), k = draw(4) ? reader : draw(N_KINDS);
    const char *command = one_command(&kinds[reader]);
    enum damage how = (enum damage)draw(N_DAMAGES);
    double began = now_s();
    size_t n;
    char *text = read_all(one_seed(&seeds[k]), &n);

    n = damage_text(how, text, n, ROOM, draw);
    FILE *f = fopen(in_folder("x"), "wb");
    if (f) {
        fwrite(text, 1, n, f);
        fclose(f);
    }
    free(text);
    forget_output();
    /* 2 minutes of this process's own time: the machine may be busy with other things */
    int rc = run(900, "ulimit -t 120; ASAN_OPTIONS=allocator_may_return_null=1 exec \"$S\" %s",
                 command);
    totals->tried[FILES]++;
    totals->tried_of[k]++;
    totals->tried_damage[how]++;
    totals->spent_ms[reader] += (long)((now_s() - began) * 1e3);
    if (rc < 0 || rc > 3 || output_says("runtime error:") || output_says("AddressSanitizer") ||
        access(in_folder("pwned"), F_OK) == 0) {
        lost(FILES, "%s: %s: exit %d", damage_name(how), command, rc);
        keep(command);
    }
}

/* --- hostile connections ---------------------------------------------------------------------- */

static struct exec_hello genuine; /* of a rank 1, with a proof for another connection */
static const char token[] = "torture";

static int connect_to(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

static pid_t start_rank(int rank, int port)
{
    char words[512];

    snprintf(words, sizeof words,
             "export LAPWING_RANK=%d LAPWING_RANKS=2 LAPWING_TOKEN=%s "
             "LAPWING_RENDEZVOUS=127.0.0.1:%d; exec \"$L\" exec -w w.json --dp 2 --steps 1 "
             "--warmup 0 --compute sleep --no-db",
             rank, token, port);
    return start(words);
}

/* The hello of a real rank 1, received by a false rank 0. */
static bool learn_hello(void)
{
    struct exec_challenge c = {.magic = EXEC_MAGIC, .protocol = EXEC_PROTOCOL, .number = {1, 2}};
    int port = 20000 + (int)draw(12000), on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};

    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&a, sizeof a) != 0 || listen(listener, 4) != 0)
        return false;
    pid_t rank = start_rank(1, port);
    int fd = accept(listener, NULL, NULL);
    bool ok = send(fd, &c, sizeof c, MSG_NOSIGNAL) == (ssize_t)sizeof c &&
              recv(fd, &genuine, sizeof genuine, MSG_WAITALL) == (ssize_t)sizeof genuine;
    kill(-rank, SIGKILL);
    finish(rank, 5);
    close(fd);
    close(listener);
    return ok && genuine.claim.rank == 1;
}

static void fill_random(void *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)to)[i] = (unsigned char)draw(256);
}

/* One field of what a process says of itself, replaced. */
static void damage_claim(struct exec_claim *c)
{
    static const int32_t numbers[] = {-1, 0, 2, 3, 255, INT32_MAX, INT32_MIN};
    int32_t number = numbers[draw(sizeof numbers / sizeof numbers[0])];
    struct {
        void *at;
        size_t bytes;
    } fields[] = {{&c->rank, 4},
                  {&c->n_ranks, 4},
                  {&c->channel, 4},
                  {c->agreement.plan_hash, sizeof c->agreement.plan_hash},
                  {c->agreement.backend, sizeof c->agreement.backend},
                  {c->agreement.program, sizeof c->agreement.program},
                  {c->agreement.settings, sizeof c->agreement.settings}};
    int k = (int)draw(sizeof fields / sizeof fields[0]);

    if (k < 3)
        memcpy(fields[k].at, &number, sizeof number);
    else
        fill_random((char *)fields[k].at + draw(8), fields[k].bytes - 8);
}

/* A whole hello: random, or the genuine one with damage and without a proof for this connection. */
static size_t make_hello(struct exec_hello h[2])
{
    h[0] = h[1] = genuine;
    switch (draw(5)) {
    case 0:
        fill_random(h, sizeof *h);
        break;
    case 1: /* the right beginning, then anything */
        fill_random((char *)h + 8, sizeof *h - 8);
        break;
    case 2:
        damage_claim(&h->claim);
        break;
    case 3: /* repeated, and more than one hello */
        return 2 * sizeof *h;
    default: /* cut short */
        return draw(sizeof *h);
    }
    return sizeof *h;
}

static void one_hello(int port)
{
    struct exec_hello h[2];
    size_t n = make_hello(h);
    int fd = connect_to(port);

    if (fd < 0)
        return;
    for (size_t at = 0, piece = draw(6) ? n : 1 + draw(64); at < n; at += piece) { /* or it drips */
        send(fd, (char *)h + at, piece < n - at ? piece : n - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (piece < n)
            wait_s(0.0002);
    }
    totals->tried[HELLOS]++;
    if (draw(4) == 0)
        wait_s(0.001);
    if (draw(8)) /* the rest stays, silent */
        close(fd);
}

static void attack_meeting(void)
{
    int port = 20000 + (int)draw(12000), rc[2];
    pid_t rank[2];

    for (int r = 0; r < 2; r++) {
        rank[r] = start_rank(r, port);
        double until = now_s() + 0.4;
        while (r == 0 && now_s() < until)
            one_hello(port);
    }
    for (int r = 0; r < 2; r++)
        rc[r] = finish(rank[r], 40);
    if (rc[0] != 0 || rc[1] != 0)
        lost(HELLOS, "the ranks exit %d and %d", rc[0], rc[1]);
    for (int fd = 3; fd < 4096; fd++)
        close(fd);
}

/* A process that knows the token, and says something else than a rank of this run does: the run is
 * refused with a line that people can read. */
static void attack_with_token(void)
{
    int port = 20000 + (int)draw(12000), fd = -1;
    struct exec_hello h = genuine;
    struct exec_challenge c;

    forget_output();
    pid_t rank = start_rank(0, port);
    double until = now_s() + 20;
    while (fd < 0 && now_s() < until) {
        fd = connect_to(port);
        wait_s(0.005);
    }
    damage_claim(&h.claim);
    if (recv(fd, &c, sizeof c, MSG_WAITALL) == (ssize_t)sizeof c) {
        exec_hello_prove(token, &c, &h.claim, h.proof);
        send(fd, &h, sizeof h, MSG_NOSIGNAL);
        totals->tried[HELLOS]++;
    }
    int rc = finish(rank, 40);
    if (rc != 1 || !output_says("lapwing exec: "))
        lost(HELLOS, "with the token: rank 0 exits %d: %s", rc, output);
    for (size_t i = 0; i < output_bytes; i++)
        if ((unsigned char)output[i] < ' ' && output[i] != '\n' && output[i] != '\t') {
            lost(HELLOS, "with the token: byte %d leaves", output[i]);
            break;
        }
    close(fd);
}

/* ------------------------------------------------------------------------------------------------
 */

static void find_program(const char *variable, const char *otherwise, char path[PATH_MAX])
{
    const char *given = getenv(variable);

    if (!realpath(given && *given ? given : otherwise, path)) {
        fprintf(stderr, "%s: %s\n", given ? given : otherwise, strerror(errno));
        exit(1);
    }
}

static void find_seeds(void)
{
    char pattern[2 * PATH_MAX];

    for (int k = 0; k < N_KINDS; k++) {
        for (int i = 0, n = 0; i < 4 && kinds[k].seeds[i]; i++) {
            const char *name = kinds[k].seeds[i];
            bool made = strncmp(name, "seed-", 5) == 0;
            snprintf(pattern, sizeof pattern, "%s/%s", made ? folder : home, name);
            glob(pattern, n++ ? GLOB_APPEND : 0, NULL, &seeds[k]);
        }
        if (seeds[k].gl_pathc == 0) {
            fprintf(stderr, "torture: no seed for %s\n", kinds[k].name);
            exit(1);
        }
    }
}

static int report(void)
{
    int failed = 0;

    for (int i = 0; i < N_COUNTS; i++) {
        printf("%s: %ld tried, %ld lost\n", what_of[i], totals->tried[i], totals->lost[i]);
        failed += totals->lost[i] > 0 || totals->tried[i] == 0;
    }
    for (int k = 0; k < N_KINDS; k++)
        printf("%s%s %ld", k ? ", " : "damaged files by kind: ", kinds[k].name,
               totals->tried_of[k]);
    for (int how = 0; how < N_DAMAGES; how++)
        printf("%s%s %ld", how ? ", " : "\ndamaged files by damage: ",
               damage_name((enum damage)how), totals->tried_damage[how]);
    putchar('\n');
    printf("%ld predictions were killed between their first moment and their end\n",
           totals->cut_short);
    if (totals->launcher_blames > 0)
        printf("%ld times mpirun ended the other ranks before they could blame one\n",
               totals->launcher_blames);
    if (totals->launcher_hangs > 0)
        printf("%ld times mpirun did not end though its ranks had\n", totals->launcher_hangs);
    if (totals->too_slow > 0)
        printf("%ld times the machine was too busy for MPI to start in its time\n",
               totals->too_slow);
    if (totals->tried[STORE] >= 100 && totals->cut_short == 0) {
        printf("LOST: no kill fell into a prediction, so nothing was tried\n");
        failed++;
    }
    printf("%d passed, %d failed\n", N_COUNTS - failed, failed);
    return failed != 0;
}

/* In the folder; $P is the project. */
static const char make_seeds[] =
    "set -e; \"$L\" model mlp --layers 4 --width 64 -o w.json; cp w.json seed-workload; "
    "\"$L\" plan -w w.json --dp 2 -o seed-plan; "
    "\"$L\" framework torch-ddp -o seed-framework; "
    "\"$L\" framework megatron-lm -o seed-framework2; "
    "\"$L\" sim -w w.json -c dgx-a100 --as-recorded --dp 4 --spans --db seed-db; "
    "\"$L\" exec -w w.json --dp 3 --steps 1 --no-db; rm -f seed-db-*; "
    "\"$L\" export 1 --db seed-db --format chrome -o seed-chrome; rm -f seed-db-*; "
    "zcat \"$P\"/traces/recorded/gpt6__gloo2__cap25.rank0.json.gz > seed-kineto; "
    "json() { awk '/^```json/ { on = 1; next } /^```/ { if (on) exit } on' "
    "\"$P/docs/formats/$1.md\"; }; "
    "json strategy > seed-strategy; json model_config > seed-config; "
    "json workload > seed-workload2; "
    "sed -n 's/^    \\(# \\|comm,\\|call,\\|span,\\)/\\1/p' \"$P\"/docs/formats/calls.md > "
    "seed-calls; "
    "for f in \"$P\"/../shared/golden/*.jsonl; do [ -e \"$f\" ] || continue; "
    "head -n 3 \"$f\" > seed-golden-$(basename \"$f\"); done; "
    "sed -n 's/^    \\(model,\\|llama\\)/\\1/p' \"$P\"/docs/formats/runs.md > seed-table-runs.csv; "
    "test -s seed-table-runs.csv; cp \"$P\"/docs/results/evidence/bloom_3d_a100.csv "
    "seed-results";

static void attack_hellos(void)
{
    if (draw(3))
        attack_meeting();
    else
        attack_with_token();
}

static void (*const attackers[])(void) = {kill_store, kill_rank, kill_rank, kill_rank, try_file,
                                          try_file,   try_file,  try_file,  attack_hellos};
enum { N_ATTACKERS = sizeof attackers / sizeof attackers[0] };

/* In a folder below the common one, with the inputs that commands name. */
static void attack(int i, double until)
{
    size_t n = strlen(folder);

    draws += (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15);
    snprintf(folder + n, sizeof folder - n, "/%d", i);
    if (mkdir(folder, 0700) != 0 || run(20, "cp ../w.json ../seed-kineto .") != 0) {
        perror(folder);
        _exit(1);
    }
    while (now_s() < until)
        attackers[i]();
    fflush(stdout);
    _exit(0);
}

static void report_minute(double began)
{
    printf("after %.0f min:", (now_s() - began) / 60);
    for (int i = 0; i < N_COUNTS; i++)
        printf("%s %s %ld tried, %ld lost", i ? "," : "", what_of[i], totals->tried[i],
               totals->lost[i]);
    putchar('\n');
    fflush(stdout);
}

/* All at the same time; true when each came to its end. */
static bool attack_until(double until)
{
    pid_t child[N_ATTACKERS];
    bool ended = true;
    double began = now_s();
    int status;

    fflush(stdout);
    for (int i = 0; i < N_ATTACKERS; i++)
        if ((child[i] = fork()) == 0)
            attack(i, until);
    for (double next = began + 60; next < until; next += 60) {
        wait_s(next > now_s() ? next - now_s() : 0);
        report_minute(began);
    }
    for (int i = 0; i < N_ATTACKERS; i++)
        if (waitpid(child[i], &status, 0) != child[i] || status != 0) {
            printf("LOST: attacker %d ends with status %d\n", i, status);
            ended = false;
        }
    return ended;
}

int main(int argc, char **argv)
{
    double until = now_s() + (argc > 1 ? atof(argv[1]) : 60);

    draws = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    signal(SIGPIPE, SIG_IGN);
    totals = mmap(NULL, sizeof *totals, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (totals == MAP_FAILED) {
        perror("shared counts");
        return 1;
    }
    find_program("LAPWING", "build/lapwing", program);
    find_program("LAPWING_SAN", program, checked);
    if (!getcwd(home, sizeof home) || !mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    printf("torture: seed %llu, in %s, %s, %s\n", (unsigned long long)draws, folder,
           strcmp(program, checked) == 0 ? "without sanitizers" : "files under sanitizers",
           has_mpi() ? "with MPI" : "without MPI");
    fflush(stdout);
    setenv("P", home, 1);
    int rc = run(60, "%s", make_seeds);
    if (rc != 0 || !learn_hello()) {
        fprintf(stderr, "torture: commands exit %d before any attack: see %s/out\n", rc, folder);
        return 1;
    }
    find_seeds();
    bool ended = attack_until(until);
    run(20, "cd / && rm -rf '%s'", folder);
    return report() || !ended;
}
