"""Ledgers, their tables and their reports."""

from __future__ import annotations

import contextlib
import fcntl
import html
import re
import secrets
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, overload

from . import _native

if TYPE_CHECKING:
    import pandas
    import polars

    from .options import Path

# Beginning of a file with a ledger, or with a list of them.
_HEAD = re.compile(r'\s*(\[\s*)?\{\s*"schema":\s*"trapless-ledger/')
# Packages that DataFrames of each kind need.
_PACKAGES = {"pandas": "pandas pyarrow", "polars": "polars"}
# Maximum number of runs that `repr` names.
_NAMED = 4
# Default width of a report as text.
_WIDTH = 100


def load(*paths: Path) -> Ledgers:
    """Reads ledgers from files, and from folders and their subfolders. Other files in folders are
    ignored.
    """
    ledgers: list[Ledger] = []
    for path in map(FilePath, paths):
        files = [path]
        if path.is_dir():
            files = [file for file in sorted(path.rglob("*.json")) if _is_ledger(file)]
        for file in files:
            ledgers += (Ledger(native, str(file)) for native in _native.read_ledgers(file))
    if not ledgers:
        names = ", ".join(str(path) for path in paths) or "nothing"
        raise _native.Error(f"there are no ledgers in {names}; `trapless run` writes them to out/")
    return Ledgers(ledgers)


