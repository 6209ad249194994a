"""Plots as SVG for the page: drawn by Matplotlib, coloured by the page's own style sheet."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib.figure import Figure  # noqa: E402

from . import figures  # noqa: E402
from .figures import Group  # noqa: E402
from .options import PRICE  # noqa: E402
from .plan import BASE, Plan  # noqa: E402
from .tornado import Bar  # noqa: E402

# Colours that stand for variables of the style sheet, so that one drawing suits light and dark.
VARIABLES = {"#010101": "--ink", "#020202": "--soft", "#030303": "--line", "#040404": "--good",
             "#050505": "--bad", **{f"#0a0b{i:02d}": f"--c{i}" for i in range(8)}}
INK, SOFT, LINE, FEWER, MORE, *SERIES = VARIABLES
MARKS = "osD^vP*X"
STYLE: dict[str, Any] = {
    "svg.fonttype": "none", "svg.hashsalt": "trapless", "font.size": 9, "axes.edgecolor": LINE,
    "axes.labelcolor": SOFT, "xtick.color": SOFT, "ytick.color": INK, "text.color": INK,
    "grid.color": LINE, "axes.spines.top": False, "axes.spines.right": False,
    "font.family": "sans-serif", "axes.titlesize": 10, "axes.titlelocation": "left",
    "axes.formatter.useoffset": False, "axes.formatter.limits": (-4, 6),
}
# Inches at 96 pixels: as wide as the screen of a phone, so that nothing is scaled down there.
WIDTH = 3.7
MOST_ROWS = 40
# Maximum number of lines that a reader can distinguish.
MOST_LINES = 8
# Number of values from which a numeric axis is drawn as a line.
LEAST_NUMBERS = 3


def svg(figure: Figure, name: str) -> str:
    """A figure as an element of the page, with identifiers of its own."""
    data = io.StringIO()
    figure.savefig(data, format="svg", transparent=True, metadata={"Date": None, "Creator": None},
                   bbox_inches="tight", pad_inches=0.02)
    text = data.getvalue()
    text = text[text.index("<svg"):]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    text = re.sub(r'font: ([\d.]+)px [^;"]*', r"font: \1px var(--font)", text)
    # Keeps the aspect ratio; the style sheet scales it to fill the card.
    head, rest = text.split(">", 1)
    head = re.sub(r' (?:width|height)="[^"]*"', "", head)
    return head.replace("<svg", '<svg role="img"', 1) + ">" + rest


def number_axis(plan: Plan, found: Sequence[Group]) -> str | None:
    """The option with most numbers in it, if there are enough for a line."""
    best: str | None = None
    most = LEAST_NUMBERS - 1
    for name in figures.different(plan):
        values = {number_of(group, name) for group in found}
        if None not in values and len(values) > most:
            best, most = name, len(values)
    return best


def number_of(group: Group, name: str) -> int | None:
    """The value of an option or price, if it is a number."""
    value = group.prices.get(name.removeprefix(PRICE)) if name.startswith(PRICE) \
        else group.options.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def overview(plan: Plan, found: Sequence[Group], counter: str, name: str) -> str:
    """One figure of all groups: medians with intervals."""
    base = [g for g in found if g.variation == BASE and g.sample(counter)]
    if not base:
        return ""
    with matplotlib.rc_context(STYLE):
        axis = number_axis(plan, base)
        figure = lines(base, counter, axis) if axis else rows(base[:MOST_ROWS], counter)
        return svg(figure, name)


def rows(found: Sequence[Group], counter: str) -> Figure:
    """A row for each group."""
    figure = Figure(figsize=(WIDTH, 0.55 + 0.24 * len(found)))
    axes = figure.add_subplot()
    for y, group in enumerate(found):
        sample = group.sample(counter)
        if sample is None:
            continue
        if sample.interval:
            axes.plot(sample.interval, [y, y], color=SERIES[0], linewidth=3, alpha=0.4,
                      solid_capstyle="butt")
        axes.plot([sample.median], [y], "o", color=SERIES[0], markersize=5)
    axes.set_yticks(range(len(found)), [shortened(group.label) for group in found])
    axes.set_ylim(len(found) - 0.4, -0.6)
    low, high = axes.get_xlim()
    axes.set_xlim(min(0, low), high + (high - min(0, low)) * 0.03)
    axes.xaxis.set_major_formatter(tick)
    axes.grid(axis="x", linewidth=0.6)
    axes.tick_params(length=0)
    return figure


def series_of(found: Sequence[Group], axis: str) -> dict[str, list[Group]]:
    """Groups that differ only in `axis`, by what they have in common."""
    series: dict[str, list[Group]] = {}
    for group in found:
        words = [w for w in group.label.split(" ") if not w.startswith(short(axis) + "=")]
        series.setdefault(" ".join(words) or "all", []).append(group)
    return series


def left_out(plan: Plan, base: Sequence[Group]) -> int:
    """How many lines or rows the plots lack."""
    axis = number_axis(plan, base)
    if axis:
        return max(0, len(series_of(base, axis)) - MOST_LINES)
    return max(0, len(base) - MOST_ROWS)


def lines(found: Sequence[Group], counter: str, axis: str) -> Figure:
    """A line for each series over the numbers of `axis`."""
    series = series_of(found, axis)
    figure = Figure(figsize=(WIDTH, 2.5))
    axes = figure.add_subplot()
    for i, (label, members) in enumerate(list(series.items())[:MOST_LINES]):
        members = sorted(members, key=lambda g: number_of(g, axis) or 0)
        xs = [number_of(g, axis) or 0 for g in members]
        samples = [s for g in members if (s := g.sample(counter))]
        ends = [s.interval or (s.median, s.median) for s in samples]
        medians = [s.median for s in samples]
        bars = [[m - e[0] for m, e in zip(medians, ends, strict=True)],
                [e[1] - m for m, e in zip(medians, ends, strict=True)]]
        axes.errorbar(xs, medians, yerr=bars, color=SERIES[i % 8], marker=MARKS[i % 8],
                      markersize=4, linewidth=1.2, capsize=2, label=shortened(label))
    axes.set_xlabel(short(axis) + (" (cycles)" if axis.startswith(PRICE) else ""))
    low, high = axes.get_ylim()
    axes.set_ylim(min(0, low), high + (high - min(0, low)) * 0.04)
    axes.yaxis.set_major_formatter(tick)
    axes.grid(axis="y", linewidth=0.6)
    axes.tick_params(length=0)
    if len(series) > 1:
        axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.45, -0.2),
                    ncols=2)
    return figure


def tick(value: float, _: object) -> str:
    """A number at an axis."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"


