/* Input files, output files, JSON and tables as written: shared/{input,output,jsonout,table}.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <dirent.h>
#include "tests/lib/unit.h"

#include "shared/base/arena.h"
#include "shared/io/input.h"
#include "shared/json/jsonout.h"
#include "shared/io/output.h"
#include "shared/io/own_output.h"
#include "shared/text/table.h"
#include "tests/lib/files/file_fixture.h"

static int files_in_folder(void)
{
    DIR *d = opendir(fixture_path(""));
    int n = 0;

    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void put(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(fixture_path(name), "wb");
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

TEST(a_committed_file_is_there_whole)
{
    struct lw_output out;
    struct lw_input in;
    struct lw_err err = {0};

    assert_int_equal(lw_output_open(fixture_path("a.txt"), &out, &err), LW_OK);
    fputs("hello", out.file);
    assert_int_equal(access(fixture_path("a.txt"), F_OK), -1);
    assert_int_equal(lw_output_commit(&out, &err), LW_OK);
    assert_int_equal(lw_input_read(fixture_path("a.txt"), 0, &in, &err), LW_OK);
    assert_int_equal(in.len, 5);
    assert_string_equal(in.text, "hello");
    lw_input_free(&in);
    assert_int_equal(files_in_folder(), 1);
    unlink(fixture_path("a.txt"));
}

TEST(an_aborted_file_leaves_the_old_one_and_nothing_else)
{
    struct lw_output out;
    struct lw_err err = {0};

    put("b.txt", "{\"lapwing\"", 10);
    assert_int_equal(lw_output_open(fixture_path("b.txt"), &out, &err), LW_OK);
    fputs("new", out.file);
    lw_output_abort(&out);
    assert_int_equal(files_in_folder(), 1);
    unlink(fixture_path("b.txt"));
}

TEST(a_file_of_another_program_is_not_replaced)
{
    struct lw_output out;
    struct lw_err err = {0};

    put("c.txt", "{\"name\": 1}", 11);
    assert_int_equal(lw_output_open(fixture_path("c.txt"), &out, &err), LW_EINVAL);
    assert_non_null(strstr(err.msg, "exists and was not written by lapwing"));
    *lw_force_option() = true;
    assert_true(lw_may_replace(fixture_path("c.txt")));
    *lw_force_option() = false;
    assert_false(lw_may_replace(fixture_path("c.txt")));
    assert_true(lw_may_replace(fixture_path("none")));
    unlink(fixture_path("c.txt"));
}

TEST(a_full_disk_and_a_missing_folder_are_named)
{
    struct lw_output out;
    struct lw_err err = {0};

    assert_int_equal(lw_output_open("/dev/full", &out, &err), LW_OK);
    fputs("x", out.file);
    assert_int_equal(lw_output_commit(&out, &err), LW_EIO);
    assert_string_equal(err.msg, "/dev/full: cannot write: No space left on device");
    assert_int_equal(lw_output_open("/nowhere/at/all", &out, &err), LW_EIO);
    assert_string_equal(err.msg, "/nowhere/at/all: cannot write: No such file or directory");
}

TEST(gzip_is_found_by_content_and_its_checksum_checked)
{
    /* printf hi | gzip -n: CRC 0xd8932aac, length 2 */
    unsigned char gz[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xcb, 0xc8, 4, 0,
                          0xac, 0x2a, 0x93, 0xd8, 2, 0, 0, 0};
    struct lw_input in;
    struct lw_err err = {0};
    char expected[256];

    put("c", gz, sizeof gz);
    assert_int_equal(lw_input_read(fixture_path("c"), 0, &in, &err), LW_OK);
    assert_int_equal(in.len, 2);
    assert_memory_equal(in.text, "hi", 3);
    lw_input_free(&in);
    gz[15] ^= 1;
    put("c", gz, sizeof gz);
    assert_int_equal(lw_input_read(fixture_path("c"), 0, &in, &err), LW_EFORMAT);
    snprintf(expected, sizeof expected,
             "%s: byte 18: the gzip data is damaged (incorrect data check); 2 bytes unpack before",
             fixture_path("c"));
    assert_string_equal(err.msg, expected);
    gz[15] ^= 1;
    for (size_t n = 2; n < sizeof gz; n++) { /* cut anywhere: an error, never a partial text */
        put("c", gz, n);
        assert_int_equal(lw_input_read(fixture_path("c"), 0, &in, &err), LW_EFORMAT);
        assert_non_null(strstr(err.msg, "ends too early (truncated)"));
        assert_null(strstr(err.msg, "check")); /* a checksum was never reached */
    }
    unlink(fixture_path("c"));
    assert_int_equal(lw_input_read(fixture_path("c"), 0, &in, &err), LW_EIO);
    assert_int_equal(lw_input_read(fixture_path("."), 0, &in, &err), LW_EIO);
    assert_int_equal(lw_alloc_live(), 0);
}

static char *written(void (*write)(FILE *))
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);

    write(f);
    fclose(f);
    return text;
}

static void write_json(FILE *f)
{
    struct lw_jsonout o = {.file = f};

    lw_jsonout_object(&o, NULL);
    lw_jsonout_string(&o, "name", "a \"b\"\n\x01");
    lw_jsonout_line_array(&o, "v");
    lw_jsonout_int(&o, NULL, -1);
    lw_jsonout_double(&o, NULL, 0.1);
    lw_jsonout_null(&o, NULL);
    lw_jsonout_end(&o);
    LW_JSON(&o, "t_ns", LW_PS(1500));
    LW_JSON(&o, "zero", lw_known(0), "unknown", lw_known(-1));
    lw_jsonout_array(&o, "empty");
    lw_jsonout_end(&o);
    lw_jsonout_end(&o);
}

TEST(json_is_escaped_and_indented)
{
    char *text = written(write_json);

    assert_string_equal(
        text, "{\n  \"name\": \"a \\\"b\\\"\\n\\u0001\",\n  \"v\": [-1, 0.1, null],\n"
              "  \"t_ns\": 2,\n  \"zero\": 0,\n  \"unknown\": null,\n  \"empty\": []\n}\n");
    free(text);
}

static const char *const titles[] = {"name", ">value"};

static struct lw_table *small_table(void)
{
    struct lw_table *t = lw_table_new(2, titles);

    lw_table_cell(t, "a,b");
    lw_table_cell(t, "%d", 7);
    lw_table_cell(t, "µs");
    lw_table_cell(t, "12345678");
    return t;
}

static void write_table(FILE *f)
{
    struct lw_table *t = small_table();
    struct lw_err err;

    assert_int_equal(lw_table_print(t, f, 1, &err), LW_OK);
    assert_int_equal(lw_table_end(t, f, LW_TABLE_CSV, &err), LW_OK);
}

TEST(tables_align_by_characters_and_csv_quotes_commas)
{
    char *text = written(write_table);

    assert_string_equal(text, " name     value\n ----  --------\n a,b          7\n"
                              " µs    12345678\nname,value\n\"a,b\",7\nµs,12345678\n");
    free(text);
}

static void write_fields(FILE *f)
{
    static const char *const fields[] = {"plain", "a b", "a,b", "say \"x\"", "a\nb", "a\rb"};

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        lw_csv_text(f, fields[i]);
        fputc(';', f);
    }
}

TEST(csv_fields_are_quoted_where_they_must_be)
{
    char *text = written(write_fields);

    assert_string_equal(text, "plain;a b;\"a,b\";\"say \"\"x\"\"\";\"a\nb\";\"a\rb\";");
    free(text);
}

TEST_GROUP(fixture_open, fixture_close)
