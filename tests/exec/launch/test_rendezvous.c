/* Who a process is, and how the processes of a run find each other: docs/design/rendezvous.md.
 * Processes are threads here. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "exec/launch/rendezvous_star.h"

/* --- who am I --------------------------------------------------------------------------------- */

static const char *const variables[] = {
    "LAPWING_RANK",
    "LAPWING_RANKS",
    "LAPWING_LOCAL_RANK",
    "LAPWING_TOKEN",
    "LAPWING_RENDEZVOUS",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "TORCHELASTIC_RUN_ID",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMIX_NAMESPACE",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "PMI_ID",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "SLURM_JOB_ID",
    "SLURM_STEP_NUM_NODES",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_ID",
    "ENVIRONMENT",
    "LOCAL_WORLD_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_STEP_TASKS_PER_NODE",
};

/* "A=1 B=2" into an environment without any other launcher. */
static enum lw_status read_with(const char *settings, struct exec_identity *id, bool *found,
                                struct lw_err *err)
{
    char text[512], *save = NULL;

    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    snprintf(text, sizeof text, "%s", settings);
    for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *value = strchr(word, '=');
        *value = '\0';
        setenv(word, value + 1, 1);
    }
    *id = (struct exec_identity){0};
    *err = (struct lw_err){0};
    enum lw_status s = exec_identity_read(id, found, err);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    return s;
}

static struct exec_identity read_found(const char *settings)
{
    struct exec_identity id;
    struct lw_err err;
    bool found;

    if (read_with(settings, &id, &found, &err) != LW_OK || !found)
        fail_msg("%s: %s", settings, err.msg);
    return id;
}

TEST(every_launcher_is_understood)
{
    static const struct {
        const char *settings;
        int32_t rank, n_ranks, local_rank;
        const char *source, *token;
    } cases[] = {
        {"LAPWING_RANK=2 LAPWING_RANKS=3 LAPWING_LOCAL_RANK=1 LAPWING_TOKEN=x", 2, 3, 1,
         "lapwing (LAPWING_RANK, LAPWING_RANKS)", "x"},
        {"RANK=5 WORLD_SIZE=8 LOCAL_RANK=1", 5, 8, 1, "torchrun (RANK, WORLD_SIZE)", ""},
        {"RANK=5 WORLD_SIZE=8 TORCHELASTIC_RUN_ID=job7", 5, 8, 5, "torchrun (RANK, WORLD_SIZE)",
         "job7"}, /* no local rank: one machine */
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "
         "PMIX_NAMESPACE=n1", 1, 4, 1, "Open MPI (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE)",
         "n1"},
        {"PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0", 0, 2, 0, "PMI (PMI_RANK, PMI_SIZE)", ""},
        {"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=1 SLURM_JOB_ID=77", 3, 4, 1,
         "Slurm (SLURM_PROCID, SLURM_STEP_NUM_TASKS)", "77"},
        /* two steps of one job are two runs */
        {"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=1 SLURM_JOB_ID=77 SLURM_STEP_ID=2",
         3, 4, 1, "Slurm (SLURM_PROCID, SLURM_STEP_NUM_TASKS)", "77.2"},
        {"SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_LOCALID=1", 3, 4, 1,
         "Slurm (SLURM_PROCID, SLURM_NTASKS)", ""},
        /* mpirun inside a batch script: the script's own variables say nothing */
        {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 SLURM_PROCID=0 SLURM_NTASKS=2 "
         "ENVIRONMENT=BATCH", 1, 4, 1, "Open MPI (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE)", ""},
        /* srun starts torchrun once per node */
        {"RANK=9 WORLD_SIZE=16 LOCAL_RANK=1 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 "
         "SLURM_STEP_NUM_NODES=2 MASTER_ADDR=a", 9, 16, 1, "torchrun (RANK, WORLD_SIZE)", ""},
        /* two that agree */
        {"PMI_RANK=1 PMI_SIZE=2 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2", 1, 2, 1,
         "PMI (PMI_RANK, PMI_SIZE)", ""},
        /* srun --mpi=pmi2: Slurm knows the job and the place on the node */
        {"PMI_RANK=9 PMI_SIZE=16 SLURM_PROCID=9 SLURM_STEP_NUM_TASKS=16 SLURM_LOCALID=1 "
         "SLURM_JOB_ID=77 SLURM_STEP_ID=1 MASTER_ADDR=a", 9, 16, 1, "PMI (PMI_RANK, PMI_SIZE)",
         "77.1"},
        {"PMI_RANK=1 PMI_SIZE=2 PMI_ID=j SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=77",
         1, 2, 1, "PMI (PMI_RANK, PMI_SIZE)", "j"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exec_identity id = read_found(cases[i].settings);
        assert_int_equal(id.rank, cases[i].rank);
        assert_int_equal(id.n_ranks, cases[i].n_ranks);
        assert_int_equal(id.local_rank, cases[i].local_rank);
        assert_string_equal(id.source, cases[i].source);
        assert_string_equal(id.token, cases[i].token);
    }
}

