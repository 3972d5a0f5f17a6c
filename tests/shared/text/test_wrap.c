/* Messages of several processes on one stream stay apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "shared/text/wrap.h"

/* A socket of packets gives one packet for each write. */
TEST(a_paragraph_is_one_write_of_an_unbuffered_stream)
{
    static const char text[] =
        "rank 1 was started with --steps 2, rank 0 with --steps 1: give all ranks the same "
        "options, or leave --steps out on all of them";
    static const char expected[] =
        "lapwing exec: rank 1 was started with --steps 2, rank 0 with --steps 1: give all ranks "
        "the same\n  options, or leave --steps out on all of them\n";
    char got[512];
    int pair[2];

    unsetenv("COLUMNS");
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    FILE *f = fdopen(pair[0], "w");
    assert_non_null(f);
    setvbuf(f, NULL, _IONBF, 0);
    lw_put_paragraph(f, "lapwing exec: ", text);
    fclose(f);
    ssize_t n = read(pair[1], got, sizeof got - 1);
    assert_true(n > 0);
    got[n] = '\0';
    assert_string_equal(got, expected);
    assert_int_equal(read(pair[1], got, sizeof got), 0);
    close(pair[1]);
}
