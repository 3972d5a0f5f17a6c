/* Names that a signal's handler removes: it may only call what is safe there (unlink, rmdir). */
#include "shared/base/temp_names.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

enum { MOST_NAMES = 8 };
static char *volatile names[MOST_NAMES];

/* Files first, so that their folders are empty. */
static void remove_names(int signal)
{
    for (int i = 0; i < MOST_NAMES; i++)
        if (names[i])
            unlink(names[i]);
    for (int i = 0; i < MOST_NAMES; i++)
        if (names[i])
            rmdir(names[i]);
    raise(signal); /* the handler was reset: this ends the process */
}

void lw_temp_catch(int signal)
{
    struct sigaction mine = {.sa_handler = remove_names, .sa_flags = (int)SA_RESETHAND};

    sigaction(signal, &mine, NULL);
}

/* A command's own handler stays. */
static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction now;

    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            lw_temp_catch(signals[i]);
}

void lw_temp_note(char *name)
{
    catch_signals();
    for (int i = 0; i < MOST_NAMES; i++)
        if (!names[i]) {
            names[i] = name;
            return;
        }
}

void lw_temp_forget(const char *name)
{
    for (int i = 0; i < MOST_NAMES; i++)
        if (names[i] == name)
            names[i] = NULL;
}
