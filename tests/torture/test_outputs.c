/* No output destroys what the user had: links are written through, inputs and databases are refused
 * as outputs under any name, and a process that is killed leaves no temporary file. */
#include <stdbool.h>
#include "tests/lib/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/io/output.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"

static int open_with_workload(void **state)
{
    fixture_open(state);
    char *text = fixture_example("docs/formats/workload.md");
    fixture_put(fixture_path("w.json"), text);
    free(text);
    return 0;
}

/* The words run and exit 0. */
static void holds(const char *words)
{
    int rc;
    const char *said = shell(words, &rc);

    if (rc != 0)
        fail_msg("%s: exit %d\n%s", words, rc, said);
}

TEST_WITH(links_are_written_through, open_with_workload, fixture_close)
{
    holds("mkdir d && $L plan -w w.json -o d/real && ln -s d/real l1 && ln -s l1 l2 && ln -s "
          "d/new l3 &&"
          "$L plan -w w.json -o l2 && test -L l1 && test -L l2 && grep -q lapwing d/real");
    holds("$L plan -w w.json -o l3 && test -L l3 && grep -q lapwing d/new");
    holds("ln -s \"$PWD/d/absolute\" l4 && $L plan -w w.json -o l4 && grep -q lapwing d/absolute");
    holds("ln -s loop loop; ! $L plan -w w.json -o loop && test -L loop");
}

TEST_WITH(names_of_standard_output_are_standard_output, open_with_workload, fixture_close)
{
    holds("$L plan -w w.json -o - --format json > a && $L plan -w w.json -o /dev/stdout > b &&"
          "test -L /dev/stdout && grep -q '\"kind\": \"plan\"' b");
    holds("$L plan -w w.json -o /dev/fd/5 5> c > /dev/null && grep -q '\"kind\": \"plan\"' c");
    holds("$L plan -w w.json -o /dev/null > /dev/null && test -c /dev/null");
}

TEST_WITH(the_mode_of_a_file_is_kept, open_with_workload, fixture_close)
{
    holds("touch p && chmod 600 p && $L plan -w w.json -o p && test $(stat -c %a p) = 600");
    holds("umask 027 && $L plan -w w.json -o q && test $(stat -c %a q) = 640");
}

TEST_WITH(input_file_is_refused_as_output, open_with_workload, fixture_close)
{
    static const char *const commands[] = {
        "plan -w w.json -o w.json",
        "plan -w w.json -o ./w.json",
        "plan -w w.json -o d/../w.json",
        "plan -w w.json -o soft",
        "plan -w w.json -o hard",
        "plan -w soft -o w.json",
        "plan -w hard -o soft",
        "sim -w w.json --db w.json",
        "sim -w w.json --db soft",
        "plan p.json -o p.json",
        "report -o lapwing.db",
        "report -o lapwing.db-wal",
        "plot overlap -o db.svg --db db.svg",
        "export 1 --format csv -o lapwing.db",
        "import $R/gpt6__gloo2__cap25.rank0.json.gz $R/gpt6__gloo2__cap25.rank1.json.gz "
        "-o x.json --cluster-out ./x.json"};
    char line[256];
    int rc;

    holds("$L sim -w w.json --spans && $L plan -w w.json -o p.json && cp lapwing.db db.svg &&"
          "ln -s w.json soft && ln w.json hard && mkdir d && cat w.json p.json > before");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const char *said = lapwing(commands[i], &rc);
        if (rc != 1 || !strstr(said, "are the same file"))
            fail_msg("%s: exit %d, %s", commands[i], rc, said);
    }
    snprintf(line, sizeof line,
             "cat w.json p.json | cmp - before && test -L soft && $L runs &&"
             "$L runs --db db.svg");
    holds(line);
}

TEST_WITH(a_database_is_a_file, open_with_workload, fixture_close)
{
    expect("sim -w w.json --db ''", 2, "--db: the value is empty; expected FILE");
    expect("sim -w w.json --db :memory:", 1, "--db ':memory:' stores nothing");
    expect("runs --db :memory:", 1, "stores nothing");
    expect("sim -w w.json --db 'file:x?mode=memory'", 1, "is a URI");
    expect("plan -w - -o w.json <w.json", 1, "w.json");
}

