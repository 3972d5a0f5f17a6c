/* Drawing by gnuplot: the only file that runs it, and fc-list. The script lies in a temporary file
 * that becomes the child's standard input, the picture is its standard output, so nothing can block
 * on a pipe. gnuplot runs a shell for backquotes and reads start-up files: texts of others are
 * quoted by plot_text alone, and it starts with -d and an environment without its own variables.
 * A picture exists whole or not at all (shared/io/output.h). */
#include "analysis/draw/plot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analysis/draw/plot_glyphs.h"
#include "analysis/draw/plot_style.h"
#include "shared/base/nearest.h"
#include "shared/io/output.h"

extern char **environ;

#define ROW(id, symbol) [LW_PLOT_##id] = &plot_kind_##symbol,
static const struct plot_kind *const plots[LW_N_PLOTS] = {LW_PLOTS(ROW)};

const char *lw_plot_name(enum lw_plot_kind k)
{
    return plots[k]->name;
}

char *lw_plot_about(char *buf, size_t size)
{
    size_t n = 0;

    buf[0] = '\0';
    for (int k = 0; k < LW_N_PLOTS && n < size; k++)
        n += (size_t)snprintf(buf + n, size - n, "%s%s (%s; needs %s)", k ? ", " : "",
                              plots[k]->name, plots[k]->about, plots[k]->needs);
    return buf;
}

enum lw_status lw_plot_parse(const char *name, enum lw_plot_kind *k, struct lw_err *err)
{
    for (int i = 0; i < LW_N_PLOTS; i++)
        if (strcmp(name, plots[i]->name) == 0) {
            *k = (enum lw_plot_kind)i;
            return LW_OK;
        }
    const char *names[LW_N_PLOTS + 1] = {NULL};
    for (int i = 0; i < LW_N_PLOTS; i++)
        names[i] = plots[i]->name;
    return lw_fail_word(err, NULL, name, names);
}

enum lw_plot_source lw_plot_source_of(enum lw_plot_kind k)
{
    return plots[k]->source;
}

enum lw_status lw_plot_page(struct lw_plot *p, int64_t page, int64_t *n_pages, struct lw_err *err)
{
    int32_t room = plots[p->kind]->runs_per_page > 0 ? plots[p->kind]->runs_per_page : p->n_runs;

    *n_pages = (p->n_runs + room - 1) / room;
    if (page > *n_pages)
        return lw_fail(err, LW_EINVAL, "--page %lld: '%s' of %d run%s has %lld page%s",
                       (long long)page, plots[p->kind]->name, p->n_runs, lw_plural(p->n_runs),
                       (long long)*n_pages, lw_plural(*n_pages));
    p->runs += (page - 1) * room;
    p->n_runs = page < *n_pages ? room : p->n_runs - (int32_t)(page - 1) * room;
    return LW_OK;
}

enum lw_status lw_plot_count(const struct lw_plot *p, int32_t *n_drawn, struct lw_err *err)
{
    *n_drawn = p->n_runs;
    return plots[p->kind]->count && p->n_runs > 0 ? plots[p->kind]->count(p, n_drawn, err) : LW_OK;
}

enum lw_status lw_plot_terminal_of(const char *file, enum lw_plot_terminal *t, struct lw_err *err)
{
    const char *dot = strrchr(file, '.');
    static const char *const ends[] = {".png", ".svg", NULL, ".gp", ".pdf"};

    if (strcmp(file, "-") == 0) {
        *t = LW_TERMINAL_DUMB;
        return LW_OK;
    }
    for (int i = 0; dot && i < 5; i++)
        if (ends[i] && strcmp(dot, ends[i]) == 0) {
            *t = (enum lw_plot_terminal)i;
            return LW_OK;
        }
    return lw_fail(err, LW_EINVAL,
                   "'%s': the output must end in .png, .svg, .pdf or .gp (the gnuplot script), or "
                   "be '-'",
                   file);
}

enum lw_status lw_plot_script(struct lw_store *s, const struct lw_plot *p, FILE *f,
                              struct lw_err *err)
{
    LW_TRY(plots[p->kind]->script(s, p, f, err));
    if (fflush(f) != 0 || ferror(f))
        return lw_fail(err, LW_EIO, "cannot write the plot script: %s", strerror(errno));
    return LW_OK;
}

/* What gnuplot needs of the environment. Variables of its own (GNUPLOT_LIB, FIT_SCRIPT, GNUPLOT_*)
 * name files and programs that it would run. */
