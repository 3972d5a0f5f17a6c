#pragma once

#include <stdint.h>

/* Parameter sizes of ResNet-50 in registration order (He et al. 2015, Table 1: 3, 4, 6, 3 blocks of
 * 1x1, 3x3, 1x1 convolutions, each with the weight and bias of a batch norm; the first block of a
 * stage has a 1x1 downsampling). 161 parameters, 25,557,032 elements. */
enum { RESNET50_PARAMS = 161 };

static inline int32_t resnet50_conv_bn(int64_t *numel, int32_t n, int64_t in, int64_t out,
                                       int64_t kernel)
{
    numel[n++] = in * out * kernel * kernel;
    numel[n++] = out;
    numel[n++] = out;
    return n;
}

static inline int32_t resnet50_sizes(int64_t numel[RESNET50_PARAMS])
{
    static const int blocks[4] = {3, 4, 6, 3};
    int64_t in = 64, width = 64;
    int32_t n = resnet50_conv_bn(numel, 0, 3, 64, 7);

    for (int stage = 0; stage < 4; stage++, width *= 2) {
        for (int block = 0; block < blocks[stage]; block++) {
            n = resnet50_conv_bn(numel, n, in, width, 1);
            n = resnet50_conv_bn(numel, n, width, width, 3);
            n = resnet50_conv_bn(numel, n, width, 4 * width, 1);
            if (block == 0)
                n = resnet50_conv_bn(numel, n, in, 4 * width, 1);
            in = 4 * width;
        }
    }
    numel[n++] = 2048 * 1000;
    numel[n++] = 1000;
    return n;
}
