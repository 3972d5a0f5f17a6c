#pragma once

#include <pthread.h>

#include "exec/launch/rendezvous.h"

/* A star of TCP connections around rank 0. Between the files of this idea:
 *
 *   rendezvous.c        opening, closing; bytes within the time limit; what all processes do
 *                       together
 *   rendezvous_hello.c  who comes, and whether it belongs here
 *   rendezvous_liveness.c   who is gone, or says why it stops */

enum { EXEC_WORDS = 400 }; /* room for why */
enum channel { DATA, LIFE, N_CHANNELS };

struct exec_rendezvous {
    struct exec_identity id;
    struct exec_agreement agreement;
    int64_t timeout_ns, offset_ns, error_ns;
    int64_t run;            /* of the results database, rank 0's word; -1 = none */
    int (*fds)[N_CHANNELS]; /* [n_ranks] at rank 0 (its own: -1); else [1]: to rank 0 */
    int32_t n_fds;
    int listener, wake[2];  /* wake: a pipe that ends the thread */
    pthread_t thread;
    bool watching;
    pthread_mutex_t mutex;  /* guards the rest, and writing to life connections */
    exec_lost_fn *lost;
    void *context;
    exec_loss_noted_fn *note;
    void *note_context;
    bool stopped;           /* somebody is lost: words say who */
    bool *gone;             /* [n_fds] said farewell, or lost */
    bool farewell;          /* not at rank 0: rank 0 said it */
    bool spoken_for;        /* at rank 0: rank 1 took it for lost and stores the run */
    char words[EXEC_WORDS];
    struct lw_exec_place *places; /* [n_fds] where stopped processes say they were */
    bool *heard;            /* [n_fds] they said it */
    char refusal[EXEC_WORDS];    /* while gathering: the first difference found */
    int32_t n_turned_away;
    char turned_away[160];  /* who was, and why: the last one */
};

/* What rank 0 sends to each connection, and what is answered. */
enum { EXEC_PROTOCOL = 9, EXEC_MAGIC = 0x4c617057, EXEC_GIVES_UP = N_CHANNELS };

struct exec_challenge {
    uint32_t magic, protocol;
    uint64_t number[2];
};

struct exec_claim { /* what a process says of itself; with EXEC_GIVES_UP, settings say why */
    int32_t rank, n_ranks, channel;
    struct exec_agreement agreement;
};

struct exec_hello {
    uint32_t magic, protocol;
    struct exec_claim claim;
    char proof[33];
};

enum { EXEC_ANSWER_NO, EXEC_ANSWER_YES, EXEC_ANSWER_DIAL_AGAIN, EXEC_ANSWER_HEARD,
       EXEC_ANSWER_OTHER_JOB };

/* To a hello at once: heard, another job, or dial again. To all that were heard: yes, or no and
 * why. */
struct exec_answer {
    uint32_t magic, ok;
    int64_t run;
    char words[EXEC_WORDS];
};

/* proof[33] of the token for one challenge and claim; "" without memory. */
void exec_hello_prove(const char *token, const struct exec_challenge *c,
                      const struct exec_claim *claim, char proof[33]);
/* Tell rank 0, which still waits for process `id`, that this one does not come. An error: it does
 * not listen within the limit. */
enum lw_status exec_hello_give_up(const struct exec_identity *id, const char *why,
                                  int64_t limit_ns);

/* The host is a name, not an address nor localhost, of a loopback address of this machine. */
bool exec_rendezvous_is_loopback(const char *host);

/* How many files this process may open. A limit below `needed` is raised as far as the system
 * allows; one that suffices is left, because ranks inherit it. */
int64_t exec_star_files(int64_t needed);
/* All of data[bytes], within the time limit; LW_EFAILED as soon as another process is lost. */
enum lw_status exec_star_put(struct exec_rendezvous *r, int fd, const void *data, int64_t bytes,
                             struct lw_err *err);
enum lw_status exec_star_get(struct exec_rendezvous *r, int fd, void *data, int64_t bytes,
                             struct lw_err *err);

/* At rank 0: until all are there and agree. At the others: until rank 0 says so. */
enum lw_status exec_hello_gather(struct exec_rendezvous *r, struct lw_err *err);
enum lw_status exec_hello_join(struct exec_rendezvous *r, struct lw_err *err);

/* The thread that listens on the life connections; its end says farewell to all. */
enum lw_status exec_life_begin(struct exec_rendezvous *r, struct lw_err *err);
void exec_life_end(struct exec_rendezvous *r);
/* The other end of this connection is closed and all that it sent is read. */
bool exec_life_ended(int fd);
