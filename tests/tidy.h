/* Read before every source that `make tidy` looks at. clang's analyzer does not see err.c: these
 * tell it that a failure is never LW_OK, else every failing allocation looks like a null pointer
 * that is used. */
#include "shared/base/err.h"

void lw_tidy_uses(const void *err, ...);

#define lw_fail(err, code, ...) (lw_tidy_uses(err, __VA_ARGS__), (code))
#define lw_fail_at(err, code, name, line, ...) (lw_tidy_uses(err, name, line, __VA_ARGS__), (code))
#define lw_fail_nomem(err) (lw_tidy_uses(err), LW_ENOMEM)