/* Two runs on one machine that differ only here have ports and tokens of their own. */
TEST(each_run_has_a_token_and_a_port_of_its_own)
{
#define LONG "prterun-node0123456789.cluster.example.org-2026-11-23-123456789-"
    static const char *const cases[][2] = {
        {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=" LONG "1@1",
         "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=" LONG "1@2"},
        {"RANK=0 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=0123456789012345678901234567890123456789a",
         "RANK=0 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=0123456789012345678901234567890123456789b"},
        {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=" LONG " SLURM_STEP_ID=1",
         "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=" LONG " SLURM_STEP_ID=2"},
        {"PMI_RANK=0 PMI_SIZE=2 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=77 SLURM_STEP_ID=1",
         "PMI_RANK=0 PMI_SIZE=2 SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=77 SLURM_STEP_ID=2"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exec_identity id[2] = {read_found(cases[i][0]), read_found(cases[i][1])};
        assert_string_not_equal(id[0].token, id[1].token);
        assert_int_not_equal(id[0].port, id[1].port);
    }
}

/* Where the launcher does not say it, or says nonsense, this rank is known to be here, and no
 * other. */
TEST(ranks_of_this_machine_are_counted)
{
    static const struct {
        const char *settings;
        int32_t n_here;
    } cases[] = {
        {"LAPWING_RANK=1 LAPWING_RANKS=3", 3},
        {"RANK=5 WORLD_SIZE=8 LOCAL_WORLD_SIZE=4", 4},
        {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
         "LAPWING_RENDEZVOUS=a:1", 2},
        {"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8", 1},
        {"PMI_RANK=3 PMI_SIZE=16 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=16 "
         "SLURM_STEP_TASKS_PER_NODE=8(x2)", 8},
        {"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 SLURM_STEP_TASKS_PER_NODE=8", 8},
        {"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=16 SLURM_STEP_TASKS_PER_NODE=8(x2)", 8},
        {"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=7 SLURM_STEP_TASKS_PER_NODE=2(x3),1", 1},
        {"SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 SLURM_STEP_TASKS_PER_NODE=9", 1},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exec_identity id = read_found(cases[i].settings);
        assert_int_equal(id.n_here, cases[i].n_here);
    }
}

TEST(no_launcher_is_found_where_none_is)
{
    struct exec_identity id;
    struct lw_err err;
    bool found = true;

    assert_int_equal(read_with("", &id, &found, &err), LW_OK);
    assert_false(found);
    /* a batch script is not a rank */
    assert_int_equal(
        read_with("SLURM_PROCID=0 SLURM_NTASKS=4 ENVIRONMENT=BATCH", &id, &found, &err), LW_OK);
    assert_false(found);
}

/* Every pair of launchers that says different things is refused with both named. */
TEST(contradictions_name_both_sources)
{
    static const struct {
        const char *rank, *size, *name;
    } all[] = {{"LAPWING_RANK", "LAPWING_RANKS", "lapwing"},
               {"RANK", "WORLD_SIZE", "torchrun"},
               {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"},
               {"PMI_RANK", "PMI_SIZE", "PMI"},
               {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "Slurm"}};

    for (int a = 0; a < 5; a++)
        for (int b = a + 1; b < 5; b++)
            for (int size = 0; size < 2; size++) {
                char settings[256], words[256];
                struct exec_identity id;
                struct lw_err err;
                bool found;
                snprintf(settings, sizeof settings, "%s=1 %s=4 %s=%d %s=%d", all[a].rank,
                         all[a].size, all[b].rank, size ? 1 : 2, all[b].size, size ? 2 : 4);
                assert_int_equal(read_with(settings, &id, &found, &err), LW_EINVAL);
                snprintf(words, sizeof words, "%s (%s, %s) says rank 1 of 4", all[a].name,
                         all[a].rank, all[a].size);
                if (!strstr(err.msg, words))
                    fail_msg("%s", err.msg);
                snprintf(words, sizeof words, "%s (%s, %s) says rank %d of %d", all[b].name,
                         all[b].rank, all[b].size, size ? 1 : 2, size ? 2 : 4);
                if (!strstr(err.msg, words))
                    fail_msg("%s", err.msg);
            }
}

TEST(incomplete_or_invalid_environment_is_refused)
{
    static const char *const cases[][2] = {
        {"RANK=0", "WORLD_SIZE is not set"},
        {"RANK=x WORLD_SIZE=2", "RANK"},
        {"RANK=2 WORLD_SIZE=2", "RANK=2 of WORLD_SIZE=2"},
        {"PMI_RANK=0 PMI_SIZE=-1", "PMI_SIZE"},
        {"SLURM_PROCID=0", "SLURM_NTASKS is not set"},
        {"RANK=0 WORLD_SIZE=2 MASTER_PORT=99999", "MASTER_PORT"},
        {"RANK=0 WORLD_SIZE=2 LAPWING_RENDEZVOUS=here", "is not HOST:PORT"},
        {"RANK=0 WORLD_SIZE=2 LAPWING_RENDEZVOUS=::1:700", "[ADDRESS]:PORT"},
        {"RANK=0 WORLD_SIZE=2 LAPWING_RENDEZVOUS=a:0", "rendezvous 'a:0'"},
        {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2",
         "started processes on several machines: say where rank 0 listens"},
        {"PMI_RANK=0 PMI_SIZE=4 MPI_LOCALNRANKS=2",
         "started processes on several machines: say where rank 0 listens"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exec_identity id;
        struct lw_err err;
        bool found;
        assert_int_equal(read_with(cases[i][0], &id, &found, &err), LW_EINVAL);
        if (!strstr(err.msg, cases[i][1]))
            fail_msg("%s: %s", cases[i][0], err.msg);
    }
}

TEST(rank_0_listens_where_it_is_told)
{
    static const struct {
        const char *settings, *host;
        int32_t port; /* 0: one of the range for numbered jobs */
    } cases[] = {
        {"RANK=0 WORLD_SIZE=2", "127.0.0.1", 29511},
        {"RANK=0 WORLD_SIZE=2 TORCHELASTIC_RUN_ID=none", "127.0.0.1", 29511},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=node7 MASTER_PORT=29500", "node7", 29501},
        {"RANK=0 WORLD_SIZE=2 LAPWING_RENDEZVOUS=[fe80::1]:700", "fe80::1", 700},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=x LAPWING_RENDEZVOUS=10.0.0.1:700", "10.0.0.1", 700},
        {"PMI_RANK=0 PMI_SIZE=2 PMI_ID=j", "127.0.0.1", 0},
        {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=n1",
         "127.0.0.1", 29511},
        {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=2 "
         "SLURM_STEP_NODELIST=gpu[03-04]", "gpu03", 29511},
        {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=2 "
         "SLURM_STEP_NODELIST=a,b", "a", 29511},
        {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=2 "
         "SLURM_STEP_NODELIST=gpu[3-4]-ib,x", "gpu3-ib", 29511},
        {"SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_NUM_NODES=2 "
         "SLURM_STEP_NODELIST=rack[0-1]n[3,5-7]-ib,x", "rack0n3-ib", 29511},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exec_identity id = read_found(cases[i].settings);
        assert_string_equal(id.host, cases[i].host);
        if (cases[i].port) {
            assert_int_equal(id.port, cases[i].port);
            assert_int_equal(id.n_ports, 0);
            continue;
        }
        assert_int_equal(id.n_ports, EXEC_PORTS);
        assert_int_equal(id.port, id.ports[0]);
        for (int k = 0; k < EXEC_PORTS; k++) /* Linux takes ports of its own from 32768 on */
            assert_true(id.ports[k] >= 20000 && id.ports[k] < 32000);
    }
}

/* Two jobs whose first ports are the same take different ways from there. */
TEST(jobs_with_a_port_in_common_differ_in_the_next)
{
    static struct exec_identity first[12000];
    int n_same = 0;

    for (int i = 0; i < 300; i++) {
        char settings[64];
        snprintf(settings, sizeof settings, "PMI_RANK=0 PMI_SIZE=2 PMI_ID=job%d", i);
        struct exec_identity id = read_found(settings);
        struct exec_identity *other = &first[id.port - 20000];
        if (other->n_ports > 0) {
            n_same++;
            assert_int_not_equal(other->ports[1], id.ports[1]);
        }
        *other = id;
    }
    assert_true(n_same > 0); /* 300 jobs, 12000 ports: 3.7 pairs are expected */
}

/* --- meeting ---------------------------------------------------------------------------------- */

struct member {
    struct exec_identity id;
    struct exec_agreement same;
    struct exec_rendezvous *r;
    enum lw_status status;
    struct lw_err err;
    int64_t timeout_ns, run;
    pthread_t thread;
};

static struct sockaddr_in loopback(int32_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static bool is_free(int32_t port)
{
    struct sockaddr_in a = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool is = bind(fd, (struct sockaddr *)&a, sizeof a) == 0;

    close(fd);
    return is;
}

/* Another test may hold one. */
static int32_t a_port(void)
{
    static int32_t next;
    int32_t port;

    do
        port = 20000 + (int32_t)((getpid() * 41 + next++ * 103) % 12000);
    while (!is_free(port));
    return port;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static struct member member_of(int32_t rank, int32_t n, const char *host, int32_t port)
{
    struct member m = {.id = {.rank = rank, .n_ranks = n, .port = port, .token = "secret"},
                       .same = {.plan_hash = "0", .backend = "threads", .program = "1"},
                       .timeout_ns = INT64_C(10000000000)};
    snprintf(m.id.host, sizeof m.id.host, "%s", host);
    return m;
}

static void *come(void *arg)
{
    struct member *m = arg;
    m->status = exec_rendezvous_open(&m->id, &m->same, m->timeout_ns, &m->run, &m->r, &m->err);
    return NULL;
}

static void start(struct member *m)
{
    assert_int_equal(pthread_create(&m->thread, NULL, come, m), 0);
}

static int dial(int32_t port)
{
    struct sockaddr_in a = loopback(port);
    int fd = -1;

    for (int i = 0; i < 2000 && fd < 0; i++) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
            close(fd);
            fd = -1;
            usleep(1000);
        }
    }
    assert_true(fd >= 0);
    return fd;
}

/* At a free port of the loopback, or at this one. */
static int listen_at(int32_t *port, int backlog)
{
    struct sockaddr_in a = loopback(*port);
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, backlog), 0);
    getsockname(fd, (struct sockaddr *)&a, &len);
    *port = ntohs(a.sin_port);
    return fd;
}

/* Ranks 0 .. n - 1 of a run, each in a thread. */
static void start_all(struct member *m, int32_t n, const char *host, int32_t port)
{
    for (int32_t i = 0; i < n; i++) {
        m[i] = member_of(i, n, host, port);
        start(&m[i]);
    }
}

static void join_all(struct member *m, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        pthread_join(m[i].thread, NULL);
    for (int32_t i = 0; i < n; i++)
        if (m[i].status != LW_OK)
            fail_msg("rank %d of token %s: %s", i, m[i].id.token, m[i].err.msg);
}

static void close_all(struct member *m, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        exec_rendezvous_close(m[i].r);
}

static void meet_and_part(const char *host)
{
    struct member m[3];

    start_all(m, 3, host, a_port());
    join_all(m, 3);
    close_all(m, 3);
}

TEST(processes_meet_over_both_families)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};

    meet_and_part("127.0.0.1");
    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0)
        meet_and_part("::1");
    else
        printf("SKIP the half over IPv6: this machine has no ::1\n");
    if (fd >= 0)
        close(fd);
}

