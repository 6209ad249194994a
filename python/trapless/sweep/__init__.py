"""Sweeps: many deterministic runs, made by Dask, whose results are kept.

    from trapless import sweep

    result = sweep.run({
        "run": {"workload": "timer", "set": {"wakeups": 50}},
        "axes": {"machine": ["sbi", "trapless"], "seed": {"from": 0, "count": 5}},
    })
    result.to_pandas()

Sweeps are described in `docs/sweeps.md`.

    __main__ -> needs (are the packages installed?)
             -> cli -> api -> engine -> worker         (a run, where Dask puts it)
                        |     \\> store                 (results by content)
                        |> document -> plan -> own     (file -> runs, and the files they read)
                        |> program, options            (answers of the program: runs, options)
                        \\> output: table, figures, tornado, plots, page
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import Interrupted, SweepError

if TYPE_CHECKING:
    from .api import Result
    from .document import Source

__all__ = ["Interrupted", "SweepError", "run"]


def run(source: Source, **options: Any) -> Result:
    """Makes the runs of `source` that are not kept yet, and returns all results.

    `source`: path of a TOML file, or a mapping with the same tables. For options and the result see
    `trapless.sweep.api.run`. A script that calls it needs `if __name__ == "__main__":`, because
    Dask starts processes that import the script.

    Raises `SweepError`, whose text states the problem and a remedy.
    """
    from . import needs

    needs.check()
    from . import api  # pyarrow and Matplotlib take a second to import.

    return api.run(source, **options)
