/* The standing harness: for some minutes, kills in the middle of storing and of running, damaged
 * files, hostile connections. It ends with a line for each, "N tried, 0 lost". Lost is: a run that
 * is not told, told twice or told as good; a database that is not whole; a crash, a hang or an exit
 * status above 3; ranks that strangers keep from meeting. Inputs that crash are kept as
 * ./torture-crash-*.
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
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[PATH_MAX] = "/tmp/lapwing-torture-XXXXXX", home[PATH_MAX];
static char program[PATH_MAX], checked[PATH_MAX];
static uint64_t draws;

static struct count {
    const char *what;
    long tried, lost;
} counts[] = {{"kills while a prediction is stored", 0, 0},
              {"kills of ranks", 0, 0},
              {"damaged files", 0, 0},
              {"hostile connections", 0, 0}};
enum { STORE, RANKS, FILES, HELLOS, N_COUNTS };
static long cut_short; /* kills that fell between the first moment of a run and its end */
static long launcher_hangs; /* mpirun does not end although each of its ranks has */

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

    counts[what].lost++;
    printf("LOST (%s): ", counts[what].what);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

/* --- children -----------------------------------------------------------------------------------
 */

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

static bool output_says(const char *text)
{
    static char all[1 << 20];
    FILE *f = fopen(in_folder("out"), "r");

    if (!f)
        return false;
    all[fread(all, 1, sizeof all - 1, f)] = '\0';
    fclose(f);
    return strstr(all, text) != NULL;
}

static void forget_output(void)
{
    unlink(in_folder("out"));
}

/* --- databases ----------------------------------------------------------------------------------
 */

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
        "exec \"$L\" sim -w w.json -c dgx-a100 --dp 4 --steps 200 --spans --db s.db -q";
    pid_t child = start(words);

    wait_s(takes_s * (double)draw(1000) * 1e-3);
    kill(child, SIGKILL);
    finish(child, 10);
    counts[STORE].tried++;
    if (access(in_folder("s.db"), F_OK) != 0)
        return;
    double began = now_s(); /* the next command */
    int rc = run(20, "%s", words);
    takes_s = now_s() - began;
    if (rc != 0 || !is_whole("s.db"))
        lost(STORE, "the next prediction exits %d", rc);
    long failed = ask("s.db", "SELECT count(*) FROM run WHERE status = 'failed'");
    cut_short += failed > failed_before;
    failed_before = failed;
    if (ask("s.db", "SELECT count(*) FROM run WHERE status = 'running'") != 0)
        lost(STORE, "a dead run stays running");
    if (ask("s.db", "SELECT count(*) FROM run WHERE status = 'ok' AND n_spans <> (SELECT count(*) "
                    "FROM span WHERE span.run = run.id)") != 0)
        lost(STORE, "a run is good without its spans");
    if (ask("s.db", "SELECT count(*) FROM run") > 40) {
        run(5, "rm -f s.db*");
        failed_before = 0;
    }
}

/* --- ranks --------------------------------------------------------------------------------------
 */

static const char *const launches[] = {
    "exec \"$L\" exec -w w.json --dp 3", "exec \"$L\" exec -w w.json --dp 3 --spawn",
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "LAPWING_PLUGINS=\"$LAPWING_MPI\"; "
    "exec mpirun --oversubscribe -n 3 \"$L\" exec -w w.json --dp 3 --backend mpi"};

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