def _write(file: Path, text: str) -> None:
    """Writes a file atomically: on errors the old content remains."""
    path = FilePath(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    # An unpredictable name, so that no other user can have created it before. Locked while it is
    # written: the command removes such files unless they are locked.
    aside = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        with aside.open("x", encoding="utf-8") as out:
            with contextlib.suppress(OSError):  # Some file systems have no locks.
                fcntl.flock(out, fcntl.LOCK_EX)
            out.write(text)
            out.flush()
            aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _is_ledger(file: FilePath) -> bool:
    with file.open(encoding="utf-8", errors="replace") as text:
        return _HEAD.match(text.read(400)) is not None


class _Tables:
    """Methods that one ledger and several have in common."""

    def _natives(self) -> list[tuple[_native.Ledger, str]]:
        raise NotImplementedError

    def to_arrow(self, table: str = "counters", phase: str | None = "workload") -> _native.Table:
        """A table in Arrow's memory format, which `polars.DataFrame`, `pyarrow.table` and others
        accept (PyCapsule interface).

        `table`: "counters" (a row for each counter: name, unit and value), "exits" (a row for each
        reason), "runs" (a row for each ledger, with what its workload measured and its settings).
        `phase`: "workload" is the measured part, which reports are about; "total" the whole run;
        None all phases, a row each. "runs" is about the measured part.
        """
        natives = self._natives()
        ledgers = [native for native, _ in natives]
        return _native.Table(ledgers, [file for _, file in natives], table, phase)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(
        self, table: str = "counters", phase: str | None = "workload"
    ) -> pandas.DataFrame:
        """The same as a DataFrame of pandas; needs pandas and pyarrow."""
        try:
            import pyarrow
        except ImportError as error:
            raise _missing("pandas", error) from error
        return pyarrow.table(self.to_arrow(table, phase)).to_pandas()

    def to_polars(
        self, table: str = "counters", phase: str | None = "workload"
    ) -> polars.DataFrame:
        """The same as a DataFrame of polars; needs polars."""
        try:
            import polars
        except ImportError as error:
            raise _missing("polars", error) from error
        return polars.DataFrame(self.to_arrow(table, phase))

    def report(self, width: int = _WIDTH) -> str:
        """The report as text, `width` columns wide."""
        return _native.report([native for native, _ in self._natives()], width)

    def html(self) -> str:
        """The report as a self-contained HTML page."""
        return _native.page([native for native, _ in self._natives()])


def _missing(extra: str, error: ImportError) -> ImportError:
    # Names the packages, not an extra of the wheel: the wheel is in no package index.
    return ImportError(f"{error.name} is not installed: pip install {_PACKAGES[extra]}")


class Ledger(_Tables):
    """The ledger of a run: exact counts of every trap, and a description of the run."""

    def __init__(self, native: _native.Ledger, file: str = "") -> None:
        self._native = native
        self.file = file
        """File that it was read from, or "" for a run of this process."""

    def _natives(self) -> list[tuple[_native.Ledger, str]]:
        return [(self._native, self.file)]

    @property
    def machine(self) -> str:
        """Machine that ran."""
        return self._native.machine

    @property
    def workload(self) -> str:
        """Workload that ran."""
        return self._native.workload

    @property
    def seed(self) -> int | None:
        """Seed of the run."""
        return self._native.seed

    @cached_property
    def data(self) -> dict[str, Any]:
        """The whole ledger, as `docs/ledger.schema.json` describes it."""
        return self._native.to_dict()

    @property
    def measured(self) -> dict[str, Any]:
        """Counts of the measured part, or of the whole run if it has not marked one."""
        total: dict[str, Any] = self.data["total"]
        phases = [p["totals"] for p in self.data["phases"] if p["name"] == "workload"]
        return phases[0] if phases else total

    @property
    def measurements(self) -> dict[str, float]:
        """What the workload itself measured, by name."""
        return {m["name"]: m["value"] for m in self.data["run"].get("measurements", [])}

    def to_json(self) -> str:
        """Its JSON text, as the command writes it."""
        return self._native.to_json()

    def save(self, file: Path) -> None:
        """Writes it to a file, as the command does."""
        _write(file, self.to_json())

    def __repr__(self) -> str:
        return f"<ledger of {self.workload} on {self.machine}, seed {self.seed}>"


class Ledgers(_Tables):
    """Several ledgers."""

    # Not a Sequence: polars would treat it as a list instead of using `__arrow_c_stream__`.

    def __init__(self, ledgers: Iterable[Ledger]) -> None:
        self._ledgers = list(ledgers)

    def _natives(self) -> list[tuple[_native.Ledger, str]]:
        return [pair for ledger in self._ledgers for pair in ledger._natives()]

    @overload
    def __getitem__(self, index: int) -> Ledger: ...
    @overload
    def __getitem__(self, index: slice) -> Ledgers: ...
    def __getitem__(self, index: int | slice) -> Ledger | Ledgers:
        found = self._ledgers[index]
        return found if isinstance(found, Ledger) else Ledgers(found)

    def __len__(self) -> int:
        return len(self._ledgers)

    def __iter__(self) -> Iterator[Ledger]:
        return iter(self._ledgers)

    def where(self, **wanted: object) -> Ledgers:
        """Those with these values of `machine`, `workload` or `seed`."""
        return Ledgers(
            ledger
            for ledger in self._ledgers
            if all(getattr(ledger, name) == value for name, value in wanted.items())
        )

    def compare(self) -> Comparison:
        """The comparison of the report: ledgers that differ in the seed only share a column."""
        return Comparison(self)

    def to_json(self) -> str:
        """Their JSON text, an array, as `trapless compare` writes it."""
        texts = ",\n".join(ledger.to_json().strip() for ledger in self._ledgers)
        return f"[\n{texts}\n]\n"

    def save(self, file: Path) -> None:
        """Writes them to one file, which `load` and `trapless report` read."""
        if not self._ledgers:
            raise _native.Error("there are no ledgers to save")
        _write(file, self.to_json())

    def __repr__(self) -> str:
        runs = dict.fromkeys(f"{ledger.workload} on {ledger.machine}" for ledger in self._ledgers)
        shown = [*list(runs)[:_NAMED], *(["..."] if len(runs) > _NAMED else [])]
        number = "1 ledger" if len(self) == 1 else f"{len(self)} ledgers"
        return f"<{number}: {', '.join(shown)}>" if shown else "<no ledgers>"


class Comparison:
    """A comparison of several runs, as in the report: medians and intervals, and which differences
    they show. `print` shows the report.
    """

    def __init__(self, ledgers: Ledgers) -> None:
        if not len(ledgers):
            raise _native.Error("there are no ledgers to compare")
        self.ledgers = ledgers

    def save(self, file: Path) -> None:
        """Writes its ledgers to one file; `trapless.load(file).compare()` gives the same
        comparison. If the name ends with ".html", writes the page instead.
        """
        if FilePath(file).suffix == ".html":
            _write(file, self.html())
        else:
            self.ledgers.save(file)

    @cached_property
    def figures(self) -> dict[str, Any]:
        """The figures of the report, as `trapless report --json` prints them (docs/ledger.md,
        "Several runs"). Lists have an entry for each column.
        """
        return _native.summary([native for native, _ in self.ledgers._natives()])

    @property
    def columns(self) -> list[str]:
        """Names of the columns, the baseline first."""
        return [column["name"] for column in self.figures["columns"]]

    @property
    def verdict(self) -> str:
        """The conclusion about exits per interrupt and firmware traps, in sentences."""
        return str(self.figures["verdict"])

    def rows(self) -> list[dict[str, Any]]:
        """The figures as rows, for a DataFrame of any kind: section, figure, column, median, ends
        of the interval (`low`, `high`), and the difference from the first column.
        """
        rows = []
        for section, name, values in _figures(self.figures):
            for column, value in zip(self.columns, values, strict=True):
                if value is None or "median" not in value:
                    continue
                low, high = value.get("interval") or (None, None)
                rows.append(
                    {
                        "section": section,
                        "figure": name,
                        "column": column,
                        "median": float(value["median"]),
                        "low": low,
                        "high": high,
                        "difference": value.get("difference"),
                        "difference_percent": value.get("difference_percent"),
                    }
                )
        return rows

    def to_pandas(self) -> pandas.DataFrame:
        """`rows` as a DataFrame of pandas."""
        try:
            import pandas
        except ImportError as error:
            raise _missing("pandas", error) from error
        return pandas.DataFrame(self.rows())

    def to_polars(self) -> polars.DataFrame:
        """`rows` as a DataFrame of polars."""
        try:
            import polars
        except ImportError as error:
            raise _missing("polars", error) from error
        return polars.DataFrame(self.rows(), infer_schema_length=None)

    def report(self, width: int = _WIDTH) -> str:
        """The report as text."""
        return self.ledgers.report(width)

    def html(self) -> str:
        """The report as a self-contained HTML page."""
        return self.ledgers.html()

    def __str__(self) -> str:
        return self.report()

    def __repr__(self) -> str:
        return f"<comparison of {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        page = html.escape(self.html())
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'


def _figures(figures: dict[str, Any]) -> Iterator[tuple[str, str, list[Any]]]:
    """Section, name and values of every figure."""
    for name, values in (figures["exits_per_interrupt"] or {}).items():
        yield "exits per interrupt", name, values
    yield "all exits per 1000", figures["unit"], figures["all_exits"]
    for section in ("totals", "measurements", "latency"):
        for name, values in figures[section].items():
            yield section, name, values
    for name, exits in figures["exits"].items():
        for what, values in exits.items():
            yield f"exits: {what}", name, values
    for name, counters in figures["classes"].items():
        for counter, values in counters["counts"].items():
            yield f"class {name}", counter, values
