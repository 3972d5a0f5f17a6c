/* Linux's own: 36 characters. */
#include "exec/cpu/boot_id.h"

#include <stdio.h>
#include <string.h>

void exec_boot_id(char text[EXEC_BOOT_ID])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    memset(text, 0, EXEC_BOOT_ID);
    if (f && !fgets(text, EXEC_BOOT_ID - 1, f))
        text[0] = '\0';
    if (f)
        fclose(f);
}
