#!/bin/sh
# The first process of a guest: mounts what the kit needs, runs the session, and ends the machine.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
# LINUX_REBOOT_CMD_POWER_OFF of reboot(2)
end() {
	sync
	exec python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)'
}
# What nothing works without; the host shows the console's last lines.
need() {
	"$@" || {
		echo "kit: this kernel can't do: $*"
		end
	}
}

need mount -t proc proc /proc
need mount -t sysfs sys /sys
mountpoint -q /dev || need mount -t devtmpfs dev /dev  # the kernel may have done so itself
mkdir -p /dev/pts /dev/shm /kit /opt/kit
mount -t devpts -o gid=5,mode=620,ptmxmode=666 pts /dev/pts
for directory in /dev/shm /run /tmp; do mount -t tmpfs -o mode=1777 kit "$directory"; done
mkdir -p /run/lock
need mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up 2>/dev/null

need mount -L kit-data -o noinit_itable /kit
mkdir -p /kit/cache
need mount -L kit-cache -o noinit_itable /kit/cache
need mount -L kit-python -o ro /opt/kit
modules=/lib/modules/$(uname -r)
if [ -n "$(blkid -L kit-modules)" ]; then
	mkdir -p "$modules"
	need mount -L kit-modules -o ro "$modules"
fi
# What filesystems need, and drivers.
modprobe --all --quiet loop btrfs xfs jfs reiserfs nfs nfsd sch_netem zfs $(cat /kit-modules)

# No udev: the device mapper makes its nodes itself.
export DM_DISABLE_UDEV=1
export KIT_HOME=/kit PYTHONPATH=/opt/kit PYTHONDONTWRITEBYTECODE=1
python3 -m kit.extra.guest.agent "$(sed -n 's/.*kit\.channel=\([^ ]*\).*/\1/p' /proc/cmdline)"
cd /
umount /kit/cache /kit
end
