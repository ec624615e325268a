#!/bin/bash
# Each freeze and thaw of a cgroup v2 adds two voluntary context switches to a process that sleeps, and one to a process
# that runs: they are no doing of the program.
#
# Context switches of a build that was paused now and then count the pauses. Seen with Linux 6.18.44.
# As root, with a cgroup2 mount.
set -euo pipefail
mount=$(findmnt -t cgroup2 -no TARGET | head -n 1)
group=$mount/freezer-finding-$$
trap 'kill -KILL $(cat "$group/cgroup.procs") 2>/dev/null || true; sleep 0.5; rmdir "$group" 2>/dev/null || true' EXIT
echo "Linux $(uname -r)"
mkdir "$group"
switches() { awk '/^voluntary/ { print $2 }' "/proc/$1/status"; }
added() { # voluntary context switches that ten freezes add to the process $1
	local before
	before=$(switches "$1")
	for _ in $(seq 10); do
		echo 1 >"$group/cgroup.freeze"
		until grep -q "frozen 1" "$group/cgroup.events"; do sleep 0.05; done
		echo 0 >"$group/cgroup.freeze"
		until grep -q "frozen 0" "$group/cgroup.events"; do sleep 0.05; done
		sleep 0.05
	done
	echo $(($(switches "$1") - before))
}
sleep 600 &
sleeps=$!
(while :; do :; done) &
runs=$!
echo $sleeps >"$group/cgroup.procs"
echo $runs >"$group/cgroup.procs"
sleep 0.5
of_sleeping=$(added $sleeps) of_running=$(added $runs)
echo "ten freezes: sleep +$of_sleeping, a loop +$of_running"
[ "$of_sleeping" = 20 ] && [ "$of_running" = 10 ] || { echo "changed"; exit 1; }
