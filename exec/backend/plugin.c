/* Backends in shared objects of their own, so that the program needs neither CUDA nor MPI to
 * start. A plugin gets a table of what it may call here and returns its own; tables of another
 * version or size are refused. Never unloaded: their libraries keep threads. */
#include "exec/backend/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "shared/base/arena.h"

enum { PATH = 4096 };

static const struct exec_host host = {
    .api_version = EXEC_API_VERSION,
    .size = sizeof(struct exec_host),
    .alloc = lw_alloc,
    .realloc = lw_realloc,
    .free = lw_free,
    .reserve = lw_reserve,
    .fail = lw_fail,
};

static bool is_there(const char *folder, size_t len, const char *file, char path[PATH])
{
    int n = snprintf(path, PATH, "%.*s/%s", (int)len, folder, file);
    return n < PATH && access(path, R_OK) == 0;
}

static bool in_variable(const char *file, char path[PATH])
{
    const char *at = getenv("LAPWING_PLUGINS");

    while (at && *at) {
        size_t len = strcspn(at, ":");
        if (*at == '/' && is_there(at, len, file, path))
            return true;
        at += len + (at[len] == ':');
    }
    return false;
}

static bool beside_program(const char *file, char path[PATH])
{
    char self[PATH];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (n <= 0)
        return false;
    self[n] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash)
        return false;
    *slash = '\0';
    if (is_there(self, strlen(self), file, path))
        return true;
    slash = strrchr(self, '/');
    if (!slash)
        return false;
    snprintf(slash, (size_t)(self + sizeof self - slash), "/lib/lapwing");
    return is_there(self, strlen(self), file, path);
}

static const struct exec_backend *ask(void *object, const char *path, char reason[EXEC_REASON])
{
    union {
        void *object;
        exec_plugin_fn *fn;
    } symbol = {dlsym(object, EXEC_PLUGIN_SYMBOL)};
    const struct exec_backend *b = symbol.object ? symbol.fn(&host) : NULL;
    struct lw_err err = {0};

    if (!symbol.object) {
        snprintf(reason, EXEC_REASON, "%.160s has no %s", path, EXEC_PLUGIN_SYMBOL);
    } else if (!b) {
        snprintf(reason, EXEC_REASON, "%.120s does not work with api version %d of this program",
                 path, EXEC_API_VERSION);
    } else if (exec_backend_check(b, &err) != LW_OK) {
        snprintf(reason, EXEC_REASON, "%.100s: %.150s", path, err.msg);
        b = NULL;
    }
    return b;
}

const struct exec_backend *exec_plugin_load(const char *file, char reason[EXEC_REASON])
{
    char path[PATH];
    void *object;

    reason[0] = '\0';
    if (!in_variable(file, path) && !beside_program(file, path)) {
        snprintf(reason, EXEC_REASON,
                 "%s is not in $LAPWING_PLUGINS, beside the program or in its ../lib/lapwing "
                 "(`make` builds it where its toolkit is found)", file);
        return NULL;
    }
    object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object) {
        const char *why = dlerror();
        snprintf(reason, EXEC_REASON, "%.240s", why ? why : path);
        return NULL;
    }
    return ask(object, path, reason);
}
