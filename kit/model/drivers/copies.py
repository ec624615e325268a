"""Plain directories: every container has a copy of the whole root filesystem."""

from kit.model.driver import Driver

VFS = Driver("vfs", copies_all=True)
NATIVE = Driver("native", copies_all=True)
DOCKER_NATIVE = Driver(
    "native",
    "use Docker {versions}: docker@{root}/native, or --docker PATH",
    since="24",
    root="26.1",
    image_store=True,
    copies_all=True,
    listed=False,
    tried_in_roots=True,
)
