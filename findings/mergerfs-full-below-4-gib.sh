#!/bin/bash
# mergerfs creates no file on a branch with less than 4 GiB free: "No space left on device" with one branch, "Read-only
# file system" with a second branch that has the mode RO.
#
# The default of minfreespace is 4G; nothing is full, and the first branch is writable. Seen with mergerfs 2.33.5.
# As root, with /dev/fuse. Installs the package in a temporary folder.
set -euo pipefail
version=2.33.5-1
dir=$(mktemp -d)
chmod 755 "$dir"
trap 'umount -l "$dir/union" "$dir/branch" 2>/dev/null || true; rm -rf "$dir"' EXIT
(cd "$dir" && apt-get -qq -o APT::Sandbox::User=root download "mergerfs=$version" && dpkg -x mergerfs_*.deb root)
export PATH="$dir/root/usr/bin:$PATH" LC_ALL=C
mkdir "$dir/union" "$dir/branch" "$dir/lower"
mount -t tmpfs -o size=3G tmpfs "$dir/branch"
mergerfs "$dir/branch" "$dir/union"
echo "mergerfs $version; free: $(df --output=avail -h "$dir/branch" | tail -n 1)"
one=$(touch "$dir/union/file" 2>&1 || true)
umount "$dir/union"
mergerfs "$dir/branch=RW:$dir/lower=RO" "$dir/union"
two=$(touch "$dir/union/file" 2>&1 || true)
umount "$dir/union"
mergerfs -o minfreespace=1M "$dir/branch=RW:$dir/lower=RO" "$dir/union"
touch "$dir/union/file"
echo "one branch: ${one##*: }; with an RO branch: ${two##*: }; minfreespace=1M: created"
[ "${one##*: }, ${two##*: }" = "No space left on device, Read-only file system" ] || { echo "changed"; exit 1; }
