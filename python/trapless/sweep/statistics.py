"""Median and interval of a figure over seeds: the rules of `trapless report` (docs/ledger.md)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import NamedTuple


class Interval(NamedTuple):
    """The interval of several runs, as the program defines it.

    `outside`: how many values it leaves out at each end. `coverage`: the probability with which it
    contains the median.
    """

    outside: int
    coverage: float


class Sample:
    """Values of one figure, one for each run."""

    def __init__(self, values: Iterable[float], rule: Interval) -> None:
        self.values = sorted(values)
        self.rule = rule

    @property
    def runs(self) -> int:
        return len(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its ends; `None` for a single run, which permits no statement about others."""
        if self.runs < 2:
            return None
        left = self.rule.outside
        return self.values[left], self.values[self.runs - 1 - left]

    def differs(self, base: Sample) -> bool | None:
        """Whether intervals show a difference; `None` if one of both is a single run."""
        mine, other = self.interval, base.interval
        if mine is None or other is None:
            return None
        return mine[0] > other[1] or other[0] > mine[1]
