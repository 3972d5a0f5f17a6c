/* A mapped file reads as the file, with zeros after it, and is named where it becomes shorter. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/hash.h"
#include "shared/base/large_pages.h"
#include "shared/io/input.h"
#include "shared/io/mapped_file.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/unit.h"

enum { PAD = 64 };

/* A file of n bytes, byte i being i * 7 % 251. */
static int file_of(const char *path, size_t n)
{
    char *bytes = malloc(n);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    assert_true(bytes && fd >= 0);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)(i * 7 % 251);
    assert_int_equal(write(fd, bytes, n), n);
    free(bytes);
    return fd;
}

static void is_file(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal((unsigned char)text[i], i * 7 % 251);
    for (size_t i = n; i < n + PAD; i++)
        assert_int_equal(text[i], 0);
}

TEST_WITH(a_mapped_file_reads_as_the_file_and_zeros, fixture_open, fixture_close)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t sizes[] = {1, page - PAD, page - 1, page, page + 1, 5 * page, 5 * page + 17};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int fd = file_of(fixture_path("m"), sizes[i]);
        char *text = lw_map_file(fd, "m", sizes[i], PAD);
        close(fd);
        assert_non_null(text);
        is_file(text, sizes[i]);
        lw_alloc_give_back(text, sizes[i]);
        is_file(text, sizes[i]);
        lw_unmap_file(text);
    }
}

TEST_WITH(what_is_written_to_a_mapping_stays_out_of_the_file, fixture_open, fixture_close)
{
    int fd = file_of(fixture_path("m"), 100);
    char *text = lw_map_file(fd, "m", 100, PAD), byte;

    assert_non_null(text);
    text[50] = 1;
    assert_int_equal(pread(fd, &byte, 1, 50), 1);
    assert_int_equal((unsigned char)byte, 50 * 7 % 251);
    lw_unmap_file(text);
    close(fd);
}

TEST_WITH(no_more_than_64_files_are_mapped_at_once, fixture_open, fixture_close)
{
    int fd = file_of(fixture_path("m"), 10);
    char *text[65];

    for (int i = 0; i < 64; i++)
        assert_non_null(text[i] = lw_map_file(fd, "m", 10, PAD));
    assert_null(lw_map_file(fd, "m", 10, PAD));
    lw_unmap_file(text[3]);
    assert_non_null(text[3] = lw_map_file(fd, "m", 10, PAD));
    for (int i = 0; i < 64; i++)
        lw_unmap_file(text[i]);
    close(fd);
}

/* In a child: its file loses all pages but the first, and the third is read. */
static void read_what_is_gone(const char *path, int to)
{
    signal(SIGBUS, SIG_DFL); /* cmocka has a handler */
    int fd = file_of(path, 4 * (size_t)sysconf(_SC_PAGESIZE));
    volatile char *text = lw_map_file(fd, "cut.json", 4 * (size_t)sysconf(_SC_PAGESIZE), PAD);

    dup2(to, STDERR_FILENO);
    if (!text || ftruncate(fd, 10) != 0)
        _exit(2);
    char c = text[2 * sysconf(_SC_PAGESIZE)];
    _exit(c == 0 ? 3 : 4);
}

TEST_WITH(a_file_that_becomes_shorter_is_named, fixture_open, fixture_close)
{
    static const char line[] = "lapwing: cut.json: became shorter while it was read; run again "
                               "once nothing writes to it\n";
    char said[200] = "";
    int ends[2], status;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        read_what_is_gone(fixture_path("m"), ends[1]);
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], said + n, sizeof said - 1 - n)) > 0;)
        n += (size_t)got;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_string_equal(said, line);
}

TEST_WITH(a_large_input_is_mapped_and_has_the_hash_of_its_bytes, fixture_open, fixture_close)
{
    const size_t n = ((size_t)64 << 20) + 12345;
    struct lw_input in;
    struct lw_err err;
    char hash[33];

    close(file_of(fixture_path("m"), n));
    assert_ok(lw_input_read(fixture_path("m"), 0, &in, &err), err);
    assert_true(in.mapped);
    assert_int_equal(in.len, n);
    lw_hash_of(in.text, n, hash);
    assert_string_equal(in.hash, hash);
    assert_int_equal((unsigned char)in.text[n - 1], (n - 1) * 7 % 251);
    lw_input_free(&in);
    const struct lw_input_reading unhashed = {.unhashed = true};
    assert_ok(lw_input_read_as(fixture_path("m"), &unhashed, &in, &err), err);
    assert_true(in.mapped);
    assert_string_equal(in.hash, "");
    assert_int_equal((unsigned char)in.text[n - 1], (n - 1) * 7 % 251);
    lw_input_free(&in);
}
