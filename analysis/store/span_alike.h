#pragma once

#include <stddef.h>
#include <stdint.h>

#include "analysis/store/span_pack.h"
#include "shared/base/err.h"

/* Codes of spans, each once, numbered from 0 on in the order in which they came. Zeroed: empty. */
struct span_set {
    struct span_code *v;
    int64_t n, capacity;
    int32_t *slots; /* [n_slots]: number + 1; 0 = free */
    int64_t n_slots;
};

/* -1: not there. */
int64_t span_set_find(const struct span_set *s, const struct span_code *c);
/* Its number, new or not. LW_ENOMEM. */
enum lw_status span_set_add(struct span_set *s, const struct span_code *c, int64_t *number,
                            struct lw_err *err);
void span_set_clear(struct span_set *s); /* empty; keeps its memory */
void span_set_free(struct span_set *s);

/* How blocks of a run are written: with the codes that the run's texts share. Zeroed: none yet. */
struct span_coder {
    struct span_set shared;  /* named by number */
    struct span_set here;    /* of the block */
    int64_t *count;          /* [SPAN_BLOCK]: rows of the block with a code of `here` */
    struct span_code *codes; /* [SPAN_BLOCK]: of the block's rows */
    int64_t *numbers;        /* [SPAN_BLOCK]: in `shared`; -1 = written out */
    bool *holds;             /* [SPAN_BLOCK] */
};

enum lw_status span_coder_init(struct span_coder *c, struct lw_err *err);
void span_coder_free(struct span_coder *c);
/* codes[n] of a block. They depend on its rows alone, so equal blocks have equal codes. */
enum lw_status span_coder_encode(struct span_coder *c, const int64_t (*rows)[SPAN_N_VALUES],
                                 int64_t n, struct lw_err *err);
/* numbers[n] of the codes of the last encoding; those that are new are shared.v[*first_new] and
 * after. Call once at most for each encoding. */
enum lw_status span_coder_number(struct span_coder *c, int64_t n, int64_t *first_new,
                                 struct lw_err *err);
