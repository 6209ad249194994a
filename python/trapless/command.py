"""Runs by a command of one's own, with machines that this package was not built with."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from . import _native
from .ledger import Ledger, Ledgers, load

if TYPE_CHECKING:
    from .options import Path

# Exit statuses of the command; others are mistakes (`trapless --help`).
_FAILED, _INTERRUPTED = 1, 130
# How the line begins that says what went wrong.
_WRONG = "trapless: "


class Command:
    """A program that takes the options of `trapless`, as docs/own-machines.md builds one."""

    def __init__(self, program: Path, project: Path | None) -> None:
        # With a folder, or the system would look for it in PATH alone.
        self._program = os.path.join(os.curdir, os.fspath(program))
        self._project = project

    def run(self, words: Sequence[str], machine: str, seed: int, trace: Path | None) -> Ledger:
        """The ledger of a run."""
        with tempfile.TemporaryDirectory(prefix="trapless-") as folder:
            file = FilePath(folder, "ledger.json")
            more = [f"--machine={machine}", f"--seed={seed}", f"--ledger={file}"]
            if trace is not None:
                more.append(f"--trace={os.fspath(trace)}")
            self._do(["run", *words, *more], None)
            return _without_file(load(file))[0]

    def compare(
        self,
        words: Sequence[str],
        machines: Sequence[str],
        seeds: range,
        jobs: int | None,
        progress: Callable[[str], object] | None,
    ) -> Ledgers:
        """The ledgers of runs with each of the seeds on each machine."""
        with tempfile.TemporaryDirectory(prefix="trapless-") as folder:
            out = FilePath(folder, "comparison")
            more = [f"--machines={','.join(machines)}", f"--seeds={len(seeds)}", f"--out={out}"]
            more += [f"--seed={seeds.start}", *([f"--jobs={jobs}"] if jobs is not None else [])]
            try:
                self._do(["compare", *words, *more], progress)
            except _native.WorkloadError as error:
                made = FilePath(f"{out}.json")
                done = _without_file(load(made)) if made.exists() else Ledgers([])
                error.ledgers = done  # type: ignore[attr-defined]
                raise
            return _without_file(load(f"{out}.json"))

    def _do(self, words: list[str], progress: Callable[[str], object] | None) -> None:
        """Lets the command do something. What it says while it works goes to `progress`."""
        project = [] if self._project is None else [f"--project={os.fspath(self._project)}"]
        try:
            process = subprocess.Popen(
                [self._program, *project, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise _native.Error(
                f"cannot start program={self._program}: {error.strerror}; name a command that "
                "takes the options of trapless (docs/own-machines.md)"
            ) from None
        said: list[str] = []
        with process:
            try:
                assert process.stderr is not None
                for line in map(str.rstrip, process.stderr):
                    said.append(line)
                    if progress and line:
                        progress(line)
            except BaseException:
                # A terminal has told it already; whoever else stops this has not.
                process.send_signal(signal.SIGINT)
                process.wait()
                raise
        self._judge(process.returncode, said)

    def _judge(self, status: int, said: list[str]) -> None:
        """Raises what the exit status says."""
        if status == 0:
            return
        if status == _INTERRUPTED:
            raise KeyboardInterrupt
        last = [at for at, line in enumerate(said) if line.startswith((_WRONG, "error: "))]
        text = "\n".join(said[last[-1] if last else -10 :]).strip()
        if text.startswith("error: "):
            # Hints for a shell follow after an empty line.
            text = text.removeprefix("error: ").split("\n\n")[0]
        text = text.removeprefix(_WRONG)
        if status == _FAILED:
            raise _native.WorkloadError(text)
        raise _native.Error(text or f"{self._program} ended with status {status}")


def _without_file(ledgers: Ledgers) -> Ledgers:
    """Ledgers whose file is gone."""
    return Ledgers(Ledger(ledger._native) for ledger in ledgers)
