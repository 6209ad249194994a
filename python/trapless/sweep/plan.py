"""From a sweep to its points, and from points to runs."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import document as documents
from . import program as programs
from .document import Document, Source
from .errors import SweepError
from .options import DEFAULT, PRICE, Value, specification
from .own import Own, gather
from .program import About, Place
from .store import file_errors

# Changed whenever the meaning of keys changes, so that older results are not found.
FORMAT = 2
MOST_POINTS = 1_000_000
BASE = "base"
ALL = PRICE + "all"


@dataclasses.dataclass
class Point:
    """A combination of values. `variation`: what differs in it from the base, if that is varied."""

    options: dict[str, Value]
    variation: str = BASE
    key: str = ""
    prices: dict[str, int] = dataclasses.field(default_factory=dict)
    # One of those that `price.all` stands for.
    one_of_all: bool = False


@dataclasses.dataclass
class Run:
    """A run to be made. Can be sent to another computer, together with the files that it names."""

    key: str
    spec: dict[str, Any]
    identity: dict[str, Any]
    about: dict[str, Any]
    command: str
    memory: int


@dataclasses.dataclass
class Plan:
    """All points, and the runs that they need: equal points share one."""

    document: Document
    points: list[Point]
    runs: dict[str, Run]
    own: Own
    program: str


def points(document: Document) -> list[Point]:
    """All combinations but the excluded ones, in the order of the file."""
    axes: list[list[dict[str, Value]]]
    axes = [[{name: v} for v in values] for name, values in document.axes.items()]
    for columns in document.zip.values():
        rows = zip(*columns.values(), strict=True)
        axes.append([dict(zip(columns, row, strict=True)) for row in rows])
    variations: list[tuple[str, dict[str, Value]]] = [(BASE, {})]
    for name, values in document.one_at_a_time.items():
        variations += [(f"{name}={show(v)}", {name: v}) for v in values]
    count = len(variations)
    for axis in axes:
        count *= len(axis)
    if count > MOST_POINTS:
        raise SweepError(f"the axes have {count} combinations, more than {MOST_POINTS}")
    result = []
    for row in itertools.product(*axes):
        for variation, change in variations:
            options = dict(document.run)
            for part in (*row, change):
                options.update(part)
            if not any(excluded(options, table) for table in document.exclude):
                result.append(Point(options, variation))
    if not result:
        raise SweepError("every combination is excluded; nothing is left to run")
    return result


def show(value: Value) -> str:
    """A value as it stands in names."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def excluded(options: Mapping[str, Value], table: Mapping[str, Sequence[Value]]) -> bool:
    """Whether a combination is one of those that a table leaves out."""
    return all(options.get(name) in values for name, values in table.items())


def plan(source: Source, program: str) -> Plan:
    """Builds points and runs from the answers of the program."""
    document = documents.read(source, program)
    found = [each for point in points(document) for each in expanded(point, document.prices)]
    workloads = dict.fromkeys(str(point.options["workload"]) for point in found)
    own = gather(program, document.folder, workloads, costs(found))
    specs = [spec_of(point.options, document, own) for point in found]
    with tempfile.TemporaryDirectory(prefix="trapless-sweep-") as root:
        with file_errors(root):
            place = own.write(root, programs.environment())
        answers = identified(program, specs, place)
    result = Plan(document, [], {}, own, program)
    for point, spec in zip(found, specs, strict=True):
        add(result, point, spec, answers)
    return result


def expanded(point: Point, prices: Iterable[str]) -> Iterable[Point]:
    """A point, or for `price.all` one for each price."""
    if ALL not in point.options:
        return [point]
    value = point.options[ALL]
    rest = {name: v for name, v in point.options.items() if name != ALL}
    return [Point({**rest, PRICE + price: value}, f"{PRICE}{price}={show(value)}", one_of_all=True)
            for price in prices]


def costs(found: Iterable[Point]) -> set[str]:
    """The cost models that are named."""
    return {str(point.options.get("cost", DEFAULT)) for point in found} - {DEFAULT}


def spec_of(options: Mapping[str, Value], document: Document, own: Own) -> dict[str, Any]:
    """The run that a point needs, with the names that files have for runs."""
    spec = specification(options)
    spec["workload"] = own.workloads.get(spec["workload"], spec["workload"])
    if "cost" in spec:
        spec["cost"] = own.seen(os.path.join(document.folder, spec["cost"]))
    return spec


def plainly(spec: Mapping[str, Any]) -> str:
    """A run as text: a unique key."""
    return json.dumps(spec, sort_keys=True)


def unpriced(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The same run with the prices of its cost model."""
    return {**spec, "prices": {}}


def identified(
    program: str, specs: Sequence[Mapping[str, Any]], place: Place
) -> dict[str, About]:
    """The identities of runs, and of the same runs without changed prices, by their text."""
    different = {plainly(s): s for spec in specs for s in (spec, unpriced(spec))}
    answers = programs.identify(program, list(different.values()), place)
    return dict(zip(different, answers, strict=True))


def add(result: Plan, point: Point, spec: dict[str, Any], answers: Mapping[str, About]) -> None:
    """Adds a point with its run, which is named by everything that determines its result."""
    answer, base = answers[plainly(spec)], answers[plainly(unpriced(spec))]
    point.prices = answer.prices
    if point.one_of_all and answer.prices == base.prices:
        return  # The price is so small that the factor has no effect.
    others = {name: value for name, value in point.options.items()
              if not name.startswith(PRICE) and name != "cost"}
    workload = result.own.plain(str(point.options["workload"]))
    about = {
        "format": FORMAT,
        "program": answer.identity,
        "options": {"seed": 0, **others, "workload": workload},
        "prices": answer.prices,
    }
    canonical = json.dumps(about, sort_keys=True, separators=(",", ":"))
    point.key = hashlib.sha256(canonical.encode()).hexdigest()
    if point.key not in result.runs:
        result.runs[point.key] = Run(
            point.key, spec, answer.identity, about, answer.command, answer.memory)
    result.points.append(point)
