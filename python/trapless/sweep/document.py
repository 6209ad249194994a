"""The file of a sweep: parses and checks it, with line numbers for error messages."""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from . import locate
from . import program as programs
from .errors import SweepError
from .options import PRICE, Options, Value, suggestion

TABLES = ["title", "run", "axes", "zip", "one-at-a-time", "exclude", "jobqueue", "report"]
RANGE = {"from", "count", "step"}
MOST_VALUES = 100_000
# What the page shows first by default.
REPORT: dict[str, Any] = {"counters": [], "baseline": None}

Source = str | os.PathLike[str] | dict[str, Any]
"""A sweep's file, or a mapping with the same tables."""
Keys = Sequence[str | int]
Lists = dict[str, list[Value]]


@dataclasses.dataclass
class Document:
    """A checked sweep. Values of axes are lists, options have dotted names (`set.wakeups`)."""

    title: str = "Sweep"
    run: dict[str, Value] = dataclasses.field(default_factory=dict)
    axes: Lists = dataclasses.field(default_factory=dict)
    zip: dict[str, Lists] = dataclasses.field(default_factory=dict)
    one_at_a_time: Lists = dataclasses.field(default_factory=dict)
    exclude: list[Lists] = dataclasses.field(default_factory=list)
    jobqueue: dict[str, Any] = dataclasses.field(default_factory=dict)
    report: dict[str, Any] = dataclasses.field(default_factory=lambda: dict(REPORT))
    folder: Path = Path()
    text: str = ""
    # Names of all prices.
    prices: Sequence[str] = ()


