#pragma once

#include "shared/cluster/cluster.h"

/* The backend whose collectives `lapwing calibrate` measured for this cluster, into buf: "threads";
 * "" where no table is of a calibration. Returns buf. */
enum { LW_CALIBRATED_BACKEND = 32 };
const char *lw_calibrated_backend(const struct lw_cluster *c, char buf[LW_CALIBRATED_BACKEND]);

/* A run with that backend is another one than the calibration's: its collectives take other
 * times. */
bool lw_calibrated_for_another(const struct lw_cluster *c, const char *backend);
