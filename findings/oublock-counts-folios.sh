#!/bin/bash
# ru_oublock of a process that writes single bytes into a cached file counts whole folios, hundreds of times what it
# wrote.
#
# getrusage(), GNU time ("File system outputs") and hyperfine-like tools report it as bytes written. It is counted where
# a folio becomes dirty, and the page cache of ext4 with blocks of 4 KiB and of XFS has folios of up to 2 MiB. Seen with Linux 6.18.44: 64 bytes
# written 1 MiB apart into a file of 64 MiB that was read before count as tens of MiB; 64 pages are 0.25 MiB.
# As root, with mkfs.xfs and python3.
set -euo pipefail
dir=$(mktemp -d)
trap 'umount -l "$dir/disk" 2>/dev/null || true; rm -rf "$dir"' EXIT
echo "Linux $(uname -r)"
mkdir "$dir/disk"
for filesystem in "ext4 -b 4096" xfs; do
	rm -f "$dir/image"
	truncate -s 512M "$dir/image"
	mkfs.$filesystem -q "$dir/image"
	mount -o loop "$dir/image" "$dir/disk"
	head -c 64M /dev/urandom >"$dir/disk/file"
	sync -f "$dir/disk"
	umount "$dir/disk"
	mount -o loop "$dir/image" "$dir/disk"
	mib=$(python3 - "$dir/disk/file" <<'END'
import os, resource, sys
with open(sys.argv[1], "rb") as file:
    while file.read(1 << 20):
        pass
before = resource.getrusage(resource.RUSAGE_SELF).ru_oublock
descriptor = os.open(sys.argv[1], os.O_WRONLY)
for number in range(64):
    os.pwrite(descriptor, b"x", number << 20)
print(round((resource.getrusage(resource.RUSAGE_SELF).ru_oublock - before) * 512 / 2**20, 2))
END
)
	echo "$filesystem: 64 bytes in 64 pages (0.25 MiB) count as $mib MiB"
	[ "${mib%.*}" -ge 4 ] || failed=1
	umount "$dir/disk"
done
[ -z "${failed:-}" ] || { echo "changed"; exit 1; }
