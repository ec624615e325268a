#!/bin/bash
# /proc/self/mountinfo shows redirect_dir of an overlay mount only where it differs from the module's parameter, and
# metacopy=on turns redirect_dir on by itself.
#
# "The option is not there" is no proof that it is off. Seen with Linux 6.18.44: a mount with redirect_dir=on shows it
# while the module's default is N, and the same mount shows nothing once the default is Y.
# As root. It sets a parameter of the module overlay for a moment, and sets it back.
set -euo pipefail
dir=$(mktemp -d)
parameter=/sys/module/overlay/parameters/redirect_dir
default=$(cat $parameter)
trap 'echo "$default" >$parameter; umount -l "$dir/m/merged" "$dir/m" 2>/dev/null || true; rm -rf "$dir"' EXIT
echo "Linux $(uname -r), redirect_dir of the module: $default"
mkdir "$dir/m"
mount -t tmpfs tmpfs "$dir/m"
mkdir "$dir/m/lower" "$dir/m/upper" "$dir/m/work" "$dir/m/merged"
shown() { # the options of a mount with $1 that mountinfo shows, of these three
	rm -rf "$dir/m/work" && mkdir "$dir/m/work"
	mount -t overlay overlay -o "lowerdir=$dir/m/lower,upperdir=$dir/m/upper,workdir=$dir/m/work,$1" "$dir/m/merged"
	grep " $dir/m/merged " /proc/self/mountinfo | grep -oE '(redirect_dir|metacopy|index)=[a-z]+' | sort | tr '\n' ' '
	umount "$dir/m/merged"
}
echo N >$parameter
off=$(shown redirect_dir=on)
metacopy=$(shown metacopy=on)
echo Y >$parameter
on=$(shown redirect_dir=on)
echo "mounted with redirect_dir=on, default N: shows '$off'"
echo "mounted with metacopy=on, default N: shows '$metacopy'"
echo "mounted with redirect_dir=on, default Y: shows '$on'"
[ "$off" = "redirect_dir=on " ] && [ "$metacopy" = "metacopy=on redirect_dir=on " ] && [ -z "$on" ] || { echo "changed"; exit 1; }
