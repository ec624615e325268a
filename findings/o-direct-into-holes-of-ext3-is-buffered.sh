#!/bin/bash
# On ext2 and ext3 a direct write into a hole is buffered; one that extends the file is not.
#
# A benchmark that makes its file with ftruncate() and then writes with O_DIRECT measures the page cache's way there. The
# pages are dropped after the write, so fincore shows none. Seen with Linux 6.18.44, whose ext4 driver serves ext3: of
# 16,384 pages 16,384 become dirty in a hole of ext3 and none in a new file, none on ext4 in either. Other programs dirty
# pages too: the least of three tries counts.
# As root, with mkfs.ext3, mkfs.ext4, losetup and python3.
set -euo pipefail
dir=$(mktemp -d)
trap 'umount -l "$dir/disk" 2>/dev/null || true; [ -z "${loop:-}" ] || losetup -d "$loop"; rm -rf "$dir"' EXIT
echo "Linux $(uname -r)"
mkdir "$dir/disk"
status=0
for filesystem in ext3 ext4; do
	truncate -s 512M "$dir/image"
	"mkfs.$filesystem" -q -b 4096 "$dir/image"
	loop=$(losetup --find --show --direct-io=on "$dir/image")
	mount "$loop" "$dir/disk"
	for size in 0 $((64 << 20)); do
		pages=$(python3 -c '
import mmap, os, sys

def dirtied():
    with open("/proc/vmstat") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("nr_dirtied "))

path, size = sys.argv[1], int(sys.argv[2])
memory = mmap.mmap(-1, 1 << 20)
memory.write(b"x" * (1 << 20))
tries = []
for number in range(3):
    descriptor = os.open(f"{path}/{size}-{number}", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    os.ftruncate(descriptor, size)
    before = dirtied()
    for each in range(64):
        os.pwritev(descriptor, [memory], each << 20)
    tries.append(dirtied() - before)
    os.close(descriptor)
print(min(tries))' "$dir/disk" $size)
		echo "$filesystem, a file of $((size >> 20)) MiB without blocks: $pages of 16384 pages became dirty"
		if [ "$filesystem $size" = "ext3 $((64 << 20))" ]; then ((pages >= 16384)) || status=1; else ((pages < 8192)) || status=1; fi
	done
	umount "$dir/disk"
	losetup -d "$loop"
	loop=
done
[ "$status" = 0 ] || { echo "changed"; exit 1; }
