#pragma once

#include <stddef.h>
#include <stdint.h>

/* Ways in which the text of an input is wrong. */
enum damage {
    DAMAGE_BYTES,      /* random bytes, bits, words and pieces, or it ends early */
    DAMAGE_EMPTY_LIST, /* a list, an object, all lines of a kind or a cell have nothing in them */
    DAMAGE_OVERFLOW,   /* up to three numbers are at or beyond a limit of their type */
    N_DAMAGES,
};
const char *damage_name(enum damage how);

/* Damages text[n], which has room for `room` bytes; returns how long it is now. draw(below) gives a
 * random number from 0 to below - 1. */
size_t damage_text(enum damage how, char *text, size_t n, size_t room,
                   uint64_t (*draw)(uint64_t below));
