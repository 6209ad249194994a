"""Makes the runs that are not kept, by Dask, and stores each result as it arrives.

Which worker makes what, and what becomes of the work of a worker that dies, is Dask's business.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from typing import Any

from distributed import as_completed
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from . import counters, worker
from .cluster import at_a_time, connect
from .counters import Found
from .errors import SweepError
from .plan import Plan, Run
from .program import environment
from .progress import Quiet, note
from .settings import Settings
from .store import Damaged, Store, unpack

SECONDS_TO_STOP = 5


def make(
    plan: Plan, runs: Sequence[Run], settings: Settings, store: Store, progress: Quiet
) -> tuple[dict[str, Found], dict[str, str]]:
    """Makes `runs`; returns the counters of those that succeeded, and why those that failed did, by
    key."""
    each = max(run.memory for run in runs)
    workers = at_a_time(settings.jobs, len(runs), each)
    results: dict[str, Found] = {}
    failures: dict[str, str] = {}
    progress.begin(len(runs), None if settings.remote() else workers)
    with connect(settings, workers, plan.document) as client:
        # One for each sweep: several may use one scheduler.
        name = f"trapless-sweep-{uuid.uuid4().hex}"
        own = worker.Runs(name, plan.own, {} if settings.remote() else environment())
        job: worker.Job = {
            "runs": name,
            "program": settings.worker_program or plan.program,
            "check": settings.remote(),
        }
        try:
            client.register_plugin(own)
            collect(client, runs, job, Keeper(store, results), progress, failures)
        finally:
            with contextlib.suppress(Exception):
                client.unregister_worker_plugin(name)
    return results, failures


class Keeper:
    """Receives results: stores them, and collects their counters."""

    def __init__(self, store: Store, results: dict[str, Found]) -> None:
        self.store, self.results = store, results
        self.refused = False

    def take(self, key: str, data: bytes) -> None:
        """Stores the result of a run."""
        # Not read back from the store: other users can write there.
        self.results[key] = counters.of_kept(unpack(data, 0))
        if not self.store.put(key, data) and not self.refused:
            self.refused = True
            note(f"Some results cannot be kept in {self.store.folder}: other users' files are in "
                 "their place, or they are too large. The data is complete, but the next call makes "
                 "them again")


def collect(
    client: Any, runs: Sequence[Run], job: worker.Job, keeper: Keeper, progress: Quiet,
    failures: dict[str, str],
) -> None:
    """Sends runs to workers, and stores results in the order in which they arrive."""
    prefix = f"trapless-{uuid.uuid4().hex[:8]}-"
    futures: dict[str, Run] = {}
    for run in runs:
        future = client.submit(worker.perform, run, job, key=prefix + run.key, pure=False)
        futures[future.key] = run
        progress.sent(future)
    del future
    for future in as_completed(progress.futures()):
        run = futures[future.key]
        error = finish(future, run, keeper)
        if error is not None:
            failures[run.key] = error
        progress.done(future, run, error)


def finish(future: Any, run: Run, keeper: Keeper) -> str | None:
    """Stores the result of a run; returns the reason if it failed."""
    try:
        outcome, data = future.result()
    except KilledWorker as error:
        deaths = error.allowed_failures + 1
        return f"its worker died {deaths} times; there may be too little memory for this run"
    except (FutureCancelledError, TimeoutError) as error:
        raise SweepError(f"the Dask scheduler is gone ({error})", 1) from None
    except OSError as error:
        raise SweepError(f"a worker has no room or no rights for its files: {error}", 1) from None
    except RuntimeError as error:
        raise SweepError(str(error), 1) from None
    if outcome == "done":
        try:
            keeper.take(run.key, data)
        except Damaged as error:
            return f"its ledger cannot be used: {error}"
        return None
    return data or "stopped"
