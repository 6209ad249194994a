"""The `trapless` program: what a run is, asked of it before anything runs."""

import functools
import hashlib
import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from .errors import SweepError

# Variables with paths that must mean the same in another folder.
PATHS = ("TRAPLESS_PROJECT", "TRAPLESS_CACHE")


def find(named=None):
    """Path of the program: the one that is named, or the one that a shell would start."""
    path = shutil.which(named or "trapless")
    if path is None:
        what = named or "trapless, which is not on PATH,"
        raise SweepError(f"cannot find the program {what}; name it with --program")
    return os.path.abspath(path)


def environment():
    """Variables whose paths are relative, made absolute: runs have folders of their own."""
    return {name: os.path.abspath(os.environ[name]) for name in PATHS if os.environ.get(name)}


def identity(program, words, place):
    """What determines the result of a run with these words, as the program says: its revision, its
    images and the user's own workload by content, its machine, its prices. Makes the images if
    there are none. It is asked where the user's files were written to, as the run will be.
    """
    command = [program, "run", *words, "--identity"]
    try:
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                cwd=place.folder,
                                env={**os.environ, **place.environment})
    except OSError as error:
        raise SweepError(f"cannot start {program}: {error.strerror}") from None
    if result.returncode != 0:
        said = result.stderr.strip().removeprefix("trapless: ").replace(place.root, "")
        raise SweepError(f"{told(words, program)}: {said or f'exit status {result.returncode}'}")
    try:
        found = json.loads(result.stdout)
        found["machine"]["prices"], found["machine"]["configuration"]
    except (ValueError, KeyError, TypeError):
        raise SweepError(f"{program} does not say what it runs; it is too old") from None
    return precise(found, program)


def counters(program, ledger):
    """The parts of a run with all their counters, by the program that wrote its ledger.

    Raises `RuntimeError` with what the program said.
    """
    command = [program, "report", "--counters", str(ledger)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    try:
        (parts,) = json.loads(result.stdout)
    except ValueError:
        said = result.stderr.strip().removeprefix("trapless: ")
        raise RuntimeError(f"it cannot say its counters: {said}") from None
    return parts


def precise(found, program):
    """Adds the program's own bytes where its revision does not name its source."""
    revision = found.get("revision", "unknown")
    known = revision != "unknown" and not revision.endswith("-dirty")
    if not known or Path(program).name != "trapless":
        found["file"] = digest(program)
    # A sweep names seed and prices itself.
    for name in ("seed", "cost model"):
        found["machine"]["configuration"].pop(name, None)
    return found


@functools.cache
def digest(path):
    """The checksum of a file that does not change while this process lives."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def told(words, program="trapless"):
    """The command that makes a run, for people. A command of their own has another name."""
    name = "trapless" if Path(program).name == "trapless" else program
    return shlex.join([name, "run", *words])
