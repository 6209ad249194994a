"""Results of a sweep in sentences: each figure is judged by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import tornado
from .figures import Group, title

# Figures with a sentence.
MOST = 4

Compared = Callable[[Group], Group | None]


def percent(change: float) -> str:
    """A change: never 0 or 100 where it is not quite that."""
    size = abs(change)
    digits = 1 if 0 < size < 1 or 99 < size < 100 else 0
    size = min(max(size, 0.1), 99.9) if digits else size
    return f"{'−' if change < 0 else '+'}{size:.{digits}f}\u00a0%"


def span(changes: Sequence[float]) -> str:
    """The least and the greatest of several changes."""
    texts = [percent(change) for change in (min(changes), max(changes))]
    return texts[0] if texts[0] == texts[1] else f"{texts[0]} to {texts[1]}"


def of_machines(
    base: Sequence[Group], first: Sequence[str], baseline: str, compared: Compared
) -> list[str]:
    """A sentence for each of the first figures: how the machines differ from the baseline."""
    sentences = []
    for counter in first[:MOST]:
        parts = []
        for machine in dict.fromkeys(group.options["machine"] for group in base):
            part = of_machine([g for g in base if g.options["machine"] == machine], counter,
                              compared)
            if part:
                parts.append(f"{part} on {machine}")
        if parts:
            sentences.append(f"{title(counter)}, compared with {baseline}: {'; '.join(parts)}.")
    return sentences


def of_machine(groups: Sequence[Group], counter: str, compared: Compared) -> str:
    """How a figure of one machine differs from that of the baseline; "" if it is that."""
    pairs = [(group.sample(counter), other.sample(counter)) for group in groups
             if (other := compared(group)) is not None]
    known = [(mine, other) for mine, other in pairs if mine is not None and other is not None]
    if not known:
        return ""
    if any(mine.differs(other) is None for mine, other in known):
        return "one run, so a difference may be chance,"
    shown = [(mine, other) for mine, other in known if mine.differs(other)]
    if not shown:
        return "no difference shown"
    changes = [(mine.median - other.median) * 100.0 / other.median for mine, other in shown
               if other.median]
    text = span(changes) if changes else "more than none"
    if len(shown) == len(known):
        return text
    return f"{text} in {len(shown)} of {len(known)} combinations, else no difference shown,"


def of_prices(cases: Sequence[tornado.Case], first: Sequence[str]) -> list[str]:
    """A sentence for each of the first figures that prices change, and one for the others."""
    sentences, others = [], []
    for counter in first[:MOST]:
        bars = [bar for case in cases for bar in tornado.bars(case, counter)]
        shown = [(change, bar.price) for bar in bars for _, change, shows in bar.changes
                 if shows and change is not None]
        if shown:
            _, most = max(shown, key=lambda found: abs(found[0]))
            changes = span([change for change, _ in shown])
            among = f", most by {most}" if len({bar.price for bar in bars}) > 1 else ""
            sentences.append(f"{title(counter)}, by prices: {changes}{among}.")
        elif bars:
            others.append(title(counter))
    if others:
        sentences.append(f"No dependence on prices is shown of: {'; '.join(others)}.")
    return sentences
