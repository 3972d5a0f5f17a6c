# Makes C of the published results (docs/results/evidence/*.csv), so that a prediction reads no
# table: analysis/alike/known_runs.h says what. Files without predicted_s and measured_s have other
# tables; rows without measured_s measured no step.
#   LC_ALL=C awk -f known_runs.awk FILE.csv ...
BEGIN {
    split("framework device parallelism network predicted_s measured_s left_out_s", titles, " ")
    N_PARTS = 4
    n_tables = n_kinds = n_runs = 0
}

function fail(text) {
    print FILENAME ":" FNR ": " text > "/dev/stderr"
    failed = 1
    exit 1
}

# The cells of a line into cell[1 ..]; returns their number.
function cells_of(line, cell,    n, c) {
    sub(/\r$/, "", line)
    line = line ","
    for (n = 0; line != ""; cell[++n] = c) {
        if (!match(line, /^"([^"]|"")*",/) && !match(line, /^[^",]*,/))
            fail("found wrong quotes")
        c = substr(line, 1, RLENGTH - 1)
        line = substr(line, RLENGTH + 1)
        if (c ~ /^"/)
            c = substr(c, 2, length(c) - 2)
        gsub(/""/, "\"", c)
        gsub(/^[ \t]+|[ \t]+$/, "", c)
    }
    return n
}

function text_of(c) {
    gsub(/[\\"]/, "\\\\&", c)
    return "\"" c "\""
}

# A positive number that C and awk read alike.
function number_of(title,    c) {
    c = cell[at[title]]
    if (c !~ /^(0|[1-9][0-9]*)(\.[0-9]+)?(e[-+]?[0-9]+)?$/ || c + 0 < 1e-12)
        fail(title ": found '" c "', expected a positive number")
    return c
}

FNR == 1 {
    split("", at)
    n_titles = cells_of($0, cell)
    for (i = 1; i <= n_titles; i++)
        at[cell[i]] = i
    is_results = "predicted_s" in at && "measured_s" in at
    for (i in titles)
        if (is_results && !(titles[i] in at))
            fail("found no column " titles[i])
    table = FILENAME
    sub(/.*\//, "", table); sub(/\.[^.]*$/, "", table)
    has_run = 0
    next
}

is_results && $0 !~ /^[ \t\r]*$/ {
    if (cells_of($0, cell) != n_titles)
        fail("expected " n_titles " cells")
    if (cell[at["measured_s"]] == "")
        next
    if (!has_run++)
        tables[n_tables++] = text_of(table)
    kind = ""
    for (i = 1; i <= N_PARTS; i++) {
        if (cell[at[titles[i]]] == "")
            fail(titles[i] ": found an empty cell, expected a name")
        kind = kind (i > 1 ? ", " : "") text_of(cell[at[titles[i]]])
    }
    if (!(kind in number_of_kind)) {
        number_of_kind[kind] = n_kinds
        kinds[n_kinds++] = kind
    }
    predicted = number_of("predicted_s")
    judged = cell[at["left_out_s"]] == "" ? predicted : number_of("left_out_s")
    measured = number_of("measured_s")
    ratio[n_runs] = predicted / measured
    judged_ratio[n_runs] = judged / measured
    run[n_runs] = sprintf("{%d, %d, %d, 1.0 * %s / %s, 1.0 * %s / %s},", n_tables - 1,
                          number_of_kind[kind], n_runs, predicted, measured, judged, measured)
    n_runs++
}

# Runs in the order of a ratio, then of numbers.
function print_runs(name, by,    i, sorted) {
    print "const struct alike_known_run " name "[] = {"
    fflush()
    sorted = "sort -k1,1g -k2,2g | cut -f2-"
    for (i = 0; i < n_runs; i++)
        printf "%.17g %d\t%s\n", by[i], i, run[i] | sorted
    if (close(sorted) != 0)
        exit 1
    print "{0}};"
}

END {
    if (failed)
        exit 1
    print "#include \"analysis/alike/known_runs.h\""
    print "const char *const alike_known_tables[] = {"
    for (i = 0; i < n_tables; i++)
        print tables[i] ","
    print "0};\nconst char *const alike_known_kinds[][LW_ALIKE_PARTS] = {"
    for (i = 0; i < n_kinds; i++)
        print "{" kinds[i] "},"
    print "{0}};"
    print_runs("alike_known_runs", ratio)
    print_runs("alike_known_runs_judged", judged_ratio)
    print "const int32_t alike_known_n_runs = " n_runs ", alike_known_n_tables = " n_tables ";"
}
