/* Golden files and the command that checks them: shared/golden/golden.h, docs/design/golden.md. Own
 * small cases; altered copies, which must all fail; the recorded files of ../shared where they
 * are. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/lib/unit.h"

#include "shared/golden/golden.h"
#include "shared/io/input.h"
#include "sim/predict/sim.h"
#include "tests/lib/failing_alloc.h"

#define SHARED "../shared/golden/"

/* Inputs and expected answers of one case each, worked out by hand from the rules. */
static const struct {
    const char *inputs, *answers;
} own[] = {
    /* 8 + 8 bytes reach 16; then the second limit, 8 */
    {"\"kind\":\"assign\",\"numel\":[2,2,1,1],\"dtype\":\"f32\",\"limits\":[16,8]",
     "\"buckets\":[[0,1],[2,3]],\"bucket_limits\":[16,8]"},
    /* visited 2 0 1: the sparse one alone, 0 closes at 8, 1 stays open */
    {"\"kind\":\"rebuild\",\"numel\":[2,1,9],\"dtype\":\"f32\",\"limits\":[8],\"sparse\":[0,0,1],"
     "\"order\":[2,0,1]",
     "\"open_buckets\":[2],\"order_defined\":true,\"buckets\":[[2],[0],[1]],"
     "\"bucket_limits\":[0,8,8]"},
    {"\"kind\":\"error\",\"numel\":[],\"limits\":[8]",
     "\"error\":\"RuntimeError\",\"reason\":\"no-tensors\""},
    /* first backward: one bucket; rebuilt in ready order with 4 then 8 bytes: 1 | 0 */
    {"\"kind\":\"ddp_trace\",\"numel\":[2,1],\"dtype\":\"f32\",\"cap_bytes\":8,"
     "\"first_bucket_bytes\":4,\"find_unused\":false,\"static_graph\":false,\"bucket_view\":false",
     "\"iters\":[{\"ready_order\":[1,0],\"events\":[[\"R\",1],[\"R\",0],[\"L\",0,[0,1]]]},"
     "{\"ready_order\":[0,1],\"events\":[[\"R\",0],[\"R\",1],[\"L\",0,[1]],[\"L\",1,[0]]]}]"},
    {"\"kind\":\"assign\",\"numel\":[4,6,1],\"trainable\":[1,1,0],\"bucket_size\":10",
     "\"location\":[[0,4,0],[4,10,0],null],\"bucket_sizes\":[10],\"bucket_param_count\":[2]"},
    {"\"kind\":\"launch\",\"numel\":[6,6],\"bucket_size\":10,\"script\":[1,\"wait\"]",
     "\"events\":[[[\"L\",1]],[]],\"error\":\"AssertionError\""},
    /* owners 0 1 0; then 20 is frozen and dropped from its buffer by nothing else */
    {"\"kind\":\"partition\",\"numel\":[10,20,5],\"world\":2",
     "\"partition\":[[[0,2]],[[1]]],\"per_device\":[[0,[[2,0],[1]]]],"
     "\"buckets\":[[0,0,15,[2,0]],[0,1,20,[1]]],"
     "\"broadcasts\":[[\"bcast\",0,15,\"float32\"],[\"bcast\",1,20,\"float32\"]]"},
    /* limit 40: 10 and 20 fit, 30 makes 40 and is refused, 40 too */
    {"\"kind\":\"sdp_buckets\",\"numel\":[10,20,30,40],\"world\":2,\"reduce_buffer_size\":40",
     "\"effective_buffer_size\":40,\"trainable_order\":[0,1,2,3],\"bucketed\":[1,1,0,0],"
     "\"buckets\":[[0,10,[0]],[1,20,[1]]]"},
    {"\"kind\":\"uniform\",\"items\":5,\"stages\":2,\"chunks\":1",
     "\"parts\":[[[0,2]],[[2,5]]],\"warned_empty_stage\":false"},
    {"\"kind\":\"uniform\",\"items\":5,\"stages\":2,\"chunks\":2", "\"error\":\"AssertionError\""},
    {"\"kind\":\"balanced\",\"weights\":[3,5,1,1,6,5],\"stages\":2,\"chunks\":2",
     "\"parts\":[[[0,1],[4,5]],[[1,4],[5,6]]],\"warned_empty_stage\":false"},
    {"\"kind\":\"groups\",\"data\":1,\"pipeline\":2,\"tensor\":1,\"world\":2",
     "\"data_groups\":[[0],[1]],\"data_local_rank_and_group\":[[0,0],[0,1]],"
     "\"model_groups\":[[0,1]],\"model_local_rank_and_group\":[[0,0],[1,0]],"
     "\"pipeline_groups\":[[0,1]],\"pipeline_local_rank_and_group\":[[0,0],[1,0]],"
     "\"tensor_groups\":[[0],[1]],\"tensor_local_rank_and_group\":[[0,0],[0,1]]"},
    {"\"kind\":\"shared_module\",\"data\":1,\"pipeline\":3,\"tensor\":1,\"world\":3,"
     "\"pipeline_ranks\":[1,2]",
     "\"subgroups\":[[1,2]],"
     "\"per_rank\":[[0,null,\"not_a_member\"],[1,[1,2],2],[2,[1,2],2]]"},
    {"\"kind\":\"grad_handlers\",\"params\":[[3,\"f32\",1,1,0],[4,\"f16\",1,1,-1]],"
     "\"pipeline\":2,\"data\":2",
     "\"shared\":[[0,\"f32\",3]],\"data_parallel\":[[\"data\",\"f32\",3],[\"data\",\"f16\",4]]"},
    /* p = 3, m = 2: docs/design/schedule_colossal.md */
    {"\"kind\":\"schedule_1f1b\",\"stages\":3,\"microbatches\":2,\"forward_only\":false",
     "\"events\":[\"F0 CN F1 CN Cn B0 Cn B1\",\"Cp F0 CN Cp F1 CnN B0 CP Cn B1 CP\","
     "\"Cp F0 B0 CPp F1 B1 CP\"]"},
    {"\"kind\":\"schedule_interleaved\",\"stages\":2,\"microbatches\":3,\"chunks\":2,"
     "\"forward_only\":true",
     "\"events\":[],\"error\":\"AssertionError\""},
};
enum { N_OWN = sizeof own / sizeof *own };

