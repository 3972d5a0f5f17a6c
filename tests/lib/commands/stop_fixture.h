#pragma once

/* Runs of a few ranks that stop: as threads, as processes, as ranks of MPI. In the folder of
 * file_fixture.h lie w.json and big.json, of 4 layers, and slow.json, whose ranks sleep for 18 ms a
 * step. */
enum how { THREADS, SPAWN, MPI, N_HOWS, SPAWN_MPI = N_HOWS, N_LAUNCHES };
enum { RANKS = 3 };

extern const char *const stop_before[N_LAUNCHES], *const stop_after[N_LAUNCHES];

int stop_open(void **state); /* setup: the folder and the models; teardown is fixture_close */

/* mpi_shell(), standard error with the output. mine: the processes of this folder's runs. ranks_up:
 * waits until there is one for each rank. begun: until s.db has a run that is running. */
const char *stop_shell(const char *words, int *rc);

int stop_repeats(void); /* LAPWING_STRESS, else 1 */
void nobody_is_left(const char *what);
void the_next_run_works(enum how how);
