#!/bin/bash
# A file that overlayfs copied up, and that is removed then, gives its inode number to the next copy-up on ext4.
#
# A tracer that counts copy-ups by the inode of the new file in the upper directory therefore counts a loop of "append,
# remove" over fifty lower files as one. Seen with Linux 6.18.44, e2fsprogs 1.47.0: 1 inode number for 50 copy-ups.
# As root, with mkfs.ext4.
set -euo pipefail
dir=$(mktemp -d)
trap 'umount -l "$dir/merged" "$dir/disk" 2>/dev/null || true; rm -rf "$dir"' EXIT
echo "Linux $(uname -r), $(mkfs.ext4 -V 2>&1 | head -n 1)"
truncate -s 64M "$dir/image"
mkfs.ext4 -q "$dir/image"
mkdir "$dir/disk" "$dir/merged"
mount -o loop "$dir/image" "$dir/disk"
mkdir "$dir/disk/lower" "$dir/disk/upper" "$dir/disk/work"
for number in $(seq 50); do echo four >"$dir/disk/lower/$number"; done
mount -t overlay overlay -o "lowerdir=$dir/disk/lower,upperdir=$dir/disk/upper,workdir=$dir/disk/work" "$dir/merged"
for number in $(seq 50); do
	echo more >>"$dir/merged/$number"
	stat -c %i "$dir/disk/upper/$number" >>"$dir/inodes"
	rm "$dir/merged/$number"
done
count=$(sort -u "$dir/inodes" | wc -l)
echo "copy-ups: 50, inode numbers of their files: $count"
[ "$count" -lt 5 ] || { echo "changed: expected fewer than 5"; exit 1; }
