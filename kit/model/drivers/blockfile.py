"""A file with a filesystem in it, copied for every snapshot."""

from kit.model.driver import Driver

BLOCKFILE = Driver(
    "blockfile",
    "use containerd {versions}: layer:containerd@{root}/blockfile",
    since="1.7",
    root="1.7",
    own_filesystem=True,
    tried_in_roots=True,
)
