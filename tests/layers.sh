#!/bin/sh
# Checks every #include against tests/layers.txt: who may include whom, that there is no cycle, and
# that every listed arrow is used.
cd "$(dirname "$0")/.." || exit 1
find shared sim exec traces analysis -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' | sort |
    xargs grep -nE '^#include [<"]' | LC_ALL=C awk -v table=tests/layers.txt '
function complain(text) { print "check-layers: " text; bad = 1 }
function room_of(path) { sub(/\/[^\/]*$/, "", path); return path }
# A room is finished once everything that it may include is finished; a room met again on the way
# down closes a cycle.
function visit(room, way,    n, i, to) {
    if (state[room] == "done") return
    if (state[room] == "open") { complain("cycle: " way room); return }
    state[room] = "open"
    n = split(allowed[room], to, " ")
    for (i = 1; i <= n; i++) visit(to[i], way room " -> ")
    state[room] = "done"
}
BEGIN {
    while ((getline line < table) > 0) {
        sub(/#.*/, "", line)
        if (line !~ /:/) continue
        left = right = line
        sub(/:.*/, "", left); sub(/[^:]*:/, "", right)
        if (sub(/^only /, "", left)) { owners[left] = right; continue }
        allowed[left] = right
        rooms[++n_rooms] = left
        n = split(right, to, " ")
        for (i = 1; i <= n; i++) arrow[left, to[i]] = 1
    }
    for (r = 1; r <= n_rooms; r++) visit(rooms[r], "")
}
{
    file = $0; sub(/:.*/, "", file)
    place = $0; sub(/:#include.*/, "", place)
    target = $0; sub(/.*#include /, "", target); sub(/[^>"]*$/, "", target)
    from = room_of(file)
    seen[from] = 1
    if (target ~ /^</) {
        if (!(target in owners)) next
        n = split(owners[target], to, " ")
        for (i = 1; i <= n; i++) if (index(file, to[i]) == 1) next
        complain(place ": only" owners[target] " may include " target)
        next
    }
    gsub(/"/, "", target)
    if (target !~ /\//) { complain(place ": \"" target "\" lacks its folder"); next }
    if (file ~ /\/cmd_[^\/]*$/) next
    to_room = room_of(target)
    if (!(from in allowed)) { complain(place ": " from " is not in " table); next }
    used[from, to_room] = 1
    if (to_room != from && !((from, to_room) in arrow))
        complain(place ": " from " may not include " to_room)
}
END {
    for (r = 1; r <= n_rooms; r++)
        if (!(rooms[r] in seen)) complain(table ": there is no room " rooms[r])
    for (way in arrow)
        if (!(way in used)) {
            split(way, ends, SUBSEP)
            complain(table ": " ends[1] " includes nothing of " ends[2])
        }
    if (!bad) print "check-layers: ok"
    exit bad
}'