class Reader:
    """Checks tables; errors name the place."""

    def __init__(self, name: str, text: str, known: Options) -> None:
        self.name, self.known_options = name, known
        # Values that are set, and where.
        self.set_values: list[tuple[str, Value, str]] = []
        self.lines = locate.lines(text)

    def where(self, *path: str | int) -> str:
        """`FILE, line N` of a key, or `FILE` alone."""
        for depth in range(len(path), 0, -1):
            if line := self.lines.get(tuple(path[:depth])):
                return f"{self.name}, line {line}"
        return self.name

    def error(self, path: Keys, sentence: str) -> NoReturn:
        """Raises an error about the key `path`."""
        raise SweepError(f"{self.where(*path)}: {sentence}")

    def known(self, path: Keys, table: Mapping[str, Any], names: Collection[str]) -> None:
        """Rejects keys of `table` that are not in `names`."""
        for key in table:
            if key not in names:
                self.error([*path, key], f"unknown key {key}; {suggestion(key, names)}")

    def set(self, name: str, value: Value, where: str) -> None:
        """Records a value of an option; the program checks all of them together."""
        self.known_options.check_name(name, where)
        self.set_values.append((name, value, where))

    def table(self, path: Keys, value: Any) -> dict[str, Any]:
        """Rejects a value that is not a table."""
        if not isinstance(value, dict):
            self.error(path, f"{'.'.join(map(str, path))} is {value!r}, not a table")
        return value

    def options(self, path: Keys, table: Any) -> Iterator[tuple[str, Any, list[str | int]]]:
        """Options of a table by dotted name, with the path of each."""
        for key, value in self.table(path, table).items():
            if key + "." in ("set.", PRICE) and isinstance(value, dict):
                for name, inner in flat(value):
                    yield f"{key}.{name}", inner, [*path, key, *name.split(".")]
            else:
                yield key, value, [*path, key]

    def single(self, path: Keys, table: Any) -> dict[str, Value]:
        """A table of options with one value each."""
        result: dict[str, Any] = {}
        for name, value, at in self.options(path, table):
            self.set(name, value, self.where(*at))
            result[name] = value
        return result

    def several(self, path: Keys, table: Any, twice: bool = False) -> Lists:
        """A table of options with a list of values each. `twice`: values may be repeated."""
        result: dict[str, Any] = {}
        for name, value, at in self.options(path, table):
            where = self.where(*at)
            self.known_options.check_name(name, where)
            values = self.values(at, name, value)
            for value in values:
                self.set(name, value, where)
            if not twice and len({repr(value) for value in values}) < len(values):
                self.error(at, f"{name} has a value twice")
            result[name] = values
        return result

    def values(self, path: Keys, name: str, value: Any) -> list[Value]:
        """A list, or what `{ from = 0, count = 5 }` stands for."""
        if isinstance(value, dict):
            self.known(path, value, RANGE)
            numbers = [value.get(key, default) for key, default in
                       (("from", 0), ("count", 0), ("step", 1))]
            if not all(type(number) is int for number in numbers):
                self.error(path, f"{name}: from, count and step are numbers")
            start, count, step = numbers
            if not 1 <= count <= MOST_VALUES:
                self.error(path, f"{name}: count is {count}, not 1 to {MOST_VALUES}")
            return [start + i * step for i in range(count)]
        if not isinstance(value, list) or not value:
            self.error(path, f"{name} is {value!r}, not a list of values or "
                             "{ from = 0, count = 5 }")
        return value


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names of a table within a table, as `set.aia.guests`; a range stays one value."""
    for key, value in table.items():
        if isinstance(value, dict) and not set(value) <= RANGE:
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def read(source: Source, program: str) -> Document:
    """The sweep of a file, or of a mapping with the same tables. `program` knows the options."""
    options = programs.options(program)
    if isinstance(source, dict):
        return check(source, Reader("the sweep", "", options), Path.cwd(), "", program)
    if not isinstance(source, (str, os.PathLike)):
        raise SweepError(f"a sweep is a file or a mapping with its tables, not {source!r}")
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SweepError(f"cannot read the sweep {path}: {reason}") from None
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SweepError(f"{path} is not TOML: {error}") from None
    return check(tables, Reader(str(path), text, options), path.resolve().parent, text, program)


def check(
    tables: dict[str, Any], reader: Reader, folder: Path, text: str, program: str
) -> Document:
    """A `Document` of the tables."""
    reader.known([], tables, TABLES)
    title = tables.get("title", Document.title)
    if not isinstance(title, str) or not title.strip():
        reader.error(["title"], f"title is {title!r}, not a text")
    zipped = {}
    for name, table in reader.table(["zip"], tables.get("zip", {})).items():
        columns = zipped[name] = reader.several(["zip", name], table, twice=True)
        lengths = {key: len(values) for key, values in columns.items()}
        if len(set(lengths.values())) != 1:
            sizes = ", ".join(f"{key} has {n}" for key, n in lengths.items()) or "it is empty"
            reader.error(["zip", name], f"lists of zip.{name} must have the same length: {sizes}")
    exclude = tables.get("exclude", [])
    if not isinstance(exclude, list):
        reader.error(["exclude"], "exclude is a table, not a list of them: write [[exclude]]")
    document = Document(
        title=title.strip(),
        run=reader.single(["run"], tables.get("run", {})),
        axes=reader.several(["axes"], tables.get("axes", {})),
        zip=zipped,
        one_at_a_time=reader.several(["one-at-a-time"], tables.get("one-at-a-time", {})),
        exclude=[exclusion(reader, i, table) for i, table in enumerate(exclude)],
        jobqueue=dict(reader.table(["jobqueue"], tables.get("jobqueue", {}))),
        report=report(reader, tables.get("report", {})),
        folder=folder,
        text=text,
        prices=reader.known_options.prices,
    )
    once(reader, document)
    check_values(reader.set_values, program)
    baseline = document.report["baseline"]
    if baseline is not None and baseline not in machines(document):
        reader.error(["report", "baseline"], f"no run has the machine {baseline}, so nothing can "
                                             "be compared to it")
    return document


def check_values(values: Sequence[tuple[str, Value, str]], program: str) -> None:
    """Rejects the first value that an option cannot have."""
    found = programs.wrong_values(program, [(name, value) for name, value, _ in values])
    for (name, value, where), wrong in zip(values, found, strict=True):
        if wrong:
            raise SweepError(f"{where}: {name} is {value!r}: {wrong}")


def machines(document: Document) -> list[Value | None]:
    """Machines of all runs."""
    found: list[Value | None] = [document.run.get("machine"), *document.axes.get("machine", [])]
    return found + [m for columns in document.zip.values() for m in columns.get("machine", [])]


def exclusion(reader: Reader, index: int, table: Any) -> Lists:
    """Values that do not occur together: one or a list for each option."""
    path: Keys = ["exclude", index]
    lists: Lists = {}
    for name, value, at in reader.options(path, table):
        reader.known_options.check_name(name, reader.where(*at))
        several = value if isinstance(value, (list, dict)) else [value]
        lists[name] = reader.values(at, name, several)
    if not lists:
        reader.error(path, "an empty exclusion would exclude everything")
    return lists


def report(reader: Reader, table: Any) -> dict[str, Any]:
    """What the page shows first."""
    reader.table(["report"], table)
    reader.known(["report"], table, REPORT)
    counters = table.get("counters", [])
    if not isinstance(counters, list) or not all(isinstance(c, str) for c in counters):
        reader.error(["report", "counters"], "counters is a list of names of counters")
    return {**REPORT, **table}


def once(reader: Reader, document: Document) -> None:
    """Rejects an option that is set in two places, and a sweep without runs."""
    places = [(["run", name], name) for name in document.run]
    places += [(["axes", name], name) for name in document.axes]
    places += [(["zip", axis, name], name) for axis, c in document.zip.items() for name in c]
    seen: dict[str, str] = {}
    for path, name in places:
        at = [part for key in path for part in (key.split(".") if key == name else [key])]
        if name in seen:
            reader.error(at, f"{name} is set twice, also in {seen[name]}")
        seen[name] = path[0]
        if name == PRICE + "all":
            reader.error(at, "price.all belongs to [one-at-a-time], where it stands for each price")
    for name in document.one_at_a_time:
        if seen.get(name, "run") != "run":
            reader.error(["one-at-a-time", *name.split(".")],
                         f"{name} is an axis already; one of the two is too much")
        if name == "seed" or name == "machine" or name == "workload":
            reader.error(["one-at-a-time", name], f"{name} is to be an axis, in [axes]")
    for name in ("machine", "workload"):
        if name not in seen:
            raise SweepError(f"{reader.name} names no {name}: set it in [run] or [axes]")
    for index, table in enumerate(document.exclude):
        for name in table:
            if name not in seen and name not in document.one_at_a_time:
                reader.error(["exclude", index, *name.split(".")],
                             f"{name} is not varied, so nothing can be excluded by it")
