# Debian's autotools instead of those that bitbake would build first: poky's have an option that Debian's autoreconf lacks,
# and find macros and gettext's files in what was built.
EXTRA_AUTORECONF:remove = "--exclude=autopoint"
export AUTOPOINT = "true"
ACLOCALEXTRAPATH:class-native = " -I /usr/share/aclocal"
do_configure[prefuncs] += "debian_gettext"
debian_gettext() {
	mkdir -p ${STAGING_DATADIR_NATIVE}
	ln -sfn /usr/share/gettext ${STAGING_DATADIR_NATIVE}/gettext
}
