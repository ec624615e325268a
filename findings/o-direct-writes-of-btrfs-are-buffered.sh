#!/bin/bash
# O_DIRECT succeeds on btrfs, and each page is copied into the page cache and written from there, unless the file has no
# checksums (nodatasum).
#
# Since Linux 6.14 btrfs buffers a direct write of data that need a checksum. The pages are dropped after the write, so
# fincore shows none. A benchmark of direct writes measures buffered and synchronous ones. Seen with Linux 6.18.44: of
# 16,384 pages 16,384 become dirty on btrfs, none with nodatasum, none on ext4. Other programs dirty pages too: the least
# of three tries counts.
# As root, with mkfs.btrfs, mkfs.ext4, losetup and python3.
set -euo pipefail
dir=$(mktemp -d)
trap 'umount -l "$dir/disk" 2>/dev/null || true; [ -z "${loop:-}" ] || losetup -d "$loop"; rm -rf "$dir"' EXIT
echo "Linux $(uname -r), $(mkfs.btrfs --version | head -n 1)"
mkdir "$dir/disk"
dirtied() { # filesystem, mount option: pages that become dirty in a direct write of 64 MiB to a new file
	truncate -s 512M "$dir/image"
	"mkfs.$1" -q "$dir/image" 2>/dev/null >&2
	loop=$(losetup --find --show --direct-io=on "$dir/image")
	mount -o "$2" "$loop" "$dir/disk"
	python3 -c '
import mmap, os, sys

def dirtied():
    with open("/proc/vmstat") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("nr_dirtied "))

memory = mmap.mmap(-1, 1 << 20)
memory.write(b"x" * (1 << 20))
tries = []
for number in range(3):
    descriptor = os.open(f"{sys.argv[1]}/{number}", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    before = dirtied()
    for each in range(64):
        os.pwritev(descriptor, [memory], each << 20)
    tries.append(dirtied() - before)
    os.close(descriptor)
print(min(tries))' "$dir/disk"
	umount "$dir/disk"
	losetup -d "$loop"
	loop=
	rm "$dir/image"
}
btrfs=$(dirtied btrfs defaults)
nodatasum=$(dirtied btrfs nodatasum)
ext4=$(dirtied ext4 defaults)
echo "pages of 16384 that became dirty: btrfs $btrfs, btrfs with nodatasum $nodatasum, ext4 $ext4"
((btrfs >= 16384 && nodatasum < 8192 && ext4 < 8192)) || { echo "changed"; exit 1; }
