/* Which framework a prediction is made with where --framework names none.
 *
 * The rule looks at what the user typed, and no further: a schedule, a bucket policy or a partition
 * changes no framework, so that strategies which differ in these alone differ in nothing else. */
#include "shared/framework/framework_choice.h"

#include <string.h>

#include "shared/cluster/cluster.h"
#include "shared/device/device_kind.h"
#include "shared/framework/framework.h"
#include "shared/json/jsonout.h"
#include "shared/strategy/strategy.h"
#include "shared/text/wrap.h"

const char *lw_framework_from_word(int from)
{
    static const char *const words[LW_N_FRAMEWORK_FROM] = {"option", "strategy", "workload file",
                                                           "plan file", "recording"};

    return from >= 0 && from < LW_N_FRAMEWORK_FROM ? words[from] : NULL;
}

static bool has_groups(const struct lw_strategy *s)
{
    return s->tp > 1 || s->pp > 1 || s->cp > 1 || s->ep > 1;
}

static bool is_cpu(const struct lw_device *d)
{
    return d && d->kind && lw_device_is_cpu(d->kind);
}

/* Megatron-LM, megatron/core/pipeline_parallel/schedules.py. */
static bool megatron_has(const struct lw_strategy *s)
{
    return s->pp == 1 || s->schedule == LW_SCHEDULE_1F1B ||
           s->schedule == LW_SCHEDULE_INTERLEAVED_1F1B;
}

static const char *usual_of_groups(const struct lw_strategy *s, bool transformer, char *why,
                                   size_t size)
{
    if (!transformer)
        snprintf(why, size, "known ones split transformers alone");
    else if (megatron_has(s))
        snprintf(why, size, "usual with --tp/pp/cp/ep");
    else
        snprintf(why, size, "usual but for %s", lw_schedule_name(s->schedule));
    return transformer ? "megatron-lm" : LW_IDEAL_FRAMEWORK;
}

void lw_framework_usual(const struct lw_strategy *s, const struct lw_device *d, bool transformer,
                        struct lw_framework_choice *out)
{
    const char *why = NULL;

    *out = (struct lw_framework_choice){.from = LW_FRAMEWORK_USUAL, .name = LW_IDEAL_FRAMEWORK};
    if (is_cpu(d)) {
        why = "known ones are of GPUs, this is a CPU";
    } else if (s->compat != LW_COMPAT_NONE) {
        why = "nothing is known of the program of --compat";
    } else if (has_groups(s)) {
        out->name = usual_of_groups(s, transformer, out->why, sizeof out->why);
    } else if (s->zero == 3) {
        out->name = "torch-fsdp2";
        why = "usual with --zero 3";
    } else if (s->zero > 0) {
        out->name = "deepspeed";
        why = "usual with --zero 1 or 2";
    } else {
        out->name = "torch-ddp";
        why = "usual without --zero";
    }
    if (why)
        snprintf(out->why, sizeof out->why, "%s", why);
}

void lw_framework_choice_print(const struct lw_framework_choice *c, FILE *f)
{
    bool ideal = strcmp(c->name, LW_IDEAL_FRAMEWORK) == 0;
    const char *quote = c->file && strchr(c->file, ' ') ? "'" : "";
    const char *left = c->left_out[0] ? "; " : "";
    char hash[16] = "";

    if (!ideal && c->hash[0])
        snprintf(hash, sizeof hash, " (%.8s)", c->hash);
    if (c->from == LW_FRAMEWORK_GIVEN)
        lw_printf_paragraph(f, "framework %s%s, as given; `lapwing framework %s%s%s` shows it%s%s",
                            c->name, hash, quote, c->file, quote, left, c->left_out);
    else if (c->from == LW_FRAMEWORK_RECORDED || c->from == LW_FRAMEWORK_PLAN)
        lw_printf_paragraph(f, "framework %s%s: %s%s%s", c->name, hash, c->why, left, c->left_out);
    else
        lw_printf_paragraph(f, "framework %s%s: %s; --framework %sNAME for another%s%s", c->name,
                            hash, c->why, ideal ? "" : "ideal|", left, c->left_out);
}

void lw_framework_choice_json(struct lw_jsonout *o, const struct lw_framework_choice *c)
{
    LW_JSON(o, "framework", c ? c->name : NULL, "framework_hash", c ? c->hash : NULL,
            "framework_from", c ? lw_framework_from_word(c->from) : NULL);
}
