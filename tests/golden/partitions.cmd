# The modules of every stage by every partitioner.
for p in uniform colossal-balanced deepspeed-uniform deepspeed-balanced exact 'explicit --partition-list 0,3,6,9'; do
    echo "# $p"
    $L plan -w $G/chain.workload.json -c $G/links.cluster.json --pp 4 --micro-batches 4 --partition $p |
        sed -n 's/^  *\(stage [0-9]\) *\([0-9]*\) *\([0-9]*\) *\([0-9]*\) .*/\1: \3 modules, \4 elements/p'
done
