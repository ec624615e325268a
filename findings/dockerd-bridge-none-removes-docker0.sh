#!/bin/bash
# dockerd --bridge=none removes docker0, also one that another daemon of the same network namespace made and uses.
#
# A second, private daemon that is started "without any network" cuts the network of the first one's containers. Seen
# with Docker 20.10.24.
# As root. Everything happens in a network and mount namespace of its own, with Debian's packages in a temporary folder.
set -euo pipefail
packages="docker.io=20.10.24+dfsg1-1+deb12u1+b6 containerd=1.6.20~ds1-1+deb12u3"
if [ "${1:-}" != inside ]; then
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	(cd "$dir" && apt-get -qq -o APT::Sandbox::User=root download $packages && for file in *.deb; do dpkg -x "$file" root; done)
	PATH="$dir/root/usr/sbin:$dir/root/usr/bin:$PATH" unshare --net --mount --pid --fork --kill-child --mount-proc bash "$0" inside "$dir"
	exit
fi
dir=$2
dockerd --version
ip link set lo up
mount -t tmpfs tmpfs /run
mkdir /run/lock
start() { # starts a daemon named $1 with more options
	local name=$1
	shift
	mkdir "$dir/$name"
	dockerd --data-root="$dir/$name/data" --exec-root="/run/$name" --pidfile="$dir/$name/pid" --iptables=false \
		--host="unix:///run/$name.sock" --storage-driver=vfs "$@" >"$dir/$name/log" 2>&1 &
	for _ in $(seq 300); do
		curl -sf --unix-socket "/run/$name.sock" http://localhost/_ping >/dev/null && return
		sleep 0.2
	done
	tail -n 5 "$dir/$name/log"
	exit 2
}
start first
before=$(ip -brief link show docker0 2>/dev/null | cut -d ' ' -f 1)
start second --bridge=none
after=$(ip -brief link show docker0 2>/dev/null | cut -d ' ' -f 1 || true)
echo "with the first daemon: '$before'; after the second, --bridge=none: '$after'"
[ "$before" = docker0 ] && [ -z "$after" ] || { echo "changed"; exit 1; }
