# The order of actions on four ranks, eight micro-batches, as torch's schedule IR.
for s in gpipe 1f1b zb-h1 zb-h2 zb-auto-1p zb-auto-2p zbv zbv-auto v-half v-min dualpipe dualpipev colossal-1f1b; do
    echo "# $s"; $L plan --schedule $s --pp 4 --micro-batches 8 --format csv
done
for s in interleaved-1f1b interleaved-zb looped-bfs colossal-interleaved; do
    echo "# $s --chunks 2"; $L plan --schedule $s --pp 4 --micro-batches 8 --chunks 2 --format csv
done