/* Whether a line of /proc/net/tcp has this local address, port and state. */
static bool tcp_has(const char *local, int32_t port, const char *state)
{
    char line[256], wanted[64];
    bool found = false;
    FILE *f = fopen("/proc/net/tcp", "r");

    snprintf(wanted, sizeof wanted, "%s:%04X ", local, (unsigned)port);
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *at = strstr(line, wanted), *remote = at ? strchr(at, ' ') + 1 : NULL;
        found = remote && strlen(remote) > 16 && strncmp(remote + 13, state, 4) == 0;
    }
    if (f)
        fclose(f);
    return found;
}

/* Debian's /etc/hosts gives a machine's own name a loopback address, at which no other machine
 * comes in: rank 0 then listens at all addresses. */
TEST(a_machine_that_calls_itself_loopback_listens_at_all_addresses)
{
    struct member m[2];
    int32_t port = a_port();
    char name[256] = "";
    bool all = false;

    assert_false(exec_rendezvous_is_loopback("127.0.0.1")); /* asked for */
    assert_false(exec_rendezvous_is_loopback("::1"));
    assert_false(exec_rendezvous_is_loopback("localhost"));
    gethostname(name, sizeof name - 1);
    if (!exec_rendezvous_is_loopback(name)) {
        printf("SKIP: '%s' does not name a loopback address here\n", name);
        skip();
    }
    for (int i = 0; i < 2; i++) { /* other hosts could connect */
        m[0] = member_of(0, 2, name, port);
        m[0].timeout_ns = 1;
        snprintf(m[0].id.token, sizeof m[0].id.token, "%s", i ? "none" : "");
        come(&m[0]);
        assert_int_equal(m[0].status, LW_EINVAL);
        if (!strstr(m[0].err.msg, "needs a job token"))
            fail_msg("%s", m[0].err.msg);
    }
    m[0] = member_of(0, 2, name, port);
    start(&m[0]);
    for (int i = 0; i < 2000 && !all; i++) {
        all = tcp_has("00000000", port, " 0A ");
        usleep(1000);
    }
    m[1] = member_of(1, 2, name, port);
    start(&m[1]);
    join_all(m, 2);
    close_all(m, 2);
    assert_true(all);
}

