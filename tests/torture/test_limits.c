/* Numbers at the limits of 64 bits in every field of workload and cluster that takes any: each
 * command ends by itself, with a result whose figures are possible or with one line. Under SAN=1
 * every sum is watched. LAPWING_TRIES=N tries more, LAPWING_SEED=S others. */
#include <stdbool.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/lib/unit.h"

#include "shared/json/value.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

static const char *const numbers[] = {"0",
                                      "1",
                                      "0.001",
                                      "1e9",
                                      "2147483647",
                                      "2147483648",
                                      "1000000000000000",
                                      "4611686018427387",
                                      "9000000000000000",
                                      "9223372036854775.807",
                                      "4611686018427387904",
                                      "9223372036854775807",
                                      "1e18",
                                      "1e30",
                                      "1e-30"};
static const char *const options[] = {"",
                                      "--dp 2",
                                      "--pp 2 --micro-batches 4",
                                      "--dp 2 --detail chunk",
                                      "--dp 2 --steps 1000",
                                      "--dp 64 --bucket-cap 1KiB",
                                      "--dp 2 --zero 3",
                                      "--dp 2 --no-fold",
                                      "--dp 2 --clip 1",
                                      "--pp 2 --micro-batches 1000 --schedule 1f1b",
                                      "--dp 2 --detail chunk --jitter 100s"};

static uint64_t state_of_draws;

static uint64_t draw(uint64_t below)
{
    state_of_draws = state_of_draws * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (state_of_draws >> 33) % below;
}

/* The k-th number that is the value of a field of `text`, "lapwing": 1 apart; NULL: there are
 * fewer. */
static const char *nth_number(const char *text, int k)
{
    for (const char *s = strstr(text, "kind"); s && (s = strstr(s, "\": ")) != NULL;) {
        s += 3;
        if ((isdigit((unsigned char)*s) || *s == '-') && k-- == 0)
            return s;
    }
    return NULL;
}

static char *changed(const char *text)
{
    int n = 0;
    while (nth_number(text, n))
        n++;
    const char *at = nth_number(text, (int)draw((uint64_t)n));
    const char *with = numbers[draw(sizeof numbers / sizeof numbers[0])];
    size_t room = strlen(text) + 32;
    char *out = malloc(room);

    snprintf(out, room, "%.*s%s%s", (int)(at - text), text, with,
             at + strspn(at, "-+.0123456789eE"));
    return out;
}

/* No time, size, count or share of a result is negative; a share is at most 1. */
static void check_figures(const struct lw_value *v, const char *words)
{
    for (int32_t i = 0; i < v->n; i++)
        check_figures(&v->items[i], words);
    if (v->type != LW_JSON_NUMBER)
        return;
    double x = strtod(v->text, NULL);
    bool share = v->key && strstr(v->key, "ratio");
    if (x < 0 || (share && x > 1))
        fail_msg("%s: %s is %s", words, v->key ? v->key : "an element", v->text);
}

static void check_result(const char *out, const char *words)
{
    struct lw_arena arena = {0};
    struct lw_json *j = NULL;
    struct lw_value v;
    struct lw_err err = {0};
    size_t n = (size_t)(shell_err() - out);
    char *text = calloc(n + LW_JSON_PADDING, 1);

    memcpy(text, out, n);
    if (lw_json_open("result", text, n, &j, &err) != LW_OK ||
        lw_value_read(j, &arena, &v, &err) != LW_OK)
        fail_msg("%s: %s\n%s", words, err.msg, out);
    check_figures(&v, words);
    lw_json_close(j);
    lw_arena_free(&arena);
    free(text);
}

/* A chain of changes that are accepted; one that is refused is taken back. */
static int try_chain(const char *workload, const char *cluster)
{
    char *w = strdup(workload), *c = strdup(cluster), words[256];
    int accepted = 0, rc;

    for (int i = 0; i < 6; i++) {
        bool of_cluster = draw(3) == 0;
        char *before = of_cluster ? c : w, *now = changed(before);
        fixture_put(fixture_path("w.json"), of_cluster ? w : now);
        fixture_put(fixture_path("c.json"), of_cluster ? now : c);
        snprintf(words, sizeof words, "sim --no-db --format json -w w.json -c c.json %s",
                 options[draw(sizeof options / sizeof options[0])]);
        const char *out = lapwing(words, &rc);
        if (rc < 0 || rc > 3 || strstr(out, "runtime error") || strstr(out, "Assertion"))
            fail_msg("%s: exit %d\n%s\nworkload:\n%s\ncluster:\n%s", words, rc, out,
                     of_cluster ? w : now, of_cluster ? now : c);
        if (rc == 0)
            check_result(out, words);
        accepted += rc == 0;
        bool keep = rc == 0;
        *(of_cluster ? &c : &w) = keep ? now : before;
        free(keep ? before : now);
    }
    free(w);
    free(c);
    return accepted;
}

TEST_WITH(results_at_the_limits_are_possible_or_refused, fixture_open, fixture_close)
{
    const char *tries = getenv("LAPWING_TRIES"), *seed = getenv("LAPWING_SEED");
    char *cluster = fixture_example("docs/formats/cluster.md");
    int n = tries ? atoi(tries) : 40, accepted = 0, rc;

    state_of_draws = seed ? strtoull(seed, NULL, 10) : 1;
    shell("$L model mlp --layers 4 --width 64 -o model.json", &rc);
    char *workloads[] = {fixture_example("docs/formats/workload.md"),
                         fixture_get(fixture_path("model.json"))};
    for (int i = 0; i < n; i++)
        accepted += try_chain(workloads[i % 2], cluster);
    printf("%d tried, %d of them simulated (LAPWING_SEED=%s)\n", n * 6, accepted,
           seed ? seed : "1");
    assert_true(accepted > n / 4);
    for (int i = 0; i < 2; i++)
        free(workloads[i]);
    free(cluster);
}

/* The three that were found: 10^12 s of work, more steps than fit, bytes of 2^62. */
TEST_WITH(the_limit_and_the_quantity_are_named, fixture_open, fixture_close)
{
    char *text = fixture_example("docs/formats/workload.md");
    char *slow =
        fixture_replaced(text, "\"forward_ns\": 20000,", "\"forward_ns\": 2000000000000000,");

    fixture_put(fixture_path("w.json"), slow);
    expect("sim -w w.json --no-db --steps 1", 0, "step 2000000");
    expect("sim -w w.json --no-db --steps 9", 1,
           "the simulated time passes 2^63 ps (106 days) after ");
    free(text);
    free(slow);
}