/* The path becomes a URI where the database is only read. */
TEST_WITH(a_database_has_any_name, open_with_workload, fixture_close)
{
    holds("mkdir 'd\303\251'; for f in '\303\251.db' 'x\377.db' 'd\303\251/a?b%20#.db'; do "
          "$L sim -w w.json --db \"$f\" -q && $L runs --db \"$f\" | grep -q ok || exit 1; done");
}

/* Root may write everywhere, so the program runs as nobody there. SQLite says that the file is not
 * there. */
TEST_WITH(a_folder_that_cannot_be_written_is_named_as_such, open_with_workload, fixture_close)
{
    holds("cp \"$L\" l && chmod 755 . l && mkdir ro && chmod 555 ro && cd ro && "
          "if [ $(id -u) = 0 ]; then as='setpriv --reuid=65534 --clear-groups'; fi && "
          "$as ../l sim -w ../w.json -q 2>&1 >/dev/null | tee ../said && "
          "grep -q 'lapwing.db: unable to open database file: Permission denied' ../said");
}

/* The exit status is 1, and the object says why. */
TEST_WITH(failed_store_fails_the_command, open_with_workload, fixture_close)
{
    static const char *const commands[] = {
        "sim -w w.json --db no/r.db --format json",
        "exec -w w.json --dp 2 --compute sleep --steps 2 --db no/r.db --format json",
    };

    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        expect(commands[i], 1, "\"status\": \"failed\"");
        expect(commands[i], 1, "\"error\": \"no/r.db: unable to open database file");
        expect(commands[i], 1, "nothing was run: give --db FILE that can be written");
    }
}

TEST_WITH(two_outputs_are_not_both_standard_output, open_with_workload, fixture_close)
{
    EXPECT("import $R/gpt6__local.rank0.json.gz -o",
           {"- --cluster-out -", 2, "-o and --cluster-out are both standard output"},
           {"/dev/stdout --cluster-out -", 2, "give one of them a file"});
}

/* Runs that are stored nowhere else are not replaced by a workload. */
TEST_WITH(a_database_is_no_output, open_with_workload, fixture_close)
{
    holds("$L model mlp --layers 2 --width 8 --device dgx-a100 -o m.json >/dev/null && "
          "$L sim -w m.json -c dgx-a100 --db runs.db >/dev/null");
    expect("model mlp -o runs.db", 1, "runs.db: is a database, which an output does not replace");
    expect("runs --db runs.db", 0, "sim");
}

/* Measuring takes a minute; that the result cannot be written is said before it. */
TEST_WITH(a_long_command_tries_its_output_first, open_with_workload, fixture_close)
{
    static const struct {
        const char *words, *said;
    } cases[] = {
        {"-o no/such/c.json", "no/such/c.json: cannot write: No such file or directory"},
        {"-o runs.db", "runs.db: is a database, which an output does not replace"},
        {"-o notes.txt", "notes.txt: exists and was not written by lapwing"},
        {"-o w.json", "w.json: exists and holds .workload., the output is"},
        {"-o mine.json", "mine.json: is not as lapwing wrote it"},
    };
    char line[300];

    holds("$L sim -w w.json --db runs.db >/dev/null && echo mine >notes.txt && $L cluster dgx-h100 "
          "-o mine.json && sed -i 's/\\(\"devices_per_node\": \\)8/\\16/' mine.json");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(line, sizeof line,
                 "timeout -k 10 20 $L calibrate --max-bytes 1GiB %s >said 2>&1; [ $? = 1 ] && "
                 "grep -q -- '%s' said || { cat said; exit 1; }",
                 cases[i].words, cases[i].said);
        holds(line);
    }
}

