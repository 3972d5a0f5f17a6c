/* From /proc/meminfo and the control groups (of either version). Limits of groups count whole,
 * whatever their processes use, and swap counts as memory: less than that is never left. */
#include "shared/base/host_memory.h"

#include <stdio.h>
#include <string.h>

static double meminfo(const char *what)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[128], name[64];
    double kib, found = 0;

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%63[^:]: %lf kB", name, &kib) == 2 && strcmp(name, what) == 0)
            found = kib * 1024;
    if (f)
        fclose(f);
    return found;
}

/* The number in a file of a control group; a missing file, or a text that is not a number ("max"),
 * means no limit. */
static void at_most(double *bytes, const char *root, const char *group, const char *file)
{
    char path[512];
    double limit;

    snprintf(path, sizeof path, "%s%s/%s", root, group, file);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%lf", &limit) == 1 && limit < *bytes)
        *bytes = limit;
    if (f)
        fclose(f);
}

/* A group and those above it. */
static void at_most_of_group(double *bytes, const char *root, char *group, const char *file)
{
    for (;;) {
        at_most(bytes, root, group, file);
        char *last = strrchr(group, '/');
        if (!last)
            return;
        *last = '\0';
    }
}

static void at_most_of_groups(double *bytes)
{
    FILE *f = fopen("/proc/self/cgroup", "r");
    char line[400];

    while (f && fgets(line, sizeof line, f)) { /* "4:memory:/a/b", and of version 2 "0::/a/b" */
        line[strcspn(line, "\n")] = '\0';
        char *kinds = strchr(line, ':'), *group = kinds ? strchr(kinds + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        if (kinds[1] == '\0')
            at_most_of_group(bytes, "/sys/fs/cgroup", group, "memory.max");
        else if (strstr(kinds + 1, "memory"))
            at_most_of_group(bytes, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
    }
    if (f)
        fclose(f);
}

double lw_host_memory_left(void)
{
    double bytes = meminfo("MemAvailable") + meminfo("SwapFree");

    at_most_of_groups(&bytes);
    return bytes;
}
