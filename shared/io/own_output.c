/* A file of this program is told by its beginning: a fixed text, and for kinds that others write too
 * (JSON, HTML, SVG) a word within the first kilobyte. A PNG holds no name of its program: any PNG may
 * be replaced. */
#include "shared/io/own_output.h"

#include <ctype.h>
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
    {"/* The curves of sim/cost/nccl_curve_data.c", ""},
};

bool *lw_force_option(void)
{
    return &any;
}

bool lw_may_replace(const char *path)
{
    char head[1025] = "";
    size_t n = 0;
    FILE *f = any ? NULL : fopen(path, "rb");

    if (f) {
        n = fread(head, 1, sizeof head - 1, f);
        fclose(f);
        head[n] = '\0';
    }
    const char *text = head;
    while (isspace((unsigned char)*text))
        text++;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strncmp(text, own[i].begins, strlen(own[i].begins)) == 0 && strstr(text, own[i].holds))
            return true;
    return n == 0;
}
