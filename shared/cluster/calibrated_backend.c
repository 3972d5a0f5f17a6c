/* The backend of a calibration, from the sources of its tables (exec/calibrate/calibrate_cluster.c:
 * "lapwing calibrate: all_reduce of backend threads, ..."). */
#include "shared/cluster/calibrated_backend.h"

#include <stdio.h>
#include <string.h>

#include "shared/cluster/measured.h"

const char *lw_calibrated_backend(const struct lw_cluster *c, char buf[LW_CALIBRATED_BACKEND])
{
    static const char begin[] = "lapwing calibrate: ", of[] = " of backend ";

    buf[0] = '\0';
    for (int32_t i = 0; i < c->n_tables && !buf[0]; i++) {
        const char *source = c->tables[i].source;
        const char *name = source && strncmp(source, begin, sizeof begin - 1) == 0
                               ? strstr(source, of) : NULL;
        if (name)
            snprintf(buf, LW_CALIBRATED_BACKEND, "%.*s",
                     (int)strcspn(name + sizeof of - 1, " ,;"), name + sizeof of - 1);
    }
    return buf;
}

bool lw_calibrated_for_another(const struct lw_cluster *c, const char *backend)
{
    char name[LW_CALIBRATED_BACKEND];

    return *lw_calibrated_backend(c, name) && strcmp(name, backend) != 0;
}
