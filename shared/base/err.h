#pragma once

#include <stddef.h>
#include <stdint.h>

/* What went wrong, in few words: a caller decides on these, a person reads the message.
 * Outputs of a failed call are unset unless the value's comment says otherwise. */
enum lw_status {
    LW_OK = 0,
    LW_EINVAL = -1,   /* a value the caller chose is not allowed: change it and call again */
    LW_EFORMAT = -2,  /* the contents of a file are wrong: nothing was taken from it */
    LW_EIO = -3,      /* the system refused to read or write: no partial output is left */
    LW_ENOMEM = -4,   /* memory ran out: everything taken by the call was given back */
    LW_EPLAN = -5,    /* a plan contradicts itself: its check says where */
    LW_ENOTSUP = -6,  /* this build or this backend cannot do it: the message says what can */
    LW_ETIMEOUT = -7, /* a deadline passed: the run was stopped and is stored as such */
    LW_EFAILED = -8,  /* a run started and did not finish: the message names the rank and op */
    LW_ENO = -9,      /* it ran, and the answer is no (beyond tolerance, verification missed) */
    LW_EUSAGE = -10,  /* wrong usage, as the command line alone shows: an option or operand that is
                       * missing, or beside another one that excludes it */
    LW_ELOAD = -11,   /* it ran beside other programs, and is no answer: measure again */
};

/* One error: filled by the first function that knows which it is, forwarded by the rest.
 * A zeroed lw_err is "no error". */
struct lw_err {
    enum lw_status code;
    char msg[1024];
};

/* Fill err and return code, so that `return lw_fail(err, LW_EINVAL, "...")` reads well.
 * err may be NULL. */
enum lw_status lw_fail(struct lw_err *err, enum lw_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with "name:line: " before the message; line 0 leaves it out. */
enum lw_status lw_fail_at(struct lw_err *err, enum lw_status code, const char *name, int64_t line,
                          const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Put "context: " before the message that err holds of a call that failed; returns its status,
 * which LW_OK too passes through:
 *
 *     LW_TRY(lw_err_context(err, lw_parse_int(text, 0, 9, &n, err), "--%s", name)); */
enum lw_status lw_err_context(struct lw_err *err, enum lw_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Append a word of a list that a message shows, ", " before all but the first. Where it does not
 * fit whole, ", ..." ends the list. `list` begins as "". */
void lw_err_word(char *list, size_t size, const char *word);

/* The message for an allocation that failed. */
enum lw_status lw_fail_nomem(struct lw_err *err);

/* Return from the calling function when an inner call failed. For memory there are
 * LW_TAKE, LW_NEW and LW_ROOM (shared/base/arena.h). */
#define LW_TRY(call)                              \
    do {                                          \
        enum lw_status lw_try_status_ = (call);   \
        if (lw_try_status_ != LW_OK)              \
            return lw_try_status_;                \
    } while (0)

/* The end of a function that makes its result apart: *out = made where all went well, else what was
 * made is released. Returns the status. */
#define LW_GIVE(status, out, made, release) \
    do {                                    \
        if ((status) == LW_OK)              \
            *(out) = (made);                \
        else                                \
            release;                        \
        return status;                      \
    } while (0)
