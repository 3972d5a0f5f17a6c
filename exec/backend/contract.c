/* What all backends do alike; part of the program and of each plugin. */
#include "exec/backend/contract.h"

#include <stdio.h>

enum lw_status exec_members_index(const int32_t *members, int32_t n, int32_t n_ranks, int32_t *own,
                                  int32_t *index_of, struct lw_err *err)
{
    for (int32_t r = 0; r < n_ranks; r++)
        index_of[r] = -1;
    for (int32_t i = 0; i < n; i++) {
        int32_t r = own[i] = members[i];
        if (r < 0 || r >= n_ranks || index_of[r] >= 0)
            return lw_fail(err, LW_EINVAL, "member %d of a group is rank %d: %s", i, r,
                           r < 0 || r >= n_ranks ? "no such rank" : "named twice");
        index_of[r] = i;
    }
    return LW_OK;
}

enum lw_status exec_transfers_check(const struct exec_transfer *x, int32_t n, int32_t rank,
                                    int32_t n_ranks, int32_t n_members, const int32_t *index_of,
                                    struct exec_transfer *out, struct lw_err *err)
{
    if (index_of[rank] < 0)
        return lw_fail(err, LW_EINVAL, "rank %d is not a member of the communicator", rank);
    if (n < 1 || n > EXEC_MOST_TRANSFERS)
        return lw_fail(err, LW_EINVAL, "%d transfers at once; allowed: 1 to %d", n,
                       EXEC_MOST_TRANSFERS);
    for (int32_t i = 0; i < n; i++) {
        const struct exec_message *m = &x[i].message;
        bool p2p = lw_op_class(x[i].op) == LW_CLASS_P2P;
        if (n > 1 && !p2p)
            return lw_fail(err, LW_EINVAL, "%s among %d transfers: only sends and receives are "
                           "given together", lw_op_name(x[i].op), n);
        bool rooted = x[i].op == LW_OP_BROADCAST || x[i].op == LW_OP_REDUCE;
        int32_t peer = m->peer >= 0 && m->peer < n_ranks ? index_of[m->peer] : -1;
        if (rooted && peer < 0)
            return lw_fail(err, LW_EINVAL, "%s: root %d is not a member of the communicator",
                           lw_op_name(x[i].op), m->peer);
        if (p2p && (peer < 0 || m->peer == rank))
            return lw_fail(err, LW_EINVAL, "%s of rank %d: peer %d is not another member",
                           lw_op_name(x[i].op), rank, m->peer);
        if (x[i].op == LW_OP_ALL_TO_ALL && m->count % n_members != 0)
            return lw_fail(err, LW_ENOTSUP,
                           "all_to_all of %lld elements among %d ranks: not equal blocks",
                           (long long)m->count, n_members);
        out[i] = x[i];
        out[i].message.peer = rooted || p2p ? peer : 0;
    }
    return LW_OK;
}

void exec_tell_others(const struct exec_process *p, const char *why)
{
    char words[320];

    if (!p)
        return;
    snprintf(words, sizeof words, "rank %d gave up: %.280s", p->rank, why);
    p->stop(p->context, words);
}
