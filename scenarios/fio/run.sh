# run.sh JOBFILE: run it as it is, with DIRECT=1 in its environment where this filesystem has O_DIRECT, else 0.
if dd if=/dev/zero of=direct-test bs=4096 count=1 oflag=direct status=none 2>/dev/null; then
	DIRECT=1
else
	DIRECT=0
	echo "this filesystem has no O_DIRECT: DIRECT=0, through the page cache"
fi
rm -f direct-test
echo "kit: O_DIRECT = $DIRECT"
export DIRECT
exec fio --output-format=json "$1"
