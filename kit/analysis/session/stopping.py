"""When a session of an open number of rounds may stop, and what that costs its intervals. Pure.

Such a session looks at its answer after each round. An interval that holds with 95 % at one look holds less often at
the look that ended the session. So simultaneous intervals are repeated confidence intervals (Jennison, Turnbull 1989,
doi:10.1111/j.2517-6161.1989.tb01433.x): after n rounds they err with 5 % / ``widening(n)``, so that with 95 % all of
them hold at every look. They depend on the number of rounds alone. A session may stop at any look for any reason, and
go on later with a larger budget.

The widening was chosen by simulation (benchmarks/proofs/stopping.py --looks) among a + b ln(n / 3). Noise was normal,
the intervals were the kit's own: moderated variances, trimmed means from 10 rounds on, one or six comparisons with a
reference. An interval of one comparison misses the truth at any look to 20 rounds in 5.1 % of sessions, to 40 in 6.0 %;
of six in less. Without widening that is 25 % to 20 rounds. benchmarks/proofs/RESULTS.md has the table.
"""

from __future__ import annotations

import math

from kit.model.plan import DECIDE_FROM
from kit.model.session import Session

_FIRST, _RISE = 3.0, 5.0


def widening(rounds: int) -> float:
    """Return by what the error of simultaneous intervals is divided at the look after this number of rounds. 1 for 0
    rounds, which means a session whose number of rounds was fixed beforehand."""
    return _FIRST + _RISE * math.log(max(rounds, DECIDE_FROM) / DECIDE_FROM) if rounds else 1.0


def looks(session: Session) -> int:
    """Return the number of rounds to widen intervals by: those that the session has measured, 0 where their number was
    fixed beforehand or a precision ended it. Reruns make no round."""
    if not session.request.until_decided:
        return 0
    return len({item.round for item in session.samples if item.kind == "measured" and item.rerun_of is None})
