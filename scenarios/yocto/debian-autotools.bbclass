# Debian's autotools instead of those that bitbake would build first: poky's have options that Debian's lack, and find
# macros and gettext's files in what was built.
EXTRA_AUTORECONF:remove = "--exclude=autopoint"
export AUTOPOINT = "true"
ACLOCALEXTRAPATH:class-native = " -I /usr/share/aclocal"
do_configure[prefuncs] += "debian_autotools"
debian_autotools() {
	mkdir -p ${STAGING_DATADIR_NATIVE}/gettext ${STAGING_BINDIR_NATIVE}
	cp -r /usr/share/gettext/config.rpath /usr/share/gettext/po ${STAGING_DATADIR_NATIVE}/gettext
	# From Yocto 5.2 on, what gettext 0.24 has instead; later, also a template by another name.
	cd ${STAGING_DATADIR_NATIVE}/gettext/po
	sed "/^#/d" remove-potcdate.sin >remove-potcdate.sed
	cp Makevars.template Makevars.template.minimal
	# From Yocto 5.2 on, an option of automake 1.17 for what is a variable before.
	cat >${STAGING_BINDIR_NATIVE}/aclocal <<-'END'
		#!/bin/sh
		case $1 in --aclocal-path=*) ACLOCAL_PATH=${1#*=} && export ACLOCAL_PATH && shift ;; esac
		exec /usr/bin/aclocal "$@"
	END
	chmod +x ${STAGING_BINDIR_NATIVE}/aclocal
}