/* A workload that is also the database is refused before it is written. */
TEST_WITH(a_refused_import_leaves_no_output, open_with_workload, fixture_close)
{
    expect("import $R/gpt6__local.rank0.json.gz --store --db y.json -o y.json", 1, "y.json");
    holds("[ ! -e y.json ]");
}

/* Runs that are not yet in the database itself are in the files that SQLite keeps beside it. */
TEST_WITH(files_beside_a_database_are_no_output, open_with_workload, fixture_close)
{
    static const char *const ends[] = {"-wal", "-shm", "-journal"};
    char line[160];

    holds("$L sim -w w.json --db hostile >/dev/null && ln -s hostile link");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        snprintf(line, sizeof line, "plan -w w.json -o hostile%s --force", ends[i]);
        expect(line, 1, "belongs to a database, which an output does not replace");
        snprintf(line, sizeof line, "ln -sf hostile%s l && ! $L report -o l --db hostile --force",
                 ends[i]);
        holds(line);
        snprintf(line, sizeof line, "! $L report -o link%s --db link --force", ends[i]);
        holds(line);
        snprintf(line, sizeof line, "sim -w w.json --db hostile%s", ends[i]);
        expect(line, 1, "belongs to another database; give --db the name of that");
    }
    expect("runs --db hostile", 0, "sim");
    holds("$L plan -w w.json -o other-wal");
}

/* The shell opened the file, for writing at its beginning or at its end: no byte of it changes. */
TEST_WITH(a_redirection_destroys_no_input, open_with_workload, fixture_close)
{
    static const char *const commands[][2] = {
        {"plan -w w.json", "w.json"},
        {"plan -w w.json --format json", "w.json"},
        {"plan -w w.json -s s.json", "s.json"},
        {"sim -w - --no-db < w.json", "w.json"},
        {"sim -w w.json -c c.json --no-db", "c.json"},
        {"sim -w w.json --db r.db", "r.db"},
        {"runs --db r.db", "r.db"},
        {"report --db r.db -o r.html", "r.html"},
        {"report --db r.db -o -", "r.db"},
        {"plan p.json", "p.json"},
        {"plan diff p.json p2.json", "p2.json"},
        {"plan -w w.json -o p.json", "p.json"},
        {"plan -w w.json -o soft", "p.json"},
        {"inspect w.json w.json c.json", "c.json"},
        {"golden w.json p.json", "p.json"},
        {"validate w.json p.json", "p.json"},
        {"import $R/gpt6__gloo2__cap25.rank0.json.gz -o p2.json", "p2.json"},
        {"cluster c.json", "c.json"},
        {"model mlp -o w.json", "w.json"},
        {"exec -w w.json --dp 2 --steps 1 --db r.db", "r.db"}};
    static const char *const how[] = {"2> said 1<>", "2> said >>", "> said 2>>", "> said 2<>"};
    char line[400];

    holds("$L sim -w w.json --db r.db >/dev/null && $L plan -w w.json -o p.json >/dev/null && cp "
          "p.json p2.json && $L cluster dgx-a100 -o c.json >/dev/null && ln -s p.json soft && "
          "$L report --db r.db -o r.html && "
          "echo '{\"lapwing\": 1, \"kind\": \"strategy\"}' > s.json");
    for (size_t c = 0; c < sizeof commands / sizeof commands[0]; c++)
        for (size_t h = 0; h < sizeof how / sizeof how[0]; h++) {
            snprintf(line, sizeof line, "cp %s before && $L %s %s %s; test $? = 1 && cmp %s before",
                     commands[c][1], commands[c][0], how[h], commands[c][1], commands[c][1]);
            holds(line);
        }
    holds("$L plan -w w.json > both 2>&1 && test -s both");
    holds("$L plan -w w.json --format json -o - >> kept && $L plan -w w.json >> kept");
    holds("! $L plan -w w.json 1<> w.json 2> e; tr -s '\\n ' ' ' < e | grep -q 'w.json: standard "
          "output is redirected to an input of this command; redirect it to another file'");
}

