/* What tests against the fakes of tests/fake_gpu share.
 *
 * LeakSanitizer's tracer (libasan of GCC 12) crashes on some stacks where it walks the thread-local
 * storage of libraries that were opened at run time, as the fakes are; the same command by a file's
 * name of one letter more or less ends well. So it leaves this storage out. */
#include "tests/lib/commands/fake_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include "tests/lib/unit.h"

#include "tests/lib/commands/command_fixture.h"

void needs_fakes(void)
{
    const char *dir = getenv("LAPWING_FAKE_GPU");

    setenv("LSAN_OPTIONS", "use_tls=0", 0);
    if (dir && *dir)
        return;
    printf("SKIP: the plugin was left out of this build (CUDA toolkit or NCCL headers not found, "
           "or CUDA=0)\n");
    skip();
}

const char *fake_shell(const char *words, int *rc)
{
    char line[4096];
    int n = snprintf(line, sizeof line,
                     "export LD_LIBRARY_PATH=$LAPWING_FAKE_GPU FAKE_GPU_COUNT=8 L; %s", words);

    assert_true(n > 0 && (size_t)n < sizeof line);
    return shell(line, rc);
}