/* A node that loses its power sends nothing any more: the system asks it now and then. What it has
 * not confirmed ends the connection of short messages after the same 26 s. */
TEST(connections_are_kept_alive)
{
    static const struct { int level, name, value[N_CHANNELS]; } options[] = {
        {SOL_SOCKET, SO_KEEPALIVE, {1, 1}},   {IPPROTO_TCP, TCP_NODELAY, {1, 1}},
        {IPPROTO_TCP, TCP_KEEPIDLE, {10, 10}}, {IPPROTO_TCP, TCP_KEEPINTVL, {4, 4}},
        {IPPROTO_TCP, TCP_KEEPCNT, {4, 4}},   {IPPROTO_TCP, TCP_USER_TIMEOUT, {0, 26000}},
    };
    struct member m[2];

    start_all(m, 2, "127.0.0.1", a_port());
    join_all(m, 2);
    for (int32_t i = 0; i < 2; i++)
        for (int c = 0; c < N_CHANNELS; c++)
            for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
                int value = -1;
                socklen_t len = sizeof value;
                getsockopt(m[i].r->fds[i == 0 ? 1 : 0][c], options[k].level, options[k].name,
                           &value, &len);
                assert_int_equal(value, options[k].value[c]);
            }
    close_all(m, 2);
}

/* A listener whose queue is full answers no more connections, as a firewall that drops them does:
 * the system alone would try for two minutes. */
