#!/bin/bash
# The copy of a lower file that has two names lacks trusted.overlay.origin, unless the mount has index=on.
#
# A tool that tells copied files from new ones by that attribute takes such a copy for a file that the container made.
# Seen with Linux 6.18.44: one name: has it; two names: none; two names with index=on: has it.
# As root, with mkfs.ext4 and python3.
set -euo pipefail
dir=$(mktemp -d)
trap 'umount -l "$dir/disk/merged" "$dir/disk" 2>/dev/null || true; rm -rf "$dir"' EXIT
echo "Linux $(uname -r)"
mkdir "$dir/disk"
truncate -s 64M "$dir/image"
mkfs.ext4 -q "$dir/image"
mount -o loop "$dir/image" "$dir/disk"
cd "$dir/disk"
mkdir lower merged
echo one >lower/single
echo two >lower/double
ln lower/double lower/other
origin() { # whether the copy of lower/$1 in a mount with the option $2 has the attribute
	rm -rf upper work && mkdir upper work
	mount -t overlay overlay -o "lowerdir=lower,upperdir=upper,workdir=work,$2" merged
	echo more >>"merged/$1"
	umount merged
	python3 -c 'import os, sys; print("yes" if "trusted.overlay.origin" in os.listxattr(sys.argv[1]) else "no")' "upper/$1"
}
single=$(origin single index=off) double=$(origin double index=off) indexed=$(origin double index=on)
echo "trusted.overlay.origin: one name: $single; two names: $double; two names, index=on: $indexed"
cd /
[ "$single $double $indexed" = "yes no yes" ] || { echo "changed"; exit 1; }
