# What the steps of the scenario do, in the directory that holds oe-init-build-env; bash, as its users source it there.
#   layers                                      check out what a kas file names, into layers/
#   fetch GIVEN LOCALCONF TARGETS…              all sources into downloads/: from GIVEN, from Debian, else over the network
#   prepare DOWNLOADS JOBS LOCALCONF SSTATE TARGETS…   write the configuration; with SSTATE=on fill the shared state
#   bitbake WORDS…    clean
#   stats                                       print what bitbake has recorded of each task, for report = "buildstats"
set -e
top=$PWD
here=$(realpath "$(dirname "$0")")

# What kas has checked out goes first; the last is where bitbake-setup checks out.
for init in "$top"/{*/,,layers/*/}oe-init-build-env; do [ ! -e "$init" ] || break; done

enter() { # in the build directory, with bitbake on the PATH
	[ -e "$init" ] || {
		echo "there is no oe-init-build-env in poky, nor in a directory of it or of its layers/" >&2
		exit 1
	}
	set +eu
	cd "$(dirname "$init")"
	# It says where the samples for conf/ are, and is missing where poky was copied without hidden files.
	[ -e .templateconf ] ||
		find meta-{poky,yocto} -name local.conf.sample -printf 'TEMPLATECONF=${TEMPLATECONF:-%h}\n' >.templateconf 2>/dev/null
	. ./oe-init-build-env "$top/build" >/dev/null
	set -e
}

configure() { # JOBS LOCALCONF
	case $init in "$top"/layers/*) rm -rf "$top/build" ;; esac # bitbake-setup's names other directories
	mkdir -p "$top/build/conf" "$top/build/classes"
	cp "$here"/*.bbclass "$top/build/classes"
	local layer sampled=yes
	[ ! -e "$top/build/conf/bblayers.conf" ] || sampled="" # kas wrote it
	enter
	# openembedded-core's samples know none of the layers beside it.
	for layer in "$(dirname "$init")"/../meta-yocto/meta-{yocto-bsp,poky}; do
		[ -n "$sampled" ] && [ -e "$layer" ] || continue
		echo "BBLAYERS += \"$(realpath "$layer")\"" >>conf/bblayers.conf
		[ "${layer##*/}" != meta-poky ] || echo 'DISTRO = "poky"' >>conf/local.conf
	done
	cat >>conf/local.conf <<-END
		BB_NUMBER_THREADS = "$1"
		PARALLEL_MAKE = "-j $1"
		SSTATE_DIR = "\${TOPDIR}/sstate-cache"
		CONNECTIVITY_CHECK_URIS = ""
		INHERIT += "buildstats"
	END
	[ -z "$VARIANT" ] || cat "$here/$VARIANT.conf" >>conf/local.conf
	# A ; within quotes, double or single (\x27), separates nothing; bitbake refuses lines that begin with a space.
	perl -e 'for ($ARGV[0] =~ /(?:"[^"]*"|\x27[^\x27]*\x27|[^;])+/g) { s/^\s+//; print "$_\n" }' -- "$2" >>conf/local.conf
}

fetch_all() { # [-k] TARGETS…
	if bitbake --help | grep -q runall; then bitbake --runall=fetch "$@"; else bitbake -c fetchall "$@"; fi
}

case $1 in
layers)
	rm -rf layers # bitbake-setup's, which poky has given
	mkdir layers
	set -- *.yml
	if [ -e "$1" ]; then
		if [ -d .git ]; then # with commits that the user has not published, and what is not committed at all
			mkdir layers/poky
			cp -a .git layers/poky
			git -C layers/poky reset -q --hard
			git diff --binary HEAD | git -C layers/poky apply --allow-empty
			git -C layers/poky remote add origin . 2>/dev/null || true # kas sets its address; git init made none
		elif [ -e oe-init-build-env ]; then
			mkdir layers/poky
			cp -a .templateconf bitbake meta* oe-init-build-env scripts layers/poky
		fi
		mkdir -p layers/build
		KAS_WORK_DIR=$top/layers KAS_BUILD_DIR=$top/layers/build kas checkout "$1" >"$top/said" 2>&1 || {
			cat "$top/said"
			! grep -q LoadConfigException "$top/said" ||
				echo "kas 3.1 of the image knows the format up to version 12, with refspec for what is commit, tag and branch later"
			exit 1
		}
		cat "$top/said"
	fi
	;;
fetch)
	given=$2
	configure "$(nproc)" "$3"
	shift 3
	mkdir listed "$top/downloads"
	cat >>conf/local.conf <<-END
		INHERIT += "list-sources"
		DL_DIR = "$top/downloads"
		BB_GENERATE_MIRROR_TARBALLS = "1"
	END
	BB_NO_NETWORK=1 fetch_all "$@" || {
		[ "$VARIANT" != native ] || echo "it parses a third of poky's recipes: --param 'localconf=BBMASK = \"\"' takes all" >&2
		exit 1
	}
	mv listed "$top/listed"
	rm -rf tmp tmp-* # its stamps say that all is fetched
	[ ! -d "$given/uninative" ] || cp -r "$given/uninative" "$top/downloads" # no recipe's
	if ! python3 "$here/sources.py" find "$top/listed" "$given" "$top/downloads"; then
		fetch_all -k "$@" || true # what it could not get is named below
		python3 "$here/sources.py" missing "$top/listed" "$top/downloads"
	fi
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