/* What lapwing did not write stays, unless --force; what it wrote is replaced. */
TEST_WITH(files_of_others_are_kept, open_with_workload, fixture_close)
{
    holds("echo 'my thesis' > t; ! $L plan -w w.json -o t 2> e && grep -q 'my thesis' t &&"
          "grep -q 't: exists and was not written by lapwing' e && grep -q -- --force e");
    holds("echo '{\"traceEvents\": []}' > j; ! $L plan -w w.json -o j; grep -q trace j");
    holds("$L plan -w w.json -o t --force && grep -q '\"lapwing\"' t");
    holds("$L plan -w w.json -o t && : > e && $L plan -w w.json -o e && test -s e");
    holds("$L sim -w w.json -c dgx-a100 --as-recorded --db r.db && "
          "for k in report 'export --format chrome' "
          "'export --format csv' 'plot timeline'; do for time in once again; do "
          "$L $k 1 --db r.db -o o.gp || exit 1; done; rm o.gp; done");
}

/* Every command that writes a file: its own file is replaced, an edited one and a file of another
 * kind are not, and not one byte of these changes. */
TEST_WITH(edited_files_and_other_kinds_are_kept, open_with_workload, fixture_close)
{
    static const struct {
        const char *words, *file, *kind;
    } commands[] = {{"plan -w w.json", "p.json", "plan"},
                    {"model mlp --layers 2 --width 8 --device dgx-a100", "m.json", "workload"},
                    {"cluster dgx-h100", "c.json", "cluster"},
                    {"import $R/gpt6__gloo2__cap25.rank0.json.gz", "i.json", "workload"},
                    {"report --db r.db", "r.html", "report"},
                    {"export 1 --db r.db", "e.json", "trace events"},
                    {"plot timeline 1 --db r.db", "t.svg", "SVG"},
                    {"plot timeline 1 --db r.db", "t.png", "PNG"},
                    {"plot timeline 1 --db r.db", "t.gp", "gnuplot"}};
    enum { N = sizeof commands / sizeof commands[0] };
    char line[400];

    holds("$L sim -w w.json --db r.db >/dev/null");
    for (size_t i = 0; i < N; i++) {
        const char *words = commands[i].words, *file = commands[i].file;
        snprintf(line, sizeof line, "$L %s -o %s >log && $L %s -o %s >log", words, file, words,
                 file);
        holds(line);
        snprintf(line, sizeof line,
                 "cp %s kept && printf ' ' >> %s && cp %s edited && ! $L %s -o %s 2>said && "
                 "cmp %s edited && grep -q -- --force said && $L %s -o %s --force >log && "
                 "cmp %s kept",
                 file, file, file, words, file, file, words, file, file);
        holds(line);
    }
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < N; k++) {
            const char *end = strrchr(commands[k].file, '.');
            if (strcmp(commands[i].kind, commands[k].kind) == 0)
                continue;
            snprintf(line, sizeof line,
                     "cp %s o%s && ! $L %s -o o%s 2>said && cmp %s o%s && tr -s '\\n ' ' ' <said | "
                     "grep -q \"holds '%s', the output is '%s'\"",
                     commands[i].file, end, commands[k].words, end, commands[i].file, end,
                     commands[i].kind, commands[k].kind);
            holds(line);
        }
}

TEST_WITH(inputs_are_bounded_by_their_size, open_with_workload, fixture_close)
{
    holds("head -c 70000000 /dev/zero | gzip -1 > z.gz");
    expect("cluster ./z.gz", 1,
           "z.gz: unpacks to more than 67108864 bytes, the most for a file of ");
    expect("plan -w z.gz", 1, "z.gz: unpacks to more than ");
    expect("plan -w /dev/zero", 1, "/dev/zero: is a device; give a file or a pipe");
    holds("truncate -s 1T sparse");
    expect("plan -w sparse", 1, "sparse: 1099511627776 bytes, more than the memory that is left");
    expect("inspect /dev/urandom", 1, "/dev/urandom: is a device");
}

