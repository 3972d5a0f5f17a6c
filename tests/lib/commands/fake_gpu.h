#pragma once

#include "tests/lib/files/says.h"

/* Skips the test where the build has no plugin, and so none of the fakes of tests/fake_gpu. */
void needs_fakes(void);

/* shell() of command_fixture.h with 8 fake GPUs;
 * FAKE_GPU_COUNT in the words sets another number. */
const char *fake_shell(const char *words, int *rc);
