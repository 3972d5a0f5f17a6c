# The buckets of every policy: a chain of 20 gradients on four ranks.
plan="$L plan -w $G/chain.workload.json -c $G/links.cluster.json --dp 4 --format csv"
for p in c10d-2020 c10d-1.13 c10d-2 picotron deepspeed; do
    echo "# $p --bucket-cap 2MiB"; $plan --bucket-policy $p --bucket-cap 2MiB
done
for p in colossal per-tensor single mg-wfbp optimal; do echo "# $p"; $plan --bucket-policy $p; done
echo "# sharded-ddp"; $plan --bucket-policy sharded-ddp --zero 1
echo "# zero 2"; $plan --zero 2 --bucket-cap 2MiB
echo "# zero 3"; $plan --zero 3