def short(axis: str) -> str:
    """An option at an axis."""
    return axis.removeprefix("set.")


def shortened(text: str) -> str:
    """A label of limited length."""
    return text if len(text) <= 28 else text[:27] + "…"


def tornado(bars: Sequence[Bar], name: str) -> str:
    """What each price does to one figure in per cent; pale where intervals show nothing."""
    with matplotlib.rc_context(STYLE):
        most = max(len(bar.changes) for bar in bars)
        figure = Figure(figsize=(WIDTH, 0.55 + (0.1 + 0.14 * most) * len(bars)))
        axes = figure.add_subplot()
        for y, bar in enumerate(bars):
            # A row has a thin bar for each value of its price, the lowest at the top.
            height = 0.8 / len(bar.changes)
            for i, (cycles, change, shown) in enumerate(bar.changes):
                if change is None:
                    continue
                at = y - 0.4 + (i + 0.5) * height
                axes.barh([at], [change], height=height * 0.88, alpha=0.9 if shown else 0.3,
                          color=MORE if change > 0 else FEWER)
                if cycles is not None:
                    axes.annotate(f"{cycles}", (change, at), xytext=(3 if change >= 0 else -3, 0),
                                  textcoords="offset points", va="center", fontsize=7, color=SOFT,
                                  ha="left" if change >= 0 else "right")
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_yticks(range(len(bars)), [bar.price for bar in bars])
        axes.set_ylim(len(bars) - 0.4, -0.6)
        far = max((bar.size for bar in bars), default=0) * 1.2 or 1
        axes.set_xlim(-far, far)
        axes.set_xlabel("change of the median, %")
        axes.grid(axis="x", linewidth=0.6)
        axes.tick_params(length=0)
        return svg(figure, name)