/* Every command that reads a file, from what has no end: one line each. */
TEST_WITH(endless_output_is_refused, open_with_workload, fixture_close)
{
    static const char *const commands[] = {
        "plan -w -",   "sim -w -",       "sim -w w.json -c -", "plan -w w.json -s -",
        "plan -",      "inspect -",      "import - -o i.json", "golden -",
        "validate -",  "cluster -",      "cost -c -",          "cost --measured -",
        "recommend -", "sim --replay -", "exec -w -"};
    char line[160];
    int rc;

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        snprintf(line, sizeof line, "%s < /dev/zero", commands[i]);
        lapwing(line, &rc);
        const char *said = shell_err(), *end = strchr(said, '\n');
        if ((rc != 1 && rc != 2) || !end || end[1] != '\0')
            fail_msg("%s: exit %d, %s", line, rc, said);
        if (rc == 1 && !strstr(said, "<standard input>: is a device"))
            fail_msg("%s: %s", line, said);
    }
    expect("plan -w - < /dev/null", 1, "");
    holds("mkfifo f; yes > f & timeout -k 10 60 $L plan -w f 2> e; test $? = 1 && "
          "grep -q 'f: no end after 268435456 bytes, the most that is read from a pipe' e");
}

static int entries(void)
{
    DIR *d = opendir(fixture_path(""));
    int n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static bool all_have_names; /* a file system without unnamed files */

/* In place of that of the C library. */
int open(const char *path, int flags, ...)
{
    va_list args;

    if (all_have_names && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    va_start(args, flags);
    unsigned mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, unsigned) : 0;
    va_end(args);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static enum lw_status open_named(const char *path, struct lw_output *out, struct lw_err *err)
{
    all_have_names = true;
    enum lw_status s = lw_output_open(path, "plan", out, err);
    all_have_names = false;
    return s;
}

/* A process that holds an unfinished output, killed by the signal. */
static void kill_writer(bool named, int signal)
{
    struct lw_output out;
    int told[2], status;
    char c;

    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) { /* a background job inherits some of them ignored */
        struct sigaction plain = {.sa_handler = SIG_DFL};
        sigaction(signal, &plain, NULL);
        alarm(30);
        const char *path = fixture_path("o.json");
        enum lw_status s =
            named ? open_named(path, &out, NULL) : lw_output_open(path, "plan", &out, NULL);
        if (s == LW_OK)
            fputs("half", out.file);
        fflush(s == LW_OK ? out.file : NULL);
        if (write(told[1], "x", 1) == 1)
            pause();
        _exit(7);
    }
    assert_int_equal(read(told[0], &c, 1), 1);
    kill(child, signal);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    close(told[0]);
    close(told[1]);
}

TEST_WITH(a_signal_leaves_no_temporary_file, open_with_workload, fixture_close)
{
    static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    int before = entries();

    for (size_t i = 0; i < sizeof caught / sizeof caught[0]; i++) {
        kill_writer(false, caught[i]);
        kill_writer(true, caught[i]);
        assert_int_equal(entries(), before);
    }
    kill_writer(false, SIGKILL);
    assert_int_equal(entries(), before);
}

TEST_WITH(an_output_with_a_name_is_committed_and_aborted_alike, open_with_workload, fixture_close)
{
    struct lw_output out;
    struct lw_err err = {0};
    int before = entries();

    assert_int_equal(open_named(fixture_path("n"), &out, &err), LW_OK);
    fputs("{\"lapwing\": 1, \"kind\": \"plan\"}", out.file);
    assert_int_equal(entries(), before + 1);
    assert_int_equal(lw_output_commit(&out, &err), LW_OK);
    char *text = fixture_get(fixture_path("n"));
    assert_memory_equal(text, "{\"lapwing\": 1, \"kind\": \"plan\",\n  \"content_hash\": \"", 50);
    free(text);
    assert_int_equal(open_named(fixture_path("n"), &out, &err), LW_OK);
    lw_output_abort(&out);
    assert_int_equal(entries(), before + 1);
}
