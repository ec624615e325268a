# A serial build of $3 units with the preloaded delay: $1 where, $2 microseconds.
export SLOW_WHERE="$1" SLOW_US="$2" SLOW_LEDGER="$PWD/ledger" LD_PRELOAD="$PWD/slow.so"
i=0
while [ "$i" -lt "$3" ]; do
	cc -O1 -c unit.c -o "unit$i.o" || exit 1
	i=$((i + 1))
done
