# make compare: a first real table.   make test: all tests.   Both do all set-up themselves.
# make users-machine: the kit on a stock Debian 12 and 13, booted here: see tests/README.md.
PYTHON ?= python3
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
VENV := .venv
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin

.PHONY: compare test users-machine releases findings system clean

compare: packages-of-compare $(VENV)/bin/kit
	@echo "measuring: until each arm is decided, 10 minutes or three rounds at most, after one or two for the image where it is new"
	$(SUDO) $(VENV)/bin/kit compare kernel:short $(ARGS)

test: packages-of-test $(VENV)/bin/tox
	$(SUDO) $(VENV)/bin/tox run-parallel --parallel all --parallel-live --parallel-no-spinner $(ARGS)

# What is built for it, a kernel and two Debians, is kept.
users-machine: packages-of-test $(VENV)/bin/tox
	$(SUDO) env KIT_TEST_USERS_MACHINE=$${KIT_TEST_USERS_MACHINE:-/var/cache/kit-users-machine} \
		$(VENV)/bin/tox run -e machine -- tests/users_machine --numprocesses 0 $(ARGS)

# With what registries serve today: see CONTRIBUTING.md. Programs built from crates are kept.
releases: packages-of-test $(VENV)/bin/tox
	@status=0; $(SUDO) env KIT_TEST_RELEASES=$${KIT_TEST_RELEASES:-/var/cache/kit-releases} \
		$(VENV)/bin/tox run -e machine -- tests/releases --numprocesses 1 --reruns 0 --timeout 7200 $(ARGS) || status=1; \
		$(VENV)/bin/python docs/generate.py releases; exit $$status

# See CONTRIBUTING.md.
findings:
	@status=0; for script in findings/*.sh; do echo "$$script"; $(SUDO) bash $$script || status=1; done; exit $$status

system: packages-of-test

packages-of-%:
	@PYTHON=$(PYTHON) .ci/install-packages $*

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
