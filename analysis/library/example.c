/* Predict a data-parallel step for several bucket sizes: cc example.c $(pkg-config --cflags
 * --libs lapwing) */
#include <lapwing.h>
#include <stdio.h>

static int predict(const char *workload, const char *cap)
{
    const char *const options[] = {"dp", "8", "bucket-cap", cap, NULL};
    char error[256];
    lapwing_plan *plan = lapwing_plan_make(workload, "dgx-a100", options, error, sizeof error);

    if (!plan) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    lapwing_result *result = lapwing_simulate(plan, 0, error, sizeof error);
    double step = 0, exposed = 0;
    if (result) {
        lapwing_figure(result, "step_ps", &step);
        lapwing_figure(result, "exposed_comm_ps", &exposed);
        printf("%-6s %3d buckets  step %9.3f ms  exposed %7.3f ms\n", cap,
               (int)lapwing_plan_buckets(plan), step / 1e9, exposed / 1e9);
    } else {
        fprintf(stderr, "%s\n", error);
    }
    lapwing_result_free(result);
    lapwing_plan_free(plan);
    return result ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const char *const caps[] = {"1MiB", "5MiB", "25MiB", "100MiB"};
    const char *workload = argc > 1 ? argv[1] : "gpt2";
    int failed = 0;

    for (int i = 0; i < 4; i++)
        failed |= predict(workload, caps[i]);
    return failed;
}
