# run.sh JOBFILE: run it as it is, with DIRECT=1 in its environment where this filesystem accepts O_DIRECT, else 0.
# Accepted is not honoured: tmpfs, ext4 with data=journal, btrfs and FUSE daemons may write through the page cache.
if dd if=/dev/zero of=direct-test bs=4096 count=1 oflag=direct status=none 2>/dev/null; then
	DIRECT=1
	cached=$(fincore --bytes --noheadings --output RES direct-test 2>/dev/null | tr -d ' ')
	if [ "${cached:-0}" != 0 ]; then
		echo "this filesystem accepts O_DIRECT, but goes through the page cache: the figures are not the disk's"
	else
		echo "this filesystem accepts O_DIRECT; tmpfs, data=journal, btrfs and FUSE may still use the page cache"
	fi
else
	DIRECT=0
	echo "this filesystem has no O_DIRECT: DIRECT=0, through the page cache"
fi
rm -f direct-test
echo "kit: O_DIRECT accepted = $DIRECT"
export DIRECT
exec fio --output-format=json "$1"
