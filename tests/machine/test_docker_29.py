"""Docker 29 and containerd 2.3, built from Go modules: what a new installation uses, and the kit's arms on both."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from kit.arms.engines.docker_server import Dockerd
from kit.arms.engines.supervisor import Program
from kit.arms.image.recipe import read_recipe
from kit.core.paths import find_paths
from kit.model.arm import parse_arm
from kit.model.drivers import Docker, default_driver
from kit.model.fact import DRIVER_STATUS, PROGRAM
from kit.report.text.progress import Quiet
from kit.session.execute.session_loop import held_machine
from kit.session.setup.provision import Provision
from tests.command_line import Kit
from tests.engine_suite import EngineSuite, spec_of
from tests.machine.arms import reporting
from tests.needs import needs

#: Its programs take about ten minutes of CPU to build.
ASKED = os.environ.get("KIT_TEST_DOCKER_29")
pytestmark = [
    pytest.mark.machine,
    pytest.mark.unmeasured,
    pytest.mark.images(*(["docker-29"] if ASKED else [])),
    pytest.mark.skipif(not ASKED, reason="KIT_TEST_DOCKER_29 is not set: building Docker 29 takes ten minutes of CPU"),
]

ARMS = (
    "layer:docker@29/overlayfs", "bind:docker@29/overlay2", "layer:docker@29/stargz",
    "layer:containerd@2.3/overlayfs", "layer:containerd@2.3/erofs", "layer:containerd@2.3/fuse-overlayfs",
    "layer:containerd@2.3/stargz",
)  # fmt: skip


class Unconfigured(Dockerd):
    """Without what the kit says of drivers: dockerd chooses, as in a new installation."""

    def programs(self) -> tuple[Program, ...]:
        containerd, dockerd = super().programs()
        (self.home.directory / "dockerd.json").write_text("{}")
        words = [word for word in dockerd.argv if not word.startswith("--storage-driver")]
        return containerd, Program(dockerd.name, words, dockerd.socket)


class Upgraded(Unconfigured):
    """In a data-root that a graph driver has used before."""

    def programs(self) -> tuple[Program, ...]:
        (self.home.data / "overlay2/l").mkdir(parents=True)
        return super().programs()


def test_docker_29_uses_the_image_store_by_itself_and_runs_both_drivers(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = EngineSuite()
    with held_machine("docker-29", find_paths(), True, Quiet()) as lease:
        spec = spec_of(lease, tiny)
        for part, server, driver, image_store in (
            ("new", Unconfigured, default_driver("docker@29", Docker()), True),
            ("kept", Upgraded, Docker("29", kept="overlay2").driver, False),
        ):
            run, group = lease.setting.run / part, f"{lease.setting.cgroup}/{part}"
            run.mkdir()
            own = replace(spec, setting=replace(lease.setting, run=run, cgroup=group, part=part))
            with monkeypatch.context() as patched, Provision(own) as made:
                patched.setattr("kit.arms.engines.docker.Dockerd", server)
                chosen = parse_arm(f"layer:docker@29/{driver}")
                assert made.ready(chosen) is None
                suite.test_runs_commands_in_an_empty_tree(made, chosen)
                (status,) = [fact.text for fact in made.facts() if fact.kind is DRIVER_STATUS]
                assert (status == "driver-type: io.containerd.snapshotter.v1") == image_store, status
        with Provision(spec) as made:
            arms = [parse_arm(text) for text in ARMS]
            assert made.all_ready(arms) == {}
            for arm in arms:
                suite.test_runs_commands_in_an_empty_tree(made, arm)
                suite.test_every_run_starts_from_the_same_state(made, arm)
            facts = {fact.key: fact.text for fact in made.facts() if fact.kind in (PROGRAM, DRIVER_STATUS)}
    versions = dict(package.rpartition("/")[2].split("@") for package in read_recipe("docker-29").go_programs)
    assert facts["dockerd of docker@29"].startswith("Docker version 29.")
    assert f" {versions['containerd'].lstrip('v')}" in facts["containerd of containerd@2.3"].replace(" v", " ")
    assert "snapshotter" in facts["overlayfs of docker@29 on ext4"]
    assert "snapshotter" not in facts["overlay2 of docker@29 on ext4"]


@pytest.mark.images("storage")
@needs("docker-registry")
def test_a_lazy_snapshotter_fetches_what_a_container_reads(kit: Kit, tmp_path: Path) -> None:
    arms, out = ("layer:docker@29/overlayfs", "layer:docker@29/stargz", "layer:containerd@2.3/stargz"), tmp_path / "out"
    words = ("pull:short", "--param", "compression=estargz", "--arms", ",".join(arms), "--rounds", "1")
    done = kit("compare", *words, "--size", "6G", "--json", out, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert {item["status"] for item in found["samples"]} == {"ok"}
    holding = reporting(found, "disk used by the pulled image")
    assert holding == {"layer:docker@29/overlayfs"}  # after a lazy pull the disk holds next to nothing
