# make compare: a first real table.   make test: all tests.   Both do all set-up themselves.
PYTHON ?= python3
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
VENV := .venv
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin

.PHONY: compare test system clean

compare: system $(VENV)/bin/kit
	@echo "measuring: until each arm is decided, 10 minutes at most, after one or two for the image where it is new"
	$(SUDO) $(VENV)/bin/kit compare kernel:short $(ARGS)

test: TOOLS += strace:strace docker-registry:docker-registry skopeo:skopeo chromium:chromium pg_lsclusters:postgresql systemd-analyze:systemd runsc:runsc rootlesskit:rootlesskit aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc:libc6-dev-arm64-cross
test: FONT = fonts-dejavu-core
test: system $(VENV)/bin/tox
	$(SUDO) $(VENV)/bin/tox run-parallel --parallel all --parallel-live --parallel-no-spinner $(ARGS)

# What the kit calls, as COMMAND:PACKAGE. A command that is there already brings no package with it, so that another
# vendor's Docker is left alone. The kit's own image (images/kit) has these packages too: a test compares the lists.
TOOLS = dockerd:docker.io containerd:containerd runc:runc mkfs.btrfs:btrfs-progs mkfs.xfs:xfsprogs mkfs.ext4:e2fsprogs \
	fuse-overlayfs:fuse-overlayfs mmdebstrap:mmdebstrap cc:gcc zstd:zstd xz:xz-utils setpriv:util-linux wipefs:util-linux \
	make:make rsync:rsync git:git podman:podman buildah:buildah conmon:conmon newuidmap:uidmap unionfs-fuse:unionfs-fuse mergerfs:mergerfs bpftrace:bpftrace perf:linux-perf

system:
	@if ! command -v apt-get >/dev/null; then echo "no apt-get here: see kit doctor for what is missing"; exit 0; fi; \
	missing=""; \
	for pair in $(TOOLS); do command -v "$${pair%%:*}" >/dev/null || missing="$$missing $${pair#*:}"; done; \
	[ -z "$(FONT)" ] || [ -d /usr/share/fonts/truetype/dejavu ] || missing="$$missing $(FONT)"; \
	[ -e /usr/include/stdio.h ] || missing="$$missing libc6-dev"; \
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || missing="$$missing python3-venv"; \
	apt-cache show linux-source-6.1 >/dev/null 2>&1 || refresh=yes; \
	if [ -n "$$missing$$refresh" ]; then $(SUDO) apt-get update -q; fi; \
	if [ -n "$$missing" ]; then \
		DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -q -y --no-install-recommends $$missing </dev/null; \
	fi

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/bin/kit: $(VENV)/bin/python pyproject.toml
	$(VENV)/bin/pip install --quiet --editable '.[all]'
	@touch $@

$(VENV)/bin/tox: $(VENV)/bin/python
	$(VENV)/bin/pip install --quiet 'tox>=4.11'
	@touch $@

clean:
	rm -rf $(VENV) .tox
