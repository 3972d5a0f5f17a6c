/* Colours by meaning. The palette is that of Okabe and Ito ("Color Universal Design", 2008) with
 * lighter variants for odd numbers, and darker ones where two would be the same grey. Looks that
 * share a row differ in grey by 12 of 256 levels and more: of a pipeline's compute, backward is
 * darkest, forward in the middle, weight gradients lightest. */
#include "analysis/draw/look.h"

#include <string.h>

#include "analysis/draw/plot_style.h"
#include "traces/trace/kernel_class.h"

static const struct {
    const char *name;
    int32_t even, odd;
} looks[N_LOOKS] = {
    [LOOK_FORWARD] = {"forward", PLOT_FORWARD, 0x86C9F0},
    [LOOK_BACKWARD] = {"backward", PLOT_BACKWARD, 0x3F97CC},
    [LOOK_BACKWARD_INPUT] = {"backward of inputs", PLOT_BACKWARD, 0x3F97CC},
    [LOOK_BACKWARD_WEIGHT] = {"backward of weights", 0xC9E8B5, 0xE3F4D9},
    [LOOK_RECOMPUTE] = {"recomputation", 0xA3905A, 0xA3905A},
    [LOOK_OPTIMIZER] = {"optimizer", PLOT_OPTIMIZER, PLOT_OPTIMIZER},
    [LOOK_ARITHMETIC] = {"kernels bound by arithmetic", PLOT_BACKWARD, PLOT_BACKWARD},
    [LOOK_MEMORY] = {"kernels bound by memory", PLOT_FORWARD, PLOT_FORWARD},
    [LOOK_KERNEL] = {"other kernels", PLOT_OPTIMIZER, PLOT_OPTIMIZER},
    [LOOK_COPY] = {"copies", PLOT_OTHER, PLOT_OTHER},
    [LOOK_HOST] = {"host", 0xC8C8C8, 0xC8C8C8},
    [LOOK_GRADIENTS] = {"sums of gradients", PLOT_COMM_EVEN, PLOT_COMM_ODD},
    [LOOK_WEIGHTS] = {"gathers of weights", 0x00805D, PLOT_GATHERED},
    [LOOK_MESSAGE] = {"pipeline messages", 0x4A3410, 0x4A3410},
    [LOOK_COLLECTIVE] = {"other collectives", 0x9B7EC7, 0x9B7EC7},
    [LOOK_WAIT] = {"waiting for the last rank", PLOT_WAIT, PLOT_WAIT},
    [LOOK_EXPOSED] = {"exposed communication", PLOT_EXPOSED, PLOT_EXPOSED},
};

static enum picture_look kernel_look(const char *kernel)
{
    if (strcmp(kernel, "recompute") == 0) /* shared/lower_ops/lower_writer.c */
        return LOOK_RECOMPUTE;
    switch (lw_kernel_class_of(NULL, kernel)) {
    case LW_KERNEL_COMPUTE:
        return LOOK_ARITHMETIC;
    case LW_KERNEL_MEMORY:
        return LOOK_MEMORY;
    default:
        return LOOK_KERNEL;
    }
}

static enum picture_look compute_look(enum lw_op_kind kind, const char *kernel)
{
    static const enum picture_look of[] = {
        [LW_OP_FORWARD] = LOOK_FORWARD,
        [LW_OP_BACKWARD] = LOOK_BACKWARD,
        [LW_OP_BACKWARD_INPUT] = LOOK_BACKWARD_INPUT,
        [LW_OP_BACKWARD_WEIGHT] = LOOK_BACKWARD_WEIGHT,
        [LW_OP_OPTIMIZER] = LOOK_OPTIMIZER,
    };

    return kind == LW_OP_KERNEL ? kernel_look(kernel) : of[kind];
}

enum picture_look look_of(enum lw_op_kind kind, int32_t bucket, const char *kernel)
{
    switch (lw_op_class(kind)) {
    case LW_CLASS_COMPUTE:
        return compute_look(kind, kernel);
    case LW_CLASS_COPY:
        return LOOK_COPY;
    case LW_CLASS_P2P:
        return LOOK_MESSAGE;
    case LW_CLASS_COLLECTIVE:
        return bucket < 0 ? LOOK_COLLECTIVE
               : kind == LW_OP_ALL_GATHER || kind == LW_OP_BROADCAST ? LOOK_WEIGHTS
                                                                     : LOOK_GRADIENTS;
    default:
        return LOOK_HOST;
    }
}

const char *look_name(enum picture_look look)
{
    return looks[look].name;
}

int32_t look_colour(enum picture_look look, bool odd)
{
    return odd ? looks[look].odd : looks[look].even;
}

/* By relative luminance of sRGB without its exponent (ITU-R BT.709 weights), below half. */
bool look_is_dark(enum picture_look look, bool odd)
{
    int32_t c = look_colour(look, odd);

    return 2126 * (c >> 16 & 255) + 7152 * (c >> 8 & 255) + 722 * (c & 255) < 10000 * 128;
}
