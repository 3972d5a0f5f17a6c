/* A report of any size whose contents are known, with the columns of the tables that the exporter
 * of schema 3.17 writes for kernels and calls. Kernel k is launched at 2k us and runs 1 us from
 * 2k + 1 us on: k modulo 4 gives the stream, k modulo 64 the name. */
#include "traces/nsys/nsys_example.h"

#include <sqlite3.h>
#include <stdio.h>

enum { OF_ITERATION = 1000 };

static const char tables[] =
    "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; BEGIN;"
    "CREATE TABLE META_DATA_EXPORT(name TEXT, value TEXT);"
    "INSERT INTO META_DATA_EXPORT VALUES('EXPORT_SCHEMA_VERSION','3.17.1');"
    "CREATE TABLE StringIds(id INTEGER PRIMARY KEY, value TEXT);"
    "INSERT INTO StringIds VALUES(64,'cudaLaunchKernel_v7000');"
    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<63) "
    "INSERT INTO StringIds SELECT i,'void at::native::kernel_'||i||'<float>(int, float *)' FROM n;"
    "CREATE TABLE TARGET_INFO_GPU(id INTEGER, name TEXT);"
    "INSERT INTO TARGET_INFO_GPU VALUES(0,'NVIDIA A100-SXM4-40GB');"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, "
    "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER "
    "NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER, registersPerThread "
    "INTEGER NOT NULL, gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, "
    "blockX INTEGER NOT NULL, blockY INTEGER NOT NULL, blockZ INTEGER NOT NULL, "
    "staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, "
    "localMemoryPerThread INTEGER NOT NULL, localMemoryTotal INTEGER NOT NULL, gridId INTEGER NOT "
    "NULL, sharedMemoryExecuted INTEGER);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "eventClass INTEGER NOT NULL, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT "
    "NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);"
    "CREATE TABLE NVTX_EVENTS(start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, "
    "text TEXT, globalTid INTEGER);";

static const char rows[] =
    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<%lld-1) "
    "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT 2000*i+1000,2000*i+2000,0,1,7+i%%4,i+1,"
    "281474976710656+167772160,i%%64,i%%64,i%%64,NULL,0,32,1024,1,1,128,1,1,0,16384,0,"
    "150994944,i+1,32768 FROM n;"
    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<%lld-1) "
    "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT 2000*i,2000*i+500,0,"
    "281474976710656+167772165,i+1,64,0,NULL FROM n;"
    "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<(%lld-1)/%d) "
    "INSERT INTO NVTX_EVENTS SELECT 2000*%d*i,2000*%d*(i+1)-1,59,'iteration '||i,"
    "281474976710656+167772165 FROM n;"
    "COMMIT;";

enum lw_status lw_nsys_example(const char *file, int64_t n_kernels, struct lw_err *err)
{
    char sql[1024];
    sqlite3 *db = NULL;
    long long n = n_kernels;
    enum lw_status status = LW_OK;

    snprintf(sql, sizeof sql, rows, n, n, n, OF_ITERATION, OF_ITERATION, OF_ITERATION);
    if (sqlite3_open(file, &db) != SQLITE_OK || sqlite3_exec(db, tables, NULL, NULL, NULL) ||
        sqlite3_exec(db, sql, NULL, NULL, NULL))
        status = lw_fail(err, LW_EIO, "%s: %s", file, db ? sqlite3_errmsg(db) : "no memory");
    sqlite3_close(db);
    return status;
}
