#ifndef LW_EXEC_LETTERS_H
#define LW_EXEC_LETTERS_H

#include <stdint.h>

#include "exec/tensors.h"
#include "shared/err.h"

/* Communication without a bucket (buffers, maps, whatever a plan sends) of one variant: its memory is
 * set before the step and compared behind it; *n_bytes counts on. u8 holds its numbers modulo 256;
 * what an op leaves undefined is not compared; of an all-to-all among n members, block k goes to member k
 * and behind it block k came from member k. Only with keep_scratch_apart. LW_ENO names op, element, rank
 * and both values, of an all-to-all also whose block it is. */
enum lw_status exec_letters_set(const struct exec_tensors *m, int32_t variant, int32_t step,
                                struct lw_err *err);
enum lw_status exec_letters_check(const struct exec_tensors *m, int32_t variant, int32_t step,
                                  int64_t *n_bytes, struct lw_err *err);

#endif
