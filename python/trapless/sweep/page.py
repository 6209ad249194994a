"""The page of a sweep: one file that needs neither network nor scripts."""

import importlib.resources
import os

import jinja2

from . import costs, figures, plots, summary, tornado
from .plan import BASE
from .program import told
from .statistics import interval
from .store import told as disk
from .store import write_file

MOST_TORNADOS = 3
MOST_CASES = 12
# Columns up to which all counters of all groups are a table.
MOST_COLUMNS = 16
BARS = 12


def write(plan, results, failures, folder):
    """Writes `sweep.html`."""
    with disk(folder):
        write_file(folder / "sweep.html", render(plan, results, failures).encode())


def render(plan, results, failures):
    """The page as text; the same for the same results."""
    files = importlib.resources.files(__package__)
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["figure"] = figures.number
    environment.filters["percent"] = summary.percent
    template = environment.from_string(files.joinpath("page.html.j2").read_text("utf-8"))
    style = files.joinpath("page.css").read_text("utf-8")
    return template.render(style=style, **content(plan, results, failures))


def content(plan, results, failures):
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


def method(found):
    """How many seeds a figure has, and what its interval covers."""
    counts = {len(group.values) for group in found}
    if not counts:
        return ""
    least, most = min(counts), max(counts)
    if most == 1:
        return "One run of each: figures may differ by chance. Run several seeds."
    seeds = f"{least}" if least == most else f"{least} to {most}"
    covered = interval(least)[1] * 100
    return (f"Figures are medians over {seeds} seeds, with the interval that contains the median "
            f"of all possible runs with {covered:.1f} % (order statistics).")


def failed(plan, failures, folder="."):
    """Runs that failed, each with the command that repeats it and the folder of its cost model."""
    return [{"reason": reason, "command": command(plan.runs[key], plan.program, folder)}
            for key, reason in failures.items()]


def command(run, program, folder="."):
    """The command that repeats a run. The cost model that the sweep made for it is below `folder`,
    by its content: runs with the same prices have the same.
    """
    words = list(run.words)
    if run.cost is not None:
        words += ["--cost", os.path.join(folder, costs.name(run.cost))]
    return told(words, program)


def cell(sample, base=None):
    """A figure of the table, with what is shown of its difference from the baseline."""
    if sample is None:
        return None
    interval = sample.interval
    if interval is not None and interval[0] == interval[1]:
        interval = None
    change = None
    if base is not None:
        differs = sample.differs(base)
        if differs and base.median:
            change = summary.percent((sample.median - base.median) * 100 / base.median)
        elif differs is False:
            change = "≈"
    return {"median": sample.median, "interval": interval, "change": change}


def baseline_of(plan, base):
    """The machine that others are compared with."""
    machines = list(dict.fromkeys(g.options["machine"] for g in base))
    return plan.document.report["baseline"] or (machines[0] if machines else "")


def comparer(base, baseline):
    """Finds for a group the one of the baseline machine with the same other options."""
    def rest(group):
        return [(k, v) for k, v in group.options.items() if k != "machine"]

    def compared(group):
        if group.options["machine"] == baseline:
            return None
        same = (g for g in base if g.options["machine"] == baseline and rest(g) == rest(group))
        return next(same, None)

    return compared


def table(plan, base, first):
    """Figures by group; changes are those from the baseline machine under the same options."""
    baseline = baseline_of(plan, base)
    compared = comparer(base, baseline)
    rows = []
    for group in base:
        other = compared(group)
        cells = [cell(group.sample(c), other and other.sample(c)) for c in first]
        rows.append((group.label, cells))
    several = len({g.options["machine"] for g in base}) > 1
    return {"head": [figures.title(c) for c in first], "rows": rows,
            "baseline": baseline if several else None}


def in_words(plan, base, first, cases):
    """What came out, in sentences."""
    baseline = baseline_of(plan, base)
    machines = summary.of_machines(base, first, baseline, comparer(base, baseline))
    return [*machines, *summary.of_prices(cases, first)]


def case_content(case, first, index):
    """What the page says of prices in one base."""
    drawn, unchanged = [], []
    for i, counter in enumerate(first):
        bars = [bar for bar in tornado.bars(case, counter) if bar.size][:BARS]
        if not bars:
            unchanged.append(figures.title(counter))
        elif len(drawn) < MOST_TORNADOS:
            drawn.append((figures.title(counter), plots.tornado(bars, f"t{index}-{i}")))
    kinds = {kind: [] for kind in (tornado.SHOWN, tornado.WITHIN, tornado.SAME)}
    for dependence in tornado.dependences(case):
        kinds[dependence.kind].append(dependence)
    kinds[tornado.SHOWN].sort(key=lambda d: -max(abs(d.least), abs(d.most)))
    names = {name for name, _ in case.others}
    what = "prices" if names <= case.base.prices.keys() else "prices or whole cost models"
    told = f"{len(names)} {what} were changed, each alone" if len(names) > 1 \
        else f"The price of {names.pop()} was changed" if what == "prices" \
        else f"The cost model {names.pop()} was taken instead"
    return {"label": case.base.label, "told": told, "tornados": drawn,
            "unchanged": unchanged, **kinds}


def everything(base):
    """All counters of all groups."""
    names = figures.all_counters(base)
    rows = [(name, [cell(group.sample(name)) for group in base]) for name in names]
    return {"head": [group.label for group in base], "rows": rows}
