/* A process is known by host, boot, process-number namespace, number and start time, so that
 * neither a restart nor a number that is used again hides a death. A process of another host, or
 * of another namespace of this boot (a container), cannot be seen from here and counts as alive. */
#include "analysis/store/run_process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analysis/store/sql.h"

enum { BOOT = 36 }; /* letters of a boot id */

struct process {
    char host[128], machine[96];
    int64_t pid, started;
};

static void read_line(const char *file, char *buf, size_t size)
{
    FILE *f = fopen(file, "r");

    buf[0] = '\0';
    if (f && fgets(buf, (int)size, f))
        buf[strcspn(buf, "\n")] = '\0';
    if (f)
        fclose(f);
}

/* Field 22 of /proc/PID/stat; the name in field 2 may hold blanks and parentheses. -1: no such
 * process, or one that has ended and was not waited for. */
static int64_t start_of(int64_t pid)
{
    char name[64], text[1024];

    snprintf(name, sizeof name, "/proc/%lld/stat", (long long)pid);
    read_line(name, text, sizeof text);
    char *at = strrchr(text, ')');
    if (!at || at[1] != ' ' || strchr("ZX", at[2]))
        return -1;
    for (int field = 2; field < 22 && at; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) : -1;
}

static struct process this_process(void)
{
    struct process p = {.pid = getpid(), .started = start_of(getpid())};
    char space[48] = "";

    if (gethostname(p.host, sizeof p.host - 1) != 0)
        strcpy(p.host, "unknown");
    read_line("/proc/sys/kernel/random/boot_id", p.machine, BOOT + 1);
    if (readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0)
        space[0] = '\0';
    strcat(strcat(p.machine, " "), space);
    return p;
}

static bool is_dead(const struct process *me, const struct process *p)
{
    if (strcmp(me->host, p->host) != 0)
        return false;
    if (strncmp(me->machine, p->machine, BOOT) != 0)
        return true; /* the host was started again */
    if (strcmp(me->machine, p->machine) != 0)
        return false;
    return start_of(p->pid) != p->started;
}

static void describe_death(const struct process *p, const char *message, char *buf, size_t size)
{
    snprintf(buf, size,
             "%s%sprocess %lld on %s ended before the run was stored (killed, out of memory, "
             "or the machine stopped)",
             message, message[0] ? "; " : "", (long long)p->pid, p->host);
}

enum lw_status lw_run_process_note(struct lw_store *s, int64_t run, struct lw_err *err)
{
    struct process p = this_process();

    return lw_sql_do(s, err,
                     "INSERT OR REPLACE INTO run_process (run, host, machine, pid, pid_started)"
                     " VALUES (?,?,?,?,?)",
                     "lttll", run, p.host, p.machine, p.pid, p.started);
}

/* The next row of q: id, message, host, machine, pid, pid_started. */
static bool next_process(struct lw_sql *q, int64_t *run, char *message, size_t size,
                         struct process *p)
{
    if (!lw_sql_next(q))
        return false;
    *run = lw_sql_int(q, 0);
    snprintf(message, size, "%s", lw_sql_text(q, 1));
    snprintf(p->host, sizeof p->host, "%s", lw_sql_text(q, 2));
    snprintf(p->machine, sizeof p->machine, "%s", lw_sql_text(q, 3));
    p->pid = lw_sql_int(q, 4);
    p->started = lw_sql_int(q, 5);
    return true;
}

static const char running_text[] =
    "SELECT run.id, run.message, host, machine, pid, pid_started FROM run JOIN run_process"
    " ON run_process.run = run.id WHERE run.status = 'running' AND (?1 < 0 OR run.id = ?1)";

enum lw_status lw_run_process_end_dead(struct lw_store *s, struct lw_err *err)
{
    struct process me = this_process(), p = {0};
    char message[512], words[1024];
    struct lw_sql *q;
    int64_t run;
    enum lw_status st = LW_OK;

    LW_TRY(lw_sql_query(s, &q, err, running_text, "l", (int64_t)-1));
    while (st == LW_OK && next_process(q, &run, message, sizeof message, &p)) {
        if (!is_dead(&me, &p))
            continue;
        describe_death(&p, message, words, sizeof words);
        st = lw_sql_do(s, err,
                       "UPDATE run SET status = 'failed', message = ?, ended_at = ?"
                       " WHERE id = ? AND status = 'running'",
                       "tll", words, (int64_t)time(NULL), run);
    }
    return lw_sql_end(q, st, err);
}

enum lw_status lw_run_process_judge(struct lw_store *s, struct lw_arena *a, struct lw_run *r,
                                    struct lw_err *err)
{
    struct process me, p = {0};
    char message[512], words[1024];
    struct lw_sql *q;
    int64_t run;

    if (r->status != LW_RUN_RUNNING)
        return LW_OK;
    me = this_process();
    LW_TRY(lw_sql_query(s, &q, err, running_text, "l", r->id));
    if (next_process(q, &run, message, sizeof message, &p) && is_dead(&me, &p)) {
        describe_death(&p, message, words, sizeof words);
        r->status = LW_RUN_FAILED;
        r->message = lw_arena_strdup(a, words);
    }
    LW_TRY(lw_sql_finish(q, err));
    return r->message ? LW_OK : lw_fail_nomem(err);
}
