#!/bin/bash
# mergerfs appends to, overwrites and truncates files of a branch that has the mode RO.
#
# RO only keeps mergerfs from creating files there: it is no lower branch in the sense of a union that copies up. Seen
# with mergerfs 2.33.5: all three change the file below.
# As root, with /dev/fuse. Installs the package in a temporary folder.
set -euo pipefail
version=2.33.5-1
dir=$(mktemp -d)
chmod 755 "$dir"
trap 'umount -l "$dir/union" 2>/dev/null || true; rm -rf "$dir"' EXIT
(cd "$dir" && apt-get -qq -o APT::Sandbox::User=root download "mergerfs=$version" && dpkg -x mergerfs_*.deb root)
export PATH="$dir/root/usr/bin:$PATH"
mkdir "$dir/union" "$dir/upper" "$dir/lower"
for name in appended overwritten truncated; do echo lower >"$dir/lower/$name"; done
mergerfs -o minfreespace=0 "$dir/upper=RW:$dir/lower=RO" "$dir/union"
echo "mergerfs $version on Linux $(uname -r)"
echo more >>"$dir/union/appended"
printf LOWER | dd of="$dir/union/overwritten" conv=notrunc status=none
: >"$dir/union/truncated"
created=$(touch "$dir/union/new" && ls "$dir/upper" "$dir/lower" | tr '\n' ' ')
changed=""
[ "$(cat "$dir/lower/appended")" = lower ] || changed="$changed appended"
[ "$(cat "$dir/lower/overwritten")" = lower ] || changed="$changed overwritten"
[ "$(cat "$dir/lower/truncated")" = lower ] || changed="$changed truncated"
echo "files of the RO branch that changed:$changed; upper has: $(ls "$dir/upper")"
[ "$changed" = " appended overwritten truncated" ] && [ "$(ls "$dir/upper")" = new ] || { echo "changed: $created"; exit 1; }
