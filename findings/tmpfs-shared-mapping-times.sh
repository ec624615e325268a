#!/bin/bash
# On tmpfs a store through a shared mapping changes a file without moving its mtime or ctime, where the page was read
# before.
#
# Whoever looks for changed files by their times (rsync, backup, make) misses it; ext4 moves both. Seen with Linux
# 6.18.44: tmpfs leaves both times where they are, ext4 moves both.
# As root, with mkfs.ext4 and python3.
set -euo pipefail
dir=$(mktemp -d)
trap 'umount -l "$dir/ext4" "$dir/tmpfs" 2>/dev/null || true; rm -rf "$dir"' EXIT
echo "Linux $(uname -r)"
mkdir "$dir/ext4" "$dir/tmpfs"
truncate -s 64M "$dir/image"
mkfs.ext4 -q "$dir/image"
mount -o loop "$dir/image" "$dir/ext4"
mount -t tmpfs tmpfs "$dir/tmpfs"
store() { # prints whether the times moved
	python3 - "$1" <<'END'
import mmap, os, sys, time
path = sys.argv[1]
open(path, "wb").write(b"a" * 4096)
os.utime(path, (1, 1))
open(path, "rb").read()
before = os.stat(path)
time.sleep(0.1)
with open(path, "r+b") as file, mmap.mmap(file.fileno(), 4096) as mapping:
    mapping[0]
    mapping[0] = ord("b")
    mapping.flush()
after = os.stat(path)
assert open(path, "rb").read(1) == b"b"
print("mtime", "moved" if after.st_mtime_ns != before.st_mtime_ns else "stayed",
      "ctime", "moved" if after.st_ctime_ns != before.st_ctime_ns else "stayed")
END
}
ext4=$(store "$dir/ext4/file")
tmpfs=$(store "$dir/tmpfs/file")
echo "ext4: $ext4"
echo "tmpfs: $tmpfs"
[ "$ext4 $tmpfs" = "mtime moved ctime moved mtime stayed ctime stayed" ] || { echo "changed"; exit 1; }