TEST(a_connection_that_nobody_answers_has_a_time_limit_and_can_be_stopped)
{
    static volatile sig_atomic_t signal_no = SIGTERM;
    int32_t port = 0;
    int full[4], listener = listen_at(&port, 0);
    struct sockaddr_in a = loopback(port);

    for (int i = 0; i < 4; i++) {
        full[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(full[i], (struct sockaddr *)&a, sizeof a);
    }
    struct member m = member_of(1, 2, "127.0.0.1", port);
    m.timeout_ns = INT64_C(500000000);
    come(&m);
    assert_int_equal(m.status, LW_ETIMEOUT);
    assert_non_null(strstr(m.err.msg, "rank 0 does not listen at 127.0.0.1"));
    m = member_of(1, 2, "127.0.0.1", port);
    m.id.signal = &signal_no;
    m.timeout_ns = INT64_C(1000000000000);
    alarm(120); /* the test's own limit: far from both */
    come(&m);
    alarm(0);
    assert_int_equal(m.status, LW_EFAILED);
    assert_non_null(strstr(m.err.msg, "stopped by signal 15"));
    for (int i = 0; i < 4; i++)
        close(full[i]);
    close(listener);
}

/* The message names what is short. */
TEST(rank_0_without_descriptors_says_so)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        struct member m = member_of(0, 2, "127.0.0.1", a_port());
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){256, 256});
        while (dup(0) >= 0)
            ;
        come(&m);
        fprintf(stderr, "%s\n", m.err.msg);
        _exit(m.status != LW_EIO || !strstr(m.err.msg, "Too many open files"));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* What to do is part of the message. */
TEST(an_address_that_cannot_be_listened_at_is_refused_with_a_remedy)
{
    struct member m = member_of(0, 2, "192.0.2.1", a_port()); /* of no machine: RFC 5737 */

    m.timeout_ns = INT64_C(500000000);
    come(&m);
    assert_int_equal(m.status, LW_EIO);
    if (!strstr(m.err.msg, "--rendezvous") || !strstr(m.err.msg, "machine of rank 0"))
        fail_msg("%s", m.err.msg);
}

TEST(strangers_are_turned_away_and_noted)
{
    struct member m[2];
    int32_t port = a_port();
    char noise[512];
    const char *last;

    m[0] = member_of(0, 2, "127.0.0.1", port);
    start(&m[0]);
    int silent = dial(port), loud = dial(port), brief = dial(port); /* none holds up the rank */
    memset(noise, 'G', sizeof noise);
    assert_int_equal(send(loud, noise, sizeof noise, MSG_NOSIGNAL), sizeof noise);
    close(brief);
    m[1] = member_of(1, 2, "127.0.0.1", port);
    start(&m[1]);
    join_all(m, 2);
    assert_int_equal(exec_rendezvous_turned_away(m[0].r, &last), 3);
    assert_non_null(strstr(last, "127.0.0.1 port "));
    close(silent);
    close(loud);
    close_all(m, 2);
}

/* A child that keeps n silent connections to the port and replaces those that are closed. */
static pid_t crowd(int32_t port, int n)
{
    struct sockaddr_in a = loopback(port);
    pid_t child = fork();

    if (child != 0)
        return child;
    struct pollfd *p = calloc((size_t)n, sizeof *p);
    for (int i = 0; i < n; i++)
        p[i].fd = -1;
    for (;;) {
        for (int i = 0; i < n; i++) {
            if (p[i].fd >= 0)
                continue;
            p[i] = (struct pollfd){socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), POLLRDHUP, 0};
            connect(p[i].fd, (struct sockaddr *)&a, sizeof a);
        }
        poll(p, (nfds_t)n, 10);
        for (int i = 0; i < n; i++)
            if (p[i].revents & (POLLHUP | POLLERR | POLLRDHUP)) {
                close(p[i].fd);
                p[i].fd = -1;
            }
    }
}

/* Four ranks meet where the crowd already is; "" or the words of one that failed. */
static const char *meet_at(int32_t port)
{
    static char words[1024];
    struct member m[4];

    for (int32_t i = 0; i < 4; i++) {
        m[i] = member_of(i, 4, "127.0.0.1", port);
        start(&m[i]);
        usleep(i == 0 ? 500000 : 0); /* the crowd comes first */
    }
    words[0] = '\0';
    for (int32_t i = 0; i < 4; i++) {
        pthread_join(m[i].thread, NULL);
        if (m[i].status != LW_OK)
            snprintf(words, sizeof words, "rank %d: %s", i, m[i].err.msg);
    }
    for (int32_t i = 0; i < 4; i++)
        exec_rendezvous_close(m[i].status == LW_OK ? m[i].r : NULL);
    return words;
}

static void end_crowd(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

TEST(real_ranks_come_through_ten_thousand_silent_connections)
{
    struct rlimit before, all;
    int32_t port = a_port();

    getrlimit(RLIMIT_NOFILE, &before);
    all = (struct rlimit){before.rlim_max, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &all);
    int n = all.rlim_cur > 10200 ? 10000 : (int)all.rlim_cur - 200;
    pid_t child = crowd(port, n);
    const char *words = meet_at(port);
    end_crowd(child);
    setrlimit(RLIMIT_NOFILE, &before);
    if (words[0])
        fail_msg("among %d silent connections: %s", n, words);
}

/* More connections than rank 0 has descriptors for: the silent ones make room. */
TEST(silent_connections_make_room)
{
    int32_t port = a_port();
    pid_t child = crowd(port, 600), meeting = fork();
    int status;

    if (meeting == 0) {
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){120, 120});
        const char *words = meet_at(port);
        fputs(words, stderr);
        _exit(words[0] != '\0');
    }
    assert_int_equal(waitpid(meeting, &status, 0), meeting);
    end_crowd(child);
    assert_int_equal(status, 0);
}

