#ifndef LW_EXEC_TENSORS_STATE_H
#define LW_EXEC_TENSORS_STATE_H

#include <stdint.h>

#include "exec/backend/optimizer.h"
#include "shared/base/arena.h"
#include "shared/base/dtype.h"
#include "shared/base/err.h"

/* What a training has come to, apart from any plan: how many steps were taken, and of every
 * parameter its weights and what the optimizer keeps, all in f32. In memory it is the bytes of its
 * file (docs/formats/state.md) and an index of them. */

struct lw_exec_state_param {
    const char *name;
    int64_t numel;       /* of one piece: what one rank of a tensor group holds */
    enum lw_dtype dtype; /* that it is trained in */
    int32_t shares;      /* the parameter before it whose values are also its own; -1 = none */
    int32_t n_copies;    /* 0: it is frozen or shares; 1; more: ranks that train it apart */
    int64_t at;          /* of its values, bytes from the start of the file */
};

/* A zeroed one is none. */
struct lw_exec_state {
    struct lw_arena arena; /* params, by_name */
    char file[256];        /* it was read from, cut to this; for messages */
    unsigned char *bytes;  /* the file's */
    int64_t n_bytes;
    int64_t n_steps; /* that were taken */
    enum exec_optimizer_kind optimizer;
    int32_t n_tensor; /* ranks of a tensor group: each parameter's pieces */
    int32_t n_params;
    struct lw_exec_state_param *params; /* in the order of registration */
    int32_t *by_name;                   /* [n_params] sorted */
    char hash[33];                      /* of all bytes before it */
};

/* Some elements of one array of one parameter. Array 0 holds the weights, the others what the
 * optimizer keeps (exec_optimizer_states of them). Copies of a piece follow each other: piece =
 * tensor rank * n_copies + copy. */
struct lw_exec_state_range {
    int32_t param, piece, array;
    int64_t first, n;
};

/* A state of these parameters (params[s->n_params] is copied, `at` not read), zero everywhere;
 * optimizer, n_tensor and n_params are taken from *s. LW_EINVAL: two have one name, or one has none
 * that fits into a line. lw_exec_state_seal makes it whole. */
enum lw_status lw_exec_state_make(struct lw_exec_state *s, const struct lw_exec_state_param *params,
                                  struct lw_err *err);
void lw_exec_state_get(const struct lw_exec_state *s, const struct lw_exec_state_range *r,
                       float *to);
void lw_exec_state_put(struct lw_exec_state *s, const struct lw_exec_state_range *r,
                       const float *from);
/* After the last put, and when n_steps is set. LW_EFAILED: a value is infinite or no number; it is
 * named. */
enum lw_status lw_exec_state_seal(struct lw_exec_state *s, struct lw_err *err);

/* The parameter of this name; -1 = none. */
int32_t lw_exec_state_find(const struct lw_exec_state *s, const char *name);

/* bytes[n_bytes], of lw_alloc, are taken over in any case. LW_EFORMAT names `file`, where it is
 * wrong and how; nothing that the file announces is believed before it is compared with its size.
 */
enum lw_status lw_exec_state_parse(const char *file, unsigned char *bytes, int64_t n_bytes,
                                   struct lw_exec_state *s, struct lw_err *err);

/* state_file.c: a regular file as a whole; writing is atomic. */
enum lw_status lw_exec_state_read(const char *file, struct lw_exec_state *s, struct lw_err *err);
enum lw_status lw_exec_state_write(const struct lw_exec_state *s, const char *file,
                                   struct lw_err *err);
/* LW_EIO: no file can be made there. Asked before a run that is to end with one. */
enum lw_status lw_exec_state_can_write(const char *file, struct lw_err *err);

/* The first bytes of a file that is n_bytes long: is it one of ours, and whole?
 * head[LW_EXEC_STATE_HEAD], or n_bytes of it when there are fewer. */
enum { LW_EXEC_STATE_HEAD = 48 };
enum lw_status lw_exec_state_check_head(const char *file, const unsigned char *head,
                                        int64_t n_bytes, struct lw_err *err);

void lw_exec_state_free(struct lw_exec_state *s);

#endif
