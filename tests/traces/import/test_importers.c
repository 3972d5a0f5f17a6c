/* The table of importers: what must hold of every row. A new row adds its sample here. */
#include "tests/lib/unit.h"

#include <string.h>

#include "shared/io/input.h"
#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "traces/import/convert.h"

static const struct {
    const char *importer, *text;
} samples[] = {
    {"kineto", "{\"traceEvents\": []}"},
    {"kineto", "\xef\xbb\xbf [{\"ph\": \"X\"}]"},
    {"kineto", "{\"traceEvents\": [], \"note\": \"forward_compute_time=1\"}"},
    {"measured-run", "{\"schema\": \"lapwing-groundtruth/1\"}"},
    {"measured-run", "{\"schema\": \"lapwing-groundtruth/1\", \"nodes\": 2}"},
    {"measured-run", "{\"traceEvents\": 0, \"schema\": \"lapwing-groundtruth/1\"}"},
    {"kineto", "{\"traceEvents\": [], \"note\": \"lapwing-groundtruth\"}"},
    {"nccl-tests", "op,nranks,nnodes,size_bytes,time_us\nall_reduce,2,1,8,1\n"},
    {"pipedream", "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, "
                  "activation_size=0.0, parameter_size=0.000\n"},
    {"pipedream", "node,op,fwd_ms,bwd_ms\n"},
    {"pipedream", "src,dst\n"},
    {"calls", "# lapwing-calls 1\n"},
    {"chakra", "\x07\x0a\x05"
               "0.0.4\x02\x08\x01"},
    {"pytorch-et", "{\"schema\": \"1.0.1\", \"pid\": 1, \"nodes\": []}"},
    {"goal", "// a schedule\nnum_ranks 1\nrank 0 { }\n"},
    {"chakra", "{\"workload_graph\": []}"},
    {"job-operations", "step,rank,dp_rank,stage,optype,seq_id,mc,gmc,mb_id,start_us,duration_us\n"},
    {"flight-recorder", "{\"entries\": [{\"collective_seq_id\": 1}]}"},
    {"nccl-log", "h:1:2 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 4 "
                 "datatype 7 op 0 root 0 comm 0x5 [nranks=2] stream 0x9\n"},
    {"nsys", "SQLite format 3"}, /* and the zero after it */
};

static struct lw_input input_of(const char *text)
{
    return (struct lw_input){.name = "sample", .text = (char *)text,
                             .len = strlen(text) + (strncmp(text, "SQLite", 6) == 0)};
}

TEST(every_row_is_whole_and_has_a_sample)
{
    for (int i = 0; i < lw_n_importers; i++) {
        const struct lw_importer *x = lw_importers[i];
        int n = 0;
        assert_non_null(x->reads);
        assert_non_null(x->import_help);
        assert_non_null(x->is);
        assert_non_null(x->convert);
        assert_true(!x->plan == !(x->gives & LW_GIVES_PLAN));
        assert_true(x->gives != 0 || x->instead);
        assert_true(x->gives != 0 || x->instead);
        assert_true(!x->timeline == !x->take);
        assert_true(x->timeline || x->look); /* inspect shows it, or says why not */
        assert_true(!x->inspect_help == (!x->timeline && !x->text));
        assert_true(!x->text == !x->json && !x->text == !x->free);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(x->name, lw_importers[k]->name);
        for (size_t k = 0; k < sizeof samples / sizeof *samples; k++)
            n += strcmp(samples[k].importer, x->name) == 0;
        if (n == 0)
            fail_msg("importer '%s' has no sample", x->name);
    }
}

TEST(a_format_is_found_by_content)
{
    const struct lw_importer *found;
    struct lw_err err = {0};

    for (size_t k = 0; k < sizeof samples / sizeof *samples; k++) {
        struct lw_input in = input_of(samples[k].text);
        if (lw_importer_of(&in, &found, &err) != LW_OK)
            fail_msg("%s: %s", samples[k].importer, err.msg);
        assert_string_equal(found->name, samples[k].importer);
    }
    struct lw_input in = input_of("hello");
    assert_int_equal(lw_importer_of(&in, &found, &err), LW_EFORMAT);
    for (int i = 0; i < lw_n_importers; i++) {
        assert_non_null(lw_importers[i]->marks);
        if (!strstr(err.msg, lw_importers[i]->reads) || !strstr(err.msg, lw_importers[i]->marks))
            fail_msg("'%s' is not in: %s", lw_importers[i]->reads, err.msg);
    }
}

TEST(a_format_that_is_known_and_not_read_is_refused_with_the_way_to_one_that_is)
{
    static const struct {
        const char *name, *text, *says;
    } cases[] = {
        {"a.nsys-rep", "\x01", "nsys export --type sqlite"},
        {"a.qdrep", "\x01", "nsys export --type sqlite"},
        {"a.pb", "\n\x10\x12\x09/host:CPU", "XPlane"},
        {"a.xplane.pb", "\x01", "nsys export --type sqlite"},
        {"a.rpd", "\x01", "torch.profiler"},
        {"a", "PK\x03\x04", "unpack it first"},
        {"a", "\x1f\x8b", "gzip data inside gzip data"},
    };

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lw_input in = input_of(cases[k].text);
        const struct lw_importer *found;
        struct lw_err err = {0};
        in.name = cases[k].name;
        assert_int_equal(lw_importer_of(&in, &found, &err), LW_EFORMAT);
        if (!strstr(err.msg, cases[k].says))
            fail_msg("'%s' is not in: %s", cases[k].says, err.msg);
    }
}

/* Of the commands themselves: the texts grow with each format. */
TEST_WITH(help_has_the_whole_text_of_every_format, fixture_open, fixture_close)
{
    for (int i = 0; i < lw_n_importers; i++) {
        const struct lw_importer *x = lw_importers[i];
        if (x->import_help)
            expect("help import", 0, x->import_help);
        if (x->inspect_help)
            expect("help inspect", 0, x->inspect_help);
    }
    expect("help import", 0, "beside a prediction by sim --replay.");
}

static void refuses(const struct traces_file *f, int n, const struct traces_wanted *want,
                    const char *says)
{
    struct traces_converted out;
    struct lw_err err = {0};

    assert_int_equal(traces_convert(f, n, want, &out, &err), LW_EINVAL);
    if (!strstr(err.msg, says))
        fail_msg("'%s' is not in: %s", says, err.msg);
}

TEST(conversion_outside_the_row_is_refused)
{
    for (int i = 0; i < lw_n_importers; i++) {
        const struct lw_importer *x = lw_importers[i];
        struct traces_file f[2] = {{.file = "a", .importer = x}, {.file = "b", .importer = x}};
        if (!(x->gives & (LW_GIVES_WORKLOAD | LW_GIVES_PLAN)))
            refuses(f, 1, &(struct traces_wanted){.workload = true}, "gives no workload (-o");
        if (!(x->gives & LW_GIVES_CLUSTER))
            refuses(f, 1, &(struct traces_wanted){.cluster = true},
                    "gives no cluster (--cluster-out");
        if (!x->timeline)
            refuses(f, 1, &(struct traces_wanted){.chosen = true}, "concern PyTorch traces");
        if (x->one_file)
            refuses(f, 2, &(struct traces_wanted){0}, "one file of format");
        f[1].importer = lw_importers[(i + 1) % lw_n_importers];
        refuses(f, 2, &(struct traces_wanted){0}, "import them apart");
    }
}
