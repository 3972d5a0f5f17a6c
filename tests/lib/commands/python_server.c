/* Programs in Python by one process: python_server.py. Its folder is that of the fixture at the
 * first call, so a group of tests has one folder. */
#include "tests/lib/commands/python_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/files/file_fixture.h"

static char text[1 << 21];
static pid_t server;
static FILE *to, *from;

static void run_server(const int in[2], const int out[2])
{
    const char *given = getenv("LAPWING");
    char lapwing[PATH_MAX], project[PATH_MAX], program[PATH_MAX], folder[PATH_MAX];

    if (!realpath(given ? given : "build/lapwing", lapwing) || !realpath(".", project) ||
        !realpath("tests/lib/commands/python_server.py", program) ||
        !realpath("tests/evidence", folder) || chdir(fixture_path("")) != 0)
        _exit(127);
    setenv("L", lapwing, 1);
    setenv("P", project, 1);
    dup2(in[0], 0);
    dup2(out[1], 1);
    execlp("python3", "python3", "-B", program, folder, "convert", "evidence", "kernel_tables",
           (char *)NULL);
    _exit(127);
}

static void start(void)
{
    int in[2], out[2];

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    fflush(NULL);
    server = fork();
    assert_true(server >= 0);
    if (server == 0)
        run_server(in, out);
    close(in[0]);
    close(out[1]);
    to = fdopen(in[1], "w");
    from = fdopen(out[0], "r");
    assert_true(to && from);
}

const char *python(const char *words, int *rc)
{
    size_t size;
    int status;

    if (!server)
        start();
    fprintf(to, "%s\n", words);
    fflush(to);
    if (fscanf(from, "%d %zu", &status, &size) != 2 || fgetc(from) != '\n')
        fail_msg("%s: no answer of python_server.py", words);
    assert_in_range(size, 0, sizeof text - 1);
    assert_int_equal(fread(text, 1, size, from), size);
    text[size] = '\0';
    if (rc)
        *rc = status;
    else if (status != 0)
        fail_msg("%s: exit %d:\n%s", words, status, text);
    return text;
}

const char *pythonf(const char *words, ...)
{
    char line[1024];
    va_list ap;

    va_start(ap, words);
    assert_true((size_t)vsnprintf(line, sizeof line, words, ap) < sizeof line);
    va_end(ap);
    return python(line, NULL);
}

int python_close(void **state)
{
    if (server) {
        fclose(to);
        fclose(from);
        waitpid(server, NULL, 0);
        server = 0;
    }
    return fixture_close(state);
}
