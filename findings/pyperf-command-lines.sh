#!/bin/bash
# pyperf times no command that has a line break in an argument: its own process fails, and does not say why.
#
# "sh -c" with two lines is such a command; a script that holds the same lines is timed. Seen with pyperf 2.11.0: exit
# status 1 and a RuntimeError of the process that it starts.
# Installs the package in a temporary folder.
set -euo pipefail
version=2.11.0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet --disable-pip-version-check "pyperf==$version"
printf 'true\ntrue\n' >"$dir/script"
timed() { # exit status of pyperf for a command
	"$dir/venv/bin/python" -m pyperf command --quiet --processes=2 --values=1 --warmups=0 --loops=1 -- "$@" \
		>"$dir/log" 2>&1 && echo 0 || echo $?
}
one=$(timed sh -c 'true; true') two=$(timed sh -c $'true\ntrue') script=$(timed sh "$dir/script")
echo "pyperf $version: exit status with one line: $one, with two: $two, with a script: $script"
[ "$one $two $script" = "0 1 0" ] || { echo "changed"; exit 1; }
