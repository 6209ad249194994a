"""Sweeps: many deterministic runs, made by Dask, whose results are kept.

    import trapless.sweep

    result = trapless.sweep({
        "run": {"workload": "timer", "set": {"wakeups": 50}},
        "axes": {"machine": ["sbi", "trapless"], "seed": {"from": 0, "count": 5}},
    })
    result.to_pandas()

The module itself can be called; `sweep` is the same function. `docs/sweeps.md` says what a sweep
is.

    __main__ -> needs (are the packages here?)
             -> cli -> api -> engine -> worker         (a run, where Dask puts it)
                        |     \\> store                 (results by content)
                        |> document -> plan -> own     (file -> runs, and the files they read)
                        |> program                     (what a run is: images, machine, prices)
                        \\> output: table, figures, tornado, plots, page
"""

import sys
import types

from .errors import Interrupted, SweepError

__all__ = ["Interrupted", "SweepError", "sweep"]


def sweep(source, **options):
    """Makes the runs of `source` that are not kept yet, and returns all results.

    `source`: path of a TOML file, or a mapping with the same tables. For options and the result see
    `trapless.sweep.api.sweep`. A script that calls it needs `if __name__ == "__main__":`, because
    Dask starts processes that import the script.

    Raises `SweepError`, whose text says what is wrong and what to do.
    """
    from . import needs

    needs.check()
    from . import api  # pyarrow and Matplotlib take a second to import.

    return api.sweep(source, **options)


class _Callable(types.ModuleType):
    """Lets `trapless.sweep(...)` be the function while `trapless.sweep` stays a package."""

    def __call__(self, source, **options):
        return sweep(source, **options)


sys.modules[__name__].__class__ = _Callable
