"""Where runs are made: Dask workers on this computer, of a scheduler, or of a batch system."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from multiprocessing import resource_tracker
from typing import Any

import dask
import psutil
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster
from distributed.system import MEMORY_LIMIT

from .document import Document
from .errors import SweepError
from .settings import Settings

# Classes of dask-jobqueue by the name of the batch system.
SYSTEMS = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "lsf": "LSFCluster",
    "sge": "SGECluster",
    "oar": "OARCluster",
    "moab": "MoabCluster",
    "htcondor": "HTCondorCluster",
}
SETTINGS = {
    # Costs time on workers without information about runs.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.large-graph-warning-threshold": "1GB",
}


def at_a_time(requested: int | None, runs: int, each: int) -> int:
    """Workers on this computer: one for each processor, as far as memory suffices."""
    if requested is not None:
        return max(1, min(requested, runs))
    memory = min(MEMORY_LIMIT, psutil.virtual_memory().available)
    return max(1, min(int(CPU_COUNT), int(memory) // each, runs))


@contextlib.contextmanager
def shielded() -> Iterator[None]:
    """Blocks SIGINT, which a terminal sends to all processes, in threads and processes that are
    started here: this process ends them. Ctrl-C takes effect afterwards.
    """
    # Started before: starting it unblocks the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def local(workers: int) -> Iterator[Client]:
    """Workers on this computer, each with a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="trapless-sweep-", ignore_cleanup_errors=True) as at:
        with shielded():
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1",
                dashboard_address="127.0.0.1:0", memory_limit=0, local_directory=at,
                silence_logs=logging.CRITICAL)
        with cluster, Client(cluster) as client:
            yield client


@contextlib.contextmanager
def remote(address: str) -> Iterator[Client]:
    """The workers of a scheduler that is already running."""
    try:
        client = Client(address)
    except (OSError, ValueError) as error:
        raise SweepError(
            f"no Dask scheduler answers at {address} ({error}); start `dask scheduler`, or leave "
            "out --scheduler to use this computer", 1) from None
    with client:
        yield client


@contextlib.contextmanager
def jobqueue(system: str, options: Mapping[str, Any], jobs: int) -> Iterator[Client]:
    """Workers that a batch system starts as jobs."""
    name = SYSTEMS.get(system)
    if name is None:
        raise SweepError(f"there is no batch system {system}; there are: {', '.join(SYSTEMS)}")
    try:
        module = importlib.import_module("dask_jobqueue")
    except ImportError:
        raise SweepError("--jobqueue needs the package dask-jobqueue, which this Python does not "
                         f"have; install with: {sys.executable} -m pip install dask-jobqueue") \
            from None
    options = {"cores": 1, "processes": 1, "memory": "4GB", **options}
    jobs = options.pop("jobs", jobs)
    try:
        cluster = getattr(module, name)(**options)
    except (TypeError, ValueError) as error:
        raise SweepError(f"[jobqueue] does not suit {system}: {error}") from None
    with cluster, Client(cluster) as client:
        cluster.scale(jobs=jobs)
        yield client


@contextlib.contextmanager
def connect(settings: Settings, workers: int, document: Document) -> Iterator[Client]:
    """A client of the requested workers."""
    # Dask sets the levels of some of its loggers individually.
    for name in list(logging.root.manager.loggerDict) + ["distributed", "distributed.client"]:
        if name.split(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)
    with dask.config.set(SETTINGS), contextlib.ExitStack() as stack:
        if settings.client is not None:
            yield settings.client
            return
        if settings.scheduler:
            chosen = remote(settings.scheduler)
        elif settings.jobqueue:
            chosen = jobqueue(settings.jobqueue, document.jobqueue, settings.jobs or 1)
        else:
            # Inherited by workers, which do no arithmetic themselves.
            os.environ.setdefault("OMP_NUM_THREADS", "1")
            chosen = local(workers)
        yield stack.enter_context(chosen)
