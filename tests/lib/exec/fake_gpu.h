#ifndef LW_TESTS_LIB_EXEC_FAKE_GPU_H
#define LW_TESTS_LIB_EXEC_FAKE_GPU_H

#include "tests/lib/files/says.h"

/* Skips the test where the build has no plugin, and so none of the fakes of tests/fake_gpu. */
void needs_fakes(void);

#endif
