"""Makes a run on a Dask worker: in a separate process, with copies of the user's files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from distributed import get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from . import program as programs
from .own import Own
from .plan import Run
from .program import Place
from .store import pack

# Maximum number of characters kept of a failed run's error output, from its end.
MOST_OUTPUT = 2000
# Beginnings of lines that announce the steps of a run.
ANNOUNCED = ("Making image ", "Running ")
# Kills the run when its worker dies, if the system has this program.
GUARD = ("setpriv", "--pdeathsig", "KILL")


Outcome = tuple[str, Any]
"""The outcome of a run: `("done", packed ledger)`, or `("failed", error output)`."""


class Job(TypedDict):
    """What runs of a sweep have in common."""

    runs: str
    program: str
    check: bool


class Runs(WorkerPlugin):  # type: ignore[misc]
    """The runs of a sweep on a worker, so that they end with either; and the files for them, which
    travel once and not with each run.
    """

    def __init__(self, name: str, own: Own, environment: dict[str, str]) -> None:
        self.name, self.environment = name, environment
        self.own: Own | None = own

    def setup(self, worker: Any) -> None:
        self.lock = threading.Lock()
        self.processes: set[subprocess.Popen[bytes]] = set()
        self.programs: dict[str, dict[str, Any]] = {}
        self.stopped = False
        self.root = tempfile.mkdtemp(prefix="files-", dir=worker.local_directory)
        self.written: Place | None = None
        guard = shutil.which(GUARD[0])
        self.guard = [guard, *GUARD[1:]] if guard else []

    def teardown(self, worker: Any) -> None:
        """Kills the runs."""
        with self.lock:
            self.stopped = True
            for process in self.processes:
                process.kill()
        shutil.rmtree(self.root, ignore_errors=True)

    def place(self) -> Place:
        """Where the files are; the first run writes them."""
        with self.lock:
            if self.written is None:
                assert self.own is not None
                self.written = self.own.write(self.root, self.environment)
                self.own = None  # It can be large.
            return self.written

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes] | None:
        """Starts a run, unless the sweep was stopped."""
        with self.lock:
            if self.stopped:
                return None
            # A separate session: Ctrl-C on the terminal reaches only the sweep, which ends the run.
            process = subprocess.Popen([*self.guard, *command], start_new_session=True, **options)
            self.processes.add(process)
            return process

    def ended(self, process: subprocess.Popen[bytes]) -> None:
        """Removes a run that has ended."""
        with self.lock:
            self.processes.discard(process)

    def check(self, program: str, run: Run) -> None:
        """Rejects a program that differs from the one that planned the run; queries it once."""
        spec = {name: value for name, value in run.spec.items() if name != "seed"}
        query = json.dumps([program, spec], sort_keys=True)
        if query not in self.programs:
            [about] = programs.identify(program, [spec], self.place())
            self.programs[query] = about.identity
        there, here = run.identity, self.programs[query]
        for name in sorted(set(there) | set(here)):
            if there.get(name) != here.get(name):
                raise RuntimeError(
                    f"{program} on {get_worker().address} is not the program of the sweep: its "
                    f"{name} is {here.get(name)}, not {there.get(name)}; install the same one there"
                )


def perform(run: Run, job: Job) -> Outcome:
    """Makes a run."""
    runs = get_worker().plugins.get(job["runs"])
    if runs is None:
        return ("stopped", None)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=get_worker().local_directory))
    try:
        return execute(runs, run, job, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def execute(runs: Runs, run: Run, job: Job, folder: Path) -> Outcome:
    """Makes a run, whose results go to `folder`."""
    place = runs.place()
    if job["check"]:
        runs.check(job["program"], run)
    ledger, request = folder / "ledger.json", folder / "request.json"
    request.write_text(json.dumps({"run": {"spec": run.spec, "ledger": str(ledger)}}), "utf-8")
    with open(folder / "stderr", "w+b") as stderr, open(request, "rb") as stdin:
        process = runs.start([job["program"], "call"], cwd=place.folder,
                             env={**os.environ, **place.environment}, stderr=stderr, stdin=stdin,
                             stdout=subprocess.DEVNULL)
        if process is None:
            return ("stopped", None)
        try:
            status = process.wait()
        finally:
            process.kill()
            runs.ended(process)
        stderr.seek(0)
        words = stderr.read().decode(errors="replace")
    if runs.stopped:
        return ("stopped", None)
    words = words.replace(str(folder), ".").replace(place.root, "")
    if status != 0:
        return ("failed", reason(status, words))
    try:
        content = json.loads(ledger.read_bytes())
    except (OSError, ValueError) as error:
        return ("failed", f"it did not write a ledger: {error}".replace(str(folder), "."))
    try:
        counters = programs.counters(job["program"], ledger)
    except RuntimeError as error:
        return ("failed", str(error).replace(str(folder), "."))
    # Data about the host computer are no property of the run.
    content.pop("host", None)
    result = {"key": run.key, "about": run.about, "ledger": content, "counters": counters}
    return ("done", pack(result))


def reason(status: int, output: str) -> str:
    """Why a run failed: the signal that ended it, and the end of its error output."""
    lines = [line.rstrip() for line in output[-MOST_OUTPUT:].splitlines()]
    lines = [line for line in lines if line and not line.startswith(ANNOUNCED)]
    output = "\n".join(lines).removeprefix("trapless: ")
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return "\n".join([f"ended by {name}", *([output] if output else [])])
    return output or f"exit status {status}"
