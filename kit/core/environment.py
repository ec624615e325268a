"""The environment variables that a user may set, and what each does."""

from __future__ import annotations

from collections.abc import Mapping

VARIABLES: Mapping[str, str] = {
    "KIT_HOME": "one directory for everything, where programs may run (no noexec): config.toml, data (store, logs, "
    "outbox), cache, state. Without it these follow the XDG rules; the cache is then ~/.cache/storage-driver-test-kit",
    "KIT_STORE": "URL of the store; `--store` comes first. Put a password here: on the command line every user of the "
    "machine sees it",
    "KIT_CACHE_FROM": "places with images and inputs, separated by blanks; `--cache-from` comes first",
    "KIT_FLEET": "the scheduler's address for `kit fleet status`",
    "KIT_FLEET_TLS": "directory of the certificates, for `--tls` and `--fleet-tls`",
    "KIT_FLEET_CLASS": "class of a worker that a cluster starts",
    "KIT_TEST_INPUTS": "for the tests: sources that need no network",
    "DOCKER_HOST": "the running Docker of `--engine system`",
    "XDG_CONFIG_HOME": "directory of the user's settings, without KIT_HOME",
    "XDG_RUNTIME_DIR": "sockets of an ordinary user's session; /tmp/kit-UID without it",
    "TMPDIR": "where an ordinary user's mmdebstrap unpacks images, if all users may enter it; else /var/tmp",
    "GITHUB_STEP_SUMMARY": "a file to which `kit nightly` appends its summary",
    "NO_COLOR": "no colours on a terminal",
    "SSL_CERT_FILE": "an authority of your own for `--cache-from https://…`",
    "http_proxy": "also `https_proxy`, `no_proxy`: passed to the `fetch` commands of a scenario, too",
}
