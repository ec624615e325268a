#!/bin/bash
# posix_fallocate() of a file on ext3 is one write for each block: 16,384 for 64 MiB.
#
# The C library falls back to writing where the filesystem has no fallocate(), so "allocation" costs what writing costs,
# also in page cache and journal. Seen with glibc 2.36, Linux 6.18.44: no write on ext4, 16,384 on ext3.
# As root, with strace and python3.
set -euo pipefail
dir=$(mktemp -d)
trap 'umount -l "$dir/disk" 2>/dev/null || true; rm -rf "$dir"' EXIT
echo "Linux $(uname -r), $(ldd --version | head -n 1)"
mkdir "$dir/disk"
for filesystem in ext3 ext4; do
	rm -f "$dir/image"
	truncate -s 256M "$dir/image"
	"mkfs.$filesystem" -q -b 4096 "$dir/image"
	mount -o loop "$dir/image" "$dir/disk"
	strace -f -e trace=pwrite64 -o "$dir/$filesystem" python3 -c '
import os, sys
descriptor = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
os.posix_fallocate(descriptor, 0, 64 << 20)' "$dir/disk/file"
	echo "$filesystem: $(grep -c pwrite64 "$dir/$filesystem" || true) writes"
	umount "$dir/disk"
done
[ "$(grep -c pwrite64 "$dir/ext3")" = 16384 ] && ! grep -q pwrite64 "$dir/ext4" || { echo "changed"; exit 1; }
