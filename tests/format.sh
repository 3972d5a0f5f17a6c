#!/bin/sh
# What every version of a formatter agrees on: no tab (but in the Makefile), no blank at the end of
# a line, lines within 100 columns (but in the programs that fit figures of devices, which are wide
# formulas and tables). And no time in ps that wraps: outside of the engines a variable
# becomes ps by lw_ns_to_ps or lw_mul_sat (shared/numbers), which saturate.
cd "$(dirname "$0")/.." || exit 1
find Makefile .ci/run lapwing.c shared sim exec traces analysis tests -type f \
    \( -name Makefile -o -name run -o -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' \
    -o -name '*.sh' -o -name '*.sql' -o -name '*.py' \) | sort |
    LC_ALL=C.UTF-8 xargs awk '
function complain(text) { print "format-check: " FILENAME ":" FNR ": " text; bad = 1 }
/\t/ && FILENAME !~ /Makefile$/ { complain("a tab; indent with 4 blanks") }
/[ \t]$/ { complain("blanks at the end of the line") }
length($0) > 100 && FILENAME !~ /^traces\/clusters\/fit_/ {
    complain(length($0) " columns; at most 100")
}
/[a-z_)\]] *\* *LW_PS_PER_/ && FILENAME ~ /^(shared|traces|analysis)\// &&
    FILENAME !~ /shared\/numbers\/units.c/ && !/\(double\)|\/\*/ {
    complain("a product that can wrap; lw_ns_to_ps and lw_mul_sat saturate")
}
END {
    if (!bad) print "format-check: ok"
    exit bad
}'
