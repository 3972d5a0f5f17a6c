/* The nearest of several words by edit distance: insertions, deletions, replacements, and swaps of
 * neighbours (optimal string alignment; Damerau, CACM 7(3), 1964). A candidate is near when at
 * most a third of the longer word's letters are edited, or when the word is its beginning. Of
 * equally near ones the first counts, of those that the word begins the shortest. Upper and lower
 * case are the same. A word that other tools use for something counts as equal to its name in
 * Lapwing, as does one that differs in no letter or digit. */
#include "shared/base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LONGEST = 48 }; /* longer words are not compared */

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int letter(const char *s, int i)
{
    return tolower((unsigned char)s[i]);
}

static int edits(const char *a, int n, const char *b, int m)
{
    int row[3][LONGEST + 1]; /* of i - 2, i - 1 and i */

    for (int j = 0; j <= m; j++)
        row[0][j] = row[1][j] = j;
    for (int i = 1; i <= n; i++) {
        int *before = row[(i + 1) % 3], *last = row[(i + 2) % 3], *now = row[i % 3];
        if (i == 1)
            for (int j = 0; j <= m; j++)
                last[j] = j;
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int same = letter(a, i - 1) == letter(b, j - 1);
            now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + !same);
            if (i > 1 && j > 1 && letter(a, i - 1) == letter(b, j - 2) &&
                letter(a, i - 2) == letter(b, j - 1))
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return n == 0 ? m : row[n % 3][m];
}

/* Commands and options as PyTorch, Megatron-LM, DeepSpeed, torchtitan and Hugging Face call them.
 */
static const struct {
    const char *here, *words[8];
} elsewhere[] = {
    {"sim", {"predict", "simulate", "replay", "estimate"}},
    {"exec", {"run", "train", "launch"}},
    {"tune", {"search", "optimize", "autotune"}},
    {"plot", {"draw"}},
    {"compare", {"diff"}},
    {"runs", {"list", "show"}},
    {"import", {"trace", "profile"}},
    {"calibrate", {"measure"}},
    {"doctor", {"check"}},
    {"workload", {"model"}},
    {"cluster", {"hardware", "system"}},
    {"format", {"json", "csv"}},
    {"ranks",
     {"gpus", "num-gpus", "nodes", "nnodes", "world-size", "nproc", "np", "nproc-per-node"}},
    {"dp", {"data-parallel", "data-parallel-size", "data-parallel-replicate-degree"}},
    {"tp",
     {"tensor-parallel", "tensor-parallel-size", "tensor-parallel-degree",
      "tensor-model-parallel-size"}},
    {"pp",
     {"pipeline-parallel", "pipeline-parallel-size", "pipeline-parallel-degree",
      "pipeline-model-parallel-size"}},
    {"cp", {"context-parallel", "context-parallel-size", "context-parallel-degree"}},
    {"ep",
     {"expert-parallel", "expert-parallel-size", "expert-parallel-degree",
      "expert-model-parallel-size"}},
    {"etp", {"expert-tensor-parallel-size", "expert-tensor-parallel-degree"}},
    {"chunks",
     {"vpp", "virtual-pipeline-model-parallel-size", "num-layers-per-virtual-pipeline-stage",
      "num-virtual-stages-per-pipeline-rank"}},
    {"micro-batch-group", {"microbatch-group-size-per-virtual-pipeline-stage"}},
    {"zero", {"fsdp", "zero-stage", "use-distributed-optimizer", "use-fsdp"}},
    {"batch",
     {"mbs", "micro-batch-size", "local-batch-size", "per-device-train-batch-size",
      "train-micro-batch-size-per-gpu"}},
    {"global-batch", {"gbs", "global-batch-size", "train-batch-size"}},
    {"no-sync", {"gradient-accumulation-steps", "accumulate"}},
    {"seq", {"seq-length", "seq-len", "sequence-length", "max-seq-len", "context-length"}},
    {"layers", {"num-layers", "n-layers", "num-hidden-layers"}},
    {"hidden", {"hidden-size", "d-model", "dim"}},
    {"heads", {"num-attention-heads", "num-heads", "n-heads"}},
    {"kv-heads", {"num-query-groups", "num-key-value-heads", "n-kv-heads"}},
    {"ffn", {"ffn-hidden-size", "intermediate-size"}},
    {"vocab", {"vocab-size", "padded-vocab-size"}},
    {"experts", {"num-experts", "n-routed-experts", "num-local-experts"}},
    {"topk", {"moe-router-topk", "num-experts-per-tok", "top-k"}},
    {"expert-ffn", {"moe-ffn-hidden-size", "moe-intermediate-size"}},
    {"mtp-layers", {"mtp-num-layers", "num-nextn-predict-layers"}},
    {"dtype", {"precision", "bf16", "fp16"}},
    {"recompute",
     {"recompute-granularity", "activation-checkpointing", "checkpointing",
      "gradient-checkpointing"}},
    {"recompute-layers", {"recompute-num-layers"}},
    {"tp-overlap", {"tp-comm-overlap"}},
    {"attention", {"use-flash-attn", "flash-attention", "attn-implementation"}},
    {"bucket-cap", {"bucket-cap-mb", "bucket-size", "ddp-bucket-size"}},
    {"zb-h1", {"zero-bubble"}},
    {"nccl", {"cuda", "gpu"}},
    {"threads", {"cpu", "gloo"}},
};

