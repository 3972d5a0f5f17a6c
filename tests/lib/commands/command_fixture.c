/* The program as a user runs it. Standard error goes into a file beside the folder, so that the
 * folder holds only what the test made. */
#include "tests/lib/commands/command_fixture.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "shared/files/files.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

static char text[1 << 21];
static size_t n_out;

static size_t take(FILE *f, size_t at)
{
    assert_non_null(f);
    size_t n = fread(text + at, 1, sizeof text - 1 - at, f);
    text[at + n] = '\0';
    return at + n;
}

const char *shell(const char *words, int *rc)
{
    const char *given = getenv("LAPWING");
    char program[PATH_MAX], project[PATH_MAX], errors[512], line[3 * PATH_MAX];

    assert_non_null(realpath(given ? given : "build/lapwing", program));
    assert_non_null(realpath(".", project));
    snprintf(errors, sizeof errors, "%s", fixture_path(""));
    strcpy(errors + strlen(errors) - 1, ".err"); /* instead of the last '/' */
    int n =
        snprintf(line, sizeof line, "cd %s && L=%s P=%s && R=$P/traces/recorded && { %s\n} 2>%s",
                 fixture_path(""), program, project, words, errors);
    assert_true(n > 0 && (size_t)n < sizeof line);
    FILE *f = popen(line, "r");
    n_out = take(f, 0);
    int status = pclose(f), exited = WIFEXITED(status) ? WEXITSTATUS(status)
                                     : 128 + WTERMSIG(status); /* as a shell says it */
    f = fopen(errors, "r");
    take(f, n_out);
    fclose(f);
    remove(errors);
    if (rc)
        *rc = exited;
    else if (exited != 0)
        fail_msg("%s: exit %d:\n%s", words, exited, text);
    return text;
}

const char *lapwing(const char *args, int *rc)
{
    char words[4096];

    /* One command takes the place of the shell. */
    int n = snprintf(words, sizeof words, "%s$L %s", strpbrk(args, ";&|\n") ? "" : "exec ", args);
    assert_true((size_t)n < sizeof words);
    return shell(words, rc);
}

const char *shell_err(void)
{
    return text + n_out;
}

static void expect_case(const char *args, const struct command_case *c)
{
    int rc;
    const char *out = lapwing(args, &rc), *says = c->says;

    for (int i = 0; rc == c->rc && says && text_says(out, says); i++)
        says = i < (int)(sizeof c->also / sizeof *c->also) ? c->also[i] : NULL;
    if (rc != c->rc || says)
        fail_msg("lapwing %s: exit %d, expected %d and '%s':\n%s", args, rc, c->rc, says, out);
    if (c->lacks && text_says(out, c->lacks))
        fail_msg("lapwing %s: '%s' is in:\n%s", args, c->lacks, out);
}

void expect(const char *args, int rc, const char *says)
{
    expect_case(args, &(struct command_case){.rc = rc, .says = says});
}

void expect_cases(const char *command, const struct command_case *cases)
{
    char line[2048];

    for (const struct command_case *c = cases; c->args; c++) {
        assert_true((size_t)snprintf(line, sizeof line, "%s %s", command, c->args) < sizeof line);
        expect_case(line, c);
    }
}

/* Its arguments, in a buffer that the next call overwrites. */
#define PRINT_LINE(fmt)                                                                            \
    static char line[4096];                                                                        \
    va_list ap;                                                                                    \
    va_start(ap, fmt);                                                                             \
    assert_true((size_t)vsnprintf(line, sizeof line, fmt, ap) < sizeof line);                      \
    va_end(ap)

void expectf(int rc, const char *says, const char *args, ...)
{
    PRINT_LINE(args);
    expect(line, rc, says);
}

const char *lapwingf(const char *args, ...)
{
    PRINT_LINE(args);
    return lapwing(line, NULL);
}

const char *shellf(const char *words, ...)
{
    PRINT_LINE(words);
    return shell(line, NULL);
}

void recording_of_model(const char *args, const char *file)
{
    struct lw_workload w;
    struct lw_err err = {0};

    shellf("$L model %s -o made.json --force >/dev/null", args);
    assert_int_equal(lw_workload_read(fixture_path("made.json"), &w, &err), LW_OK);
    w.from.model = (struct lw_model_request){.name = NULL};
    w.from.made_for = (struct lw_made_for){.tp = 0};
    w.n_kernels = w.n_grad_kernels = 0;
    w.step_traffic = (struct lw_step_traffic){0};
    for (int32_t i = 0; i < w.n_modules; i++)
        w.modules[i].n_kernels = w.modules[i].first_kernel = 0;
    assert_int_equal(lw_workload_write(&w, fixture_path(file), &err), LW_OK);
    lw_workload_free(&w);
}