/* --- a port that is taken --------------------------------------------------------------------- */

enum holder { OTHER_JOB, SILENT_PROGRAM, LOUD_PROGRAM, CLOSED_AT_ONCE, N_HOLDERS };

/* A program that is not this one: at most 16 connections, or until the listener is closed. */
struct holding {
    enum holder kind;
    int listener, fds[16];
    pthread_t thread;
};

static void *hold(void *arg)
{
    struct holding *h = arg;
    char noise[64];

    memset(noise, 'G', sizeof noise);
    for (int i = 0; i < 16; i++) {
        h->fds[i] = accept(h->listener, NULL, NULL);
        if (h->fds[i] < 0)
            break;
        if (h->kind == LOUD_PROGRAM)
            send(h->fds[i], noise, sizeof noise, MSG_NOSIGNAL);
        if (h->kind == CLOSED_AT_ONCE)
            shutdown(h->fds[i], SHUT_RDWR);
    }
    return NULL;
}

static void hold_port(struct holding *h, enum holder kind, int32_t port)
{
    *h = (struct holding){.kind = kind, .listener = listen_at(&port, 64)};
    for (int i = 0; i < 16; i++)
        h->fds[i] = -1;
    assert_int_equal(pthread_create(&h->thread, NULL, hold, h), 0);
}

static void let_go(struct holding *h)
{
    shutdown(h->listener, SHUT_RDWR);
    pthread_join(h->thread, NULL);
    close(h->listener);
    for (int i = 0; i < 16; i++)
        if (h->fds[i] >= 0)
            close(h->fds[i]);
}

/* With n ports of its own; no rank asked for one. */
static struct member member_with_ports(int32_t rank, int32_t n_ranks, const int32_t *ports,
                                       int32_t n)
{
    struct member m = member_of(rank, n_ranks, "127.0.0.1", ports[0]);

    m.id.n_ports = n;
    memcpy(m.id.ports, ports, (size_t)n * sizeof *ports);
    return m;
}

static int32_t same_port(const struct member *m, int n)
{
    for (int i = 1; i < n; i++)
        assert_int_equal(m[i].r->id.port, m[0].r->id.port);
    return m[0].r->id.port;
}

/* The clients come before rank 0, and meet whatever sits at the first port. */
TEST(a_taken_port_is_passed_over_by_all)
{
    for (enum holder kind = 0; kind < N_HOLDERS; kind++) {
        int32_t ports[3] = {a_port(), a_port(), a_port()};
        struct member m[3], other[2];
        struct holding h;
        if (kind == OTHER_JOB) {
            for (int i = 0; i < 2; i++) {
                other[i] = member_of(i, 2, "127.0.0.1", ports[0]);
                snprintf(other[i].id.token, sizeof other[i].id.token, "another");
            }
            start(&other[0]);
            close(dial(ports[0])); /* it listens */
        } else {
            hold_port(&h, kind, ports[0]);
        }
        int64_t began = now_ns();
        for (int32_t i = 3; i-- > 0;) {
            m[i] = member_with_ports(i, 3, ports, 3);
            start(&m[i]);
            usleep(i == 1 ? 100000 : 0);
        }
        join_all(m, 3);
        assert_int_equal(same_port(m, 3), ports[1]);
        assert_true(now_ns() - began < INT64_C(8000000000)); /* within the time limit */
        close_all(m, 3);
        if (kind != OTHER_JOB) {
            let_go(&h);
            continue;
        }
        start(&other[1]); /* the other job has lost nothing */
        const char *last;
        join_all(other, 2);
        assert_true(exec_rendezvous_turned_away(other[0].r, &last) >= 2);
        assert_non_null(strstr(last, "has another job token"));
        close_all(other, 2);
    }
}

/* Four jobs of two ranks with the same three first ports, all at once. */
TEST(jobs_with_the_same_ports_meet_apart)
{
    int32_t ports[6];
    struct member m[4][2];

    for (int i = 0; i < 6; i++)
        ports[i] = a_port();
    for (int job = 0; job < 4; job++)
        for (int32_t rank = 0; rank < 2; rank++) {
            m[job][rank] = member_with_ports(rank, 2, ports, 6);
            snprintf(m[job][rank].id.token, 64, "job %d", job);
            m[job][rank].run = job;
        }
    for (int32_t rank = 2; rank-- > 0;)
        for (int job = 0; job < 4; job++)
            start(&m[job][rank]);
    for (int job = 0; job < 4; job++)
        join_all(m[job], 2);
    for (int job = 0; job < 4; job++) {
        assert_int_equal(m[job][1].run, job); /* of its own rank 0 */
        same_port(m[job], 2);
        close_all(m[job], 2);
    }
}

