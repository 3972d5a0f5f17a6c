/* Names of runs. What is known of a run is a list of traits: one value for every (run, trait). A
 * table may cut the end of a name, so it begins with a few traits that tell all runs apart, in one
 * order for all of them, then come the other traits that differ, then those that all share. */
#include "analysis/store/run_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/shown_text.h"
#include "shared/base/sort.h"
#include "shared/numbers/order.h"
#include "shared/numbers/units.h"
#include "shared/strategy/strategy.h"

enum { NAME_BYTES = 400, WORD_BYTES = 256 };

/* The order of traits; options of the strategy lie from OPTION on. */
enum { WORKLOAD, ZERO, SCHEDULE, OPTION, DERIVED = 500, SETTING = 1000,
       FRAMEWORK_HASH, PLACE, CLUSTER, CLUSTER_HASH, FILE_NAME };

struct trait {
    int32_t run, rank;
    const char *name, *value;
    bool bare;  /* the value says it: "dgx-h100" */
    bool usual; /* the value that a run has unless another is given: not part of a name */
    bool extra; /* a consequence of other traits, or a longer word for one: shown where nothing
                 * else tells the runs apart */
    bool alone; /* runs without this trait are not compared by it */
};

struct traits {
    struct trait *v;
    int64_t n, capacity;
    bool *hashed; /* [runs] the text has the cluster with its hash */
    struct lw_arena arena;
};

static enum lw_status add(struct traits *t, struct trait x, struct lw_err *err)
{
    x.name = lw_arena_strdup(&t->arena, x.name);
    x.value = lw_arena_strdup(&t->arena, x.value);
    if (!x.name || !x.value || lw_reserve(&t->v, &t->capacity, t->n + 1, sizeof *t->v) != 0)
        return lw_fail_nomem(err);
    t->v[t->n++] = x;
    return LW_OK;
}

/* --- options ---------------------------------------------------------------------------------- */

