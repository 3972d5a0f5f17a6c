#pragma once

/* Which start of which machine a process runs on: equal for two processes that can share memory.
 * All bytes are set, so that it may be sent and compared whole; "" where the system tells none. */
enum { EXEC_BOOT_ID = 40 };
void exec_boot_id(char text[EXEC_BOOT_ID]);
