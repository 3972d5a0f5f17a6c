#pragma once

/* Bytes that this machine can still give: memory and swap that are not in use, at most what the
 * control group of this process may have in all. */
double lw_host_memory_left(void);
