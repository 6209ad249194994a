"""`trapless.sweep.run(...)`: the functions of the command, for Python programs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import counters, output, page, progress, store
from . import plan as plans
from . import program as programs
from .counters import Found
from .document import Source
from .errors import Interrupted, SweepError
from .options import suggestion
from .plan import Plan, Run
from .settings import Settings
from .store import Store

if TYPE_CHECKING:
    import pandas
    import pyarrow

OUT = "out"


@dataclasses.dataclass
class Result:
    """All results of a sweep.

    `table`: a `pyarrow.Table` with one row for each run and counter. `failures`: for each run that
    failed, the command that repeats it and its error output. `made`: runs that were made now, not
    kept from before. `folder`: where the files are, if they were written.
    """

    table: pyarrow.Table
    failures: list[dict[str, str]]
    made: int
    kept: int
    folder: Path | None

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a pandas `DataFrame`."""
        return self.table.to_pandas()


def run(
    source: Source,
    *,
    out: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    jobqueue: str | None = None,
    client: Any = None,
    program: str | None = None,
    worker_program: str | None = None,
    show_progress: bool = False,
) -> Result:
    """Makes the runs of a sweep that are not kept yet, and returns a `Result`.

    `source`: path of a TOML file, or a mapping with the same tables.
    `out`: folder for `sweep.parquet`, `sweep.csv` and `sweep.html`; none are written without it.
    `store`: folder of kept results, by default `trapless/sweeps` in the user's cache folder.
    `jobs`: runs at a time on this computer, or jobs of the batch system; by default one for each
    processor, as far as there is memory.
    `scheduler`: address of a Dask scheduler. `client`: a `distributed.Client` that there is
    already. `jobqueue`: name of a batch system, whose options are in the sweep's table `jobqueue`.
    `program`, `worker_program`: paths of `trapless` here, and on workers if it is elsewhere there.

    Raises `SweepError` for what is wrong, `Interrupted` after Ctrl-C; what was done is kept.
    """
    settings = Settings(program, worker_program, store, out, jobs, scheduler, jobqueue, client,
                        show_progress)
    plan = prepare(source, settings)
    return execute(plan, settings)


def prepare(source: Source, settings: Settings) -> Plan:
    """The plan of a sweep; nothing runs."""
    if sum(map(bool, (settings.scheduler, settings.jobqueue, settings.client))) > 1:
        raise SweepError("--scheduler and --jobqueue exclude each other; leave out one")
    jobs = settings.jobs
    if jobs is not None and (not isinstance(jobs, int) or isinstance(jobs, bool) or jobs < 1):
        raise SweepError(f"jobs is {jobs!r}; give a whole number, 1 or more")
    return plans.plan(source, programs.find(settings.program))


def kept(plan: Plan, place: Store, show: bool) -> dict[str, Found]:
    """Counters of the runs whose results are kept, by key; damaged ones are made again."""
    results: dict[str, Found] = {}
    damaged = 0
    for key in plan.runs:
        try:
            content = place.get(key)
            if content is not None:
                results[key] = counters.of_kept(content)
        except store.Damaged:
            damaged += 1
    if damaged and show:
        progress.note(f"{damaged} kept results are damaged and are made again")
    return results


def execute(plan: Plan, settings: Settings) -> Result:
    """Makes what is missing, and writes all of it."""
    show = settings.show_progress
    place = store.Store(settings.store or store.default_folder())
    place.prepare()
    folder = None
    if settings.out is not None:
        # Reports an unusable folder before hours of runs, not after them.
        folder = Path(settings.out)
        with store.file_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
    results = kept(plan, place, show)
    missing = [run for key, run in plan.runs.items() if key not in results]
    if show:
        progress.note(f"{len(plan.points)} points, {len(plan.runs)} different runs: "
                      f"{len(results)} kept, {len(missing)} to make")
    failures: dict[str, str] = {}
    before = len(results)
    if missing:
        made, ended = make(plan, missing, settings, place, len(plan.runs))
        # In the order of the file, not in that of completion.
        failures = {run.key: ended[run.key] for run in missing if run.key in ended}
        results.update(made)
    if show:
        unknown(plan, results)
    table = output.table(plan, results, failures)
    if folder is not None:
        output.write(table, folder)
        page.write(plan, results, failures, folder)
    failed = page.failed(plan, failures)
    return Result(table, failed, len(missing) - len(failures), before, folder)


def unknown(plan: Plan, results: Mapping[str, Found]) -> None:
    """Reports counters that the page should show but that no run has."""
    there = {name for found in results.values() for name in found.counters}
    for name in plan.document.report["counters"]:
        if name not in there and there:
            progress.note(f"No run has the counter {name}; {suggestion(name, list(there), 3)}")


def make(
    plan: Plan, missing: list[Run], settings: Settings, place: Store, whole: int
) -> tuple[dict[str, Found], dict[str, str]]:
    """Makes the missing runs. Every error message says how to continue."""
    from . import engine  # Importing Dask takes half a second; not needed if all results are kept.

    display = progress.of(settings.show_progress)
    try:
        return engine.make(plan, missing, settings, place, display)
    except (KeyboardInterrupt, SweepError) as error:
        display.close()
        done = sum(place.path(key).exists() for key in plan.runs)
        kept = f"{done} of {whole} runs are kept; the same command continues from there"
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted(f"interrupted: {kept}") from None
        raise type(error)(f"{error}; {kept}", error.status) from None
    finally:
        display.close()


def default_out(source: str) -> Path:
    """`out/NAME` for a file `NAME.toml`."""
    return Path(OUT) / Path(os.path.basename(source)).stem
