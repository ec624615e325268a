"""The document of ``kit kernel list --json``."""

from __future__ import annotations

from kit.cli.document import Document
from kit.extra.guest.kernel_cache import BuiltKernel

KERNELS = Document("kit kernel list --json", {"kernels": list[BuiltKernel]}, after="images")
