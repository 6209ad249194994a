"""Counters of a run, as `trapless report --counters` names them: `exits.wfi.firmware_traps`."""

from __future__ import annotations

import typing

from .store import Damaged

# Parts of a ledger whose names differ from run to run; they are in the ledger itself.
LEFT_OUT = {"chains", "threads", "returns", "traps", "harts", "devices"}
# A figure that is absent where nothing was measured; other absent counters are 0.
OPTIONAL = ("latency.", "measurement.", "per_interrupt.", "per_work.", ".latency")

Counters = dict[str, float]


class Found(typing.NamedTuple):
    """Counters of a run: of `phase`, and by name of the phases that its workload began after it."""

    phase: str
    counters: Counters
    more: dict[str, Counters]


def of_kept(content: typing.Any) -> Found:
    """Counters of a run in what a store has kept.

    Raises `Damaged` if there are none.
    """
    try:
        (phase, counters), *more = [(part["phase"], kept(part["counters"]))
                                    for part in content["counters"]]
        if not all(isinstance(name, str) for name in [phase, *dict(more)]):
            raise TypeError("a phase has no name")
        return Found(phase, counters, dict(more))
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError,
            RecursionError) as error:
        raise Damaged(f"it has no counters: {error!r}") from None


def kept(counters: typing.Any) -> Counters:
    """Those by which runs can be compared."""
    return {name: float(value) for name, value in counters.items()
            if name.partition(".")[0] not in LEFT_OUT}


def optional(name: str) -> bool:
    """Whether an absent counter is unknown, not 0."""
    return name.startswith(OPTIONAL[:4]) or OPTIONAL[4] in name
