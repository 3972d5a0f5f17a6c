#pragma once

#include "shared/plan/plan.h"

enum lw_status plan_hash_1(const struct lw_plan *p, char hash[33], struct lw_err *err);
