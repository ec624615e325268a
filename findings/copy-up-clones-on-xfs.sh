#!/bin/bash
# A copy-up of overlayfs copies no data where the backing filesystem shares extents: on XFS and btrfs it is a clone.
#
# "A change of one byte copies the whole file" is true on ext4 alone. Bytes written to the disk by one appended byte to
# a file of 64 MiB. Seen with Linux 6.18.44: ext4 about 64 MiB; XFS and btrfs below 1 MiB. The size of the new upper file
# is 64 MiB in all three, so counting sizes overstates what was written by far.
# As root, with mkfs.ext4, mkfs.xfs and mkfs.btrfs.
set -euo pipefail
dir=$(mktemp -d)
trap 'umount -l "$dir/merged" "$dir/disk" 2>/dev/null || true; rm -rf "$dir"' EXIT
echo "Linux $(uname -r), $(mkfs.xfs -V 2>&1), $(mkfs.btrfs --version | head -n 1)"
mkdir "$dir/disk" "$dir/merged"
written() { # sectors of 512 bytes that the loop device has written
	awk '{ print $7 }' "/sys/block/$(basename "$(findmnt -no SOURCE "$dir/disk")")/stat"
}
failed=0
for filesystem in ext4 xfs btrfs; do
	rm -f "$dir/image"
	truncate -s 512M "$dir/image"
	"mkfs.$filesystem" -q "$dir/image"
	mount -o loop "$dir/image" "$dir/disk"
	mkdir "$dir/disk/lower" "$dir/disk/upper" "$dir/disk/work"
	head -c 64M /dev/urandom >"$dir/disk/lower/file"
	sync -f "$dir/disk"
	mount -t overlay overlay -o "lowerdir=$dir/disk/lower,upperdir=$dir/disk/upper,workdir=$dir/disk/work" "$dir/merged"
	before=$(written)
	printf x >>"$dir/merged/file"
	sync -f "$dir/disk"
	kib=$((($(written) - before) / 2))
	echo "$filesystem: one byte appended to a lower file of 65536 KiB; written: $kib KiB;" \
		"size of the upper file: $(stat -c %s "$dir/disk/upper/file")"
	case $filesystem in
	ext4) [ "$kib" -ge 65536 ] || failed=1 ;;
	*) [ "$kib" -lt 4096 ] || failed=1 ;;
	esac
	umount "$dir/merged" "$dir/disk"
done
[ "$failed" = 0 ] || { echo "changed"; exit 1; }
