#pragma once

#include "exec/run/run.h"
#include "tests/lib/plans/plan_words.h"

/* Compute sleeps, every step is measured. */
static inline struct lw_exec_options exec_asleep(int32_t n_steps, enum exec_optimizer_kind kind)
{
    struct lw_exec_options o = lw_exec_options_default();

    o.compute = EXEC_COMPUTE_SLEEP;
    o.n_steps = n_steps;
    o.n_warmup = 0;
    o.timeout_ns = INT64_C(20000000000);
    o.optimizer = exec_optimizer_of(kind);
    return o;
}

/* The run equals one on one rank. Returns the bytes of parameters that were compared; *messages,
 * unless NULL: the bytes of messages. */
static inline int64_t exec_verified(const struct lw_plan *p, const struct lw_exec_options *o,
                                    const char *what, int64_t *messages)
{
    struct lw_exec_result r;
    struct lw_err err = {0};

    if (lw_exec_run(p, o, &r, &err) != LW_OK)
        fail_msg("%s: %s", what, err.msg);
    assert_int_equal(r.verified, LW_EXEC_VERIFIED);
    if (messages)
        *messages = r.n_checked_message_bytes;
    int64_t bytes = r.n_checked_bytes;
    lw_exec_result_free(&r);
    return bytes;
}

/* The run ends so, and says so. */
static inline enum lw_exec_verified exec_ends(const struct lw_plan *p,
                                              const struct lw_exec_options *o,
                                              enum lw_status status, const char *words)
{
    struct lw_exec_result r = {0};
    struct lw_err err = {0};
    enum lw_status s = lw_exec_run(p, o, &r, &err);

    if (s != status || !strstr(err.msg, words))
        fail_msg("status %d, expected %d and '%s': %s", s, status, words, err.msg);
    enum lw_exec_verified verified = r.verified;
    lw_exec_result_free(&r);
    return verified;
}

/* Verification finds this fault. */
static inline void exec_expect_fault(const struct lw_plan *p, const struct lw_exec_options *o,
                                     const char *words)
{
    assert_int_equal(exec_ends(p, o, LW_ENO, words), LW_EXEC_MISMATCH);
}

/* Two steps of the workload under each of the strategies equal a run on one rank, and messages
 * between ranks were compared. */
static inline void exec_expect_verified(const struct lw_workload *w, const char *const *words,
                                        size_t n)
{
    struct lw_exec_options o = exec_asleep(2, EXEC_MOMENTUM);

    for (size_t i = 0; i < n; i++) {
        struct lw_plan p = plan_of_words(w, words[i]);
        int64_t messages;
        exec_verified(&p, &o, words[i], &messages);
        assert_true(messages > 0);
        lw_plan_free(&p);
    }
}
