"""Has Dask make the runs that are not kept, and keeps each result as it arrives.

Which worker makes what, and what becomes of the work of a worker that dies, is Dask's business.
"""

import contextlib
import uuid

from distributed import as_completed
from distributed.client import FutureCancelledError
from distributed.scheduler import KilledWorker

from . import worker
from .cluster import at_a_time, connect, ram
from .errors import SweepError
from .program import environment

SECONDS_TO_STOP = 5


def make(plan, runs, settings, store, progress):
    """Makes `runs`; returns why those that failed did, by key."""
    needed = {run.key for run in runs}
    each = max(ram(p.options) for p in plan.points if p.key in needed)
    workers = at_a_time(settings.jobs, len(runs), each)
    failures = {}
    progress.begin(len(runs), None if settings.remote() else workers)
    with connect(settings, workers, plan.document) as client:
        # A sweep has its own: several may use one scheduler.
        name = f"trapless-sweep-{uuid.uuid4().hex}"
        own = worker.Runs(name, plan.own, {} if settings.remote() else environment())
        job = {
            "runs": name,
            "program": settings.worker_program or plan.program,
            "check": settings.remote(),
        }
        try:
            client.register_plugin(own)
            collect(client, runs, job, store, progress, failures)
        finally:
            with contextlib.suppress(Exception):
                client.unregister_worker_plugin(name)
    return failures


def collect(client, runs, job, store, progress, failures):
    """Sends runs to workers, and keeps results in whatever order they come."""
    prefix = f"trapless-{uuid.uuid4().hex[:8]}-"
    futures = {}
    for run in runs:
        future = client.submit(worker.perform, vars(run), job, key=prefix + run.key, pure=False)
        futures[future.key] = run
        progress.sent(future)
    del future
    for future in as_completed(progress.futures()):
        run = futures[future.key]
        error = finish(future, run, store)
        if error is not None:
            failures[run.key] = error
        progress.done(future, run, error)


def finish(future, run, store):
    """Keeps the result of a run; why it failed, if it did."""
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
        store.put(run.key, data)
        return None
    return data or "stopped"
