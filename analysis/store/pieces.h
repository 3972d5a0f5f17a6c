#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* A sequence as pieces of a list of items, so that what repeats is listed once: element
 * piece.first + i of the sequence is item piece.place + i of the list. What elements of a piece
 * have in common beside that is its key. */
struct piece {
    int64_t first, n, place, key;
};

enum { PIECE_MOST_NUMBERS = 3, PIECE_LEAST = 3 /* elements that are worth a piece of their own */ };

/* Where items and pieces go, in their order. A sink keeps its own failure. */
struct piece_sink {
    void *ctx;
    void (*item)(void *ctx, int64_t place, const int64_t *item);
    void (*piece)(void *ctx, const struct piece *p);
};

/* Zeroed but for n_numbers and sink: nothing came yet. Memory grows with the list. */
struct piece_coder {
    int n_numbers; /* of an item; <= PIECE_MOST_NUMBERS */
    struct piece_sink sink;
    int64_t *list; /* [n_list][n_numbers] */
    int64_t n_list, room;
    int32_t *grams; /* [n_slots]: 1 + the first place of PIECE_LEAST items; 0 = free */
    int64_t n_slots, n_grams;
    struct piece open; /* n = 0: none */
    bool copies;       /* the open piece is of items that were listed before it */
    int64_t waiting[PIECE_LEAST][PIECE_MOST_NUMBERS]; /* elements that may begin a copy */
    int n_waiting;
    int64_t first_waiting, key;
};

/* Elements come by ascending number. LW_ENOMEM. */
enum lw_status piece_coder_add(struct piece_coder *c, int64_t number, int64_t key,
                               const int64_t *item, struct lw_err *err);
/* Gives the sink what is left, and forgets the sequence. LW_ENOMEM. */
enum lw_status piece_coder_end(struct piece_coder *c, struct lw_err *err);
/* Without: fine for a zeroed one, and after the end. */
void piece_coder_free(struct piece_coder *c);
