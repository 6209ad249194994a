"""Results as data: Parquet and CSV, one row for each run and counter."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

from .counters import Found
from .options import PRICE, Value
from .plan import BASE, Plan, Point
from .store import file_errors, write_file

# Behind the columns of options.
FIXED = [("run", pa.string()), ("phase", pa.string()), ("counter", pa.string()),
         ("value", pa.float64()), ("error", pa.string())]


def option_names(plan: Plan) -> list[str]:
    """Options that some run sets, in the order of the file."""
    return list(dict.fromkeys(name for point in plan.points for name in point.options))


def value_of(point: Point, name: str) -> Value | None:
    """The value of an option in a point; prices in cycles, whether they were changed or not."""
    if name.startswith(PRICE):
        return point.prices[name.removeprefix(PRICE)]
    return point.options.get(name)


def column(values: Sequence[Value | None]) -> pa.Array:
    """A column with the narrowest type that has all values."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int} and all(v is None or int(v) < 1 << 63 for v in values):
        return pa.array(values, pa.int64())
    if kinds <= {bool}:
        return pa.array(values, pa.bool_())
    texts = [None if value is None else str(value) for value in values]
    return pa.array(texts, pa.string())


Row = tuple[str | None, str | None, float | None, str | None]


def rows_of(found: Found) -> Iterator[Row]:
    """Phase, counter, value and no error of everything that a run has counted."""
    for phase, counters in [(found.phase, found.counters), *found.more.items()]:
        for name, value in sorted(counters.items()):
            if math.isfinite(value):
                yield phase, name, float(value), None


def table(
    plan: Plan, results: Mapping[str, Found], failures: Mapping[str, str]
) -> pa.Table:
    """All points with all their counters, in an order that does not depend on that of the runs.

    A run that failed has one row, with its reason and without a counter.
    """
    names = option_names(plan)
    varied = any(point.variation != BASE for point in plan.points)
    indices: list[int] = []
    fixed: list[list[object]] = [[] for _ in FIXED]
    for index, point in enumerate(plan.points):
        rows: list[Row] = list(rows_of(results[point.key])) if point.key in results else [
            (None, None, None, failures.get(point.key, "not made"))]
        for row in rows:
            indices.append(index)
            for values, value in zip(fixed, (point.key[:16], *row), strict=True):
                values.append(value)
    index = pa.array(indices, pa.int32())
    columns = {name: column([value_of(p, name) for p in plan.points]).take(index)
               for name in names}
    if varied:
        columns["variation"] = pa.array([p.variation for p in plan.points]).take(index)
    for (name, kind), values in zip(FIXED, fixed, strict=True):
        columns[name] = pa.array(values, kind)
    return pa.table(columns)


def write(table: pa.Table, folder: Path) -> None:
    """Writes `sweep.parquet` and `sweep.csv`; no name, time or number of this computer in them."""
    data = io.BytesIO()
    parquet.write_table(table, data, compression="zstd", store_schema=True)
    text = io.BytesIO()
    csv.write_csv(table, text)
    with file_errors(folder):
        write_file(folder / "sweep.parquet", data.getvalue())
        write_file(folder / "sweep.csv", text.getvalue())
