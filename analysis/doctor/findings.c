/* What this machine has: each finding is a function that looks for one thing. */
#include "analysis/doctor/findings.h"

#include <dlfcn.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/draw/plot.h"
#include "analysis/store/store.h"
#include "exec/backend/backend.h"
#include "exec/cpu/gemm.h"
#include "shared/files/files.h"

static void cores(struct lw_finding *f)
{
    cpu_set_t set;
    int usable = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;

    double load = 0;
    const char *but = "";

    if (getloadavg(&load, 1) == 1 && load > 0.5 * usable)
        but = ": other work is running, and measured steps will be too long";
    if (usable < 2)
        but = ": two ranks would share a core, and measured steps mean little";
    f->ok = !but[0];
    snprintf(f->detail, LW_FINDING_DETAIL, "%d usable of %ld, load %.1f%s", usable,
             sysconf(_SC_NPROCESSORS_ONLN), load, but);
}

static void memory(struct lw_finding *f)
{
    char all[32], free_now[32];
    int64_t page = sysconf(_SC_PAGESIZE);

    f->ok = true;
    snprintf(f->detail, LW_FINDING_DETAIL, "%s, %s unused",
             lw_format_bytes(all, page * sysconf(_SC_PHYS_PAGES)),
             lw_format_bytes(free_now, page * sysconf(_SC_AVPHYS_PAGES)));
}

static void host_cluster(struct lw_finding *f)
{
    struct lw_cluster c = {0};
    struct lw_err err = {0};

    if (lw_cluster_find("host", &c, &err) != LW_OK) {
        snprintf(f->detail, LW_FINDING_DETAIL, "%s", err.msg);
        return;
    }
    f->ok = true;
    snprintf(f->detail, LW_FINDING_DETAIL, "built in, %s",
             c.calibrated ? "calibrated" : "not calibrated: 'lapwing calibrate -o FILE' measures "
                                           "this machine, then use -c FILE");
    lw_cluster_free(&c);
}

static void database(struct lw_finding *f, const char *db)
{
    struct lw_store *s = NULL;
    struct lw_arena a = {0};
    struct lw_run *runs;
    struct lw_err err = {0};
    int32_t n = 0;

    if (access(db, F_OK) != 0) {
        f->ok = true;
        snprintf(f->detail, LW_FINDING_DETAIL,
                 "SQLite %s; %s is not there yet, the first run creates it", lw_store_version(),
                 db);
        return;
    }
    f->ok = lw_store_open(db, LW_STORE_READ, &s, &err) == LW_OK &&
            lw_store_runs(s, &a, &runs, &n, &err) == LW_OK;
    if (f->ok)
        snprintf(f->detail, LW_FINDING_DETAIL, "SQLite %s; %s holds %d runs", lw_store_version(),
                 db, n);
    else
        snprintf(f->detail, LW_FINDING_DETAIL, "SQLite %s; %s", lw_store_version(), err.msg);
    lw_arena_free(&a);
    lw_store_close(s);
}

static void plots(struct lw_finding *f)
{
    struct lw_err err = {0};

    f->ok = lw_plot_version(f->detail, LW_FINDING_DETAIL, &err) == LW_OK;
    if (!f->ok)
        snprintf(f->detail, LW_FINDING_DETAIL, "%s", err.msg);
}

static void blas(struct lw_finding *f)
{
    struct exec_gemm g;

    exec_gemm_open(&g);
    f->ok = strstr(g.name, "BLAS") != NULL;
    snprintf(f->detail, LW_FINDING_DETAIL, "%s%s", g.name,
             f->ok ? "" : " (no OpenBLAS: Debian package libopenblas0)");
}

/* Open the first library of a NULL-ended list; NULL, with the loader's words in detail. */
static void *open_first(const char *const *names, struct lw_finding *f)
{
    for (; *names; names++) {
        void *lib = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (lib)
            return lib;
        const char *words = dlerror();
        snprintf(f->detail, LW_FINDING_DETAIL, "%s", words ? words : *names);
    }
    return NULL;
}

/* A function of a library, through memcpy: ISO C has no cast from object to function pointer. */
static bool find_function(void *lib, const char *name, void *function)
{
    void *symbol = dlsym(lib, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void mpi(struct lw_finding *f)
{
    static const char *const names[] = {"libmpi.so.40", "libmpi.so.12", "libmpi.so", NULL};
    int (*version)(char *, int *);
    char text[8192] = "";
    int n = 0;
    void *lib = open_first(names, f);

    if (!lib)
        return;
    f->ok = find_function(lib, "MPI_Get_library_version", &version) && version(text, &n) == 0;
    text[strcspn(text, ",\n")] = '\0';
    snprintf(f->detail, LW_FINDING_DETAIL, "%.200s",
             f->ok ? text : "without MPI_Get_library_version");
}

static void cuda(struct lw_finding *f)
{
    static const char *const names[] = {"libcuda.so.1", NULL};
    int (*init)(unsigned), (*version)(int *), (*count)(int *);
    int v = 0, n = 0;
    void *lib = open_first(names, f);

    if (!lib)
        return;
    bool there = find_function(lib, "cuInit", &init) &&
                 find_function(lib, "cuDriverGetVersion", &version) &&
                 find_function(lib, "cuDeviceGetCount", &count);
    int rc = there ? init(0) : -1;
    f->ok = rc == 0 && version(&v) == 0 && count(&n) == 0 && n > 0;
    if (f->ok)
        snprintf(f->detail, LW_FINDING_DETAIL, "driver for CUDA %d.%d, %d devices", v / 1000,
                 v % 1000 / 10, n);
    else
        snprintf(f->detail, LW_FINDING_DETAIL,
                 "libcuda is there, but no device can be used (cuInit: %d)", rc);
}

static void nccl(struct lw_finding *f)
{
    static const char *const names[] = {"libnccl.so.2", "libnccl.so", NULL};
    int (*version)(int *);
    int v = 0;
    void *lib = open_first(names, f);

    if (!lib)
        return;
    f->ok = find_function(lib, "ncclGetVersion", &version) && version(&v) == 0;
    snprintf(f->detail, LW_FINDING_DETAIL, "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
}

static void backend(struct lw_finding *f, const struct exec_listing *b)
{
    f->ok = b->backend != NULL;
    snprintf(f->detail, LW_FINDING_DETAIL, "%s", f->ok ? b->about : b->reason);
}

int lw_machine_findings(struct lw_finding v[LW_N_FINDINGS], const char *db)
{
    static const struct {
        const char *name;
        void (*look)(struct lw_finding *f);
    } looks[] = {{"cores", cores}, {"memory", memory}, {"host cluster", host_cluster},
                 {"gnuplot", plots}, {"BLAS", blas}, {"MPI", mpi}, {"CUDA", cuda}, {"NCCL", nccl}};
    struct exec_listing list[EXEC_N_BACKENDS];
    int n = 0;

    strcpy(v[n].name, "database");
    database(&v[n++], db);
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++) {
        snprintf(v[n].name, sizeof v[n].name, "%s", looks[i].name);
        looks[i].look(&v[n++]);
    }
    exec_backend_list(list);
    for (int i = 0; i < EXEC_N_BACKENDS; i++) {
        snprintf(v[n].name, sizeof v[n].name, "backend %s", list[i].name);
        backend(&v[n++], &list[i]);
    }
    return n;
}
