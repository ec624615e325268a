"""The options of ``docker run`` that grant a kit in a container what the container withholds.

docs/how-to/run-in-a-container.md explains each option; examples/kubernetes has the same for Kubernetes."""

from __future__ import annotations

RIGHTS = "--privileged"
CGROUPS = "--cgroupns=host --volume /sys/fs/cgroup:/sys/fs/cgroup"
DEVICES = "--volume /dev:/dev"
PROCESSES = "--pid=host"
DISK = "--volume kit:/var/lib/kit"


def granting(options: str, otherwise: str) -> str:
    """Return the fix for something that is missing: ``otherwise``, or these options for a container."""
    return f"{otherwise}; in a container: docker run {options} …"