static const char partition_head[] =
    "name,n,k,weights,deepspeed_uniform,deepspeed_balanced,deepspeed_balanced_max,"
    "deepspeed_balanced_min,colossal_balanced_chunks1,colossal_balanced_max,"
    "colossal_balanced_chunks2,optimal_bottleneck\n";
/* 1 3 6 2 2: uniform 1+3 | 6+2 | 2; balanced 4 | 6 | 4; six parts of five items do not exist */
static const char partition_row[] =
    "own,5,3,1;3;6;2;2,0;2;4;5,0;2;3;5,6,4,0-2|2-3|3-5,6,,6\n";

static const char bucketing_head[] =
    "model,net,workers,alpha_s,beta_s_per_B,n_layers,backward_s,sizes,tb_us,per_layer_end_s,"
    "per_layer_groups,single_end_s,single_groups,cap25MiB_first1MiB_end_s,"
    "cap25MiB_first1MiB_groups,mgwfbp_end_s,mgwfbp_groups,mgwfbp_layers_per_group,"
    "optimal_dp_end_s,optimal_dp_groups,optimal_dp_layers_per_group\n";
/* docs/design/bucket_merge.md in ms: cost 3 + 1 per 4,000 bytes; forward order 4, 1, 1 thousand
 * elements, ready after 1, 2, 4 ms; 24 kB are below the first cap, so c10d makes one bucket */
static const char bucketing_row[] =
    "own,x,2,0.003,2.5e-07,3,0.004,4000;1000;1000,2000;1000;1000,0.016000,3,0.013000,1,0.013000,1,"
    "0.013000,1,3,0.013000,2,1;2\n";

static char path[64];

static FILE *new_file(void)
{
    snprintf(path, sizeof path, "/tmp/lapwing_golden_XXXXXX");
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    return fdopen(fd, "w");
}

/* Close the file, run it, remove it. */
static struct lw_golden_result run(FILE *f)
{
    struct lw_golden_result r = {.engine = {lw_sim_alone, NULL}};
    struct lw_err err;

    fclose(f);
    assert_ok(lw_golden_file(path, &r, &err), err);
    unlink(path);
    return r;
}

static void fail_if_any_failed(const struct lw_golden_result *r)
{
    if (r->n_failed > 0)
        fail_msg("%s:%d: %s: %s", r->failures[0].file, (int)r->failures[0].line, r->failures[0].id,
                 r->failures[0].message);
}

TEST(own_cases_pass)
{
    FILE *f = new_file();

    for (int i = 0; i < N_OWN; i++)
        fprintf(f, "{\"id\":\"own-%d\",%s,%s}\n\n", i, own[i].inputs, own[i].answers);
    struct lw_golden_result r = run(f);
    fail_if_any_failed(&r);
    assert_int_equal(r.n_passed, N_OWN);
    lw_golden_free(&r);
    f = new_file();
    fprintf(f, "%s%s", partition_head, partition_row);
    r = run(f);
    fail_if_any_failed(&r);
    assert_int_equal(r.n_passed, 1);
    lw_golden_free(&r);
    f = new_file();
    fprintf(f, "%s%s", bucketing_head, bucketing_row);
    r = run(f);
    fail_if_any_failed(&r);
    assert_int_equal(r.n_passed, 1);
    lw_golden_free(&r);
}

