"""What a new store has for those who share it."""

from __future__ import annotations

from kit.extra.sharing.rules import make_rules
from kit.extra.sharing.views import make_views

MAKERS = (make_views, make_rules)
