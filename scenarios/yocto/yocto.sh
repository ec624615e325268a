# What the steps of the scenario do, in the directory that holds oe-init-build-env; bash, as its users source it there.
#   layers                                      check out what a kas file names, into layers/
#   fetch JOBS LOCALCONF TARGETS…               download all sources into downloads/
#   prepare DOWNLOADS JOBS LOCALCONF SSTATE TARGETS…   write the configuration; with SSTATE=on fill the shared state
#   bitbake WORDS…    clean
#   stats                                       print what bitbake has recorded of each task, for report = "buildstats"
set -e
top=$PWD

enter() { # in the build directory, with bitbake on the PATH
	local init
	init=$(find "$top" -maxdepth 2 -name oe-init-build-env | head -n 1)
	[ -n "$init" ] || {
		echo "there is no oe-init-build-env in poky, nor in a directory of it" >&2
		exit 1
	}
	set +eu
	cd "$(dirname "$init")"
	. ./oe-init-build-env "$top/build" >/dev/null
	set -e
}

configure() { # JOBS LOCALCONF
	mkdir -p "$top/build/conf"
	[ ! -d "$top/layers/build" ] || cp -r "$top/layers/build/." "$top/build/"
	enter
	cat >>conf/local.conf <<-END
		BB_NUMBER_THREADS = "$1"
		PARALLEL_MAKE = "-j $1"
		SSTATE_DIR = "\${TOPDIR}/sstate-cache"
		CONNECTIVITY_CHECK_URIS = ""
		INHERIT += "buildstats"
	END
	printf '%s\n' "$2" | tr ';' '\n' | sed 's/^[[:space:]]*//' >>conf/local.conf # bitbake refuses lines that begin with a space
}

case $1 in
layers)
	mkdir layers
	set -- *.yml
	if [ -e "$1" ]; then
		mkdir -p layers/build
		KAS_WORK_DIR=$top/layers KAS_BUILD_DIR=$top/layers/build kas checkout "$1"
	fi
	;;
fetch)
	configure "$2" "$3"
	shift 3
	{
		echo "DL_DIR = \"$top/downloads\""
		echo 'BB_GENERATE_MIRROR_TARBALLS = "1"'
	} >>conf/local.conf
	if bitbake --help | grep -q runall; then bitbake --runall=fetch "$@"; else bitbake -c fetchall "$@"; fi
	# The tarballs alone: clones of repositories are in them, and locks and stamps belong to this directory.
	cd "$top/downloads"
	rm -rf git2 svn ./*.lock ./*.done
	;;
prepare)
	downloads=$2 sstate=$5
	configure "$3" "$4"
	shift 5
	cat >>conf/local.conf <<-END
		DL_DIR = "\${TOPDIR}/downloads"
		INHERIT += "own-mirrors"
		SOURCE_MIRROR_URL = "file://$downloads"
		BB_NO_NETWORK = "1"
	END
	if [ "$sstate" = on ]; then
		bitbake "$@"
		rm -rf tmp tmp-* cache
	fi
	;;
bitbake)
	shift
	enter
	bitbake "$@"
	;;
stats)
	cd "$top/build"
	grep -rE '^(Started|Ended|IO (read|write)_bytes|(Child )?rusage ru_[us]time):' tmp*/buildstats
	;;
clean)
	enter
	bitbake -m >/dev/null 2>&1 || true # its server, if it is still there
	rm -rf tmp tmp-* cache sstate-cache
	;;
*)
	echo "unknown step $1" >&2
	exit 2
	;;
esac
