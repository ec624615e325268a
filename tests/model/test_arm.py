import pytest

from kit.core.errors import UsageError
from kit.model.arm import Arm, engines_of, parse_arm, parse_arms


@pytest.mark.parametrize(
    ("text", "arm"),
    [
        ("bare", Arm("bare")),
        ("bare@xfs", Arm("bare", filesystem="xfs")),
        ("host@tmpfs", Arm("host", filesystem="tmpfs")),
        ("runtime", Arm("runtime", "docker", "overlay2")),
        ("runtime@btrfs", Arm("runtime", "docker", "btrfs", "btrfs")),
        ("layer:overlay2", Arm("layer", "docker", "overlay2")),
        ("layer:btrfs", Arm("layer", "docker", "btrfs", "btrfs")),
        ("bind:overlay2@xfs", Arm("bind", "docker", "overlay2", "xfs")),
        ("layer:docker/vfs", Arm("layer", "docker", "vfs")),
        ("layer:system/overlay2", Arm("layer", "system", "overlay2", "dir")),
        (
            "layer:overlay2+seccomp=unconfined+cpus=1.5",
            Arm("layer", "docker", "overlay2", options=(("cpus", "1.5"), ("seccomp", "unconfined"))),
        ),
        ("layer:aufs", Arm("layer", "docker", "aufs")),
        ("layer:devicemapper", Arm("layer", "docker", "devicemapper")),
        ("layer:zfs", Arm("layer", "docker", "zfs", "zfs")),
        ("build:overlay2", Arm("build", "docker", "overlay2")),
        ("build:docker@26.1/btrfs+buildkit", Arm("build", "docker@26.1", "btrfs", "btrfs", (("buildkit", ""),))),
        ("build:podman/vfs+cache=warm", Arm("build", "podman", "vfs", options=(("cache", "warm"),))),
        (
            "build:buildah/overlay@xfs+cache=changed+mount=cache",
            Arm("build", "buildah", "overlay", "xfs", (("cache", "changed"), ("mount", "cache"))),
        ),
        (
            "build:buildkit@0.34/native+mount=cache",
            Arm("build", "buildkit@0.34", "native", options=(("mount", "cache"),)),
        ),
        ("bind:containerd/native+runtime=crun", Arm("bind", "containerd", "native", options=(("runtime", "crun"),))),
        ("runtime+runtime=runsc", Arm("runtime", "docker", "overlay2", options=(("runtime", "runsc"),))),
        ("layer:system/overlay2+runtime=crun", Arm("layer", "system", "overlay2", "dir", (("runtime", "crun"),))),
        ("layer:overlay2+userns=remap", Arm("layer", "docker", "overlay2", options=(("userns", "remap"),))),
        (
            "layer:podman/overlay+runtime=runc+userns=auto",
            Arm("layer", "podman", "overlay", options=(("runtime", "runc"), ("userns", "auto"))),
        ),
        ("layer:docker/overlay2/podman/vfs", Arm("layer", "podman", "vfs", outer="docker/overlay2")),
        ("bind:docker@26.1/btrfs/docker/vfs", Arm("bind", "docker", "vfs", "btrfs", outer="docker@26.1/btrfs")),
        (
            "layer:podman/overlay/podman/overlay@xfs+data-root=volume+volatile",
            Arm("layer", "podman", "overlay", "xfs", (("data-root", "volume"), ("volatile", "")), "podman/overlay"),
        ),
    ],
)
def test_parses_and_prints_back(text: str, arm: Arm) -> None:
    assert parse_arm(text) == arm
    assert parse_arm(str(arm)) == arm


