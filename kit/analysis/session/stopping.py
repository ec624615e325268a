"""How often a session has looked at its answer. Pure."""

from __future__ import annotations

from kit.model.session import Session


def looks(session: Session) -> int:
    """Return the number of rounds to widen intervals by: those that the session has measured, 0 where their number was
    fixed beforehand or a precision ended it. Reruns make no round."""
    if not session.request.until_decided:
        return 0
    return len({sample.round for sample in session.samples if sample.kind == "measured" and sample.rerun_of is None})
