"""What tests of sweeps share: a program that stands for `trapless`, and the command in a process of
its own."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

HERE = Path(__file__).resolve().parent
PACKAGES = HERE.parent
ROOT = PACKAGES.parent
# For processes that tests start, and for the tests themselves, which import this first.
sys.path.insert(0, str(PACKAGES))
BASE = """
[run]
workload = "timer"
[axes]
machine = ["sbi", "trapless"]
"""


def block_signals():
    """As `trapless sweep` does before it becomes Python."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))


class Bench:
    """A folder with a fake program, a store and a log of its runs."""

    def __init__(self, folder):
        self.folder = folder
        self.program = folder / "bin" / "trapless"
        self.program.parent.mkdir()
        shutil.copy(HERE / "fake_trapless.py", self.program)
        self.store, self.out, self.log = folder / "store", folder / "out", folder / "log"
        self.environment = {**os.environ, "FAKE_LOG": str(self.log), "PYTHONPATH": str(PACKAGES),
                            "XDG_CONFIG_HOME": str(folder / "config")}

    def file(self, text, name="sweep.toml"):
        path = self.folder / name
        path.write_text(text)
        return path

    def start(self, file, *options, store=None):
        """The command, running."""
        command = [sys.executable, "-m", "trapless.sweep", str(file), "--program",
                   str(self.program), "--store", str(store or self.store), "--out", str(self.out),
                   *options]
        return subprocess.Popen(command, cwd=self.folder, env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True, preexec_fn=block_signals)

    def sweep(self, file, *options, status=0, store=None, seconds=120):
        """Runs the command to its end; returns its output."""
        process = self.start(file, *options, store=store)
        printed = "".join(process.communicate(timeout=seconds))
        assert process.returncode == status, printed
        assert "Traceback" not in printed, printed
        return printed

    def runs(self):
        """Runs so far, those included that were not finished."""
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    def wait_for_runs(self, count, seconds=60):
        end = time.monotonic() + seconds
        while self.runs() < count and time.monotonic() < end:
            time.sleep(0.02)
        assert self.runs() >= count

    def data(self):
        """The bytes of both data files."""
        return [(self.out / f"sweep.{kind}").read_bytes() for kind in ("parquet", "csv")]

    def table(self):
        return pq.read_table(self.out / "sweep.parquet")


@pytest.fixture
def bench(tmp_path):
    """A fake program with a store of its own."""
    return Bench(tmp_path)


def children(pid):
    """Descendants of a process, from /proc."""
    below = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        below.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found, left = [], [pid]
    while left:
        direct = below.get(left.pop(), [])
        found += direct
        left += direct
    return found


def workers_of(pid):
    """Dask workers below a process."""
    def command(child):
        try:
            return Path(f"/proc/{child}/cmdline").read_bytes()
        except OSError:
            return b""
    return [child for child in children(pid) if b"spawn_main" in command(child)]


class Cluster:
    """A Dask scheduler and two workers, each in a folder of its own."""

    def __init__(self, folder, environment):
        self.folder, self.environment, self.processes = folder, environment, []

    def run(self, name, *command):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "distributed.cli." + command[0], *command[1:]]
        with open(folder / "log", "w") as log:
            process = subprocess.Popen(command, cwd=folder, env=self.environment, stdout=log,
                                       stderr=log, start_new_session=True)
        self.processes.append(process)
        return process

    def scheduler(self):
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        process = self.run("head", "dask_scheduler", "--host", "127.0.0.1", "--port", "0",
                           "--no-dashboard", "--scheduler-file", str(file))
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if file.exists() and file.read_text().strip():
                self.address = json.loads(file.read_text())["address"]
                return process
            time.sleep(0.05)
        raise AssertionError("no scheduler")

    def worker(self, name):
        return self.run(name, "dask_worker", self.address, "--nthreads", "1", "--no-dashboard",
                        "--host", "127.0.0.1", "--local-directory", str(self.folder / name),
                        "--death-timeout", "60")

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                for child in children(process.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
                process.kill()
            process.wait()


@pytest.fixture
def cluster(bench, tmp_path):
    made = Cluster(tmp_path, bench.environment)
    yield made
    made.close()