/* Each altered copy is a line of its own; none may pass. */
static void fail_if_any_passed(struct lw_golden_result *r, const char *what)
{
    if (r->n_passed > 0)
        fail_msg("%d of %d altered copies of %s pass", (int)r->n_passed,
                 (int)(r->n_passed + r->n_failed), what);
    assert_true(r->n_failed > 0);
    lw_golden_free(r);
}

TEST(every_digit_of_an_answer_counts)
{
    char answers[1024];

    for (int i = 0; i < N_OWN; i++) {
        FILE *f = new_file();
        snprintf(answers, sizeof answers, "%s", own[i].answers);
        for (char *p = answers; *p; p++) {
            char was = *p;
            if (!isdigit((unsigned char)was))
                continue;
            *p = was == '9' ? '0' : (char)(was + 1);
            fprintf(f, "{\"id\":\"altered\",%s,%s}\n", own[i].inputs, answers);
            *p = was;
        }
        /* and words, nulls, missing and extra answers */
        char *word = strstr(answers, "Error\"");
        if (word) {
            *word = 'e';
            fprintf(f, "{%s,%s}\n", own[i].inputs, answers);
        }
        fprintf(f, "{%s}\n", own[i].inputs);
        fprintf(f, "{%s,%s,\"stranger\":1}\n", own[i].inputs, own[i].answers);
        struct lw_golden_result r = run(f);
        fail_if_any_passed(&r, own[i].inputs);
    }
}

static void alter_row(const char *head, const char *row, int n_skipped)
{
    char text[1024];
    int column = 0;
    FILE *f = new_file();

    fprintf(f, "%s", head);
    snprintf(text, sizeof text, "%s", row);
    for (char *p = text; *p; p++) {
        char was = *p;
        column += was == ',';
        if (!isdigit((unsigned char)was) || column < n_skipped)
            continue;
        *p = was == '9' ? '0' : (char)(was + 1);
        fprintf(f, "%s", text);
        *p = was;
    }
    struct lw_golden_result r = run(f);
    fail_if_any_passed(&r, head);
}

TEST(every_digit_of_a_row_counts)
{
    alter_row(partition_head, partition_row, 4);
    alter_row(bucketing_head, bucketing_row, 9);
}

struct bad_case {
    const char *text, *message;
};

TEST(invalid_case_fails_with_a_reason)
{
    static const struct bad_case cases[] = {
        {"{\"kind\":\"schedule_9\"}\n", "unknown kind 'schedule_9'"},
        {"{\"kind\":\"assign\"}\n", "a case of kind 'assign' needs \"bucket_size\" or \"limits\""},
        {"{\"kind\":\n",
         "broken JSON: at kind (byte 8): found the end of the text, expected a value"},
        {"{\"id\":\"x\"}\n", "missing \"kind\": not a recorded case"},
        {"{\"kind\":\"uniform\",\"items\":-1,\"stages\":1,\"chunks\":1}\n",
         "items: '-1' is not a whole number from 0 to 2147483647"},
        {"{\"kind\":\"uniform\",\"items\":1,\"items\":1}\n", "the field \"items\" is given twice"},
        {"{\"kind\":\"uniform\",\"items\":5,\"stages\":2,\"chunks\":1,\"parts\":[[[0,3]],[[3,5]]],"
         "\"warned_empty_stage\":false}\n",
         "parts: computed [[[0,2]],[[2,5]]], the case says [[[0,3]],[[3,5]]]"},
        {"{\"kind\":\"uniform\",\"items\":1,\"stages\":1,\"\":1}\n",
         "unknown field '' (known: id kind name items stages chunks parts warned_empty_stage "
         "error)"},
        {"a,b\n1,2\n", "unknown kind of file: neither JSON lines nor a known table"},
        {"\n \n", "holds no case"},
        {"name,n\n1\n", "1 cells, the table has 2 columns"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FILE *f = new_file();
        fputs(cases[i].text, f);
        struct lw_golden_result r = run(f);
        assert_int_equal(r.n_passed, 0);
        assert_int_equal(r.n_failed, 1);
        assert_string_equal(r.failures[0].message, cases[i].message);
        lw_golden_free(&r);
    }
    FILE *f = new_file(); /* broken JSON, of which the reader says where */
    fputs("{\"kind\":\n", f);
    struct lw_golden_result r = run(f);
    assert_int_equal(r.n_failed, 1);
    lw_golden_free(&r);
}

TEST(the_command_counts_and_exits_with_3)
{
    const char *lapwing = getenv("LAPWING");
    char command[256], line[256] = "";
    FILE *f = new_file(), *out;

    assert_non_null(lapwing);
    fprintf(f, "{%s,%s}\n{\"id\":\"z\",\"kind\":\"other\"}\n", own[0].inputs, own[0].answers);
    fclose(f);
    snprintf(command, sizeof command, "%s golden %s", lapwing, path);
    out = popen(command, "r");
    assert_non_null(fgets(line, sizeof line, out));
    assert_non_null(strstr(line, ":2: z: unknown kind 'other'\n"));
    assert_non_null(fgets(line, sizeof line, out));
    assert_string_equal(line, "1 passed, 1 failed\n");
    assert_int_equal(WEXITSTATUS(pclose(out)), 3);
    unlink(path);
    snprintf(command, sizeof command, "%s golden /nowhere/x.jsonl 2>/dev/null", lapwing);
    assert_int_equal(WEXITSTATUS(system(command)), 1);
}

static const char *const recorded[] = {
    SHARED "c10d_buckets.jsonl",
    SHARED "picotron_buckets.jsonl",
    SHARED "oss_partition.jsonl",
    SHARED "colossal_groups.jsonl",
    SHARED "colossal_pipeline.jsonl",
    SHARED "schedules/partition/partition.csv",
    SHARED "schedules/bucketing/bucketing.csv",
    SHARED "schedules/manifest.csv",
    SHARED "schedules/megatron_warmup_and_order.csv",
};

TEST(recorded_answers_are_repeated)
{
    struct lw_golden_result r = {.engine = {lw_sim_alone, NULL}};
    struct lw_err err;

    if (access(recorded[0], R_OK) != 0) {
        printf("SKIP recorded_answers_are_repeated: no " SHARED "\n");
        skip();
    }
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++)
        assert_ok(lw_golden_file(recorded[i], &r, &err), err);
    fail_if_any_failed(&r);
    assert_true(r.n_passed >= 2180);
    lw_golden_free(&r);
}

