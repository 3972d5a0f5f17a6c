#pragma once

#include <stdbool.h>

/* Names of devices: a kind ("H100-SXM5-80GB"), what a driver or a profiler prints of it ("NVIDIA
 * H100 80GB HBM3"), or a family alone ("H100", the first word of its kinds, "RTX PRO 6000"). See
 * docs/design/device_kind.md. */

/* The kind that a name means. A name that the table does not have is its own kind, less the
 * maker's name in front of it. */
const char *lw_device_kind(const char *name);

/* The name says nothing about the device: "", "unknown", "as recorded". */
bool lw_device_is_nameless(const char *name);

/* The name is a CPU's. */
bool lw_device_is_cpu(const char *name);

/* Times of one are times of the other: the same kind, or one is the other's family alone. A
 * nameless one is the same as any. */
bool lw_device_same_kind(const char *a, const char *b);

/* Whether the name is of the kind's family: that word is one of the name's. */
bool lw_device_same_family(const char *kind, const char *name);

/* The kind of the name begins with one of the words, NULL at the end. NULL: none does. */
bool lw_device_is_one_of(const char *name, const char *const *words);

/* A device of NVIDIA's Hopper generation. NULL: none is. */
bool lw_device_is_hopper(const char *name);

/* A data center's device of NVIDIA's Blackwell generation, Blackwell Ultra too. NULL: none is. */
bool lw_device_is_blackwell(const char *name);

/* Whether collectives of the name's devices are those of the kind's: the same family, and the names
 * do not give different forms (SXM, PCIe, NVL). The memory's size does not count. */
bool lw_device_has_links_of(const char *kind, const char *name);
