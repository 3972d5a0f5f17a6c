#pragma once

#include "tests/lib/files/says.h"

/* Skips the test where the build has no plugin, and so none of the fakes of tests/fake_gpu. */
void needs_fakes(void);
