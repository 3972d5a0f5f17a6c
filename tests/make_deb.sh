#!/bin/sh
# make_deb.sh VERSION STAGE OUT: packs what `make install PREFIX=/usr DESTDIR=STAGE` put there as a
# Debian package OUT, with the libraries that its files really need as dependencies.
version=$1 stage=$2 out=$3
set -e
need() # TOOL PACKAGE
{
    command -v "$1" >/dev/null || { echo "make deb: $1 is not here (Debian package $2)"; exit 1; }
}
need dpkg-deb dpkg
need dpkg-shlibdeps dpkg-dev
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/debian" "$stage/DEBIAN" "$stage/usr/share/doc/lapwing"
printf 'Source: lapwing\n\nPackage: lapwing\nArchitecture: any\n' >"$work/debian/control"
# Plugins are opened at run time where their libraries are: CUDA, NCCL and MPI are no dependencies.
depends=$(cd "$work" && dpkg-shlibdeps -O "$stage/usr/bin/lapwing" 2>/dev/null |
    sed 's/^shlibs:Depends=//')
cp LICENSE "$stage/usr/share/doc/lapwing/copyright"
size=$(du -sk "$stage/usr" | cut -f 1)
cat >"$stage/DEBIAN/control" <<CONTROL
Package: lapwing
Version: $version
Architecture: $(dpkg --print-architecture)
Maintainer: The Lapwing authors <lapwing@localhost>
Installed-Size: $size
Depends: $depends
Recommends: gnuplot-nox, libopenblas0
Suggests: openmpi-bin
Section: science
Priority: optional
Description: predict, run and compare distributed training steps
 Computes the schedule of a distributed training step once, predicts it with a
 simulator fed by recorded traces, runs the same plan on threads, MPI or GPUs,
 and shows how far prediction and measurement are apart.
CONTROL
dpkg-deb --root-owner-group --build "$stage" "$out"