def test_prints_without_defaults() -> None:
    assert str(parse_arm("layer:docker/overlay2@ext4")) == "layer:overlay2"
    assert str(parse_arm("runtime")) == "runtime:overlay2"
    assert str(parse_arm("bind:overlay2", engine="system")) == "bind:system/overlay2"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not understood"),
        ("layer", "names no driver"),
        ("layer:nope", "unknown driver 'nope'"),
        ("nope:overlay2", "unknown placement 'nope'"),
        ("layer:nope/overlay2", "unknown engine 'nope'"),
        ("bare@", "not understood"),
        ("bare:overlay2", "takes no driver"),
        ("bare+cpus=1", r"takes \+nosync and \+control alone"),
        ("host+nosync", r"takes \+control alone"),
        ("layer:overlay2+nope=1", "unknown option 'nope'"),
        ("layer:overlay2+cpus=many", "not valid"),
        ("layer:overlay2+cpus=1+cpus=2", "given twice"),
        ("layer::x", "not understood"),
        ("layer:buildah/overlay", "buildah only builds images"),
        ("build:containerd/overlayfs", "unknown engine 'containerd'"),
        ("build:system/overlay2", "unknown engine 'system'"),
        ("build:overlay2+cpus=1", "unknown option 'cpus'"),
        ("build:overlay2+cache=cold", "not valid"),
        ("build:overlay2+mount=cache", "classic builder has no cache mounts"),
        ("build:podman/overlay+buildkit", "unknown option 'buildkit'"),
        ("layer:overlay2+cache=warm", "unknown option 'cache'"),
        ("layer:docker/overlay2/vfs", "not understood"),
        ("layer:docker/overlay2/podman/vfs/x", "not understood"),
        ("layer:system/overlay2/podman/vfs", "unknown outer engine 'system'"),
        ("layer:docker/overlay2/system/overlay2", "unknown inner engine 'system'"),
        ("layer:docker/nope/podman/vfs", "unknown outer driver 'nope'"),
        ("layer:docker/overlay2/podman/overlay2", "unknown driver 'overlay2'"),
        ("runtime:docker/overlay2/podman/vfs", "unknown placement in a nested engine 'runtime'"),
        ("build:docker/overlay2/podman/vfs", "unknown placement in a nested engine 'build'"),
        ("union:docker/overlay2/podman/overlay", "a union has no engine"),
        ("layer:overlay2+data-root=volume", "unknown option 'data-root'"),
        ("layer:docker/overlay2/podman/vfs+data-root=layer", "not valid"),
    ],
)
def test_errors_name_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        parse_arm(text)
    assert caught.value.hint
    assert caught.value.exit_code == 2


def test_an_arm_named_twice_is_an_error() -> None:
    with pytest.raises(UsageError, match="named twice"):
        parse_arms("layer:overlay2, layer:docker/overlay2@ext4")
    with pytest.raises(UsageError, match="no arm"):
        parse_arms(" , ")


def test_engines_of_other_versions_and_unions() -> None:
    assert parse_arm("layer:docker@26.1/overlayfs") == Arm("layer", "docker@26.1", "overlayfs")
    assert parse_arm("layer:podman/btrfs").filesystem == "btrfs"
    assert parse_arm("union:overlay@xfs+volatile+metacopy=on") == Arm(
        "union", "", "overlay", "xfs", (("metacopy", "on"), ("volatile", ""))
    )
    for text, says in (
        ("layer:podman/overlay2", "unknown driver 'overlay2'"),
        ("layer:system@4/overlay2", "unknown engine 'system'"),
        ("union:docker/overlay", "a union has no engine"),
        ("union:mergerfs+metacopy=on", "features only with overlay"),
        ("union", "unknown union ''"),
        ("layer:overlay2+metacopy=on", "unknown option 'metacopy'"),
    ):
        with pytest.raises(UsageError, match=says):
            parse_arm(text)


def test_arms_that_name_no_filesystem_are_put_on_each() -> None:
    found = parse_arms("bare,layer:overlay2@xfs,runtime+seccomp=unconfined", filesystems=("ext4", "tmpfs"))
    names = ["bare", "bare@tmpfs", "layer:overlay2@xfs", "runtime:overlay2+seccomp=unconfined"]
    assert list(map(str, found)) == [*names, "runtime:overlay2@tmpfs+seccomp=unconfined"]