static void clean_environment(char *out[], int room)
{
    static const char *const names[] = {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR",
                                        "FONTCONFIG_FILE", "FONTCONFIG_PATH", "XDG_CACHE_HOME"};
    int n = 0;

    for (char **v = environ; *v && n + 1 < room; v++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strncmp(*v, names[i], strlen(names[i])) == 0 && (*v)[strlen(names[i])] == '=')
                out[n++] = *v;
    out[n] = NULL;
}

/* gnuplot's first complaint, without the echo of the line that it read and the blanks under it. */
static void first_words(FILE *f, char *buf, size_t size)
{
    static const char place[] = "line ";
    char line[256];

    buf[0] = '\0';
    rewind(f);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        const char *words = line + strspn(line, " \t\"-"), *at = strstr(words, place);
        if (!buf[0] || (at && strchr(at, ':')))
            snprintf(buf, size, "%s%s", at == words ? "the script's " : "", words);
    }
}

/* LW_ENOTSUP: no such program on the PATH. */
static enum lw_status spawn(char *const argv[], FILE *in, int out, FILE *complaints,
                            struct lw_err *err)
{
    posix_spawn_file_actions_t fds;
    char words[256], *clean[16];
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
    clean_environment(clean, 16);
    if (rc == 0)
        rc = posix_spawnp(&pid, argv[0], &fds, NULL, argv, clean);
    posix_spawn_file_actions_destroy(&fds);
    if (rc == ENOENT)
        return lw_fail(err, LW_ENOTSUP, "no %s on the PATH (Debian package gnuplot-nox)", argv[0]);
    if (rc != 0)
        return lw_fail(err, LW_EIO, "cannot run %s: %s", argv[0], strerror(rc));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return LW_OK;
    first_words(complaints, words, sizeof words);
    return lw_fail(err, LW_EFAILED, "%s ended with %s %d: %s", argv[0],
                   WIFEXITED(status) ? "status" : "signal",
                   WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), words);
}

static enum lw_status temporary(FILE **f, struct lw_err *err)
{
    *f = tmpfile();
    return *f ? LW_OK : lw_fail(err, LW_EIO, "cannot make a temporary file: %s", strerror(errno));
}

/* From the script file to the output file, which is one of the file system. */
static enum lw_status run_script(FILE *script, FILE *out, struct lw_err *err)
{
    static char name[] = "gnuplot", no_settings[] = "-d", dash[] = "-";
    char *argv[] = {name, no_settings, dash, NULL};
    FILE *complaints;

    rewind(script);
    if (lseek(fileno(script), 0, SEEK_SET) != 0)
        return lw_fail(err, LW_EIO, "cannot read the plot script back: %s", strerror(errno));
    LW_TRY(temporary(&complaints, err));
    enum lw_status st = spawn(argv, script, fileno(out), complaints, err);
    fclose(complaints);
    return st;
}

/* gnuplot writes two things of a text into SVG as they stand. XML allows "]]>" only at the end of a
 * CDATA section, which its pictures do not have. "&#" begins a reference to a character, and one to
 * "&#0;" makes a file that no parser reads. */
static enum lw_status copy_svg(FILE *from, FILE *to, struct lw_err *err)
{
    int c, n_brackets = 0, before = '\0';

    rewind(from);
    for (; (c = fgetc(from)) != EOF; before = c) {
        if (c == '>' && n_brackets >= 2)
            fputs("&gt;", to);
        else if (c == '#' && before == '&')
            fputs("amp;#", to);
        else
            fputc(c, to);
        n_brackets = c == ']' ? n_brackets + 1 : 0;
    }
    return ferror(from) ? lw_fail(err, LW_EIO, "cannot read the picture back") : LW_OK;
}

/* gnuplot's dumb terminal begins a picture with a form feed. */
static enum lw_status copy_file(FILE *from, FILE *to, struct lw_err *err)
{
    int c;

    rewind(from);
    while ((c = fgetc(from)) != EOF)
        if (c != '\f')
            fputc(c, to);
    return ferror(from) ? lw_fail(err, LW_EIO, "cannot read the picture back") : LW_OK;
}

/* Without the time of day, so that a redrawn picture has the same bytes; the length stays, as a PDF
 * holds the places of its objects. */
static enum lw_status copy_pdf(FILE *from, FILE *to, struct lw_err *err)
{
    static const char date[] = "/CreationDate (D:", epoch[] = "19700101000000";
    size_t seen = 0, put = sizeof epoch - 1;
    int c;