/* Somebody asked for that port: no other is tried, and the message says what to do. */
TEST(a_port_that_was_asked_for_is_the_only_one)
{
    int32_t port = a_port();
    char at[64];
    struct member other = member_of(0, 2, "127.0.0.1", port), m[2];

    other.timeout_ns = INT64_C(1500000000);
    snprintf(other.id.token, sizeof other.id.token, "another");
    start(&other);
    close(dial(port));
    snprintf(at, sizeof at, "127.0.0.1:%d", port);
    for (int32_t i = 0; i < 2; i++) {
        m[i] = member_of(i, 2, "127.0.0.1", port);
        come(&m[i]);
        if (!strstr(m[i].err.msg, at) || !strstr(m[i].err.msg, "--rendezvous HOST:PORT"))
            fail_msg("%s", m[i].err.msg);
    }
    assert_int_equal(m[0].status, LW_EIO);
    assert_non_null(strstr(m[0].err.msg, "Address already in use"));
    assert_int_equal(m[1].status, LW_EINVAL);
    assert_non_null(strstr(m[1].err.msg, "belongs to another job"));
    pthread_join(other.thread, NULL);
    assert_int_equal(other.status, LW_ETIMEOUT);
}

TEST(when_all_ports_are_taken_they_are_named_within_the_time_limit)
{
    int32_t ports[2] = {a_port(), a_port()};
    struct holding h[2];
    char words[64];

    hold_port(&h[0], SILENT_PROGRAM, ports[0]);
    hold_port(&h[1], LOUD_PROGRAM, ports[1]);
    snprintf(words, sizeof words, "127.0.0.1:%d, %d", ports[0], ports[1]);
    for (int32_t i = 0; i < 2; i++) {
        struct member m = member_with_ports(i, 2, ports, 2);
        m.timeout_ns = INT64_C(1000000000);
        int64_t began = now_ns();
        come(&m);
        assert_int_equal(m.status, i == 0 ? LW_EIO : LW_ETIMEOUT);
        assert_non_null(strstr(m.err.msg, words));
        assert_non_null(strstr(m.err.msg, i == 0 ? "--rendezvous" : "is not this program"));
        assert_true(now_ns() - began < INT64_C(4000000000));
    }
    let_go(&h[0]);
    let_go(&h[1]);
}

TEST(another_token_is_turned_away_by_name)
{
    struct member m[2];
    int32_t port = a_port();

    for (int32_t i = 0; i < 2; i++) {
        m[i] = member_of(i, 2, "127.0.0.1", port);
        m[i].timeout_ns = INT64_C(500000000);
    }
    snprintf(m[1].id.token, sizeof m[1].id.token, "guess");
    start(&m[0]);
    start(&m[1]);
    pthread_join(m[0].thread, NULL);
    pthread_join(m[1].thread, NULL);
    assert_int_equal(m[0].status, LW_ETIMEOUT);
    assert_non_null(strstr(m[0].err.msg, "these ranks have not come: 1 (turned away: 127.0.0.1"));
    assert_non_null(strstr(m[0].err.msg, "has another job token"));
    assert_true(m[1].status != LW_OK);
}

/* A hello that was right for one connection proves nothing on the next. The false rank 0 sends a
 * challenge and keeps what it is told. */
TEST(a_replayed_hello_is_turned_away)
{
    struct exec_challenge challenge = {EXEC_MAGIC, EXEC_PROTOCOL, {1, 2}};
    char hello[1024];
    struct member victim, m[2];
    const char *last;
    int32_t port = 0;

    int listener = listen_at(&port, 4);
    victim = member_of(1, 2, "127.0.0.1", port);
    victim.timeout_ns = INT64_C(500000000);
    start(&victim);
    int fd = accept(listener, NULL, NULL);
    assert_int_equal(send(fd, &challenge, sizeof challenge, 0), sizeof challenge);
    ssize_t n = recv(fd, hello, sizeof hello, 0);
    assert_true(n > 64);
    close(fd);
    close(listener);
    pthread_join(victim.thread, NULL);
    assert_true(victim.status != LW_OK);

    port = a_port();
    m[0] = member_of(0, 2, "127.0.0.1", port);
    m[1] = member_of(1, 2, "127.0.0.1", port);
    start(&m[0]);
    int again = dial(port);
    assert_int_equal(send(again, hello, (size_t)n, MSG_NOSIGNAL), n);
    assert_int_equal(recv(again, hello, sizeof challenge, MSG_WAITALL), sizeof challenge);
    while (recv(again, hello, sizeof hello, 0) > 0)
        ; /* closed after "another job": judged before the rank comes */
    start(&m[1]);
    join_all(m, 2);
    assert_int_equal(exec_rendezvous_turned_away(m[0].r, &last), 1);
    assert_non_null(strstr(last, "repeats an old hello"));
    close(again);
    close_all(m, 2);
}

/* The false rank 0 hears one connection, refuses the run and listens no more, as one does whose
 * other ranks differed. The answer is read, not waited for until the time limit. */
