#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "exec/backend/scalar.h"
#include "shared/numbers/dtype.h"

/* Arithmetic on arrays of any element type; single elements are scalar.h's. */

/* to[n] += from[n]; may not overlap. Half types add in f32 and round to nearest even. */
void exec_add(enum lw_dtype t, void *to, const void *from, int64_t n);

/* to[n] = from[n] / divisor, converted. */
void exec_convert(enum lw_dtype to_type, void *to, enum lw_dtype from_type, const void *from,
                  int64_t n, int32_t divisor);

/* The squares of from[n] / divisor, added up. */
double exec_squares(enum lw_dtype t, const void *from, int64_t n, int32_t divisor);

/* mem[n] = mem / divisor * scale, as exec_scale_one rounds. */
void exec_scale(enum lw_dtype t, void *mem, int64_t n, int32_t divisor, float scale);

/* A sum modulo 2^64 over the bits of mem[n], each element's times an odd number of its own:
 * changing any one bit changes it, -0 counts as 0. The order of adding does not matter. */
uint64_t exec_bits_sum(enum lw_dtype t, const void *mem, int64_t n);

/* Some of from[n] has all bits set, which no computed value has. */
bool exec_has_poison(enum lw_dtype t, const void *from, int64_t n);

/* Largest m such that every whole number up to m has an exact value of the type. */
int64_t exec_exact_limit(enum lw_dtype t);

/* Elements [*first, *first + *n) of member i when `count` elements are dealt to n_members. */
void exec_range(int64_t count, int32_t n_members, int32_t i, int64_t *first, int64_t *n);
