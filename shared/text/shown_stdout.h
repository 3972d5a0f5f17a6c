#pragma once

#include <stdbool.h>

/* From here on standard output passes what is safe to show: control bytes other than newline and
 * tab become '?', invalid UTF-8 becomes U+FFFD (shared/base/shown_text.h). Names come from files
 * of others, and a terminal obeys the control bytes in them. fileno(stdout) is -1 afterwards;
 * the descriptor stays STDOUT_FILENO. Call it once, before the first output. Without memory for
 * it stdout stays as it is. */
void lw_stdout_show_only(void);

/* Has anything been written to standard output since then? It is flushed for that. */
bool lw_stdout_used(void);
