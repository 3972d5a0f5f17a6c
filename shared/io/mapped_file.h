#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A regular file as memory: its pages are the system's copy of the file and are neither read nor
 * zeroed before they are looked at. What is written to them stays in the process. Given back
 * (lw_alloc_give_back), they read as the file again.
 *   len    bytes from the beginning of the file, above 0; `pad` zero bytes follow them
 *   name   for the message below; borrowed until lw_unmap_file
 * NULL: it cannot be mapped, or too many are; read it then. A file that becomes shorter while it is
 * mapped ends the process with a line that names it and exit code 1. */
char *lw_map_file(int fd, const char *name, size_t len, size_t pad);
void lw_unmap_file(char *text);
