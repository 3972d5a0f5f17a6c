/* The table of bucket policies, what they accept, and what their own assignments share. */
#include "shared/bucket/policy.h"

#include <string.h>

static const struct lw_bucket_policy *const policies[] = {
#define ROW(id, symbol, word, help) [LW_BUCKET_##id] = &lw_bucket_policy_##symbol,
    LW_BUCKET_POLICIES(ROW)
#undef ROW
};

const struct lw_bucket_policy *lw_bucket_policy(enum lw_bucket_policy_id id)
{
    return policies[id];
}

const char *lw_bucket_policies_that(enum lw_bucket_takes takes, char *buf)
{
    enum { ROOM = 256 };

    buf[0] = '\0';
    for (int i = 0; i < LW_N_BUCKET_POLICIES; i++)
        if (policies[i]->takes & (unsigned)takes)
            lw_err_word(buf, ROOM, lw_bucket_policy_name((enum lw_bucket_policy_id)i));
    return buf;
}

/* --- what options a policy accepts ------------------------------------------------------------ */

static enum lw_status check_options(const struct lw_bucket_request *r, struct lw_err *err)
{
    const struct {
        bool given;
        enum lw_bucket_takes takes;
        const char *option;
    } options[] = {
        {r->first_bytes >= 0, LW_TAKES_FIRST, "--first-bucket"},
        {r->cap_bytes >= 0, LW_TAKES_CAP, "--bucket-cap"},
        {r->last_cap, LW_TAKES_LAST_CAP, "--last-bucket-cap on"},
        {r->static_graph, LW_TAKES_STATIC_GRAPH, "--static-graph on"},
        {r->find_unused, LW_TAKES_FIND_UNUSED, "--find-unused on"},
    };
    char others[256];

    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].given && !(policies[r->policy]->takes & (unsigned)options[i].takes))
            return lw_fail(err, LW_EINVAL, "--bucket-policy %s does not support %s; these do: %s",
                           lw_bucket_policy_name(r->policy), options[i].option,
                           lw_bucket_policies_that(options[i].takes, others));
    if (r->last_cap && r->find_unused && !r->static_graph)
        return lw_fail(err, LW_EINVAL, "--last-bucket-cap on needs buckets that are rebuilt: leave "
                                       "out --find-unused on, with which they never are");
    return LW_OK;
}

enum lw_status lw_bucket_rules(const struct lw_bucket_request *r, struct lw_bucket_rules *out,
                               struct lw_err *err)
{
    const struct lw_bucket_policy *p = policies[r->policy];
    struct lw_bucket_rules rules = {.first_after_backward = p->after_backward,
                                    .limited = p->limits != NULL};

    LW_TRY(check_options(r, err));
    rules.used_map = r->find_unused && !r->static_graph ? LW_MAP_EACH : LW_MAP_NEVER;
    if (p->limits)
        p->limits(r, &rules);
    *out = rules;
    return LW_OK;
}

/* --- for policies that assign ----------------------------------------------------------------- */

enum lw_status lw_bucket_need_one_kind(const struct lw_bucket_task *t, struct lw_err *err)
{
    const struct lw_grad *first = &t->grads[0];

    for (int32_t g = 1; g < t->n_grads; g++) {
        const struct lw_grad *x = &t->grads[g];
        if (x->dtype == first->dtype && x->device == first->device)
            continue;
        return lw_fail(err, LW_EINVAL, "--bucket-policy %s keeps all gradients in one dtype on one "
                                       "device: '%s' is %s on %d, '%s' is %s on %d (--grad-dtype "
                                       "makes dtypes one)",
                       lw_bucket_policy_name(t->s->bucket_policy),
                       lw_param_at(t->w, t->param_of[0]).name, lw_dtype_name(first->dtype),
                       first->device, lw_param_at(t->w, t->param_of[g]).name,
                       lw_dtype_name(x->dtype), x->device);
    }
    return LW_OK;
}

bool lw_bucket_keeps_dtype(const struct lw_bucket_task *t)
{
    for (int32_t g = 0; g < t->n_grads; g++)
        if (t->grads[g].dtype != lw_param_at(t->w, t->param_of[g]).dtype)
            return false;
    return t->s->comm_hook == LW_HOOK_NONE;
}
