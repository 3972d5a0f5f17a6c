/* Exit statuses are one rule (docs/guide/faq.md): a value that an option never takes is wrong
 * usage, 2, in every command; what cannot be done with other values, a file, a model or this
 * machine is 1. */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/cli/cli.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/unit.h"

static char said[1 << 14];

/* One message, on one line. */
static void take_message(const char *text)
{
    size_t n = 0;

    for (const char *p = text; *p && n + 1 < sizeof said; p++) {
        if (*p == '\n') {
            said[n++] = ' ';
            p += strspn(p + 1, " ");
        } else {
            said[n++] = *p;
        }
    }
    said[n] = '\0';
}

/* "lapwing COMMAND --OPTION=VALUE": status 2, one message that begins with the option. */
static void refused(const char *command, const char *option, const char *value)
{
    char args[256], begin[128];
    int rc;

    snprintf(args, sizeof args, "%s '--%s=%s'", command, option, value);
    take_message(lapwing(args, &rc));
    snprintf(begin, sizeof begin, "lapwing %s: --%s", command, option);
    if (rc != 2 || strncmp(said, begin, strlen(begin)) != 0 ||
        strstr(said + 1, "lapwing ") != strstr(said, "lapwing help"))
        fail_msg("lapwing %s: status %d, expected 2 and one message of --%s: %s", args, rc, option,
                 said);
}

static void expect_hint(const char *command, const char *option)
{
    const char *list = strstr(said, "expected one of ");
    char word[64] = "", value[72];

    for (const char *p = list ? list + strlen("expected one of ") : ""; *p && *p != ';';) {
        size_t n = strcspn(p, ",; ");
        if (n > strlen(word) && n < sizeof word && !memchr(p, ':', n))
            snprintf(word, sizeof word, "%.*s", (int)n, p);
        p += n + strspn(p + n, ", ");
    }
    if (strlen(word) < 3)
        return;
    snprintf(value, sizeof value, "%s%c", word, word[strlen(word) - 1]); /* gemm: gemmm */
    refused(command, option, value);
    if (!strstr(said, "did you mean '"))
        fail_msg("lapwing %s --%s %s: no hint: %s", command, option, value, said);
}

/* The numbers beside a range that the message shows. */
static void expect_range(const char *command, const char *option)
{
    const char *range = strstr(said, "number from ");
    long long least, most;
    char value[32];

    if (!range || sscanf(range, "number from %lld to %lld", &least, &most) != 2)
        return;
    snprintf(value, sizeof value, "%lld", least - 1);
    refused(command, option, value);
    if (most == LLONG_MAX)
        return;
    snprintf(value, sizeof value, "%lld", most + 1);
    refused(command, option, value);
}

/* The option with this argument was given all wrong values with another command. Commands declare
 * the options that they share once (shared/cli), so those are tried again with LAPWING_MANY. */
static bool is_known(const char *option, const char *arg)
{
    enum { MOST = 1000 };
    static char known[MOST][130];
    static int n;
    char row[sizeof *known];

    snprintf(row, sizeof row, "%s,%s", option, arg);
    for (int i = 0; i < n; i++)
        if (strcmp(known[i], row) == 0)
            return unit_cases(1, 0);
    assert_true(n < MOST);
    strcpy(known[n++], row);
    return false;
}

static void each_wrong_value(const char *command, const char *option, const char *arg)
{
    refused(command, option, "");
    if (lw_cli_takes_any(arg) || is_known(option, arg))
        return;
    refused(command, option, "no-such-value");
    if (!strstr(said, "expected") && !strstr(said, "is not "))
        fail_msg("lapwing %s --%s: the message does not say what is allowed: %s", command, option,
                 said);
    expect_hint(command, option);
    refused(command, option, "1e999");
    expect_range(command, option);
}

/* Rows "name,letter,argument,help"; those without an argument take no value. */
static int each_option(const char *command)
{
    char args[64], *save = NULL;
    int n = 0;

    snprintf(args, sizeof args, "help %s --format csv", command);
    char *rows = strdup(lapwing(args, NULL));
    assert_non_null(rows);
    const char *titles = strtok_r(rows, "\n", &save);
    bool options = titles && strncmp(titles, "option,", 7) == 0; /* `help help` lists commands */
    for (char *line; options && (line = strtok_r(NULL, "\n", &save));) {
        char name[64], arg[64] = "";
        size_t k = strcspn(line, ",");
        snprintf(name, sizeof name, "%.*s", (int)k, line);
        const char *at = strchr(line + k + 1, ',');
        assert_non_null(at);
        if (at[1] == '"')
            snprintf(arg, sizeof arg, "%.*s", (int)strcspn(at + 2, "\""), at + 2);
        else
            snprintf(arg, sizeof arg, "%.*s", (int)strcspn(at + 1, ","), at + 1);
        if (!arg[0])
            continue;
        each_wrong_value(command, name, arg);
        n++;
    }
    free(rows);
    return n;
}

TEST_WITH(a_value_that_an_option_never_takes_is_wrong_usage, fixture_open, fixture_close)
{
    char *commands = strdup(lapwing("help --format csv", NULL)), *save = NULL;
    int n = 0;

    assert_non_null(commands);
    strtok_r(commands, "\n", &save);
    for (char *line; (line = strtok_r(NULL, "\n", &save));) {
        line[strcspn(line, ",")] = '\0';
        n += each_option(line);
    }
    free(commands);
    assert_true(n > 400);
}