TEST(a_refusal_before_the_second_connection_is_read)
{
    struct exec_challenge challenge = {EXEC_MAGIC, EXEC_PROTOCOL, {1, 2}};
    struct exec_answer heard = {.magic = EXEC_MAGIC, .ok = EXEC_ANSWER_HEARD},
                       no = {.magic = EXEC_MAGIC, .ok = EXEC_ANSWER_NO, .words = "rank 2 differs"};
    struct exec_hello hello;
    int64_t began = now_ns();
    int32_t port = 0;

    int listener = listen_at(&port, 4);
    struct member m = member_of(1, 3, "127.0.0.1", port);
    start(&m);
    int fd = accept(listener, NULL, NULL);
    assert_int_equal(send(fd, &challenge, sizeof challenge, 0), sizeof challenge);
    assert_int_equal(recv(fd, &hello, sizeof hello, MSG_WAITALL), sizeof hello);
    close(listener);
    assert_int_equal(send(fd, &heard, sizeof heard, 0), sizeof heard);
    usleep(50000);
    assert_int_equal(send(fd, &no, sizeof no, 0), sizeof no);
    pthread_join(m.thread, NULL);
    close(fd);
    assert_int_equal(m.status, LW_EINVAL);
    assert_string_equal(m.err.msg, "rank 2 differs");
    assert_true(now_ns() - began < INT64_C(5000000000)); /* the limit is 10 s */
}

TEST(every_rank_reports_the_difference)
{
    static const char *const words[] = {"has another plan (1) than rank 0 (0)",
                                        "runs backend 'mpi', rank 0 'threads'", "runs 2, rank 0 1",
                                        "rank 1 was started with --steps 4, rank 0 with --steps 3: "
                                        "give all ranks the same options"};
    static const char *const other[] = {"1", "mpi", "2", "optimizer sgd;--steps 4;"};

    for (int k = 0; k < 4; k++) {
        struct member m[2];
        int32_t port = a_port();
        for (int32_t i = 0; i < 2; i++)
            m[i] = member_of(i, 2, "127.0.0.1", port);
        char *const said[] = {m[1].same.plan_hash, m[1].same.backend, m[1].same.program,
                              m[1].same.settings};
        snprintf(m[0].same.settings, EXEC_SETTINGS, "optimizer sgd;--steps 3;");
        snprintf(m[1].same.settings, EXEC_SETTINGS, "optimizer sgd;--steps 3;");
        snprintf(said[k], k < 3 ? 16 : EXEC_SETTINGS, "%s", other[k]);
        for (int32_t i = 0; i < 2; i++)
            start(&m[i]);
        for (int32_t i = 0; i < 2; i++) {
            pthread_join(m[i].thread, NULL);
            assert_int_equal(m[i].status, LW_EINVAL);
            if (!strstr(m[i].err.msg, words[k]))
                fail_msg("%s", m[i].err.msg);
        }
    }
}

static enum lw_status no_take(void *context, int32_t rank, const void *data, int64_t bytes,
                              struct lw_err *err)
{
    (void)context, (void)rank, (void)data, (void)bytes, (void)err;
    return LW_OK;
}

static void *send_too_much(void *arg)
{
    struct member *m = arg;
    size_t bytes = ((size_t)1 << 30) + 1; /* never touched: pages of zeros */
    void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    exec_rendezvous_gather(m->r, data, (int64_t)bytes, NULL, NULL, NULL);
    munmap(data, bytes);
    return NULL;
}

TEST(results_have_a_limit)
{
    struct member m[2];
    struct lw_err err = {0};
    pthread_t sender;

    start_all(m, 2, "127.0.0.1", a_port());
    join_all(m, 2);
    assert_int_equal(pthread_create(&sender, NULL, send_too_much, &m[1]), 0);
    assert_int_equal(exec_rendezvous_gather(m[0].r, "", 1, no_take, NULL, &err), LW_EFAILED);
    assert_non_null(strstr(err.msg, "results of rank 1: 1073741825 bytes announced"));
    exec_rendezvous_abort(m[0].r, "too much");
    pthread_join(sender, NULL);
    close_all(m, 2);
}

static void *stay_until_done(void *arg)
{
    struct member *m = arg;
    struct lw_exec_place mine = {.rank = m->id.rank, .step = 4, .last_op = 10 + m->id.rank,
                              .open_op = 11 + m->id.rank, .known = true};

    bool done = exec_rendezvous_stopped_at(m->r, &mine, INT64_C(5000000000), NULL);
    exec_rendezvous_close(m->r);
    return done ? m : NULL;
}

/* Rank 0 hears from rank 1 where it was; rank 2 is gone without a word. */
TEST(stopped_processes_say_where_they_were)
{
    struct member m[3];
    struct lw_exec_place mine = {.rank = 0, .step = 4, .last_op = 7, .open_op = 8, .known = true},
                         all[3];
    pthread_t one;

    start_all(m, 3, "127.0.0.1", a_port());
    join_all(m, 3);
    exec_rendezvous_abort(m[2].r, "lost");
    exec_rendezvous_close(m[2].r);
    assert_int_equal(pthread_create(&one, NULL, stay_until_done, &m[1]), 0);
    exec_rendezvous_stopped_at(m[0].r, &mine, INT64_C(5000000000), all);
    assert_int_equal(all[0].open_op, 8);
    assert_true(all[1].known);
    assert_int_equal(all[1].step, 4);
    assert_int_equal(all[1].last_op, 11);
    assert_int_equal(all[1].open_op, 12);
    assert_false(all[2].known);
    exec_rendezvous_close(m[0].r);
    void *stayed = NULL;
    pthread_join(one, &stayed);
    assert_non_null(stayed); /* until rank 0 was done */
}