/* Options that follow from others, or from the framework, where they are not given. */
static bool follows(const char *name)
{
    static const char *const names[] = {
        "bucket-policy", "shard-policy", /* of `zero` */
        "grad-dtype", "tp-overlap", "cp-comm-type", "sequence-parallel", "sync-each-micro-batch",
        "accumulate-pass", "reshard", "units", "overlap", "prefetch", "unit-copies",
        "async-messages", "scatter-gather", "partition", "partition-list", /* of the framework */
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static int32_t option_rank(const char *name, int option)
{
    if (strcmp(name, "zero") == 0)
        return ZERO;
    if (follows(name))
        return DERIVED + option;
    return strcmp(name, "schedule") == 0 ? SCHEDULE : OPTION + option;
}

/* Sizes have units; -1 is a size that was not given. */
static const char *shown(int option, const char *value, char buf[LW_STRATEGY_TEXT])
{
    struct lw_err ignored;
    int64_t bytes;

    if (option < 0 || !lw_strategy_option(option)->arg ||
        strcmp(lw_strategy_option(option)->arg, "SIZE") != 0)
        return value[0] ? value : "default";
    if (strcmp(value, "-1") == 0)
        return "default";
    return lw_parse_size(value, &bytes, &ignored) == LW_OK ? lw_format_bytes(buf, bytes) : value;
}

/* Is the option among the words of the command? A longer option that begins so does not
 * count. */
static bool is_given(const char *command, const char *name)
{
    size_t len = strlen(name);

    for (const char *p = command; (p = strstr(p, "--")) != NULL; p += 2)
        if ((p == command || p[-1] == ' ') && strncmp(p + 2, name, len) == 0 &&
            strchr(" =", p[2 + len]))
            return true;
    return false;
}

/* By the command, or in a file of options that it names. */
static bool is_chosen(const char *command, const char *name)
{
    return is_given(command, name) || is_given(command, "strategy") || strstr(command, " -s ");
}

/* command: of a run whose plan has the option; NULL: an option of the command. */
static enum lw_status add_option(struct traits *t, int32_t run, const char *name,
                                 const char *value, const char *command, struct lw_err *err)
{
    struct lw_strategy standard = lw_strategy_default();
    int option = lw_strategy_find(name);
    char buf[LW_STRATEGY_TEXT], usual[LW_STRATEGY_TEXT];

    name = option < 0 ? name : lw_strategy_option(option)->name; /* not an old one */
    if (strcmp(name, "collective-algorithm") == 0)
        name = "algorithm"; /* a name of a run has little room */
    struct trait x = {.run = run, .name = name, .value = shown(option, value, buf),
                      .rank = option < 0 ? SETTING : option_rank(name, option),
                      .alone = command != NULL};
    bool derived = command && x.rank >= DERIVED && x.rank < SETTING;
    x.extra = derived && !is_chosen(command, name);
    if (option >= 0)
        x.usual = derived ? x.extra
                          : strcmp(value, lw_strategy_get(&standard, option, usual)) == 0;
    return add(t, x, err);
}

/* The "name=value" lines of a plan; of one without shards no policy for them. */
static enum lw_status add_plan(struct traits *t, int32_t run, const char *lines,
                               const char *command, struct lw_err *err)
{
    bool shards = !strstr(lines, "\nzero=0\n");

    for (const char *p = lines; *p;) {
        int line = (int)strcspn(p, "\n"), name = (int)strcspn(p, "=\n");
        char word[WORD_BYTES], value[WORD_BYTES];
        snprintf(word, sizeof word, "%.*s", name, p);
        snprintf(value, sizeof value, "%.*s", name < line ? line - name - 1 : 0, p + name + 1);
        if (shards || strcmp(word, "shard-policy") != 0)
            LW_TRY(add_option(t, run, word, value, command, err));
        p += line + (p[line] == '\n');
    }
    return LW_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

/* Options that take no value, and those that change no figure or are told by other traits. */
static const struct word {
    const char *name;
    bool flag, hidden;
} known[] = {
    {"all", true, true},         {"as-recorded", true, true}, /* the cluster says it */
    {"buffered", true, false},
    {"cluster", false, true},    {"cluster-out", false, true},
    {"compute", false, true},    {"db", false, true},
    {"force", true, true},       {"format", false, true},
    {"framework", false, true}, /* the run says it */
    {"graph", true, false},      {"backend", false, true},
    {"name", false, true},       {"nccl-register", true, false},
    {"no-check", true, true},    {"no-db", true, true},
    {"no-merge", true, true},
    {"no-fold", true, false},    {"no-pin", true, false},
    {"no-verify", true, false},  {"output", false, true},
    {"per-rank", true, true},    {"price", false, true},
    {"published-interference", true, false},
    {"quiet", true, true},       {"ranks", false, true},
    {"rendezvous", false, true}, {"replay", true, true},
    {"spans", true, true},       {"spawn", true, true},
    {"store", true, true},       {"strategy", false, true},
    {"timeout", false, true},    {"tokens", false, true},
    {"must-fit", true, true},    {"workload", false, true},
    {"w", false, true},          {"c", false, true},
    {"s", false, true},          {"o", false, true},
    {"q", true, true},
};

static const struct word *find_word(const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return &known[i];
    return NULL;
}

/* The next word of a command line; NULL at its end. */
static const char *next_word(const char **p, char buf[WORD_BYTES])
{
    *p += strspn(*p, " ");
    int n = (int)strcspn(*p, " ");
    snprintf(buf, WORD_BYTES, "%.*s", n, *p);
    *p += n;
    return n > 0 ? buf : NULL;
}

const char *lw_command_words(const char *command)
{
    char word[WORD_BYTES];

    next_word(&command, word);
    return command;
}

bool lw_command_next(const char **p, struct lw_command_word *w)
{
    char word[WORD_BYTES];

    *w = (struct lw_command_word){.hidden = false};
    if (!next_word(p, word))
        return false;
    size_t dashes = strspn(word, "-");
    char *given = dashes > 0 ? strchr(word, '=') : NULL;
    if (given)
        *given = '\0';
    snprintf(dashes > 0 ? w->name : w->value, WORD_BYTES, "%s", word + dashes);
    if (dashes == 0)
        return true;
    const struct word *k = find_word(w->name);
    w->hidden = k && k->hidden;
    if (given)
        snprintf(w->value, sizeof w->value, "%s", given + 1);
    else if (!(k && k->flag) && (*p)[strspn(*p, " ")] != '-')
        next_word(p, w->value);
    if (!w->value[0])
        strcpy(w->value, "on");
    return true;
}

const char *lw_command_value(const char *command, const char *option, struct lw_arena *a)
{
    const char *p = lw_command_words(command), *value = NULL;
    struct lw_command_word w;

    while (lw_command_next(&p, &w))
        if (strcmp(w.name, option) == 0)
            value = lw_arena_strdup(a, w.value);
    return value;
}

/* What is left of a command: files that it names, how many, the values of -w and -c. */
struct operands {
    char first[WORD_BYTES], workload[WORD_BYTES], cluster[WORD_BYTES];
    int n;
    bool measured; /* the run */
};

/* How long is measured, which a prediction does not have: no difference of the two. */
static bool is_of_measurement(const char *name)
{
    return strcmp(name, "steps") == 0 || strcmp(name, "warmup") == 0;
}

/* An option of the command; *p stands after its name. recorded: its plan comes from a recording and
 * holds no options. */
static enum lw_status read_option(struct traits *t, int32_t run, char *name, const char **p,
                                  bool recorded, struct operands *left, struct lw_err *err)
{
    char value[WORD_BYTES] = "";
    char *given = strchr(name, '=');
    const struct word *w;

    if (given) {
        *given = '\0';
        snprintf(value, sizeof value, "%s", given + 1);
    }
    w = find_word(name);
    if (!given && !(w && w->flag) && (*p)[strspn(*p, " ")] != '-')
        next_word(p, value);
    if (strcmp(name, "w") == 0 || strcmp(name, "workload") == 0)
        snprintf(left->workload, sizeof left->workload, "%s", value);
    if (strcmp(name, "c") == 0 || strcmp(name, "cluster") == 0)
        snprintf(left->cluster, sizeof left->cluster, "%s", value);
    if ((w && w->hidden) || (!recorded && lw_strategy_find(name) >= 0))
        return LW_OK;
    LW_TRY(add_option(t, run, name, value[0] ? value : "on", NULL, err));
    t->v[t->n - 1].alone |= left->measured && is_of_measurement(name);
    return LW_OK;
}

static enum lw_status add_command(struct traits *t, int32_t run, const char *command,
                                  bool recorded, struct operands *left, struct lw_err *err)
{
    char word[WORD_BYTES];

    next_word(&command, word); /* the subcommand */
    while (next_word(&command, word)) {
        char *name = word + strspn(word, "-");
        if (name > word)
            LW_TRY(read_option(t, run, name, &command, recorded, left, err));
        else if (left->n++ == 0)
            snprintf(left->first, sizeof left->first, "%s", word);
    }
    return LW_OK;
}

/* --- a run ------------------------------------------------------------------------------------ */

static enum lw_status add_bare(struct traits *t, int32_t run, int32_t rank, const char *of,
                               const char *value, struct lw_err *err)
{
    return add(t, (struct trait){.run = run, .rank = rank, .name = of, .value = value,
                                 .bare = true, .extra = rank > CLUSTER, .alone = rank > CLUSTER},
               err);
}

/* "mlp"; "replay of ddp_rank0 and 7 more" */
static enum lw_status add_what(struct traits *t, int32_t run, const struct lw_run *r,
                               struct operands *left, struct lw_err *err)
{
    char text[2 * WORD_BYTES + 128], of[WORD_BYTES], more[32] = "";

    if (r->workload_name[0])
        return add_bare(t, run, WORKLOAD, "", r->workload_name, err);
    if (left->n > 1)
        snprintf(more, sizeof more, " and %d more", left->n - 1);
    snprintf(text, sizeof text, "%s%s%s%s", r->plan_name[0] ? r->plan_name : "no plan",
             left->n > 0 ? " of " : "", lw_file_stem(of, sizeof of, left->first), more);
    return add_bare(t, run, WORKLOAD, "", text, err);
}

static enum lw_status add_place(struct traits *t, int32_t run, const struct lw_run *r,
                                struct lw_err *err)
{
    static const char *const how[] = {"simulated", "exec", "recorded"};
    char text[WORD_BYTES];

    snprintf(text, sizeof text, "%s%s%s%s%s%s", how[r->kind], r->backend[0] ? " " : "", r->backend,
             r->honesty[0] ? " (" : "", r->honesty, r->honesty[0] ? ")" : "");
    return add(t, (struct trait){.run = run, .rank = PLACE, .name = "", .value = text, .bare = true,
                                 .usual = r->kind == LW_RUN_SIM}, err);
}

/* A recording has the cluster that it was made on, and a replay another one where one is given. */
static enum lw_status add_cluster(struct traits *t, int32_t run, const struct lw_run *r,
                                  const char *asked, struct lw_err *err)
{
    char text[WORD_BYTES];

    if (!r->workload_name[0])
        return asked[0] ? add_bare(t, run, CLUSTER, "", asked, err) : LW_OK;
    if (!r->cluster_name[0])
        return LW_OK;
    LW_TRY(add_bare(t, run, CLUSTER, "", r->cluster_name, err));
    snprintf(text, sizeof text, "%.200s (%.8s)", r->cluster_name, r->cluster_hash);
    return add_bare(t, run, CLUSTER_HASH, r->cluster_name, text, err);
}

/* Replays have none. Two of one name are told apart by their facts' hash. */
static enum lw_status add_framework(struct traits *t, int32_t run, const struct lw_run *r,
                                    struct lw_err *err)
{
    struct trait x = {.run = run, .rank = SETTING, .name = "framework", .value = r->framework,
                      .alone = true, .usual = !is_given(r->command, "framework")};
    char hash[16];

    if (!r->framework || !*r->framework)
        return LW_OK;
    LW_TRY(add(t, x, err));
    if (!r->framework_hash || !*r->framework_hash)
        return LW_OK;
    snprintf(hash, sizeof hash, "%.8s", r->framework_hash);
    x.rank = FRAMEWORK_HASH;
    x.name = "framework hash";
    x.value = hash;
    x.extra = true;
    x.usual = false;
    return add(t, x, err);
}

static enum lw_status add_run(struct traits *t, int32_t run, const struct lw_run *r,
                              struct lw_err *err)
{
    bool recorded = !r->workload_name[0];
    struct operands left = {.measured = r->kind == LW_RUN_EXEC};

    LW_TRY(add_command(t, run, r->command, recorded, &left, err));
    LW_TRY(add_what(t, run, r, &left, err));
    if (!recorded)
        LW_TRY(add_plan(t, run, r->options, r->command, err));
    LW_TRY(add_framework(t, run, r, err));
    LW_TRY(add_place(t, run, r, err));
    LW_TRY(add_cluster(t, run, r, left.cluster, err));
    return left.workload[0] ? add_bare(t, run, FILE_NAME, r->workload_name, left.workload, err)
                            : LW_OK;
}

/* --- texts ------------------------------------------------------------------------------------ */

static int by_trait(const void *pa, const void *pb)
{
    const struct trait *a = pa, *b = pb;
    int c = a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank)
                               : strcmp(a->name, b->name);

    if (c == 0)
        c = strcmp(a->value, b->value);
    return c ? c : (a->run > b->run) - (a->run < b->run);
}

/* The runs' values of one trait: traits [from, to), and n_absent runs without it. */
struct group {
    int64_t from, to;
    int64_t n_absent;
    const char *common; /* the value that most runs have, of equals the first run's; NULL: none */
    bool differ;
    bool extra;  /* all of its traits are */
    bool needed; /* among the traits that tell all runs apart */
};

static struct group find_group(const struct traits *t, int64_t from, int32_t n)
{
    const struct trait *v = t->v;
    struct group g = {.from = from, .to = from, .extra = true};
    int64_t most = 0, same;
    int32_t first = -1;

    while (g.to < t->n && v[g.to].rank == v[from].rank &&
           strcmp(v[g.to].name, v[from].name) == 0)
        g.extra = v[g.to++].extra && g.extra;
    g.n_absent = v[from].alone ? 0 : n - (g.to - from);
    for (int64_t i = from; i < g.to; i += same) {
        for (same = 1; i + same < g.to && strcmp(v[i].value, v[i + same].value) == 0;)
            same++;
        if (same > most || (same == most && v[i].run < first)) {
            most = same;
            first = v[i].run;
            g.common = v[i].value;
        }
    }
    g.differ = most < g.to - from || g.n_absent > 0;
    if (g.n_absent >= most)
        g.common = NULL;
    return g;
}

/* --- the order of traits ---------------------------------------------------------------------- */

/* The value of a trait that a run has, beside the set of runs that it is not yet told from. */
struct told {
    int32_t set, value, run;
};

LW_COMPARATOR(by_told, struct told, a->set, b->set, a->value, b->value, a->run, b->run)

/* told[i]: of run told[i].run after its set is cut by this trait too. Returns the number of pairs
 * of runs that share a set then, in both orders. */
static int64_t cut_sets(const struct traits *t, const struct group *g, const int32_t *set,
                        struct told *told, int32_t n)
{
    int32_t value = 0, common = -1;
    int64_t n_alike = 0;

    for (int64_t i = g->from; g->common && i < g->to; i++)
        if (strcmp(t->v[i].value, g->common) == 0) {
            common = (int32_t)(i - g->from);
            break;
        }
    for (int32_t r = 0; r < n; r++)
        told[r] = (struct told){set[r], t->v[g->from].alone ? common : -1, r};
    for (int64_t i = g->from; i < g->to; i++) {
        if (i == g->from || strcmp(t->v[i].value, t->v[i - 1].value) != 0)
            value = (int32_t)(i - g->from);
        told[t->v[i].run].value = value;
    }
    lw_sort(told, n, by_told);
    for (int32_t i = 0, from = 0; i < n; i++) {
        if (told[i].set != told[from].set || told[i].value != told[from].value)
            from = i;
        n_alike += 2 * (int64_t)(i - from);
    }
    return n_alike;
}

static void take_sets(const struct told *told, int32_t n, int32_t *set)
{
    for (int32_t i = 0, k = -1; i < n; i++) {
        k += i == 0 || told[i].set != told[i - 1].set || told[i].value != told[i - 1].value;
        set[told[i].run] = k;
    }
}

/* To the front, one after the other: the trait that tells most pairs apart, of equals the earlier
 * and one that is not an extra. set, told: [n]. */
static void order_groups(const struct traits *t, struct group *g, int32_t n_groups, int32_t *set,
                         struct told *told, int32_t n)
{
    int64_t n_alike = (int64_t)n * (n - 1);

    for (int32_t at = 0; at < n_groups; at++) {
        int32_t best = -1;
        int64_t least = n_alike;
        for (int extra = 0; extra < 2; extra++)
            for (int32_t k = at; k < n_groups; k++) {
                if (!g[k].differ || g[k].extra != (extra == 1))
                    continue;
                int64_t alike = cut_sets(t, &g[k], set, told, n);
                best = alike < least ? k : best;
                least = alike < least ? alike : least;
            }
        if (best < 0)
            return;
        n_alike = cut_sets(t, &g[best], set, told, n);
        take_sets(told, n, set);
        struct group chosen = g[best];
        memmove(&g[at + 1], &g[at], (size_t)(best - at) * sizeof *g);
        g[at] = chosen;
        g[at].needed = true;
    }
}

/* --- texts, of ordered traits ----------------------------------------------------------------- */

static void append(char *text, const struct trait *x, const char *value)
{
    size_t at = strlen(text);

    snprintf(text + at, NAME_BYTES - at, "%s%s%s%s", at ? ", " : "", x->bare ? "" : x->name,
             x->bare ? "" : " ", value);
}

/* The passes over all traits that make a name. */
enum pass { DIFFER, SHARED, N_PASSES };

static bool in_pass(const struct group *g, const struct trait *x, const char *value,
                    enum pass pass, enum lw_run_words which)
{
    bool common = value == g->common || (value && g->common && strcmp(value, g->common) == 0);

    if (g->differ != (pass == DIFFER) || (g->extra && !g->needed))
        return false;
    if (which == LW_RUN_RARE)
        return g->differ && !common;
    if (which == LW_RUN_NAMES || which == LW_RUN_CHOICES)
        return value && !x->usual && (g->differ || which == LW_RUN_NAMES);
    return g->differ;
}

/* A cluster's name with its hash stands for its name. */
static void find_hashed(struct traits *t, const struct group *groups, int32_t n_groups,
                        enum lw_run_words which)
{
    for (int32_t k = 0; k < n_groups; k++)
        for (int64_t i = groups[k].from; i < groups[k].to; i++)
            if (t->v[i].rank == CLUSTER_HASH)
                t->hashed[t->v[i].run] =
                    in_pass(&groups[k], &t->v[i], t->v[i].value, DIFFER, which);
}

static void put_group(const struct traits *t, const struct group *g, int32_t n, bool *has,
                      enum pass pass, enum lw_run_words which, char *texts)
{
    const struct trait *first = &t->v[g->from];

    for (int64_t i = g->from; i < g->to; i++) {
        const struct trait *x = &t->v[i];
        has[x->run] = true;
        if (x->rank == CLUSTER && t->hashed[x->run])
            continue;
        if (in_pass(g, x, x->value, pass, which))
            append(texts + (size_t)x->run * NAME_BYTES, x, x->value);
    }
    bool says_absent = g->n_absent > 0 && !first->bare && which == LW_RUN_DIFFERENCES;
    for (int32_t r = 0; says_absent && r < n; r++)
        if (!has[r] && in_pass(g, first, NULL, pass, which))
            append(texts + (size_t)r * NAME_BYTES, first, "not given");
    for (int64_t i = g->from; i < g->to; i++)
        has[t->v[i].run] = false;
}

/* A run all of whose choices are the usual ones: they are its text. */
static void put_usual(const struct traits *t, const struct group *g, int32_t n_groups, int32_t n,
                      bool *empty, char *texts)
{
    for (int32_t r = 0; r < n; r++)
        empty[r] = !texts[(size_t)r * NAME_BYTES];
    for (int32_t k = 0; k < n_groups; k++)
        for (int64_t i = g[k].from; g[k].differ && i < g[k].to; i++)
            if (empty[t->v[i].run] && t->v[i].rank != PLACE && (!t->v[i].extra || g[k].needed))
                append(texts + (size_t)t->v[i].run * NAME_BYTES, &t->v[i], t->v[i].value);
}

struct named {
    char *text;
    const struct lw_run *run;
};

static int by_text(const void *pa, const void *pb)
{
    const struct named *a = pa, *b = pb;
    int c = strcmp(a->text, b->text);

    return c ? c : (a->run->id > b->run->id) - (a->run->id < b->run->id);
}

/* Runs of equal texts and different plans take the plan's hash first. */
static void add_hashes(struct named *v, int32_t n)
{
    for (int32_t from = 0, to; from < n; from = to) {
        bool differ = false;
        for (to = from + 1; to < n && strcmp(v[to].text, v[from].text) == 0; to++)
            differ |= strcmp(v[to].run->plan_hash, v[from].run->plan_hash) != 0;
        for (int32_t i = from; differ && i < to; i++) {
            char with[NAME_BYTES + 32];
            snprintf(with, sizeof with, "plan %.8s%s%s", v[i].run->plan_hash,
                     v[i].text[0] ? ", " : "", v[i].text);
            snprintf(v[i].text, NAME_BYTES, "%.*s", NAME_BYTES - 1, with);
        }
    }
}

static enum lw_status write_texts(struct traits *t, const struct lw_run *runs, int32_t n,
                                  enum lw_run_words which, struct lw_arena *a, const char **out,
                                  struct lw_err *err)
{
    char *texts = lw_arena_alloc(&t->arena, n, NAME_BYTES);
    bool *has = lw_arena_alloc(&t->arena, n, sizeof *has);
    struct named *named = lw_arena_alloc(&t->arena, n, sizeof *named);
    struct group *groups = lw_arena_alloc(&t->arena, t->n, sizeof *groups);
    int32_t *set = lw_arena_alloc(&t->arena, n, sizeof *set), n_groups = 0;
    struct told *told = lw_arena_alloc(&t->arena, n, sizeof *told);

    t->hashed = lw_arena_alloc(&t->arena, n, sizeof *t->hashed);
    if (!texts || !has || !named || !groups || !set || !told || !t->hashed)
        return lw_fail_nomem(err);
    lw_sort(t->v, t->n, by_trait);
    for (int64_t at = 0; at < t->n; at = groups[n_groups++].to)
        groups[n_groups] = find_group(t, at, n);
    order_groups(t, groups, n_groups, set, told, n);
    find_hashed(t, groups, n_groups, which);
    for (enum pass pass = DIFFER; pass < N_PASSES; pass++)
        for (int32_t k = 0; k < n_groups; k++)
            if (which != LW_RUN_CHOICES || t->v[groups[k].from].rank != PLACE)
                put_group(t, &groups[k], n, has, pass, which, texts);
    if (which == LW_RUN_CHOICES)
        put_usual(t, groups, n_groups, n, has, texts);
    for (int32_t i = 0; i < n; i++)
        named[i] = (struct named){texts + (size_t)i * NAME_BYTES, &runs[i]};
    lw_sort(named, n, by_text);
    add_hashes(named, n);
    for (int32_t i = 0; i < n; i++) {
        out[i] = lw_arena_strdup(a, texts + (size_t)i * NAME_BYTES);
        if (!out[i])
            return lw_fail_nomem(err);
    }
    return LW_OK;
}

enum lw_status lw_run_texts(const struct lw_run *runs, int32_t n, enum lw_run_words which,
                            struct lw_arena *a, const char ***texts, struct lw_err *err)
{
    struct traits t = {.n = 0};
    const char **out = lw_arena_alloc(a, n, sizeof *out);
    enum lw_status st = out ? LW_OK : lw_fail_nomem(err);

    for (int32_t i = 0; i < n && st == LW_OK; i++)
        st = add_run(&t, i, &runs[i], err);
    if (st == LW_OK)
        st = write_texts(&t, runs, n, which, a, out, err);
    lw_arena_free(&t.arena);
    lw_free(t.v);
    if (st == LW_OK)
        *texts = out;
    return st;
}
