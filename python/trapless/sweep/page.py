"""The page of a sweep: one file that needs neither network nor scripts."""

from __future__ import annotations

import importlib.resources
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from . import figures, plots, summary, tornado
from .counters import Found
from .figures import Group
from .plan import BASE, Plan
from .statistics import Sample
from .store import file_errors
from .store import write_file

MOST_TORNADOS = 3
MOST_CASES = 12
# Columns up to which all counters of all groups are a table.
MOST_COLUMNS = 16
BARS = 12


def write(
    plan: Plan, results: Mapping[str, Found], failures: Mapping[str, str], folder: Path
) -> None:
    """Writes `sweep.html`."""
    with file_errors(folder):
        write_file(folder / "sweep.html", render(plan, results, failures).encode())


def render(plan: Plan, results: Mapping[str, Found], failures: Mapping[str, str]) -> str:
    """The page as text; the same for the same results."""
    files = importlib.resources.files(__package__)
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["figure"] = figures.number
    environment.filters["percent"] = summary.percent
    template = environment.from_string(files.joinpath("page.html.j2").read_text("utf-8"))
    style = files.joinpath("page.css").read_text("utf-8")
    return str(template.render(style=style, **content(plan, results, failures)))


def content(
    plan: Plan, results: Mapping[str, Found], failures: Mapping[str, str]
) -> dict[str, Any]:
    """Everything that the template shows."""
    found = figures.groups(plan, results)
    first = figures.shown_first(plan, found)
    base = [g for g in found if g.variation == BASE]
    cases = tornado.cases(found)
    runs = next(iter(plan.runs.values()))
    return {
        "title": plan.document.title,
        "points": len(plan.points),
        "runs": len(plan.runs),
        "groups": len(found),
        "found": in_words(plan, base, first, cases),
        "seeds": method(found),
        "program": f"{runs.identity.get('program')}, revision {runs.identity.get('revision')}",
        "source": plan.document.text,
        "failures": failed(plan, failures),
        "plots": [(figures.title(c), plots.overview(plan, found, c, f"p{i}"))
                  for i, c in enumerate(first)],
        "more": plots.left_out(plan, base) if base else 0,
        "table": table(plan, base, first),
        "cases": [case_content(case, first, i) for i, case in enumerate(cases[:MOST_CASES])],
        "more_cases": max(0, len(cases) - MOST_CASES),
        "all": everything(base) if len(base) <= MOST_COLUMNS else None,
    }


def method(found: Sequence[Group]) -> str:
    """How many seeds a figure has, and what its interval covers."""
    counts = {len(group.values) for group in found}
    if not counts:
        return ""
    least, most = min(counts), max(counts)
    if most == 1:
        return "One run of each: figures may differ by chance. Run several seeds."
    seeds = f"{least}" if least == most else f"{least} to {most}"
    covered = min(group.rule.coverage for group in found) * 100
    return (f"Figures are medians over {seeds} seeds, with the interval that contains the median "
            f"of all possible runs with {covered:.1f} % (order statistics).")


def failed(plan: Plan, failures: Mapping[str, str]) -> list[dict[str, str]]:
    """Runs that failed, each with the command that repeats it."""
    return [{"reason": reason, "command": plan.runs[key].command}
            for key, reason in failures.items()]


def cell(sample: Sample | None, base: Sample | None = None) -> dict[str, Any] | None:
    """A figure of the table, with what is shown of its difference from the baseline."""
    if sample is None:
        return None
    ends = sample.interval
    if ends is not None and ends[0] == ends[1]:
        ends = None
    change = None
    if base is not None:
        differs = sample.differs(base)
        if differs and base.median:
            change = summary.percent((sample.median - base.median) * 100 / base.median)
        elif differs is False:
            change = "≈"
    return {"median": sample.median, "interval": ends, "change": change}


def baseline_of(plan: Plan, base: Sequence[Group]) -> str:
    """The machine that others are compared with."""
    machines = list(dict.fromkeys(g.options["machine"] for g in base))
    return str(plan.document.report["baseline"] or (machines[0] if machines else ""))


def comparer(base: Sequence[Group], baseline: str) -> summary.Compared:
    """Finds for a group the one of the baseline machine with the same other options."""
    def rest(group: Group) -> list[tuple[str, Any]]:
        return [(k, v) for k, v in group.options.items() if k != "machine"]

    def compared(group: Group) -> Group | None:
        if group.options["machine"] == baseline:
            return None
        same = (g for g in base if g.options["machine"] == baseline and rest(g) == rest(group))
        return next(same, None)

    return compared


def table(plan: Plan, base: Sequence[Group], first: Sequence[str]) -> dict[str, Any]:
    """Figures by group; changes are those from the baseline machine under the same options."""
    baseline = baseline_of(plan, base)
    compared = comparer(base, baseline)
    rows = []
    for group in base:
        other = compared(group)
        cells = [cell(group.sample(c), other.sample(c) if other else None) for c in first]
        rows.append((group.label, cells))
    several = len({g.options["machine"] for g in base}) > 1
    return {"head": [figures.title(c) for c in first], "rows": rows,
            "baseline": baseline if several else None}


def in_words(
    plan: Plan, base: Sequence[Group], first: Sequence[str], cases: Sequence[tornado.Case]
) -> list[str]:
    """The conclusions, in sentences."""
    baseline = baseline_of(plan, base)
    machines = summary.of_machines(base, first, baseline, comparer(base, baseline))
    return [*machines, *summary.of_prices(cases, first)]


def case_content(case: tornado.Case, first: Sequence[str], index: int) -> dict[str, Any]:
    """The part of the page about prices in one base."""
    drawn: list[tuple[str, str]] = []
    unchanged: list[str] = []
    for i, counter in enumerate(first):
        bars = [bar for bar in tornado.bars(case, counter) if bar.size][:BARS]
        if not bars:
            unchanged.append(figures.title(counter))
        elif len(drawn) < MOST_TORNADOS:
            drawn.append((figures.title(counter), plots.tornado(bars, f"t{index}-{i}")))
    kinds: dict[str, list[tornado.Dependence]]
    kinds = {kind: [] for kind in (tornado.SHOWN, tornado.WITHIN, tornado.SAME)}
    for dependence in tornado.dependences(case):
        kinds[dependence.kind].append(dependence)
    kinds[tornado.SHOWN].sort(key=lambda d: -max(abs(d.least), abs(d.most)))
    names = {name for name, _ in case.others}
    what = "prices" if names <= case.base.prices.keys() else "prices or whole cost models"
    changes = f"{len(names)} {what} were changed, each alone" if len(names) > 1 \
        else f"The price of {names.pop()} was changed" if what == "prices" \
        else f"The cost model {names.pop()} was taken instead"
    return {"label": case.base.label, "changes": changes, "tornados": drawn,
            "unchanged": unchanged, **kinds}


def everything(base: Sequence[Group]) -> dict[str, Any]:
    """All counters of all groups."""
    names = figures.all_counters(base)
    rows = [(name, [cell(group.sample(name)) for group in base]) for name in names]
    return {"head": [group.label for group in base], "rows": rows}
