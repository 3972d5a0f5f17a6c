#pragma once

/* What a comparator of lw_sort returns, by up to seven pairs of numbers, the first that differs
 * deciding: LW_ORDER(a->stage, b->stage, a->rank, b->rank). A pair is evaluated more than once. */
#define LW_ORDER(...)                                                                              \
    LW_ORDER_PICK(__VA_ARGS__, LW_ORDER_7, 0, LW_ORDER_6, 0, LW_ORDER_5, 0, LW_ORDER_4, 0,         \
                  LW_ORDER_3, 0, LW_ORDER_2, 0, LW_ORDER_1, 0)                                     \
    (__VA_ARGS__)

#define LW_ORDER_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, n, macro, ...) macro
#define LW_ORDER_1(a, b) (((a) > (b)) - ((a) < (b)))
#define LW_ORDER_2(a, b, ...) ((a) != (b) ? LW_ORDER_1(a, b) : LW_ORDER_1(__VA_ARGS__))
#define LW_ORDER_3(a, b, ...) ((a) != (b) ? LW_ORDER_1(a, b) : LW_ORDER_2(__VA_ARGS__))
#define LW_ORDER_4(a, b, ...) ((a) != (b) ? LW_ORDER_1(a, b) : LW_ORDER_3(__VA_ARGS__))
#define LW_ORDER_5(a, b, ...) ((a) != (b) ? LW_ORDER_1(a, b) : LW_ORDER_4(__VA_ARGS__))
#define LW_ORDER_6(a, b, ...) ((a) != (b) ? LW_ORDER_1(a, b) : LW_ORDER_5(__VA_ARGS__))
#define LW_ORDER_7(a, b, ...) ((a) != (b) ? LW_ORDER_1(a, b) : LW_ORDER_6(__VA_ARGS__))

/* The comparator `name` of an array of `type`: LW_ORDER of two elements, a and b. */
#define LW_COMPARATOR(name, type, ...)              \
    static int name(const void *pa, const void *pb) \
    {                                               \
        const type *a = pa, *b = pb;                \
        return LW_ORDER(__VA_ARGS__);               \
    }
