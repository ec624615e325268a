"""The DaemonSet of a fleet's workers, against its API's schema, the image's Dockerfile, and what docker run grants."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from kit.host import container
from tests.command_line import Kit

ROOT = Path(__file__).parents[1]
FILE = ROOT / "examples/kubernetes/kit-worker.yaml"
PAGES = ROOT / "docs/how-to"


def read(text: str) -> Any:
    import yaml  # not of all environments that collect this module

    return yaml.safe_load(text)


def pod() -> Any:
    return read(FILE.read_text())["spec"]["template"]["spec"]


def docker_run() -> list[str]:
    """Return the options of docker run that the page names."""
    text = (PAGES / "run-in-a-container.md").read_text().replace("\\\n", " ")
    (found,) = re.findall(r"^ *docker run (.*) kit doctor$", text, re.M)
    return shlex.split(found)


def check(text: str) -> None:
    """Raises jsonschema.ValidationError, also for a field that the API does not have."""
    utils = pytest.importorskip("kubernetes_validate.utils")
    utils.validate(read(text), utils.latest_version(), strict=True)


def test_it_keeps_to_the_schema_of_its_api() -> None:
    check(FILE.read_text())


def test_no_workload_finds_a_token_of_the_cluster() -> None:
    assert pod()["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("hostPID:", "hostPid:"),
        ("privileged:", "priviledged:"),
        ("hostPath: {path: /dev,", "hostPath: {paths: /dev,"),
        ("args: [fleet,", "args: [1,"),
        ("matchLabels:", "matchLabel:"),
    ],
)
def test_the_schema_is_one_that_says_no(old: str, new: str) -> None:
    text = FILE.read_text()
    assert text.count(old) == 1
    jsonschema = pytest.importorskip("jsonschema")
    with pytest.raises(jsonschema.ValidationError):
        check(text.replace(old, new))


def test_the_page_shows_the_file() -> None:
    assert f"```yaml\n{FILE.read_text()}```" in (PAGES / "fleet.md").read_text()


def test_it_grants_what_docker_run_does() -> None:
    words = docker_run()
    (worker,) = pod()["containers"]
    assert "--pid=host" in words and pod()["hostPID"] is True
    assert "--privileged" in words and worker["securityContext"] == {"privileged": True}
    volumes = [words[at + 1].split(":") for at, word in enumerate(words) if word == "--volume"]
    hosts = {item["name"]: item["hostPath"]["path"] for item in pod()["volumes"] if "hostPath" in item}
    mounts = {item["mountPath"]: hosts[item["name"]] for item in worker["volumeMounts"] if item["name"] in hosts}
    assert mounts == {target: source if "/" in source else target for source, target in volumes} and len(mounts) == 3


def test_what_errors_advise_is_what_the_page_says() -> None:
    given = " ".join(docker_run())
    for options in (container.RIGHTS, container.CGROUPS, container.DEVICES, container.PROCESSES, container.DISK):
        assert options in given


def test_its_command_is_the_images(kit: Kit) -> None:
    lines, (worker,) = (ROOT / "examples/docker/Dockerfile").read_text().splitlines(), pod()["containers"]
    assert 'ENTRYPOINT ["kit"]' in lines and "command" not in worker
    assert "ENV KIT_HOME=/var/lib/kit DM_DISABLE_UDEV=1" in lines and "VOLUME /var/lib/kit" in lines
    done = kit(*worker["args"], "--help")
    assert done.returncode == 0 and "Add this machine to a fleet" in done.stdout, done.stderr
