#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "shared/base/err.h"

/* MPI in this process: started at most once, ended when the process ends. Calls that wait for
 * other processes and cannot be interrupted are made by a thread of their own, so that the
 * caller can stop waiting. Calls come from one thread. */

typedef enum lw_status mpi_job_fn(void *argument, struct lw_err *err);

/* Run the job and wait for it. LW_ETIMEOUT: it is still running and may run for ever; the
 * argument must live on, and MPI is lost to this process (mpi_worker_give_up). */
enum lw_status mpi_worker_call(mpi_job_fn *job, void *argument, const char *what,
                               int64_t timeout_ns, struct lw_err *err);

/* MPI_Init_thread with MPI_THREAD_MULTIPLE, or nothing when that was done before. LW_ENOTSUP:
 * this MPI cannot; LW_EFAILED: MPI is lost to this process. */
enum lw_status mpi_worker_start(int64_t timeout_ns, struct lw_err *err);

/* From now on MPI is not called any more, and the process ends without MPI_Finalize: a call is
 * under way that nothing ends, or another process is gone. */
void mpi_worker_give_up(void);
bool mpi_worker_is_lost(void);

/* code is MPI_SUCCESS, or err gets "what: " and MPI's own words. */
enum lw_status mpi_ok(int code, const char *what, struct lw_err *err);
