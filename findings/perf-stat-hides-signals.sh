#!/bin/bash
# perf stat exits with 0 where its command was killed by a signal, and now and then does not say that it was.
#
# A command's own exit code is passed on. A death by a signal leaves one line, "sh: Killed", which is missing in some
# runs: the handler of SIGCHLD forgets the child, so that no status is read where it comes before wait4. Such an output
# is like that of a command that succeeded. Seen with perf 6.1.176: 3 to 15 of 100 runs without it.
# Installs the package, with the libraries that it names, in a temporary folder.
set -euo pipefail
version=6.1.176-1
dir=$(mktemp -d)
chmod 755 "$dir"
trap 'rm -rf "$dir"' EXIT
libraries=$(apt-cache show "linux-perf=$version" | sed -n 's/^Depends: //p' | tr ',' '\n' | sed -n 's/^ *\(lib[a-z0-9.+-]*\).*/\1/p')
# shellcheck disable=SC2086
(cd "$dir" && apt-get -qq -o APT::Sandbox::User=root download "linux-perf=$version" $libraries &&
	for package in *.deb; do dpkg -x "$package" root; done)
export LD_LIBRARY_PATH="$dir/root/usr/lib/x86_64-linux-gnu:$dir/root/lib/x86_64-linux-gnu" LC_ALL=C
perf="$dir/root/usr/bin/perf"
own=0
"$perf" stat -- sh -c 'exit 3' >"$dir/log" 2>&1 || own=$?
statuses="" silent=0
for _ in $(seq 300); do
	status=0
	"$perf" stat -- sh -c 'kill -9 $$' >"$dir/log" 2>&1 || status=$?
	grep -q Killed "$dir/log" || silent=$((silent + 1))
	[[ " $statuses " == *" $status "* ]] || statuses="${statuses:+$statuses }$status"
done
echo "perf $version: exit status of 'exit 3': $own; of 300 killed commands: $statuses; without a line that says so: $silent"
[ "$own" = 3 ] && [ "$statuses" = 0 ] && [ "$silent" -gt 0 ] && [ "$silent" -lt 300 ] || { echo "changed"; exit 1; }
