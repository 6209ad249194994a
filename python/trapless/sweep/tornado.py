"""What depends on prices and what does not: each price changed alone, against the base."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from .figures import Group, all_counters
from .options import PRICE
from .plan import BASE

SAME, WITHIN, SHOWN = "same", "within", "shown"


@dataclasses.dataclass
class Bar:
    """What one price does to a counter: per cent at each of its values, lowest first."""

    price: str
    # Cycles if it is a price, per cent or None, whether intervals show it.
    changes: list[tuple[int | None, float | None, bool]]

    @property
    def size(self) -> float:
        """The largest change, in per cent."""
        return max((abs(c) for _, c, _ in self.changes if c is not None), default=0.0)


@dataclasses.dataclass
class Case:
    """A base, and the groups in which one price differs from it."""

    base: Group
    others: list[tuple[str, Group]]  # By price.


def cases(found: Iterable[Group]) -> list[Case]:
    """Bases with their variations, for each combination of all other options."""
    by_rest: dict[object, list[Group]] = {}
    for group in found:
        rest = tuple(i for i in group.options.items() if not priced(i[0]))
        by_rest.setdefault(rest, []).append(group)
    result = []
    for members in by_rest.values():
        base = base_of(members)
        others = []
        for group in members:
            name = changed(base, group)
            if name is not None:
                others.append((name, group))
        if others:
            result.append(Case(base, others))
    return result


def changed(base: Group, group: Group) -> str | None:
    """The one price that differs, or the cost model if it is a whole one; else `None`."""
    prices = [p for p in group.prices if group.prices[p] != base.prices[p]]
    if len(prices) == 1:
        return prices[0]
    own = {k: v for k, v in group.options.items() if k.startswith(PRICE)}
    if prices and own.items() <= base.options.items():
        return str(group.options.get("cost", "default"))
    return None


def priced(name: str) -> bool:
    """Whether an option sets prices."""
    return name.startswith(PRICE) or name == "cost"


def base_of(members: Sequence[Group]) -> Group:
    """The group with fewest changed prices: nothing varied, and first in the file."""
    return next((g for g in members if g.variation == BASE), members[0])


def bars(case: Case, counter: str) -> list[Bar]:
    """Prices by the size of what they do to a counter, the largest first."""
    base = case.base.sample(counter)
    if base is None:
        return []
    found: dict[str, list[tuple[int | None, float | None, bool]]] = {}
    for price, group in sorted(case.others, key=lambda o: o[1].prices.get(o[0], 0)):
        sample = group.sample(counter)
        if sample is None:
            continue
        change: float | None = None
        if base.median:
            change = (sample.median - base.median) * 100.0 / base.median
        elif sample.median == 0:
            change = 0.0
        entry = (group.prices.get(price), change, bool(sample.differs(base)))
        found.setdefault(price, []).append(entry)
    result = [Bar(price, changes) for price, changes in found.items()]
    return sorted(result, key=lambda bar: (-bar.size, bar.price))


@dataclasses.dataclass
class Dependence:
    """What all prices together do to a counter."""

    counter: str
    kind: str
    least: float = 0.0
    most: float = 0.0


def dependences(case: Case) -> list[Dependence]:
    """For each counter that is not always 0: `same` in each pair of runs with one seed, `within`
    what seeds do, or `shown` by intervals, with the range of its median in per cent."""
    result = []
    groups = [group for _, group in case.others]
    for counter in all_counters([case.base, *groups]):
        base = case.base.sample(counter)
        found = [group.sample(counter) for group in groups]
        samples = [sample for sample in found if sample is not None]
        if base is None or len(samples) < len(found):
            continue
        if not any([*base.values, *samples[0].values]):
            continue
        if all(equal(case.base, group, counter) for group in groups):
            result.append(Dependence(counter, SAME))
            continue
        kind = SHOWN if any(s.differs(base) for s in samples) else WITHIN
        changes = [(s.median - base.median) * 100.0 / base.median for s in samples] \
            if base.median else [0.0]
        result.append(Dependence(counter, kind, min(changes), max(changes)))
    return result


def equal(base: Group, group: Group, counter: str) -> bool:
    """Whether each seed has the same value under both models."""
    seeds = base.values.keys() & group.values.keys()
    return all(base.value(s, counter) == group.value(s, counter) for s in seeds)
