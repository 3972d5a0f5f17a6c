/* The hashes of random plans as they were committed: tests/golden/plans.txt, one line per plan,
 *
 *     SEED options = HASH
 *
 * The seed makes the model, the options the strategy. LAPWING_GOLDEN=update (`make golden-update`)
 * plans every line anew and writes its hash, also where it was '?'; it draws the lines where the
 * file is missing. Strategies stay as they are, so that a new policy changes no line. */
#include "tests/lib/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/arena.h"
#include "shared/lower/lower.h"
#include "tests/lib/plans/random_strategy.h"

#define PLANS "tests/golden/plans.txt"
enum { N_DRAWN = 400, LINE = 1024, HASH = 33 };

static bool updating(void)
{
    const char *how = getenv("LAPWING_GOLDEN");

    return how && strcmp(how, "update") == 0;
}

/* 5 us and 1 ns for every 10 bytes, whoever takes part: policies that weigh times need a cost. */
static lw_ps affine(const void *ctx, const struct lw_cost_query *q)
{
    (void)ctx;
    return 5 * LW_PS_PER_US + q->bytes / 10 * LW_PS_PER_NS;
}

static const struct lw_cost cost = {.time = affine, .ranks_per_node = 8};

static struct prng from_seed(uint64_t seed)
{
    return (struct prng){seed * 2685821657736338717u + 1};
}

/* "--name value ..." on top of the defaults; words are cut in place and kept. */
static void parse(char *words, struct lw_strategy *s)
{
    struct lw_err err = {0};

    *s = lw_strategy_default();
    for (char *name = strtok(words, " "); name; name = strtok(NULL, " "))
        if (lw_strategy_set(s, name + 2, strtok(NULL, " "), &err) != LW_OK)
            fail_msg("%s: %s", PLANS, err.msg);
}

/* LW_OK: the plan's hash. Else err says why there is not a plan. */
static enum lw_status hash_of(uint64_t seed, const char *words, char hash[HASH],
                              struct lw_err *err)
{
    static struct random_model k;
    static char cut[LINE];
    struct prng r = from_seed(seed);
    struct lw_strategy s;
    struct lw_plan p;

    random_model(&r, &k);
    snprintf(cut, sizeof cut, "%s", words);
    parse(cut, &s);
    LW_TRY(lw_plan_build(&k.w, &s, &cost, &p, err));
    snprintf(hash, HASH, "%s", p.hash);
    lw_plan_free(&p);
    return LW_OK;
}

static void draw(FILE *f)
{
    for (uint64_t seed = 1, n = 0; n < N_DRAWN; seed++) {
        static struct random_model k;
        struct prng r = from_seed(seed);
        struct lw_strategy s;
        struct lw_err err = {0};
        char words[LINE] = "", hash[HASH];
        random_model(&r, &k);
        random_strategy(&r, &k, &s);
        strategy_words(&s, words, sizeof words);
        if (hash_of(seed, words, hash, &err) != LW_OK)
            continue;
        fprintf(f, "%" PRIu64 "%s = %s\n", seed, words, hash);
        n++;
    }
}

/* Cuts "SEED words = HASH\n"; returns the hash. */
static char *cut_line(char *line, uint64_t *seed, char **words)
{
    char *hash = strstr(line, " = ");

    if (!hash)
        fail_msg("%s: '%s' lacks ' = HASH'", PLANS, line);
    *hash = '\0';
    hash[strcspn(hash + 3, "\n") + 3] = '\0';
    *seed = strtoull(line, words, 10);
    return hash + 3;
}

static void update(void)
{
    static char line[LINE];
    FILE *from = fopen(PLANS, "r"), *to = fopen(PLANS ".new", "w");
    uint64_t seed;
    char *words, hash[HASH];

    assert_non_null(to);
    if (!from)
        draw(to);
    while (from && fgets(line, sizeof line, from)) {
        struct lw_err err = {0};
        cut_line(line, &seed, &words);
        if (hash_of(seed, words, hash, &err) != LW_OK)
            print_message("left out, no plan any more:%s: %s\n", words, err.msg);
        else
            fprintf(to, "%" PRIu64 "%s = %s\n", seed, words, hash);
    }
    if (from)
        fclose(from);
    assert_int_equal(fclose(to), 0);
    assert_int_equal(rename(PLANS ".new", PLANS), 0);
}

TEST(plans_have_their_committed_hashes)
{
    static char line[LINE];
    int n = 0, differ = 0;

    if (updating())
        update();
    FILE *f = fopen(PLANS, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        uint64_t seed;
        char *words, hash[HASH] = "";
        const char *expected = cut_line(line, &seed, &words);
        struct lw_err err = {0};
        hash_of(seed, words, hash, &err);
        n++;
        if (strcmp(hash, expected) == 0)
            continue;
        differ++;
        print_message("seed %" PRIu64 "%s: %s instead of %s %s\n", seed, words, hash, expected,
                      err.msg);
    }
    fclose(f);
    assert_true(n >= N_DRAWN);
    if (differ)
        fail_msg("%d of %d plans differ; if they are meant to, run 'make golden-update'", differ,
                 n);
}
