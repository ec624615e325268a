"""What the build of this project costs in a container."""

from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src"


@pytest.mark.kit_arms("bare", "layer:overlay2")
@pytest.mark.kit_threshold("layer:overlay2 < 100 %")
def test_overlay_is_affordable(kit_compare):
    """The marker fails the test where the whole interval lies above the limit, and prints the comparison."""
    kit_compare(["make", "-j2"], source=SOURCE, image="smoke")


@pytest.mark.kit_arms("bare", "bind:overlay2", "layer:overlay2")
def test_a_bind_mount_is_no_worse_than_the_layer(kit_compare):
    """Comparisons are values: assert on the interval, not on the estimate."""
    found = kit_compare(["make", "-j2"], source=SOURCE, image="smoke")
    found.check("bind:overlay2 < 100 %")
    bind, layer = found.of("bind:overlay2"), found.of("layer:overlay2")
    assert bind.low < layer.high


@pytest.mark.kit_scenario("allocate:short", bytes=64 << 20)
@pytest.mark.kit_arms("bare", "layer:overlay2")
@pytest.mark.kit_threshold("layer:overlay2 write-4096 < 300 %")
def test_a_bundled_scenario(kit_compare):
    kit_compare(cache="cold")