def test_containerd_overlay_features_and_thin_pools() -> None:
    assert parse_arm("layer:containerd/devmapper") == Arm("layer", "containerd", "devmapper")
    assert parse_arm("layer:containerd@1.7/btrfs").filesystem == "btrfs"
    assert parse_arm("layer:podman/overlay+volatile+metacopy=on").feature_words == ("metacopy=on", "volatile")
    thin = parse_arm("bind:devicemapper+thinpool+cpus=1")
    assert str(thin) == "bind:devicemapper+cpus=1+thinpool" and thin.own_filesystem
    assert thin.daemon == ("devicemapper", "thinpool") == parse_arm("layer:devicemapper+thinpool").daemon
    assert not parse_arm("layer:overlay2").own_filesystem and not parse_arm("runtime:devicemapper").own_filesystem
    for text, says in (
        ("layer:containerd/overlay2", "unknown driver 'overlay2'"),
        ("layer:containerd/native+metacopy=on", "unknown option 'metacopy'"),
        ("layer:overlay2+thinpool", "unknown option 'thinpool'"),
        ("layer:devicemapper+thinpool=x", "not valid"),
    ):
        with pytest.raises(UsageError, match=says):
            parse_arm(text)


def test_a_build_arm_shares_its_daemon_with_no_other() -> None:
    """Its build cache is its own, and its daemon is frozen with it."""
    cold, warm, layer = (parse_arm(text).daemon for text in ("build:vfs", "build:vfs+cache=warm", "layer:vfs"))
    assert len({cold, warm, layer, parse_arm("build:vfs+control").daemon}) == 4


def test_a_rebuild_has_the_cache_of_an_earlier_build() -> None:
    assert [parse_arm(text).rebuild for text in ("build:vfs+cache=warm", "build:vfs+cache=changed")] == [True, True]
    assert not parse_arm("build:podman/vfs+mount=cache").rebuild and not parse_arm("layer:vfs").rebuild


def test_a_nested_arm_is_an_outer_and_an_inner_one() -> None:
    arm = parse_arm("bind:docker/overlay2/podman/overlay@xfs+data-root=volume+volatile+control")
    assert list(map(str, arm.parts)) == ["volume:overlay2@xfs", "bind:podman/overlay@xfs+control+volatile"]
    assert engines_of([arm, parse_arm("layer:btrfs")]) == ("docker", "podman", "docker")
    ordinary, nested = parse_arm("layer:podman/vfs"), parse_arm("layer:docker/overlay2/podman/vfs")
    assert ordinary.parts == (ordinary,) and str(nested.outside) == "layer:overlay2"
    assert len({ordinary.daemon, nested.daemon, parse_arm(f"{nested}+data-root=volume").daemon}) == 3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("layer:overlay2+runtime=youki", "option runtime='youki' is not valid"),
        ("bare+runtime=runc", "bare runs in no container"),
        ("union:overlay+runtime=runc", "a union has no engine"),
        ("build:overlay2+runtime=runc", "unknown option 'runtime'"),
        ("layer:docker/overlay2/podman/vfs+runtime=runc", r"a nested engine takes no \+runtime"),
        ("layer:docker/overlay2/podman/vfs+userns=auto", r"a nested engine takes no \+userns"),
        ("layer:overlay2+userns=auto", "option userns='auto' is not valid"),
        ("layer:podman/overlay+userns=remap", "option userns='remap' is not valid"),
        ("layer:containerd/native+userns=rootless", "unknown option 'userns'"),
        ("layer:system/overlay2+userns=remap", "unknown option 'userns'"),
        ("runtime+userns=remap", "runtime enters a directory of root's"),
    ],
)
def test_a_runtime_or_user_namespace_that_an_arm_can_not_have_is_an_error(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_arm(text)


def test_arms_share_a_daemon_across_runtimes_and_not_across_user_namespaces() -> None:
    plain, gvisor, remap, rootless = (
        parse_arm(f"layer:overlay2{option}").daemon
        for option in ("", "+runtime=runsc", "+userns=remap", "+userns=rootless")
    )
    assert plain == gvisor and len({plain, remap, rootless}) == 3
    podman = [f"{text}podman/overlay{option}" for text, option in (("layer:", ""), ("layer:", "+runtime=crun"),
                                                                   ("runtime:", ""))]  # fmt: skip
    assert len({parse_arm(text).daemon for text in podman}) == 3  # which has one runtime for all containers
