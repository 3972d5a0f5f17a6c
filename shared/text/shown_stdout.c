/* A stream before descriptor 1. A character may be split over two writes: its first bytes wait
 * for the rest, and what still waits at the end is written as invalid. */
#include "shared/text/shown_stdout.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/shown_text.h"

enum { CHUNK = 4096 };

static struct filter {
    char waiting[8];
    size_t n_waiting;
    bool used;
} filter; /* of the one standard output of this process */

static bool write_all(const char *data, size_t n)
{
    while (n > 0) {
        ssize_t k = write(STDOUT_FILENO, data, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        data += k;
        n -= (size_t)k;
    }
    return true;
}

/* Bytes of the character that `first` begins; 1 where it begins none. */
static size_t length_of(unsigned char first)
{
    return first >= 0xf0 && first < 0xf8 ? 4 : first >= 0xe0 ? (first < 0xf0 ? 3 : 1)
           : first >= 0xc0 ? 2 : 1;
}

/* How many bytes at the end of data[n] are the beginning of a character that goes on. */
static size_t unfinished(const char *data, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        unsigned char c = (unsigned char)data[n - back];
        if ((c & 0xc0) == 0x80)
            continue;
        return length_of(c) > back ? back : 0;
    }
    return 0;
}

/* text[n] ends with a NUL that is not counted. */
static bool put_shown(const char *text, size_t n)
{
    char out[CHUNK];
    size_t k = 0;

    for (const char *end = text + n; text < end;) {
        if (k + 4 > sizeof out) {
            if (!write_all(out, k))
                return false;
            k = 0;
        }
        unsigned char c = (unsigned char)*text;
        if ((c >= ' ' && c < 0x7f) || c == '\n' || c == '\t') {
            out[k++] = *text++;
        } else if (c == '\0') {
            out[k++] = '?';
            text++;
        } else {
            k += (size_t)lw_utf8_encode(lw_shown_next(&text), out + k);
        }
    }
    return write_all(out, k);
}

static ssize_t filter_write(void *cookie, const char *data, size_t n)
{
    struct filter *f = cookie;
    f->used |= n > 0;
    char part[CHUNK + sizeof f->waiting + 1];

    for (size_t at = 0; at < n;) {
        size_t take = n - at < CHUNK ? n - at : CHUNK, len = f->n_waiting + take;
        memcpy(part, f->waiting, f->n_waiting);
        memcpy(part + f->n_waiting, data + at, take);
        at += take;
        f->n_waiting = unfinished(part, len);
        len -= f->n_waiting;
        memcpy(f->waiting, part + len, f->n_waiting);
        part[len] = '\0';
        if (!put_shown(part, len))
            return 0; /* an error of the stream, with errno */
    }
    return (ssize_t)n;
}

static int filter_close(void *cookie)
{
    struct filter *f = cookie;

    f->waiting[f->n_waiting] = '\0';
    bool ok = put_shown(f->waiting, f->n_waiting);
    f->n_waiting = 0;
    return ok ? 0 : -1;
}

bool lw_stdout_used(void)
{
    fflush(stdout);
    return filter.used;
}

void lw_stdout_show_only(void)
{
    cookie_io_functions_t io = {.write = filter_write, .close = filter_close};
    FILE *f = fopencookie(&filter, "w", io);

    if (!f)
        return;
    setvbuf(f, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = f;
}
