#ifndef LW_EXEC_ELEMENT_H
#define LW_EXEC_ELEMENT_H

#include <stdint.h>

#include "shared/dtype.h"

/* Arithmetic on arrays of any element type: the one place that looks at it. */

/* to[n] += from[n]; may not overlap. Half types add in f32 and round to nearest even. */
void exec_add(enum lw_dtype t, void *to, const void *from, int64_t n);

/* to[n] = from[n] / divisor, converted. */
void exec_convert(enum lw_dtype to_type, void *to, enum lw_dtype from_type, const void *from,
                  int64_t n, int32_t divisor);

/* One element as f64, and back (exact for the values a type can hold). */
double exec_get(enum lw_dtype t, const void *from, int64_t i);
void exec_put(enum lw_dtype t, void *to, int64_t i, double value);

/* Largest m such that every whole number up to m has an exact value of the type. */
int64_t exec_exact_limit(enum lw_dtype t);

float exec_f32_of_f16(uint16_t h);
uint16_t exec_f16_of_f32(float f); /* to nearest even; overflow to infinity */
float exec_f32_of_bf16(uint16_t h);
uint16_t exec_bf16_of_f32(float f);

#endif