/* The first digit of a value; NULL when it holds none. */
static char *first_digit(char *p)
{
    int depth = 0;

    for (; *p && !(depth == 0 && (*p == ',' || *p == '}')); p++) {
        depth += (*p == '[') - (*p == ']');
        if (isdigit((unsigned char)*p))
            return p;
    }
    return NULL;
}

/* Every line of the recorded files with the first digit of one answer changed. */
TEST(altered_recordings_fail)
{
    static const char *const answers[] = {
        "buckets", "bucket_limits", "open_buckets", "events", "unmarked", "location",
        "bucket_sizes", "bucket_param_count", "partition", "per_device", "broadcasts",
        "local_optim_groups_rank0", "effective_buffer_size", "trainable_order", "bucketed", "parts",
        "data_groups", "model_local_rank_and_group", "subgroups", "per_rank", "shared",
    };
    struct lw_input in;
    struct lw_err err;

    if (access(recorded[0], R_OK) != 0) {
        printf("SKIP altered_recordings_fail: no " SHARED "\n");
        skip();
    }
    for (int i = 0; i < 5; i++) {
        FILE *f = new_file();
        int64_t n = 0;
        assert_int_equal(lw_input_read(recorded[i], 0, &in, &err), LW_OK);
        for (char *line = in.text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            char field[64];
            *end = '\0';
            for (size_t k = 0; k < sizeof answers / sizeof *answers; k++) {
                snprintf(field, sizeof field, "\"%s\":", answers[k]);
                char *at = strstr(line, field),
                     *digit = at ? first_digit(at + strlen(field)) : NULL;
                if (!digit)
                    continue;
                char was = *digit;
                *digit = was == '9' ? '0' : (char)(was + 1);
                fprintf(f, "%s\n", line);
                *digit = was;
                n++;
            }
            *end = '\n';
        }
        lw_input_free(&in);
        assert_true(n > 50);
        struct lw_golden_result r = run(f);
        fail_if_any_passed(&r, recorded[i]);
    }
}

/* The cases of own[] pass, the one after them fails. */
static enum lw_status run_own(struct lw_err *err)
{
    struct lw_golden_result r = {.engine = {lw_sim_alone, NULL}};
    enum lw_status s = lw_golden_file(path, &r, err);

    assert_true(s != LW_OK || (r.n_passed == N_OWN && r.n_failed == 1));
    lw_golden_free(&r);
    return s;
}

TEST(failing_allocations_end_the_run)
{
    FILE *f = new_file();
    struct lw_err err;

    for (int i = 0; i < N_OWN; i++)
        fprintf(f, "{%s,%s}\n", own[i].inputs, own[i].answers);
    fprintf(f, "{\"kind\":\"other\"}\n");
    fclose(f);
    EACH_ALLOCATION_FAILS_IN(0, run_own(&err));
    EACH_ALLOCATION_FAILS_IN(0, run_own(NULL));
    unlink(path);
}
