"""Runs by a command of one's own, with machines that this package was not built with."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from . import _native
from .ledger import Ledger, Ledgers, load
from .options import encoded

if TYPE_CHECKING:
    from .options import Path

# Exit statuses of the command; others are mistakes (`trapless --help`).
_FAILED, _INTERRUPTED = 1, 130
# How the line begins that says what went wrong.
_WRONG = "trapless: "


class Command:
    """A program that is `trapless` with more machines, as docs/own-machines.md builds one."""

    def __init__(self, program: Path, project: Path | None) -> None:
        # With a folder, or the system would look for it in PATH alone.
        self._program = os.path.join(os.curdir, os.fspath(program))
        self._project = project

    def run(
        self,
        fields: Mapping[str, Any],
        machine: str,
        seed: int,
        trace: Path | None,
    ) -> Ledger:
        """The ledger of a run."""
        with tempfile.TemporaryDirectory(prefix="trapless-") as folder:
            file = FilePath(folder, "ledger.json")
            spec = {**fields, "machine": machine, "seed": seed}
            self._call({"run": {"spec": spec, "ledger": file, "trace": trace}}, None)
            return _without_file(load(file))[0]

    def compare(
        self,
        fields: Mapping[str, Any],
        machines: Sequence[str],
        seeds: range,
        jobs: int | None,
        progress: Callable[[str], object] | None,
    ) -> Ledgers:
        """The ledgers of runs with each of the seeds on each machine."""
        with tempfile.TemporaryDirectory(prefix="trapless-") as folder:
            made = FilePath(folder, "comparison.json")
            request = {
                "spec": {**fields, "seed": seeds.start},
                "machines": machines,
                "seeds": len(seeds),
                "jobs": jobs,
                "ledgers": made,
            }
            try:
                self._call({"compare": request}, progress)
            except _native.WorkloadError as error:
                done = _without_file(load(made)) if made.exists() else Ledgers([])
                error.ledgers = done  # type: ignore[attr-defined]
                raise
            return _without_file(load(made))

    def _call(
        self,
        request: Mapping[str, Any],
        progress: Callable[[str], object] | None,
    ) -> None:
        """Lets the command do something. What it says while it works goes to `progress`."""
        project = [] if self._project is None else [f"--project={os.fspath(self._project)}"]
        try:
            process = subprocess.Popen(
                [self._program, *project, "call"],
                stdin=subprocess.PIPE,
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
                assert process.stdin is not None and process.stderr is not None
                with contextlib.suppress(BrokenPipeError), process.stdin:
                    process.stdin.write(encoded(request))
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
        last = [at for at, line in enumerate(said) if line.startswith(_WRONG)]
        text = "\n".join(said[last[-1] if last else -10 :]).strip().removeprefix(_WRONG)
        if status == _FAILED:
            raise _native.WorkloadError(text)
        raise _native.Error(text or f"{self._program} ended with status {status}")


def _without_file(ledgers: Ledgers) -> Ledgers:
    """Ledgers whose file is gone."""
    return Ledgers(Ledger(ledger._native) for ledger in ledgers)
