/* What tests against the fakes of tests/fake_gpu share. */
#include "tests/lib/exec/fake_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include "tests/lib/unit.h"

void needs_fakes(void)
{
    const char *dir = getenv("LAPWING_FAKE_GPU");

    if (dir && *dir)
        return;
    printf("SKIP: the plugin was left out of this build (CUDA toolkit or NCCL headers not found, "
           "or CUDA=0)\n");
    skip();
}
