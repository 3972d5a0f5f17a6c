#pragma once

#include <stdint.h>

/* The file that a preloaded recorder writes: docs/formats/calls.md. One file per process, made at
 * the first communicator or call; functions may be called from any thread. A file that cannot be
 * made is reported once on stderr, and nothing is recorded: the program runs on. */

struct record_call {
    const char *op;      /* of docs/formats/calls.md: "all_reduce", ... */
    const char *dtype;   /* "f32", ...; "?" where the library has a type that Lapwing does not */
    int64_t count;       /* elements as the library counts them */
    int64_t entered_ns;  /* record_now_ns() before the call */
    int64_t host_ns;     /* how long the call took on the host */
    int64_t group;       /* calls of one group share a number; 0 = none */
    int32_t peer;        /* root, receiver or sender within the communicator; -1 = none */
    int32_t comm;        /* as record_comm returned it */
    uintptr_t stream;    /* the library's handle; 0 = none */
};

int64_t record_now_ns(void); /* CLOCK_MONOTONIC */

/* Names the library in the file's head; call it before anything else is recorded. */
void record_library(const char *name, int32_t major, int32_t minor, int32_t patch);

/* A communicator was made. handle: how later calls name it; id: equal on all of its members.
 * Returns its number, 1 and up in this process. */
int32_t record_comm(const void *handle, uint64_t id, int32_t rank, int32_t n_ranks);
int32_t record_comm_of(const void *handle); /* 0 = not seen */
void record_comm_gone(const void *handle);  /* the handle may be used again */

/* Returns the number of the call, 1 and up; 0 = not recorded. */
int64_t record_call(const struct record_call *c);
/* When a call ran: on the device, or on the host where the library's calls block. */
void record_span(int64_t call, int64_t start_ns, int64_t end_ns);

/* Names a function of the library whose calls have no line. */
void record_lost(const char *function);

uint64_t record_hash(const void *bytes, int64_t n); /* FNV-1a, 64 bits */
