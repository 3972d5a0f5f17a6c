/* Drawing by gnuplot: the only file that runs it. The script lies in a temporary file that becomes
 * the child's standard input, the picture is its standard output, so nothing can block on a pipe and
 * no name ever reaches a shell. A picture exists whole or not at all (shared/base/output.h). */
#include "analysis/draw/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/draw/plot_style.h"
#include "shared/base/output.h"

extern char **environ;

static const struct {
    const char *name;
    enum lw_status (*script)(struct lw_store *s, const struct lw_plot *p, FILE *f,
                             struct lw_err *err);
} plots[LW_N_PLOTS] = {
    [LW_PLOT_TIMELINE] = {"timeline", plot_timeline},
    [LW_PLOT_OVERLAP] = {"overlap", plot_overlap},
    [LW_PLOT_PREDICTED] = {"predicted", plot_predicted},
    [LW_PLOT_SWEEP] = {"sweep", plot_sweep},
};

const char *lw_plot_name(enum lw_plot_kind k)
{
    return plots[k].name;
}

enum lw_status lw_plot_parse(const char *name, enum lw_plot_kind *k, struct lw_err *err)
{
    for (int i = 0; i < LW_N_PLOTS; i++)
        if (strcmp(name, plots[i].name) == 0) {
            *k = (enum lw_plot_kind)i;
            return LW_OK;
        }
    return lw_fail(err, LW_EINVAL, "unknown plot '%s' (timeline, overlap, predicted, sweep)", name);
}

enum lw_status lw_plot_terminal_of(const char *file, enum lw_plot_terminal *t, struct lw_err *err)
{
    const char *dot = strrchr(file, '.');
    static const char *const ends[] = {".png", ".svg", NULL, ".gp"};

    if (strcmp(file, "-") == 0) {
        *t = LW_TERMINAL_DUMB;
        return LW_OK;
    }
    for (int i = 0; dot && i < 4; i++)
        if (ends[i] && strcmp(dot, ends[i]) == 0) {
            *t = (enum lw_plot_terminal)i;
            return LW_OK;
        }
    return lw_fail(err, LW_EINVAL,
                   "'%s': the output must end in .png, .svg or .gp (the gnuplot script), or be '-'",
                   file);
}

enum lw_status lw_plot_script(struct lw_store *s, const struct lw_plot *p, FILE *f,
                              struct lw_err *err)
{
    LW_TRY(plots[p->kind].script(s, p, f, err));
    if (fflush(f) != 0 || ferror(f))
        return lw_fail(err, LW_EIO, "cannot write the plot script: %s", strerror(errno));
    return LW_OK;
}

/* gnuplot's first complaint, without the echo of the line that it read. */
static void first_words(FILE *f, char *buf, size_t size)
{
    char line[256];

    buf[0] = '\0';
    rewind(f);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *at = strstr(line, "line ");
        if (!buf[0] || (at && strchr(at, ':')))
            snprintf(buf, size, "%s", line);
    }
}

static enum lw_status spawn_gnuplot(char *const argv[], FILE *in, int out, FILE *complaints,
                                    struct lw_err *err)
{
    posix_spawn_file_actions_t fds;
    char words[256];
    pid_t pid;
    int status = 0;

    if (posix_spawn_file_actions_init(&fds) != 0)
        return lw_fail_nomem(err);
    int rc = in ? posix_spawn_file_actions_adddup2(&fds, fileno(in), 0)
                : posix_spawn_file_actions_addopen(&fds, 0, "/dev/null", O_RDONLY, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&fds, out, 1);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&fds, fileno(complaints), 2);
    if (rc == 0)
        rc = posix_spawnp(&pid, "gnuplot", &fds, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&fds);
    if (rc == ENOENT)
        return lw_fail(err, LW_ENOTSUP, "no gnuplot on the PATH (Debian package gnuplot-nox)");
    if (rc != 0)
        return lw_fail(err, LW_EIO, "cannot run gnuplot: %s", strerror(rc));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return LW_OK;
    first_words(complaints, words, sizeof words);
    return lw_fail(err, LW_EFAILED, "gnuplot ended with %s %d: %s",
                   WIFEXITED(status) ? "status" : "signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), words);
}

static enum lw_status temporary(FILE **f, struct lw_err *err)
{
    *f = tmpfile();
    return *f ? LW_OK : lw_fail(err, LW_EIO, "cannot make a temporary file: %s", strerror(errno));
}

/* From the script file to the output file. */
static enum lw_status run_script(FILE *script, FILE *out, struct lw_err *err)
{
    static char name[] = "gnuplot", dash[] = "-";
    char *argv[] = {name, dash, NULL};
    FILE *complaints;

    rewind(script);
    if (lseek(fileno(script), 0, SEEK_SET) != 0)
        return lw_fail(err, LW_EIO, "cannot read the plot script back: %s", strerror(errno));
    LW_TRY(temporary(&complaints, err));
    enum lw_status st = spawn_gnuplot(argv, script, fileno(out), complaints, err);
    fclose(complaints);
    return st;
}

static enum lw_status copy_file(FILE *from, FILE *to, struct lw_err *err)
{
    char buf[4096];
    size_t n;

    rewind(from);
    while ((n = fread(buf, 1, sizeof buf, from)) > 0)
        fwrite(buf, 1, n, to);
    return ferror(from) ? lw_fail(err, LW_EIO, "cannot read the plot script back") : LW_OK;
}

static enum lw_status draw_characters(struct lw_store *s, const struct lw_plot *p,
                                      const char *file, struct lw_err *err)
{
    struct lw_output out = {0};

    LW_TRY(lw_output_open(file, &out, err));
    enum lw_status st = plot_characters(s, p, out.file, err);
    if (st == LW_OK)
        st = lw_output_commit(&out, err);
    else
        lw_output_abort(&out);
    return st;
}

enum lw_status lw_plot_draw(struct lw_store *s, const struct lw_plot *p, const char *file,
                            struct lw_err *err)
{
    struct lw_output out = {0};
    FILE *script;

    if (p->kind == LW_PLOT_TIMELINE && p->terminal == LW_TERMINAL_DUMB)
        return draw_characters(s, p, file, err);
    LW_TRY(temporary(&script, err));
    enum lw_status st = lw_plot_script(s, p, script, err);
    if (st == LW_OK)
        st = lw_output_open(file, &out, err);
    if (st == LW_OK) {
        fflush(out.file);
        st = p->terminal == LW_TERMINAL_SCRIPT ? copy_file(script, out.file, err)
                                               : run_script(script, out.file, err);
        if (st == LW_OK)
            st = lw_output_commit(&out, err);
        else
            lw_output_abort(&out);
    }
    fclose(script);
    return st;
}

enum lw_status lw_plot_version(char *buf, size_t size, struct lw_err *err)
{
    static char name[] = "gnuplot", option[] = "--version";
    char *argv[] = {name, option, NULL};
    FILE *out, *complaints;

    LW_TRY(temporary(&out, err));
    enum lw_status st = temporary(&complaints, err);
    if (st != LW_OK) {
        fclose(out);
        return st;
    }
    st = spawn_gnuplot(argv, NULL, fileno(out), complaints, err);
    rewind(out);
    if (st == LW_OK && !fgets(buf, (int)size, out))
        st = lw_fail(err, LW_EFAILED, "gnuplot --version says nothing");
    if (st == LW_OK)
        buf[strcspn(buf, "\n")] = '\0';
    fclose(out);
    fclose(complaints);
    return st;
}
