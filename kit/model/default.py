"""What holds where nobody gives an option, and the values that options name. Pure: the pytest plugin imports it at each
start of pytest."""

from __future__ import annotations

#: The default engine, also of an arm that names none.
DEFAULT_ENGINE = "docker"
#: The image of a user's own command, without --image and --rootfs: a recipe.
DEFAULT_IMAGE = "kernel"
WARM = "warm"
CACHES = (WARM, "cold")
#: The number of rounds is open: the session stops when the question is answered.
AUTO_ROUNDS = 0
#: Values of ``--interleave``: if results are valid, or never.
AUTO, OFF = "auto", "off"
