/* Each option of exec that changes what ranks do is compared when they meet: one rank is given it
 * alone, and the run is refused. The list of options comes from the program, so that a new one
 * fails here until its row says which kind it is. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

enum kind {
    COMPARED, /* refused, with the name of what differs */
    REFUSED,  /* the rank itself refuses it here, and does not come: the others end with that */
    FREE,     /* each rank may have its own */
    NO_RUN,   /* there is no run: it prints something else */
};

static const struct row {
    const char *option, *value;
    enum kind kind;
    const char *named; /* COMPARED: in the message */
    const char *both;  /* what both ranks are given, without which the option is refused */
} rows[] = {
    {"backend", "mpi", REFUSED, NULL}, /* where it can run: test_rendezvous, "runs backend" */
    {"list-backends", "", NO_RUN, NULL},
    {"transport", "loop", REFUSED, NULL},          /* nccl: "--transport" */
    {"nccl-env", "NCCL_ALGO=Ring", REFUSED, NULL}, /* nccl: "--nccl-env" */
    {"nccl-register", "", REFUSED, NULL},          /* nccl: "--nccl-register" */
    {"graph", "", REFUSED, NULL},                  /* nccl: "--graph" */
    {"spawn", "", REFUSED, NULL},
    {"rendezvous", NULL, FREE, NULL}, /* the same place, said otherwise */
    {"fault", "1:0:0:fail", COMPARED, "--fault"},
    {"steps", "2", COMPARED, "--steps"},
    {"warmup", "1", COMPARED, "--warmup"},
    {"compute", "spin", COMPARED, "--compute"},
    {"timeout", "29", FREE, NULL},
    {"no-check", "", FREE, NULL}, /* the plan is the same: its hash is compared */
    {"no-verify", "", COMPARED, "verification"},
    {"no-pin", "", FREE, NULL},
    {"link-rate", "1GB", COMPARED, "link rate"},
    {"link-latency", "10us", COMPARED, "link latency", "--link-rate 1GB "},
    {"optimizer", "adam", COMPARED, "optimizer"},
    {"momentum", "0.5", COMPARED, "optimizer"},
    {"consolidate", "0", COMPARED, "--consolidate"},
    {"run", "last", REFUSED, NULL}, /* beside a plan file; else the plan's hash is compared */
    {"db", "other.db", FREE, NULL},
    {"name", "other --db other.db", FREE, NULL},
    {"quiet", "", FREE, NULL},
    {"no-db", "", FREE, NULL},
    {"format", "json", FREE, NULL},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static int open_with_plan(void **state)
{
    int rc;

    fixture_open(state);
    shell("$L model mlp --layers 2 --width 8 -o w.json && $L plan -w w.json --dp 2 -o p.json &&"
          "$L plan -w w.json --dp 2 --bucket-cap 64 -o q.json",
          &rc);
    return rc;
}

/* Two ranks of p.json with the words `both`; rank 1 has `words` besides. What they say, and their
 * statuses. */
static const char *two_ranks(const char *plan, const char *both, const char *words)
{
    static int n;
    char line[1024];
    int rc;

    snprintf(
        line, sizeof line,
        "export LAPWING_RANKS=2 LAPWING_TOKEN=t LAPWING_RENDEZVOUS=127.0.0.1:%d; "
        "LAPWING_RANK=0 timeout -k 10 60 $L exec p.json --steps 1 %s--no-db 2>&1 & "
        "LAPWING_RANK=1 timeout -k 10 60 $L exec %s --steps 1 %s%s%s 2>&1; echo rank 1 status $?; "
        "wait $!; echo rank 0 status $?",
        20000 + (int)(((long)getpid() * 64 + n++) % 12000), both, plan, both,
        strstr(words, "--db") ? "" : "--no-db ", words);
    return shell(line, &rc);
}

static void try_row(const struct row *r)
{
    char words[256];
    const char *value = r->value ? r->value : "localhost:$(echo $LAPWING_RENDEZVOUS | cut -d: -f2)";

    snprintf(words, sizeof words, "--%s %s", r->option, value);
    const char *said = two_ranks("p.json", r->both ? r->both : "", words);
    bool ran = strstr(said, "rank 0 status 0") && strstr(said, "rank 1 status 0");
    bool named = r->named && strstr(said, "rank 1 was started with ") && strstr(said, r->named);
    bool ended = strstr(said, "rank 0 status 1") &&
                 (strstr(said, "rank 1 status 1") || strstr(said, "rank 1 status 2"));
    if ((r->kind == FREE && !ran) || (r->kind == COMPARED && !(named && ended)) ||
        (r->kind == REFUSED && !ended))
        fail_msg("%s on rank 1 alone:\n%s", words, said);
}

static const struct row *row_of(const char *option)
{
    for (int i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].option, option) == 0)
            return &rows[i];
    return NULL;
}

/* The options of a command, one a line, from its help. */
static char *options_of(const char *command)
{
    char line[256];
    int rc;

    snprintf(line, sizeof line,
             "$L help %s | sed -n 's/^  .. *\\(-., \\)*--\\([a-z0-9-]*\\).*/\\2/p; "
             "s/^  -., --\\([a-z0-9-]*\\).*/\\1/p' | sort -u",
             command);
    return strdup(shell(line, &rc));
}

static bool lists(const char *options, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = options; (at = strstr(at, name)) != NULL; at += n)
        if ((at == options || at[-1] == '\n') && at[n] == '\n')
            return true;
    return false;
}

/* What plan has too makes the plan, whose hash is compared. */
TEST_WITH(each_option_is_compared_or_may_differ, open_with_plan, fixture_close)
{
    char *all = options_of("exec"), *of_plan = options_of("plan"), *rest = NULL;
    int n = 0;

    for (char *name = strtok_r(all, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
        const struct row *r = row_of(name);
        if (!r && lists(of_plan, name))
            continue;
        if (!r)
            fail_msg("--%s: may it differ between ranks? Give it a row here, and compare it in "
                     "exec/launch/multi_process.c unless it may",
                     name);
        if (r->kind != NO_RUN)
            try_row(r);
        n++;
    }
    assert_int_equal(n, N_ROWS); /* none of the rows is of an option that has gone */
    free(all);
    free(of_plan);
}

TEST_WITH(another_plan_is_refused, open_with_plan, fixture_close)
{
    const char *said = two_ranks("q.json", "", "");

    if (!strstr(said, "rank 1 has another plan (") || !strstr(said, "rank 0 status 1"))
        fail_msg("%s", said);
}

/* The hash of a plan covers no times, but how long an op computes is what a rank does. */
TEST_WITH(plans_with_one_hash_and_other_times_are_told_apart, open_with_plan, fixture_close)
{
    int rc;

    shell("sed 's/{\"ns\": [0-9.]*/{\"ns\": 123456/' p.json > t.json && $L plan diff p.json t.json",
          &rc);
    assert_int_equal(rc, 0);
    const char *said = two_ranks("t.json", "", "");
    if (!strstr(said, "rank 1 was started with a plan with the times ") ||
        !strstr(said, "rank 0 status 1") || !strstr(said, "rank 1 status 1"))
        fail_msg("%s", said);
}
