"""Median and interval of a figure over seeds: the rules of `trapless report` (docs/ledger.md)."""

from __future__ import annotations

import functools
import importlib.resources
import json
import statistics
from collections.abc import Iterable

from .errors import SweepError


@functools.cache
def _intervals() -> list[tuple[int, float]]:
    """Intervals of 1, 2, ... runs, computed by `crates/report/src/statistics.rs`."""
    files = importlib.resources.files(__package__)
    known: list[tuple[int, float]] = json.loads(
        files.joinpath("intervals.json").read_text("utf-8"))
    return known


def interval(runs: int) -> tuple[int, float]:
    """How many values an interval of so many runs leaves out at each end, and the probability that
    it contains the median.
    """
    known = _intervals()
    if runs > len(known):
        raise SweepError(f"{runs} seeds of one point: there are intervals of up to {len(known)}")
    left, coverage = known[runs - 1]
    return left, coverage


class Sample:
    """Values of one figure, one for each run."""

    def __init__(self, values: Iterable[float]) -> None:
        self.values = sorted(values)

    @property
    def runs(self) -> int:
        return len(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its ends; `None` for a single run, which says nothing about others."""
        if self.runs < 2:
            return None
        left, _ = interval(self.runs)
        return self.values[left], self.values[self.runs - 1 - left]

    def differs(self, base: Sample) -> bool | None:
        """Whether intervals show a difference; `None` if one of both is a single run."""
        mine, other = self.interval, base.interval
        if mine is None or other is None:
            return None
        return mine[0] > other[1] or other[0] > mine[1]