static void kill_rank(void)
{
    int how = (int)draw(has_mpi() ? 3 : 2), rc;
    char words[1024];

    run(5, "rm -f r.db*");
    snprintf(words, sizeof words,
             "%s --steps 100000 --warmup 0 --no-verify --compute sleep --timeout 2 --db r.db -q",
             launches[how]);
    forget_output();
    pid_t child = start(words);
    wait_s(0.05 + (double)draw(900) * 1e-3);
    pid_t victim = one_of(child);
    if (victim > 0)
        kill(victim, SIGKILL);
    else
        kill(-child, SIGKILL);
    rc = finish(child, 40);
    kill(-child, SIGKILL);
    counts[RANKS].tried++;
    launcher_hangs += rc == HANGS_ALONE;
    if (rc == 0 || rc == HANGS)
        lost(RANKS, "%s: exit %d", words, rc);
    if (!all_end(child, 30)) /* ranks of a dead mpirun see that it is gone */
        lost(RANKS, "%s: a rank outlives the others", words);
    if (access(in_folder("r.db"), F_OK) != 0)
        return; /* before the first moment */
    if (run(20, "\"$L\" exec -w w.json --dp 2 --steps 1 --compute sleep --db r.db -q") != 0)
        lost(RANKS, "the next run fails");
    long bad = ask("r.db", "SELECT count(*) FROM run WHERE status IN ('failed', 'timeout')");
    long all = ask("r.db", "SELECT count(*) FROM run");
    if (all - bad != 1 || bad > 1)
        lost(RANKS, "%s: %ld runs, %ld of them failed", words, all, bad);
}

/* --- damaged files ------------------------------------------------------------------------------
 */

static const char *const readers[] = {"plan -w x",
                                      "sim -w x --no-db",
                                      "sim -w w.json -c x --no-db",
                                      "cost -c x",
                                      "plan x",
                                      "sim x --no-db",
                                      "inspect x",
                                      "import x -o y.json",
                                      "golden x",
                                      "validate x",
                                      "cluster x",
                                      "plan -w w.json -s x",
                                      "runs --db x",
                                      "report --db x -o y.html",
                                      "explain 1 --db x",
                                      "plot timeline --db x -o y.svg",
                                      "sim --replay x --no-db",
                                      "recommend x -c dgx-h100"};

static char *read_all(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(1 << 20);

    *n = f ? fread(text, 1, 1 << 20, f) : 0;
    if (f)
        fclose(f);
    return text;
}

static void damage(char *text, size_t *n)
{
    static const char *const words[] = {
        "9223372036854775807", "-1", "1e308", "\"\\u0000\"", "[[[[[[[[", "null", "\xff\xfe", "{}",
        "`touch pwned`"};

    for (uint64_t k = 1 + draw(4); k > 0 && *n > 0; k--) {
        size_t at = draw(*n);
        const char *word = words[draw(sizeof words / sizeof words[0])];
        switch (draw(5)) {
        case 0:
            text[at] = (char)draw(256);
            break;
        case 1:
            text[at] ^= (char)(1 << draw(8));
            break;
        case 2:
            *n = draw(8) == 0 ? at : *n;
            break;
        case 3:
            memcpy(text + at, word, strlen(word) < *n - at ? strlen(word) : *n - at);
            break;
        default: {
            size_t from = draw(*n), most = *n - (from > at ? from : at), len = draw(most + 1);
            memmove(text + at, text + from, len);
        }
        }
    }
}

static void keep(const char *command)
{
    char name[PATH_MAX + 64];

    snprintf(name, sizeof name, "%s/torture-crash-%ld-%ld", home, (long)getpid(),
             counts[FILES].tried);
    run(5, "cp x '%s'; echo '%s' > '%s.cmd'", name, command, name);
}

static void try_file(const glob_t *seeds)
{
    size_t n;
    char *text = read_all(seeds->gl_pathv[draw(seeds->gl_pathc)], &n);
    const char *command = readers[draw(sizeof readers / sizeof readers[0])];

    damage(text, &n);
    FILE *f = fopen(in_folder("x"), "wb");
    if (f) {
        fwrite(text, 1, n, f);
        fclose(f);
    }
    free(text);
    forget_output();
    int rc = run(60, "ASAN_OPTIONS=allocator_may_return_null=1 exec \"$S\" %s", command);
    counts[FILES].tried++;
    if (rc < 0 || rc > 3 || output_says("runtime error:") || output_says("AddressSanitizer") ||
        access(in_folder("pwned"), F_OK) == 0) {
        lost(FILES, "%s: exit %d", command, rc);
        keep(command);
    }
}

