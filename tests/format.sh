#!/bin/sh
# What every version of a formatter agrees on: no tab (but in the Makefile), no blank at the end of
# a line, lines within 100 columns. tests/long_lines.txt lists the files that still have longer
# lines, and how many; a file may have fewer, not more. `tests/format.sh --update` writes the list
# anew: shorter, or in full where the file is missing.
cd "$(dirname "$0")/.." || exit 1
find Makefile lapwing.c shared sim exec traces analysis tests -type f \
    \( -name Makefile -o -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.sh' \
    -o -name '*.sql' \) | sort |
    LC_ALL=C xargs awk -v list=tests/long_lines.txt -v update="${1#--}" '
function complain(text) { print "format-check: " text; bad = 1 }
BEGIN {
    while ((getline line < list) > 0) { split(line, w, " "); allowed[w[2]] = w[1]; n_allowed++ }
    close(list)
    first = update && !n_allowed
}
FNR == 1 { files[++n_files] = FILENAME }
/\t/ && FILENAME !~ /Makefile$/ { complain(FILENAME ":" FNR ": a tab; indent with 4 blanks") }
/[ \t]$/ { complain(FILENAME ":" FNR ": blanks at the end of the line") }
length($0) > 100 && ++long[FILENAME] > allowed[FILENAME] { last[FILENAME] = FNR }
END {
    if (update) printf "" > list
    for (i = 1; i <= n_files; i++) {
        f = files[i]
        if (first) allowed[f] = long[f]
        if (long[f] > allowed[f])
            complain(f ":" last[f] ": longer than 100 columns (" long[f] + 0 " such lines, " \
                     allowed[f] + 0 " allowed)")
        now = long[f] < allowed[f] ? long[f] : allowed[f]
        if (update && now > 0) print now, f > list
        total += now
    }
    if (!bad) print "format-check: ok (" total + 0 " lines longer than 100 columns are left)"
    exit bad
}'
