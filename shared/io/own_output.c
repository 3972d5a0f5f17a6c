/* A file of this program is recognized by its beginning: a fixed text, and for kinds that others
 * write too (JSON, HTML, SVG) a word within the first kilobyte. A PNG holds no name of its program:
 * any PNG may be replaced. */
#include "shared/io/own_output.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static bool any; /* --force of the one command that this process runs */

static const struct {
    const char *begins, *holds; /* "": nothing more */
} own[] = {
    {"{", "\"lapwing\""},          /* workload, cluster, plan, ...; trace events */
    {"\x89PNG\r\n", ""},
    {"<?xml", "nuplot"},           /* SVG */
    {"# drawn by gnuplot", ""},
    {"<!DOCTYPE html>", "apwing"}, /* report */
    {"step,pass,rank,op,", ""},    /* spans */
    {"/* The curves of sim/nccl/nccl_curve_data.c", ""},
};

bool *lw_force_option(void)
{
    return &any;
}

/* The first bytes of a file and a NUL; 0 = there are none. */
static size_t read_head(const char *path, char *head, size_t room)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(head, 1, room - 1, f) : 0;

    if (f)
        fclose(f);
    head[n] = '\0';
    return n;
}

bool lw_is_database(const char *path)
{
    char head[16];

    return read_head(path, head, sizeof head) > 0 && strcmp(head, "SQLite format 3") == 0;
}

bool lw_belongs_to_database(const char *path)
{
    static const char *const ends[] = {"-wal", "-shm", "-journal"};
    char of[PATH_MAX];
    size_t n = strlen(path);

    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t k = strlen(ends[i]);
        if (n <= k || n - k >= sizeof of || strcmp(path + n - k, ends[i]) != 0)
            continue;
        snprintf(of, sizeof of, "%.*s", (int)(n - k), path);
        return lw_is_database(of);
    }
    return false;
}

bool lw_may_replace(const char *path)
{
    char head[1025] = "";
    size_t n = any ? 0 : read_head(path, head, sizeof head);
    const char *text = head;
    while (isspace((unsigned char)*text))
        text++;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strncmp(text, own[i].begins, strlen(own[i].begins)) == 0 && strstr(text, own[i].holds))
            return true;
    return n == 0;
}
