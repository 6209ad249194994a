"""Packages that sweeps need besides the standard library: `needs.txt`, also read by the command."""

from __future__ import annotations

import importlib.resources
import importlib.util
import sys

from .errors import SweepError

OLDEST = (3, 11)


def packages() -> list[str]:
    """Names of the packages, which are those of their modules."""
    files = importlib.resources.files(__package__)
    return files.joinpath("needs.txt").read_text("utf-8").split()


def check() -> None:
    """Rejects a Python that cannot run sweeps; the error says what to install."""
    if sys.version_info < OLDEST:
        version = ".".join(map(str, sys.version_info[:2]))
        raise SweepError(f"sweeps need Python 3.11 or later; this is {version}")
    missing = [name for name in packages() if importlib.util.find_spec(name) is None]
    if missing:
        raise SweepError(
            f"sweeps need {', '.join(missing)}, which this Python does not have; install with: "
            f"{sys.executable} -m pip install {' '.join(missing)}"
        )