/* --- hostile connections ------------------------------------------------------------------------
 */

static void one_hello(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    uint32_t words[256];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0) {
        if (getrandom(words, sizeof words, 0) < 0)
            words[0] = 1;
        if (draw(2)) { /* speaks the protocol and proves nothing */
            words[0] = 0x4c617057;
            words[1] = 5;
        }
        send(fd, words, draw(sizeof words), MSG_NOSIGNAL);
        counts[HELLOS].tried++;
    }
    if (draw(4) == 0)
        wait_s(0.001);
    if (draw(8)) /* the rest stays, silent */
        close(fd);
}

static void attack_meeting(void)
{
    int port = 20000 + (int)draw(12000), rc[2];
    char words[512];
    pid_t rank[2];

    for (int r = 0; r < 2; r++) {
        snprintf(words, sizeof words,
                 "export LAPWING_RANK=%d LAPWING_RANKS=2 LAPWING_TOKEN=torture%d "
                 "LAPWING_RENDEZVOUS=127.0.0.1:%d; exec \"$L\" exec -w w.json --dp 2 --steps 1 "
                 "--warmup 0 "
                 "--compute sleep --no-db",
                 r, port, port);
        rank[r] = start(words);
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

static void find_seeds(glob_t *seeds)
{
    static const char *const patterns[] = {"traces/recorded/*", "tests/fuzz/corpus/*/*",
                                           "traces/clusters/*.json"};
    char example[PATH_MAX + 32];

    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        glob(patterns[i], i ? GLOB_APPEND : 0, NULL, seeds);
    snprintf(example, sizeof example, "%s/seed*", folder);
    glob(example, GLOB_APPEND, NULL, seeds);
}

static int report(void)
{
    int failed = 0;

    for (int i = 0; i < N_COUNTS; i++) {
        printf("%s: %ld tried, %ld lost\n", counts[i].what, counts[i].tried, counts[i].lost);
        failed += counts[i].lost > 0 || counts[i].tried == 0;
    }
    printf("%ld predictions were killed between their first moment and their end\n", cut_short);
    if (launcher_hangs > 0)
        printf("%ld times mpirun did not end though its ranks had\n", launcher_hangs);
    if (counts[STORE].tried >= 100 && cut_short == 0) {
        printf("LOST: no kill fell into a prediction, so nothing was tried\n");
        failed++;
    }
    printf("%d passed, %d failed\n", N_COUNTS - failed, failed);
    return failed != 0;
}

int main(int argc, char **argv)
{
    double until = now_s() + (argc > 1 ? atof(argv[1]) : 60);
    glob_t seeds = {0};

    draws = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    signal(SIGPIPE, SIG_IGN);
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
    int rc = run(30, "set -e; \"$L\" model mlp --layers 4 --width 64 -o w.json; "
                     "\"$L\" plan -w w.json --dp 2 -o seed-plan; "
                     "\"$L\" sim -w w.json -c dgx-a100 --dp 4 --spans --db seed-db; "
                     "\"$L\" exec -w w.json --dp 3 --steps 1 --no-db; "
                     "cp w.json seed-workload; rm -f seed-db-*");
    if (rc != 0) {
        fprintf(stderr, "torture: commands exit %d before any attack: see %s/out\n", rc, folder);
        return 1;
    }
    find_seeds(&seeds);
    for (int turn = 0; now_s() < until; turn++) {
        kill_store();
        kill_rank();
        for (int i = 0; i < 24 && now_s() < until; i++)
            try_file(&seeds);
        if (turn % 4 == 0)
            attack_meeting();
    }
    globfree(&seeds);
    run(20, "cd / && rm -rf '%s'", folder);
    return report();
}
