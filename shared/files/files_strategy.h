#pragma once

#include "shared/files/files_field.h"
#include "shared/strategy/strategy.h"

/* The object of strategy options, as it stands in strategy files and in plans. Options that are not
 * there keep the value they have in *s. */
bool lw_strategy_fields_read(struct lw_fields *r, struct lw_strategy *s);
void lw_strategy_fields_write(struct lw_jsonout *o, const char *key, const struct lw_strategy *s);
