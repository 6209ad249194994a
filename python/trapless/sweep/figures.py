"""Figures of points that differ only in the seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from . import counters as names
from .counters import Found
from .options import PRICE, Value
from .output import option_names, value_of
from .plan import BASE, Plan
from .program import intervals
from .statistics import Interval, Sample


@dataclasses.dataclass
class Group:
    """Points that differ only in the seed. `values`: counters by seed; `rule`: what the
    intervals of so many values are.
    """

    options: dict[str, Value]
    variation: str
    prices: dict[str, int]
    label: str = ""
    values: dict[Value, dict[str, float]] = dataclasses.field(default_factory=dict)
    rule: Interval = Interval(0, 0.0)

    def sample(self, counter: str) -> Sample | None:
        """The figure over seeds; `None` if some run lacks it."""
        found = [self.value(seed, counter) for seed in self.values]
        known = [value for value in found if value is not None]
        return Sample(known, self.rule) if known and len(known) == len(found) else None

    def value(self, seed: Value, counter: str) -> float | None:
        """A counter of one run; absent ones are 0 or unknown."""
        absent = None if names.optional(counter) else 0.0
        return self.values[seed].get(counter, absent)


def groups(plan: Plan, results: Mapping[str, Found]) -> list[Group]:
    """All groups that have a result, in the order of the file."""
    found: dict[object, Group] = {}
    for point in plan.points:
        if point.key not in results:
            continue
        options = {k: v for k, v in point.options.items() if k != "seed"}
        identity = (tuple(options.items()), point.variation)
        group = found.setdefault(identity, Group(options, point.variation, point.prices))
        group.values[point.options.get("seed", 0)] = results[point.key].counters
    result = list(found.values())
    rules = intervals(plan.program, {len(group.values) for group in result})
    differing = different(plan)
    for group in result:
        group.rule = rules[len(group.values)]
        words = [word(name, group.options.get(name)) for name in differing]
        words = [w for w in words if w]
        if group.variation != BASE:
            words.append(group.variation)
        group.label = " ".join(words) or str(group.options["machine"])
    return result


def different(plan: Plan) -> list[str]:
    """Options but the seed that points differ in, without what varies one at a time."""
    skipped = set(plan.document.one_at_a_time) | {"seed"}
    return [name for name in option_names(plan) if name not in skipped
            and not (name.startswith(PRICE) and PRICE + "all" in skipped)
            and len({repr(value_of(p, name)) for p in plan.points}) > 1]


def word(name: str, value: Value | None) -> str:
    """A value in a label: names of machines and workloads need no option name."""
    if value is None:
        return ""
    if name in ("machine", "workload"):
        return str(value)
    return f"{name.removeprefix('set.')}={value}"


def all_counters(found: Iterable[Group]) -> list[str]:
    """Names of all counters, sorted."""
    return sorted({name for group in found for run in group.values.values() for name in run})


# Figures shown first, in this order, if they exist.
FIRST = ["per_interrupt.exits", "per_interrupt.firmware_traps", "per_work.exits",
         "per_work.cycles", "guest_exits", "cycles", "latency.guest_timer.p50",
         "latency.guest_ipi.p50", "latency.guest_device.p50"]
TITLES = {
    "per_interrupt.exits": "Exits per interrupt",
    "per_interrupt.firmware_traps": "Firmware traps per interrupt",
    "per_interrupt.timer.exits": "Exits per timer interrupt",
    "per_interrupt.ipi.exits": "Exits per IPI",
    "per_interrupt.device.exits": "Exits per device interrupt",
    "per_work.exits": "Exits per unit of work",
    "per_work.cycles": "Cycles per unit of work",
    "guest_exits": "Exits",
    "cycles": "Cycles of virtual time",
    "latency.guest_timer.p50": "Timer latency, median (cycles)",
    "latency.guest_ipi.p50": "IPI latency, median (cycles)",
    "latency.guest_device.p50": "Device latency, median (cycles)",
}


def shown_first(plan: Plan, found: Sequence[Group]) -> list[str]:
    """Counters of the page's plots: those that the file names, else the usual ones."""
    there = set(all_counters(found))
    wanted = plan.document.report["counters"] or FIRST
    # A figure that one of the groups lacks cannot be compared.
    return [c for c in wanted if c in there and any(g.sample(c) for g in found)]


def title(counter: str) -> str:
    """Title of a counter."""
    return TITLES.get(counter, counter)


def number(value: float) -> str:
    """A figure with as many digits as it needs."""
    size = abs(value)
    if size >= 10_000:
        return f"{value:,.0f}".replace(",", "\u202f")
    if size >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.2f}" if size >= 0.005 else f"{value:.1e}"