    rewind(from);
    while ((c = fgetc(from)) != EOF) {
        bool digit = c >= '0' && c <= '9';
        if (put < sizeof epoch - 1 && digit)
            c = epoch[put++];
        seen = c == date[seen] ? seen + 1 : c == date[0];
        if (seen == sizeof date - 1) {
            seen = 0;
            put = 0;
        }
        fputc(c, to);
    }
    return ferror(from) ? lw_fail(err, LW_EIO, "cannot read the picture back") : LW_OK;
}

/* By way of a file of its own. */
static enum lw_status run_and_copy(FILE *script, FILE *to, enum lw_plot_terminal terminal,
                                   struct lw_err *err)
{
    FILE *drawn;

    LW_TRY(temporary(&drawn, err));
    enum lw_status st = run_script(script, drawn, err);
    if (st == LW_OK)
        st = terminal == LW_TERMINAL_SVG   ? copy_svg(drawn, to, err)
             : terminal == LW_TERMINAL_PDF ? copy_pdf(drawn, to, err)
                                           : copy_file(drawn, to, err);
    fclose(drawn);
    return st;
}

/* What the fonts have; nothing is known of it where fc-list, which comes with the library that
 * draws texts, is not there. */
static enum lw_status read_glyphs(struct plot_glyphs *g, struct lw_err *err)
{
    static char name[] = "fc-list", any[] = ":", what[] = "charset";
    char *argv[] = {name, any, what, NULL};
    FILE *list, *complaints;
    struct lw_err unknown;

    LW_TRY(temporary(&list, err));
    enum lw_status st = temporary(&complaints, err);
    if (st == LW_OK) {
        if (spawn(argv, NULL, fileno(list), complaints, &unknown) == LW_OK)
            st = plot_glyphs_read(list, g, err);
        fclose(complaints);
    }
    fclose(list);
    return st;
}

/* In place of the script one whose texts the fonts of this machine have. */
static enum lw_status keep_to_fonts(FILE **script, int64_t *n, struct lw_err *err)
{
    struct plot_glyphs g = {0};
    FILE *kept;

    LW_TRY(read_glyphs(&g, err));
    enum lw_status st = temporary(&kept, err);
    if (st == LW_OK) {
        st = plot_glyphs_copy(&g, *script, kept, n, err);
        fclose(*script);
        *script = kept;
    }
    plot_glyphs_free(&g);
    return st;
}

static enum lw_status draw_characters(struct lw_store *s, const struct lw_plot *p,
                                      const char *file, struct lw_err *err)
{
    struct lw_output out = {0};

    LW_TRY(lw_output_open(file, "characters", &out, err));
    enum lw_status st = plots[p->kind]->characters(s, p, out.file, err);
    if (st == LW_OK)
        st = lw_output_commit(&out, err);
    else
        lw_output_abort(&out);
    return st;
}

static const char *const output_kinds[] = {[LW_TERMINAL_PNG] = "PNG", [LW_TERMINAL_SVG] = "SVG",
                                           [LW_TERMINAL_SCRIPT] = "gnuplot",
                                           [LW_TERMINAL_PDF] = "PDF",
                                           [LW_TERMINAL_DUMB] = "characters"};

enum lw_status lw_plot_draw(struct lw_store *s, const struct lw_plot *p, const char *file,
                            int64_t *n_replaced, struct lw_err *err)
{
    struct lw_output out = {0};
    FILE *script;

    *n_replaced = 0;
    if (plots[p->kind]->characters && p->terminal == LW_TERMINAL_DUMB)
        return draw_characters(s, p, file, err);
    LW_TRY(temporary(&script, err));
    enum lw_status st = lw_plot_script(s, p, script, err);
    if (st == LW_OK && (p->terminal == LW_TERMINAL_PNG || p->terminal == LW_TERMINAL_PDF))
        st = keep_to_fonts(&script, n_replaced, err);
    if (st == LW_OK)
        st = lw_output_open(file, output_kinds[p->terminal], &out, err);
    if (st == LW_OK) {
        fflush(out.file);
        bool direct = p->terminal == LW_TERMINAL_PNG && out.file != stdout;
        st = p->terminal == LW_TERMINAL_SCRIPT ? copy_file(script, out.file, err)
             : direct                          ? run_script(script, out.file, err)
                                               : run_and_copy(script, out.file, p->terminal, err);
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
    st = spawn(argv, NULL, fileno(out), complaints, err);
    rewind(out);
    if (st == LW_OK && !fgets(buf, (int)size, out))
        st = lw_fail(err, LW_EFAILED, "gnuplot --version printed nothing; expected a version");
    if (st == LW_OK)
        buf[strcspn(buf, "\n")] = '\0';
    fclose(out);
    fclose(complaints);
    return st;
}
