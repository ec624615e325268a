#!/bin/bash
# O_DIRECT succeeds, and goes through the page cache, on ext4 with data=journal and on tmpfs.
#
# A benchmark that opens with O_DIRECT and gets no error may measure memory. Seen with Linux 6.18.44: after a write of
# 8 MiB with O_DIRECT all pages of the file are in the page cache on both; on ext4 with data=ordered none is.
# As root, with mkfs.ext4 and fincore (util-linux).
set -euo pipefail
dir=$(mktemp -d)
trap 'umount -l "$dir/disk" 2>/dev/null || true; rm -rf "$dir"' EXIT
echo "Linux $(uname -r)"
mkdir "$dir/disk"
cached() { # MiB of a file in the page cache, written with O_DIRECT
	dd if=/dev/zero of="$dir/disk/file" bs=1M count=8 oflag=direct status=none
	echo $(($(fincore --bytes --noheadings --output RES "$dir/disk/file") >> 20))
	umount "$dir/disk"
}
truncate -s 256M "$dir/image"
mkfs.ext4 -q "$dir/image"
mount -o loop,data=ordered "$dir/image" "$dir/disk"
ordered=$(cached)
mount -o loop,data=journal "$dir/image" "$dir/disk"
journal=$(cached)
mount -t tmpfs tmpfs "$dir/disk"
tmpfs=$(cached)
echo "MiB of 8 in the page cache: ext4 data=ordered $ordered, ext4 data=journal $journal, tmpfs $tmpfs"
[ "$ordered $journal $tmpfs" = "0 8 8" ] || { echo "changed"; exit 1; }
