"""Runs of workloads, and several side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from . import _native
from . import options as given
from .command import Command
from .ledger import Comparison, Ledger, Ledgers

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import Path, WorkloadOptions

# Seconds between checks for Ctrl-C while other threads run machines.
_POLL_SECONDS = 0.2


def run(
    workload: str,
    machine: str,
    *,
    seed: int = 0,
    trace: Path | None = None,
    project: Path | None = None,
    program: Path | None = None,
    **options: Unpack[WorkloadOptions],
) -> Ledger:
    """Runs a workload in a guest of a KVM host on a machine, and returns its ledger.

    The same arguments give the same ledger, except for its data about the host computer.
    `trace`: a file for a trace that Perfetto opens. `program`: your own command that makes
    the run, for machines that this package does not have (docs/own-machines.md). Other options:
    `settings` (parameters of the workload, as in {"pings": 10}), `harts`, `guest_harts`, `ram`,
    `isa`, `cost` (a file, or cycles by name), `quantum`, `vmm`, `engine`, `time_limit` (seconds of
    virtual time), `trap_misaligned`.

    Raises WorkloadError if the workload fails, and Error for an option that cannot be used. Missing
    images are made first, which takes minutes.
    """
    machine, seed = given.named(machine), given.counted("seed", seed)
    fields = given.fields(run, "run", options, workload=given.workload_named(workload))
    if program is not None:
        return Command(program, project).run(fields, machine, seed, trace)
    plan = given.program(project).plan(given.encoded(fields))
    plan.check([machine])
    return _one(plan.start(machine, seed, trace))


def _one(machine: _native.Machine) -> Ledger:
    reason, _ = machine.run()
    if reason == "stopped":
        raise KeyboardInterrupt
    return Ledger(machine.ledger())


def compare(
    workload: str,
    machines: str | Sequence[str],
    *,
    seeds: int = 5,
    first_seed: int = 0,
    jobs: int | None = None,
    progress: Callable[[str], object] | None = None,
    project: Path | None = None,
    program: Path | None = None,
    **options: Unpack[WorkloadOptions],
) -> Comparison:
    """Runs a workload with `seeds` consecutive seeds on each machine, the baseline first, and
    compares the ledgers.

    `jobs`: number of concurrent runs; by default one for each processor, as memory
    permits. `progress` is called with a line of text after each run: `progress=print`. `program`
    and other options are those of `run`. If runs fail, the others are still made; their ledgers are
    the attribute `ledgers` of the exception.
    """
    machines = given.all_named(machines)
    first = given.counted("first_seed", first_seed)
    of_seeds = range(first, first + given.counted("seeds", seeds, 1))
    jobs = jobs if jobs is None else given.counted("jobs", jobs, 1)
    workload = given.workload_named(workload)
    fields = given.fields(compare, "run", options, workload=workload)
    if program is not None:
        own = Command(program, project)
        return Comparison(own.compare(fields, machines, of_seeds, jobs, progress))
    plan = given.program(project).plan(given.encoded(fields))
    plan.check(machines)
    runs = [(m, s) for s in of_seeds for m in machines]
    series = _Series(plan, workload, progress, len(runs))
    ledgers = series.make(runs, plan.at_a_time(jobs, len(runs)))
    order = {run: index for index, run in enumerate((m, s) for m in machines for _, s in runs)}
    done = Ledgers(ledgers[run] for run in sorted(ledgers, key=order.__getitem__))
    if series.failed:
        text = "".join(f"\n  {m}, seed {s}: {error}" for (m, s), error in series.failed.items())
        error = _native.WorkloadError(f"{len(series.failed)} of {len(runs)} runs failed:{text}")
        error.ledgers = done  # type: ignore[attr-defined]
        raise error
    return Comparison(done)


class _Series:
    """Runs in several threads. A running machine does not hold the interpreter lock."""

    def __init__(
        self,
        plan: _native.Plan,
        workload: str,
        progress: Callable[[str], object] | None,
        total: int,
    ) -> None:
        self.plan, self.workload, self.progress, self.total = plan, workload, progress, total
        self.failed: dict[tuple[str, int], Exception] = {}
        self._lock = threading.Lock()
        self._running: set[_native.Machine] = set()
        self._stopping = False

    def make(self, runs: list[tuple[str, int]], jobs: int) -> dict[tuple[str, int], Ledger]:
        """Makes all runs."""
        done: dict[tuple[str, int], Ledger] = {}
        with ThreadPoolExecutor(jobs, thread_name_prefix="trapless") as pool:
            futures = {pool.submit(self._make, *run): run for run in runs}
            waiting: set[Future[Ledger]] = set(futures)
            try:
                while waiting:
                    ended, waiting = wait(waiting, _POLL_SECONDS, FIRST_COMPLETED)
                    for future in ended:
                        self._take(futures[future], future, done)
            except BaseException:
                for future in waiting:
                    future.cancel()
                self._stop()
                raise
        return done

    def _take(
        self,
        run: tuple[str, int],
        future: Future[Ledger],
        done: dict[tuple[str, int], Ledger],
    ) -> None:
        try:
            done[run] = future.result()
        except _native.WorkloadError as error:
            self.failed[run] = error

    def _make(self, machine: str, seed: int) -> Ledger:
        started = time.monotonic()
        native = self.plan.start(machine, seed)
        with self._lock:
            if self._stopping:
                raise KeyboardInterrupt
            self._running.add(native)
        try:
            ledger = _one(native)
        finally:
            with self._lock:
                self._running.discard(native)
        if self.progress:
            seconds = time.monotonic() - started
            self.progress(f"{self.workload} on {machine}, seed {seed}, took {seconds:.1f} s")
        return ledger

    def _stop(self) -> None:
        with self._lock:
            self._stopping = True
            for native in self._running:
                native.stop()
