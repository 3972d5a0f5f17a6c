#pragma once

/* Temporary files and folders of this process that go when a signal ends it (SIGINT, SIGTERM,
 * SIGHUP, SIGQUIT, where no other handler is set). Up to 8 names; more are not removed. */

/* The name is kept, not copied, until it is forgotten; a name of "" removes nothing. */
void lw_temp_note(char *name);
void lw_temp_forget(const char *name);
/* The next such signal removes the names and ends the process. Safe in a signal's handler. */
void lw_temp_catch(int signal);
