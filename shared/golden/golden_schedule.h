#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "shared/base/err.h"
#include "shared/schedule/schedule.h"

/* Recorded schedule tables: one file is one case, and its name says what it is. */

/* "zb_auto_1p" and the like; false for a name of no schedule with a rule. */
bool lw_golden_schedule_named(const char *name, size_t len, enum lw_schedule *schedule);

/* The parameters in "[folder/]<schedule>_p<ranks>_m<micro-batches>_v<chunks>.csv". */
bool lw_golden_schedule_shape(const char *file, struct lw_schedule_shape *s);

/* Is the file's name one of a recorded table: plain, lowered_comms_, lowered_fsdp_, upstream_? */
bool lw_golden_is_schedule(const char *file);

/* Compare cell by cell, idle cells left out. LW_ENO names rank, cell and both. */
enum lw_status lw_golden_schedule_file(const char *file, const char *text, struct lw_err *err);
