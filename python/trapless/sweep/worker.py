"""A run where Dask puts it: in a process of its own, in a folder of its own."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

from distributed import get_worker
from distributed.diagnostics.plugin import WorkerPlugin

from . import program as programs
from .store import pack

NAME = "trapless-sweep"
# Last characters of what a failed run has said.
MOST_SAID = 2000
# A run is killed with the worker that waits for it, where the system has this program.
GUARD = ("setpriv", "--pdeathsig", "KILL")


class Runs(WorkerPlugin):
    """The runs of a worker, so that they end with it or when the sweep is stopped."""

    name = NAME

    def setup(self, worker):
        self.lock = threading.Lock()
        self.processes = {}
        self.programs = {}
        self.stopped = set()
        guard = shutil.which(GUARD[0])
        self.guard = [guard, *GUARD[1:]] if guard else []

    def teardown(self, worker):
        self.stop(None)

    def start(self, sweep, command, **options):
        """Starts a run of a sweep, unless that was stopped."""
        with self.lock:
            if sweep in self.stopped:
                return None
            # A session of its own: Ctrl-C on the terminal is for the sweep, which ends it.
            process = subprocess.Popen([*self.guard, *command], start_new_session=True, **options)
            self.processes[process] = sweep
            return process

    def ended(self, process):
        with self.lock:
            self.processes.pop(process, None)

    def stop(self, sweep):
        """Kills the runs of a sweep, or all."""
        with self.lock:
            self.stopped.add(sweep)
            for process, of in self.processes.items():
                if sweep in (None, of):
                    process.kill()

    def check(self, program, run, folder, environment):
        """Refuses a program that is not the one which planned the run; asks it once."""
        words = [word for word in run["words"] if not word.startswith("--seed=")]
        asked = (program, *words)
        if asked not in self.programs:
            self.programs[asked] = programs.identity(program, words, folder, environment)
        there, here = run["identity"], self.programs[asked]
        for name in sorted(set(there) | set(here)):
            if name == "machine" and run["cost"] is not None:
                continue  # The prices are not its own.
            if there.get(name) != here.get(name):
                raise RuntimeError(
                    f"{program} on {get_worker().address} is not the program of the sweep: its "
                    f"{name} is {here.get(name)}, not {there.get(name)}; install the same one there"
                )


def stop(sweep, dask_worker):
    """Ends the runs of a sweep on this worker, at once."""
    if plugin := dask_worker.plugins.get(NAME):
        plugin.stop(sweep)


def perform(run, job):
    """Makes a run. `("done", packed ledger)`, or `("failed", what it said)`."""
    runs = get_worker().plugins[NAME]
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=get_worker().local_directory))
    try:
        return execute(runs, run, job, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def execute(runs, run, job, folder):
    """Makes a run in `folder`."""
    config = folder / "config"
    config.mkdir()
    for name, text in job["files"].items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    environment = {**os.environ, **job["environment"], "XDG_CONFIG_HOME": str(config)}
    if job["check"]:
        runs.check(job["program"], run, folder, environment)
    command = [job["program"], "run", *run["words"]]
    if run["cost"] is not None:
        (folder / "cost.toml").write_text(run["cost"], encoding="utf-8")
        command += ["--cost", "cost.toml"]
    ledger = folder / "ledger.json"
    command += ["--ledger", str(ledger)]
    with open(folder / "said", "w+b") as said:
        process = runs.start(job["sweep"], command, cwd=folder, env=environment, stderr=said,
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        if process is None:
            return ("stopped", None)
        try:
            status = process.wait()
        finally:
            process.kill()
            runs.ended(process)
        said.seek(0)
        words = said.read().decode(errors="replace")
    if job["sweep"] in runs.stopped:
        return ("stopped", None)
    if status != 0:
        return ("failed", reason(status, words.replace(str(folder), ".")))
    try:
        content = json.loads(ledger.read_bytes())
    except (OSError, ValueError) as error:
        return ("failed", f"it wrote no ledger: {error}".replace(str(folder), "."))
    # When and how fast a run was made says nothing about it.
    content.pop("host", None)
    return ("done", pack({"key": run["key"], "about": run["about"], "ledger": content}))


def reason(status, said):
    """Why a run failed: the signal that ended it, and the end of what it said."""
    lines = [line.rstrip() for line in said[-MOST_SAID:].splitlines()]
    # Announcements and progress.
    lines = [line for line in lines if line and not line.startswith("Running ")]
    said = "\n".join(lines).removeprefix("trapless: ")
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = f"signal {-status}"
        return "\n".join([f"ended by {name}", *([said] if said else [])])
    return said or f"exit status {status}"
