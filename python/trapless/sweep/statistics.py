"""Median and interval of a figure over seeds: the rules of `trapless report` (docs/ledger.md)."""

from __future__ import annotations

import math
from collections.abc import Iterable

# Least probability with which an interval has to contain the median: smallest and largest of five.
COVERAGE = 0.9375


def coverage(runs: int, outside: int) -> float:
    """Probability that the median lies within all but `outside` values at each end."""
    missed = sum(math.comb(runs, i) for i in range(outside + 1)) / float(2**runs)
    return max(1.0 - 2.0 * missed, 0.0)


def outside(runs: int) -> int:
    """Values that the narrowest interval with enough coverage leaves out at each end."""
    left = 0
    for candidate in range(1, (runs + 1) // 2):
        if coverage(runs, candidate) < COVERAGE:
            break
        left = candidate
    return left


class Sample:
    """Values of one figure, one for each run."""

    def __init__(self, values: Iterable[float]) -> None:
        self.values = sorted(values)

    @property
    def runs(self) -> int:
        return len(self.values)

    @property
    def median(self) -> float:
        low, high = self.values[(self.runs - 1) // 2], self.values[self.runs // 2]
        return (low + high) / 2

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its ends; `None` for a single run, which says nothing about others."""
        if self.runs < 2:
            return None
        left = outside(self.runs)
        return self.values[left], self.values[self.runs - 1 - left]

    def differs(self, base: Sample) -> bool | None:
        """Whether intervals show a difference; `None` if one of both is a single run."""
        mine, other = self.interval, base.interval
        if mine is None or other is None:
            return None
        return mine[0] > other[1] or other[0] > mine[1]
