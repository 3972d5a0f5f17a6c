/* Which names mean the same device. Names of NVIDIA are those of cudaDeviceProp.name, as
 * nvidia-smi, PyTorch's profiler and NCCL's logs print them. The A100-PG509-200 has the 40 GB
 * of the A100-SXM4-40GB (totalGlobalMem of its recordings). The V100-SXM2 with
 * 32 GB is a kind of its own: its memory is twice that of the V100-SXM2-16GB (NVIDIA V100
 * datasheet, 2020). */
#include "shared/device/device_kind.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { MOST_NAMES = 8 };

static const struct {
    const char *kind, *names[MOST_NAMES]; /* patterns of fnmatch, without the maker's name */
} kinds[] = {
    {"cpu core", {"cpu", "CPU", "*EPYC*", "*Xeon*", "*Ryzen*", "*Core(TM)*", "*Neoverse*",
                  "*Graviton*"}},
    {"A100-SXM4-40GB", {"A100-PG509-200"}},
    {"A100-PCIE-80GB", {"A100 80GB PCIe"}},
    {"H100-SXM5-80GB", {"H100 80GB HBM3"}},
    {"H100-PCIE-80GB", {"H100 PCIe"}},
    {"H200-SXM5-141GB", {"H200"}},
    {"B200-SXM-180GB", {"B200"}},
    {"B300-SXM-270GB", {"B300 SXM6 AC"}},
    {"RTX PRO 6000", {"RTX PRO 6000 Blackwell *Edition"}},
};

static const char *without_maker(const char *name)
{
    static const char *const makers[] = {"NVIDIA ", "AMD ", "Instinct ", "Tesla "};

    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
        if (strncmp(name, makers[i], strlen(makers[i])) == 0)
            name += strlen(makers[i]);
    return name;
}

const char *lw_device_kind(const char *name)
{
    const char *plain = without_maker(name);

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int i = 0; i < MOST_NAMES && kinds[k].names[i]; i++)
            if (fnmatch(kinds[k].names[i], plain, 0) == 0)
                return kinds[k].kind;
    return plain;
}

/* The first word, with the brand before it: "RTX" alone is many devices. */
static size_t family_length(const char *kind)
{
    static const char brand[] = "RTX PRO ";
    size_t n = strncmp(kind, brand, sizeof brand - 1) == 0 ? sizeof brand - 1 : 0;

    return n + strcspn(kind + n, "- ");
}

bool lw_device_same_family(const char *kind, const char *name)
{
    size_t n = family_length(kind);

    for (const char *at = name; *at; at++)
        if (strncmp(at, kind, n) == 0 && !isalnum((unsigned char)at[n]) &&
            (at == name || !isalnum((unsigned char)at[-1])))
            return true;
    return false;
}

/* "SXM", "PCI" or "NVL" as the kind of a name has it; NULL: it has none. */
static const char *form_of(const char *name)
{
    static const char *const forms[] = {"SXM", "PCI", "NVL"};

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strstr(lw_device_kind(name), forms[i]))
            return forms[i];
    return NULL;
}

bool lw_device_has_links_of(const char *kind, const char *name)
{
    const char *a = form_of(kind), *b = form_of(name);

    return lw_device_same_family(kind, name) && (!a || !b || a == b);
}

bool lw_device_is_nameless(const char *kind)
{
    return !*kind || strcmp(kind, "unknown") == 0 || strcmp(kind, "as recorded") == 0;
}

static bool is_family_of(const char *family, const char *kind)
{
    return !strpbrk(family, "- ") && lw_device_same_family(family, kind);
}

bool lw_device_is_cpu(const char *name)
{
    return name && !lw_device_is_nameless(name) && lw_device_same_kind(name, "cpu core");
}

bool lw_device_same_kind(const char *a, const char *b)
{
    const char *x = lw_device_kind(a), *y = lw_device_kind(b);

    return lw_device_is_nameless(a) || lw_device_is_nameless(b) || strcmp(x, y) == 0 ||
           is_family_of(x, y) || is_family_of(y, x);
}

bool lw_device_is_one_of(const char *name, const char *const *words)
{
    const char *kind = name ? lw_device_kind(name) : "";

    for (; *words; words++)
        if (strncasecmp(kind, *words, strlen(*words)) == 0)
            return true;
    return false;
}

bool lw_device_is_hopper(const char *name)
{
    static const char *const hoppers[] = {"H100", "H200", "H800", "H20", "GH200", NULL};

    return lw_device_is_one_of(name, hoppers);
}

bool lw_device_is_blackwell(const char *name)
{
    static const char *const blackwells[] = {"B200", "B300", "GB200", "GB300", NULL};

    return lw_device_is_one_of(name, blackwells);
}
