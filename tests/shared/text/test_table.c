/* Tables: what is cut on a narrow terminal, and what never is. */
#include "tests/lib/unit.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "shared/text/table.h"

static const char *const titles[] = {"name", ">bytes", "about"};

static struct lw_table *sample(void)
{
    struct lw_table *t = lw_table_new(3, titles);

    lw_table_cell(t, "layers.0.mlp");
    lw_table_cell(t, "1234567");
    lw_table_cell(t, "a long text that says much");
    lw_table_cell(t, "\xc3\xa4");
    lw_table_cell(t, "8");
    lw_table_cell(t, "short");
    return t;
}

static void expect(int n_columns, const char *text)
{
    struct lw_err err = {0};
    struct lw_table *t = sample();
    char *out = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&out, &len);

    assert_int_equal(lw_table_print_within(t, f, 0, n_columns, &err), LW_OK);
    fclose(f);
    assert_string_equal(out, text);
    free(out);
    lw_table_free(t);
}

#define WHOLE                                                                                   \
    "name            bytes  about\n"                                                            \
    "------------  -------  --------------------------\n"                                       \
    "layers.0.mlp  1234567  a long text that says much\n"                                       \
    "\xc3\xa4                   8  short\n"

TEST(wide_enough_is_left_alone)
{
    expect(0, WHOLE);
    expect(49, WHOLE); /* 12 + 2 + 7 + 2 + 26 */
}

TEST(the_widest_text_is_cut_with_an_ellipsis)
{
    expect(40, "name            bytes  about\n"
               "------------  -------  -----------------\n"
               "layers.0.mlp  1234567  a long text that\xe2\x80\xa6\n"
               "\xc3\xa4                   8  short\n");
}

TEST(numbers_are_never_cut)
{
    expect(5, "name        bytes  about\n"
              "--------  -------  --------\n"
              "layers.\xe2\x80\xa6  1234567  a long \xe2\x80\xa6\n"
              "\xc3\xa4               8  short\n");
}

TEST(titles_are_broken_and_what_lacks_room_follows_below)
{
    static const char *const wide[] = {"role", ">of the first", ">of all", "what it is called"};
    struct lw_table *t = lw_table_new(4, wide);
    struct lw_err err = {0};
    char *out = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&out, &len);

    for (int i = 0; i < 2; i++) {
        lw_table_cell(t, "stage %d", i);
        lw_table_cell(t, "%d", 1234567 * (i + 1));
        lw_table_cell(t, "%d", 7 * i);
        lw_table_cell(t, "a name");
    }
    assert_int_equal(lw_table_print_within(t, f, 0, 42, &err), LW_OK); /* 50 as it is */
    fputc('|', f);
    fputc('\n', f);
    for (int i = 0; i < 2; i++) /* two more rows whose numbers alone are too wide */
        for (int c = 0; c < 4; c++)
            lw_table_cell(t, c ? "%d23456789012345" : "stage %d", i + 2);
    assert_int_equal(lw_table_print_within(t, f, 2, 45, &err), LW_OK);
    fclose(f);
    assert_string_equal(out, "                               what it is\n"
                             "role     of the first  of all  called\n"
                             "-------  ------------  ------  -----------\n"
                             "stage 0       1234567       0  a name\n"
                             "stage 1       2469134       7  a name\n|\n"
                             "  role        of the first           of all\n"
                             "  -------  ---------------  ---------------\n"
                             "  stage 0          1234567                0\n"
                             "  stage 1          2469134                7\n"
                             "  stage 2  223456789012345  223456789012345\n"
                             "  stage 3  323456789012345  323456789012345\n"
                             "\n"
                             "  role     what it is called\n"
                             "  -------  -----------------\n"
                             "  stage 0  a name\n"
                             "  stage 1  a name\n"
                             "  stage 2  223456789012345\n"
                             "  stage 3  323456789012345\n");
    free(out);
    lw_table_free(t);
}

