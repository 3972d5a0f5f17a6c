/* Each message about a database that is damaged, or that is none, says what to do about it. */
#include "tests/lib/unit.h"
#include <stdio.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"
#include "tests/lib/files/sql_file.h"

#define DELETE "(lapwing runs 1 --delete) and run it again"
#define DELETES "delete its runs (lapwing runs N --delete) and run them again"

TEST_WITH(damage_is_named_with_a_remedy, fixture_open, fixture_close)
{
    static const struct {
        const char *damage, *command, *says, *remedy;
    } cases[] = {
        {"UPDATE span_data SET text = '[]'", "plot timeline 1", "spans of run 1 from row", DELETE},
        {"UPDATE span_block SET rank = 7", "export 1 -o out.json", "has rank 7, expected 0 to 1",
         DELETE},
        {"DELETE FROM op_kind", "plot timeline 1", "which table op_kind does not have", DELETE},
        {"DELETE FROM span_block", "explain 1", "0 of which can be read", DELETE},
        {"UPDATE op_piece SET n = n + 1", "plot timeline 1", "the ops of plan 1 are damaged",
         DELETES},
        {"DELETE FROM op_piece", "compare 1 1", "the ops of plan 1 are damaged", DELETES},
        {"DELETE FROM op_piece WHERE op > 60", "plot timeline 1", "the ops of plan 1 are damaged",
         DELETES},
        {"UPDATE op_order SET alike = 99999 WHERE place = 9", "report -o folder",
         "the ops of plan 1 are damaged", DELETES},
        {"DELETE FROM op_alike WHERE alike = 3", "compare 1 1", "the ops of plan 1 are damaged",
         DELETES},
        {"UPDATE memory_piece SET n = n + 1", "plot memory 1 -o m.svg",
         "table memory_piece: the memory of run 1 is damaged",
         "(lapwing runs 1 --delete --db damaged.db) and run it again"},
        {"UPDATE plan SET times = 'x'", "export 1 --format plan -o out.json", "it was edited",
         DELETE},
        {"DELETE FROM plan_file; UPDATE plan SET n_ranks = -4", "explain 1",
         "table plan holds a number out of range",
         DELETES},
        {"PRAGMA application_id = 77", "runs", "a database of another program", "another --db"},
        {"PRAGMA user_version = 99", "runs", "of a newer lapwing", "another --db"},
        {"DROP TABLE metric", "runs", "edited or damaged", "another --db"},
    };
    char words[160];

    expect("sim -w mlp -c dgx-h100 --dp 2 --spans --db sound.db", 0, "stored as run 1");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shell("rm -f damaged.db* && cp sound.db damaged.db", NULL);
        sql_do(fixture_path("damaged.db"), cases[i].damage);
        snprintf(words, sizeof words, "%s --db damaged.db", cases[i].command);
        expect(words, 1, cases[i].says);
        expect(words, 1, cases[i].remedy);
    }
    sql_do(fixture_path("empty.db"), "VACUUM");
    expect("runs --db empty.db", 1, "an empty database: sim, exec and import --store fill one");
    shell("printf 'no database, but text of more than a hundred bytes: %0100d' 0 > text.db", NULL);
    expect("runs --db text.db", 1, "not a usable SQLite database (file is not a database); use "
                                   "another --db");
}

/* What cannot be taken over is said of the database that has it. */
TEST_WITH(a_merge_names_the_damaged_database, fixture_open, fixture_close)
{
    static const struct {
        const char *damage, *says;
    } cases[] = {
        {"UPDATE memory_piece SET n = n + 1", "table memory_piece: the memory of run 1 is damaged"},
        {"DELETE FROM memory_piece", "table memory_piece: the memory of run 1 is damaged"},
        {"DELETE FROM memory_order", "table memory_piece: the memory of run 1 is damaged"},
        {"DELETE FROM memory_order WHERE place = 3", "the memory of run 1 is damaged"},
        {"UPDATE memory_piece SET place = place + 1", "the memory of run 1 is damaged"},
        {"UPDATE memory_order SET category = 'a word that no version of lapwing has ever had'",
         "the memory of run 1 is damaged"},
        {"DELETE FROM op_piece", "the ops of plan 1 are damaged"},
    };

    expect("sim -w mlp -c dgx-h100 --dp 2 --spans --db sound.db", 0, "stored as run 1");
    expect("sim -w mlp -c dgx-h100 --dp 4 --spans --db other.db", 0, "stored as run 1");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shell("rm -f damaged.db* to.db* && cp sound.db damaged.db && cp other.db to.db", NULL);
        sql_do(fixture_path("damaged.db"), cases[i].damage);
        EXPECT("runs --merge damaged.db --db to.db",
               {"", 1, "lapwing runs: damaged.db: ", {cases[i].says, "--delete"}});
        assert_int_equal(sql_ask(fixture_path("to.db"), "SELECT count(*) FROM run"), 1);
    }
    expect("runs --merge sound.db --db to.db", 0, "1 run of sound.db taken over");
}
