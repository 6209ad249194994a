"""Options as keyword arguments: they become the words of the command, which checks them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from . import _native

if TYPE_CHECKING:
    Path = str | os.PathLike[str]


class HartOptions(TypedDict, total=False):
    """Options of every machine."""

    ram: int | str
    """Size of RAM: bytes, or text as in "2G"."""
    isa: str
    """ISA string ("rv64gc_h_sstc"), or extensions to switch ("-svadu,+zicond")."""
    cost: Path | Mapping[str, int]
    """Cost model: a file, or cycles by name for what differs from the built-in one."""
    trap_misaligned: bool
    """Let misaligned loads and stores trap."""
    quantum: int
    """Cycles that a hart runs before it is the next one's turn."""
    engine: str
    """Either "jit" or "interp"; results are the same."""


class WorkloadOptions(HartOptions, total=False):
    """Options of a workload."""

    settings: Mapping[str, int | str]
    """Parameters of the workload, and of machines as in {"aia.guests": 3}."""
    harts: int
    """Harts of the machine; by default what the workload says."""
    guest_harts: int
    """vCPUs; by default what the workload says."""
    vmm: str
    """Either "trapless" or "qemu"."""
    time_limit: int
    """Seconds of virtual time after which the run is given up."""


WORKLOAD = {
    "settings": "set",
    "harts": "host-harts",
    "guest_harts": "guest-harts",
    "vmm": "vmm",
    "time_limit": "time-limit",
}
HARTS = {
    "ram": "ram",
    "isa": "isa",
    "cost": "cost",
    "trap_misaligned": "trap-misaligned",
    "quantum": "quantum",
    "engine": "engine",
}


class CostFile:
    """A cost model given as a mapping, in a file for as long as this lives."""

    def __init__(self, prices: Mapping[str, int]) -> None:
        lines = [f"{name} = {{ cycles = {int(price)} }}\n" for name, price in prices.items()]
        self._file = tempfile.NamedTemporaryFile("w", prefix="trapless-cost-", suffix=".toml")
        self._file.writelines(lines)
        self._file.flush()
        self.path = self._file.name


class Words:
    """Words of a command line."""

    def __init__(self, *words: str) -> None:
        self.words = list(words)
        self._kept: list[CostFile] = []

    def add(self, option: str, value: Any) -> None:
        """Adds an option, if there is a value: each of several, or of a mapping."""
        if value is None or value is False:
            return
        if option == "cost" and isinstance(value, Mapping):
            self._kept.append(CostFile(value))
            value = self._kept[-1].path
        if value is True:
            self.words.append(f"--{option}")
        elif isinstance(value, Mapping):
            self.words += [f"--{option}={name}={number(of)}" for name, of in value.items()]
        elif isinstance(value, (str, os.PathLike, int)):
            self.words.append(f"--{option}={value if isinstance(value, int) else os.fspath(value)}")
        elif isinstance(value, Iterable):
            for one in value:
                self.add(option, one)
        else:
            raise TypeError(f"{option} cannot be {value!r}")

    def add_each(self, **options: Any) -> None:
        """Adds options by name."""
        for option, value in options.items():
            self.add(option, value)

    def add_all(self, names: Mapping[str, str], options: Mapping[str, Any], function: str) -> None:
        """Adds those of `options` that `names` knows; others are mistakes."""
        for name, value in options.items():
            if name not in names:
                raise TypeError(
                    f"{function}() has no option {name!r}; it has {', '.join(sorted(names))}"
                )
            self.add(names[name], value)


def number(value: int | str | bool) -> int | str:
    """A value of a setting as the command reads it."""
    return int(value) if isinstance(value, bool) else value


def program(project: Path | None) -> _native.Program:
    """The program with a project folder."""
    return _native.Program(project or os.environ.get("TRAPLESS_PROJECT") or None)


def machines(project: Path | None = None) -> dict[str, str]:
    """Names of the machines, with a line about each: the project's, and your own out of
    `trapless.toml` (docs/own-machines.md).
    """
    return dict(program(project).machines())


def machine(name: str, harts: int = 2, project: Path | None = None) -> dict[str, Any]:
    """Everything about a machine: extensions, interrupt architecture, cost model."""
    return program(project).machine(name, harts)


def workloads(project: Path | None = None) -> dict[str, dict[str, Any]]:
    """The workloads by name: title, explanation, and parameters with their ranges."""
    return {workload["name"]: workload for workload in program(project).workloads()}