/* A terminal of 40 columns: tables go by it, and by COLUMNS when that is set; a file gets all. */
static void print_to_terminal(const char *columns, char *out, size_t size)
{
    struct winsize narrow = {.ws_row = 24, .ws_col = 40};
    int master = posix_openpt(O_RDWR | O_NOCTTY);

    assert_true(master >= 0);
    assert_int_equal(grantpt(master) | unlockpt(master), 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    assert_int_equal(ioctl(slave, TIOCSWINSZ, &narrow), 0);
    if (columns)
        setenv("COLUMNS", columns, 1);
    else
        unsetenv("COLUMNS");
    FILE *f = fdopen(slave, "w");
    struct lw_table *t = sample();
    struct lw_err err = {0};
    assert_int_equal(lw_table_print(t, f, 0, &err), LW_OK);
    fflush(f);
    size_t n = 0;
    for (int lines = 0; lines < 4; n++) {
        assert_true(n + 1 < size && read(master, out + n, 1) == 1);
        lines += out[n] == '\n';
    }
    out[n] = '\0';
    lw_table_free(t);
    fclose(f);
    close(master);
}

TEST(a_terminal_decides_by_its_width)
{
    char out[1024];

    print_to_terminal(NULL, out, sizeof out);
    assert_non_null(strstr(out, "1234567  a long text that\xe2\x80\xa6"));
    print_to_terminal("200", out, sizeof out);
    assert_non_null(strstr(out, "a long text that says much"));
    print_to_terminal("45", out, sizeof out);
    assert_non_null(strstr(out, "1234567  a long text that says\xe2\x80\xa6"));
}

TEST(the_end_of_a_table_prints_and_frees_it)
{
    static const char *const two[] = {"what", ">time"};
    struct lw_table *t = lw_table_new(2, two);
    struct lw_err err = {0};
    char *out = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&out, &n);

    lw_table_cell(t, "a");
    LW_CELLS(t, LW_NS(1500));
    assert_int_equal(lw_table_end(t, f, 2, &err), LW_OK);
    assert_int_equal(lw_table_end(NULL, f, 2, &err), LW_ENOMEM);
    fclose(f);
    assert_string_equal(out, "  what      time\n  ----  --------\n  a     1.500 us\n");
    free(out);
}

TEST(cells_are_written_by_their_types)
{
    static const char *const all[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
    struct lw_table *t = lw_table_new(12, all);
    char *out = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&out, &n);

    LW_CELLS(t, "text", (const char *)NULL, 7, INT64_C(-5), LW_COUNT(3), LW_COUNT(-1),
             LW_BYTES(2048), LW_BYTES_OR_COUNT(2048, true), LW_PS(2500), LW_MS(-1),
             lw_decimals(0.125, 2), lw_known(-1));
    assert_int_equal(lw_table_end(t, f, LW_TABLE_CSV, NULL), LW_OK);
    fclose(f);
    assert_string_equal(out, "a,b,c,d,e,f,g,h,i,j,k,l\n"
                             "text,-,7,-5,3,-,2.00 KiB,2048,2.500 ns,-,0.12,\n");
    free(out);
}

/* Which function LW_CELLS gives a cell to. lw_table_decimals takes a struct, so that a bare number
 * with a fraction does not compile. */
#define lw_table_decimals takes_decimals
#define lw_table_int takes_int
static int n_decimals, n_ints;

static void takes_decimals(struct lw_table *t, ...)
{
    (void)t;
    n_decimals++;
}

static void takes_int(struct lw_table *t, ...)
{
    (void)t;
    n_ints++;
}

TEST(a_number_with_a_fraction_is_never_cut_to_an_integer)
{
    LW_CELLS(NULL, 1.5f, 1.5, 1.5L);
    assert_int_equal(n_decimals, 3);
    LW_CELLS(NULL, 1, INT64_C(1), 'a', true);
    assert_int_equal(n_ints, 4);
}