TEST_WITH(statuses_do_not_depend_on_which_option_is_wrong, fixture_open, fixture_close)
{
    EXPECT("sim -w gpt2 -c dgx-h100 --no-db",
           {"--zero 4", 2, "--zero: '4' is not a whole number from 0 to 3"},
           {"--zero 1 --dp 8 --zero-group 1", 2, "--zero-group: '1' is not 0 or a whole number"},
           {"--dtype f8", 2, "--dtype: unknown value 'f8'"},
           {"--framework ''", 2, "--framework: the value is empty"},
           {"--node-gbps 0", 2, "--node-gbps: '0' is not a number above 0"},
           {"--experts 65537", 2, "--experts: '65537' is not a whole number from 1 to 65536"},
           {"--partition-list 0,x", 2, "--partition-list: '0,x' is not a list of whole numbers"},
           {"--stage-memory 0", 2, "--stage-memory: found 0 bytes"},
           /* together with other values, a file, a model */
           {"--tp 5", 1, "--tp: found 5, allowed: divisors of the heads"},
           {"--zero 1 --dp 8 --zero-group 3", 1, "--zero-group: found 3, expected a divisor"},
           {"--zero-group 2", 1, "--zero-group needs --zero"},
           {"--chunks 2", 1, "--chunks 2 needs --pp"},
           {"--dp 2 --ranks 3", 1, "--ranks 3, but --dp 2"},
           {"--pp 2 --partition explicit --partition-list 0,99", 1,
            "--partition-list 0,99: explicit partition: part 1 begins at item 99"},
           {"--dp 2 --global-batch 7", 1, "--global-batch 7 does not divide"},
           {"--dp 4194304 --tp 2", 1, "make more than the 4194304 ranks"},
           {"--framework nosuch", 1, "nosuch"},
           {"--partition explicit", 1, "--partition explicit needs --partition-list"},
           /* of the command's own options, whatever else there is */
           {"--jitter 1us", 2, "--jitter applies to messages: it needs --detail chunk"},
           {"--ring events", 2, "--ring events and recurrence need --detail chunk"},
           {"--force", 2, "--force needs --replay"},
           {"--as-recorded --device dgx-a100", 2, "give only one of them"});
    EXPECT("sim -w gpt2 -c dgx-a100 --no-db",
           {"--ranks 99999999", 1, "--ranks 99999999: --dp: '99999999' is not a whole number"},
           {"--ranks 3 --tp 4", 1, "--ranks 3 is not a multiple of the 4 ranks"},
           {"--device 0", 1, "--device: cluster '0': no such file and no known system"});
    EXPECT("plan --schedule 1f1b --pp 2 --micro-batches 2",
           {"--lower shards", 2, "--lower needs --format csv"},
           {"--durations 1us,1us,1us,1us", 2, "--durations needs -o"},
           {"--durations 1us -o g.json", 2, "--durations: expected four times"},
           {"--ranks 2", 2, "-c, -s, --ranks, --node-gbps, --max-ops, --device, --from-device and"},
           {"--node-gbps 2", 2, "--as-recorded need -w FILE: a grid alone has no cluster"},
           {"--max-ops 2", 2, "--as-recorded need -w FILE: a grid alone has no cluster"},
           {"--device dgx-h100", 2, "--as-recorded need -w FILE: a grid alone has no cluster"},
           {"--as-recorded", 2, "--as-recorded need -w FILE: a grid alone has no cluster"},
           {"--interference off", 2, "--interference changes what is simulated, and plan"},
           {"--dp 2", 2, "--dp needs -w FILE"},
           {"--group 2 --micro-batch-group 2", 2, "--group is the older name of "
                                                  "--micro-batch-group: give only one of them"},
           {"--micro-batch-group 4 --group 2", 2, "give only one of them"},
           {"--group 2", 2, "--micro-batch-group is of --schedule interleaved-1f1b"});
    EXPECT("exec -w gpt2 --dp 2 --no-db", {"--momentum 0.5 --optimizer sgd", 2, "--momentum 0.5"},
           {"--consolidate 0 --optimizer sgd", 2, "--consolidate 0: sgd keeps no state"},
           {"--no-check", 2, "--no-check runs a plan file unchanged"},
           {"--timeout 0", 2, "--timeout: '0' is not a number above 0"},
           {"--fault 1:2", 2, "--fault: fault '1:2' is not RANK:STEP:OP:KIND"},
           {"--backend ncl", 2, "did you mean 'nccl'?"});
    EXPECT("cost -c dgx-h100", {"--op allreduce", 2, "--op: unknown value 'allreduce'"},
           {"--gemm 1,2", 2, "--gemm '1,2': expected M,N,K"},
           {"--gemm 1,2,3 --ranks 8", 2, "of no --ranks"},
           {"--gemm 1,2,3 --op send", 2, "of no --op"},
           {"--bytes 4..2", 2, "--bytes: '4..2'"});
    expect("model mixtral-8x7b --experts 65536 --expert-ffn 1048576 --layers 4096 --hidden 262144 "
           "--heads 4096 --kv-heads 4096",
           1, "beyond 2^62");
    /* what a file says */
    lapwing("plan -w gpt2 -c dgx-h100 --dp 2 -o p.json", NULL);
    expect("sim p.json -c dgx-h100 --framework ideal --no-db", 1, "leave the option out");
    expect("sim p.json -c dgx-h100 --batch 2 --no-db", 2, "--batch is of a model and needs -w");
}
