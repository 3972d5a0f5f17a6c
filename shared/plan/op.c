/* The kinds of operations, in one table. */
#include "shared/plan/op.h"

#include <string.h>

#include "shared/base/nearest.h"

const struct lw_op_row lw_op_rows[LW_N_OP_KINDS] = {
    [LW_OP_FORWARD] = {"forward", "F", LW_CLASS_COMPUTE},
    [LW_OP_BACKWARD] = {"backward", "B", LW_CLASS_COMPUTE},
    [LW_OP_BACKWARD_INPUT] = {"backward_input", "I", LW_CLASS_COMPUTE},
    [LW_OP_BACKWARD_WEIGHT] = {"backward_weight", "W", LW_CLASS_COMPUTE},
    [LW_OP_OPTIMIZER] = {"optimizer", "O", LW_CLASS_COMPUTE},
    [LW_OP_KERNEL] = {"kernel", "K", LW_CLASS_COMPUTE},
    [LW_OP_COPY_IN] = {"copy_in", "Ci", LW_CLASS_COPY},
    [LW_OP_COPY_OUT] = {"copy_out", "Co", LW_CLASS_COPY},
    [LW_OP_COPY] = {"copy", "C", LW_CLASS_COPY},
    [LW_OP_CAST] = {"cast", "Ca", LW_CLASS_COPY},
    [LW_OP_ALL_REDUCE] = {"all_reduce", "AR", LW_CLASS_COLLECTIVE},
    [LW_OP_REDUCE] = {"reduce", "R", LW_CLASS_COLLECTIVE},
    [LW_OP_REDUCE_SCATTER] = {"reduce_scatter", "RS", LW_CLASS_COLLECTIVE},
    [LW_OP_ALL_GATHER] = {"all_gather", "AG", LW_CLASS_COLLECTIVE},
    [LW_OP_BROADCAST] = {"broadcast", "Bc", LW_CLASS_COLLECTIVE},
    [LW_OP_ALL_TO_ALL] = {"all_to_all", "AA", LW_CLASS_COLLECTIVE},
    [LW_OP_SEND] = {"send", "S", LW_CLASS_P2P},
    [LW_OP_RECV] = {"recv", "V", LW_CLASS_P2P},
    [LW_OP_BARRIER] = {"barrier", "|", LW_CLASS_COLLECTIVE},
    [LW_OP_ALLOC] = {"alloc", "+", LW_CLASS_MEMORY},
    [LW_OP_FREE] = {"free", "-", LW_CLASS_MEMORY},
    [LW_OP_HOST] = {"host", "H", LW_CLASS_HOST},
    [LW_OP_LAUNCH] = {"launch", "L", LW_CLASS_HOST},
    [LW_OP_EVENT_RECORD] = {"event_record", "Er", LW_CLASS_HOST},
    [LW_OP_EVENT_WAIT] = {"event_wait", "Ew", LW_CLASS_HOST},
    [LW_OP_HOST_SYNC] = {"host_sync", "Hs", LW_CLASS_HOST},
    [LW_OP_LOAD] = {"load", "Ld", LW_CLASS_COPY},
    [LW_OP_STORE] = {"store", "St", LW_CLASS_COPY},
};

const char *lw_op_name(enum lw_op_kind kind)
{
    return lw_op_rows[kind].name;
}

const char *lw_op_word(int kind)
{
    return kind >= 0 && kind < LW_N_OP_KINDS ? lw_op_rows[kind].name : NULL;
}

const char *lw_op_letter(enum lw_op_kind kind)
{
    return lw_op_rows[kind].letter;
}

enum lw_status lw_op_parse(const char *name, enum lw_op_kind *kind, struct lw_err *err)
{
    for (int i = 0; i < LW_N_OP_KINDS; i++) {
        if (strcmp(name, lw_op_rows[i].name) == 0) {
            *kind = (enum lw_op_kind)i;
            return LW_OK;
        }
    }
    struct lw_nearest near = lw_nearest_begin(name);
    char hint[96];
    for (int i = 0; i < LW_N_OP_KINDS; i++)
        lw_nearest_try(&near, lw_op_rows[i].name);
    return lw_fail(err, LW_EINVAL,
                   "unknown operation '%s'%s; expected forward, all_reduce, send, ...", name,
                   lw_nearest_hint(&near, "", hint, sizeof hint));
}
