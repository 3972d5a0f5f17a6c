#pragma once

#include <stdint.h>

struct lw_plan;

/* The stored plan as a program before schema version 7 left it: without its file, and with the
 * tables that were read instead of it. */
void make_plan_old(const char *db, int64_t id, const struct lw_plan *p);
/* A database of schema version 16, without the clusters of its runs; of an older one: as it is. */
void make_clusters_old(const char *file);
/* Ops and memory as schema version 15 has them, one row each, which can be edited; of an older
 * file: as it is. */
void make_pieces_old(const char *file);
/* Spans as schema version 11 has them, one row each; those of runs stored by turns. */
void make_spans_old(const char *file);
