#!/bin/sh
# Install the Debian packages named as arguments, where they are missing. Prints the command; runs
# it as root, through sudo, or with YES=1; otherwise stops there.
command -v dpkg-query >/dev/null || { echo "deps: no dpkg here; install by hand: $*"; exit 0; }
missing=
for p in "$@"; do
    dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0
echo "apt-get install -y$missing"
if [ "$(id -u)" = 0 ]; then run=
elif [ "${YES:-0}" = 1 ] || sudo -n true 2>/dev/null; then run=sudo
else echo "deps: run the line above as root, or call make with YES=1"; exit 1; fi
export DEBIAN_FRONTEND=noninteractive
$run apt-get update -qq && $run apt-get install -y -qq --no-install-recommends $missing >/dev/null