/* Letters and digits alone are the same: "llama2-13b" and "llama-2-13b". */
static bool same_letters(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a && !isalnum((unsigned char)*a))
            a++;
        while (*b && !isalnum((unsigned char)*b))
            b++;
        if (!*a || tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return *a == *b;
    }
}

static bool is_called_here(const char *word, const char *here)
{
    size_t i = 0, n = sizeof elsewhere / sizeof *elsewhere;

    while (i < n && strcmp(elsewhere[i].here, here) != 0)
        i++;
    for (size_t k = 0; i < n && k < sizeof elsewhere->words / sizeof *elsewhere->words; k++)
        if (elsewhere[i].words[k] && same_letters(elsewhere[i].words[k], word))
            return true;
    return false;
}

struct lw_nearest lw_nearest_begin(const char *word)
{
    return (struct lw_nearest){.word = word, .distance = LONGEST};
}

void lw_nearest_try(struct lw_nearest *n, const char *candidate)
{
    size_t a = strlen(n->word), b = strlen(candidate);

    if (a == 0 || a > LONGEST || b > LONGEST)
        return;
    int far = edits(n->word, (int)a, candidate, (int)b), longer = (int)(a > b ? a : b);
    bool begins = a >= 3 && strncasecmp(n->word, candidate, a) == 0;
    if (begins)
        far = 1;
    if (is_called_here(n->word, candidate) || same_letters(n->word, candidate))
        far = 0;
    bool shorter = begins && far == n->distance && b < strlen(n->best);
    if (3 * far <= longer && (far < n->distance || shorter)) {
        n->distance = far;
        n->best = candidate;
    }
}

const char *lw_nearest_hint(const struct lw_nearest *n, const char *prefix, char *buf, size_t size)
{
    if (n->best)
        snprintf(buf, size, " (did you mean '%s%s'?)", prefix, n->best);
    else
        buf[0] = '\0';
    return buf;
}

enum lw_status lw_fail_word(struct lw_err *err, const char *option, const char *value,
                            const char *const *words)
{
    struct lw_nearest near = lw_nearest_begin(value);
    char all[440] = "", hint[96];

    for (int i = 0; words[i]; i++) {
        lw_err_word(all, sizeof all, words[i]);
        lw_nearest_try(&near, words[i]);
    }
    return lw_fail(err, LW_EINVAL, "%s%s%sunknown value '%s'%s; expected one of %s",
                   option ? "--" : "", option ? option : "", option ? ": " : "", value,
                   lw_nearest_hint(&near, "", hint, sizeof hint), all);
}
