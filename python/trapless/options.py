"""Options as keyword arguments: they become the words of the command, which checks them."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    host_kernel: Path
    """Kernel of the host instead of Debian's."""
    host_modules: Path
    """Folder with its modules."""
    guest_kernel: Path
    """Kernel of guests instead of Debian's."""
    guest_modules: Path
    """Folder with its modules."""
    time_limit: int
    """Seconds of virtual time after which the run is given up."""


WORKLOAD = {
    "settings": "set",
    "harts": "host-harts",
    "guest_harts": "guest-harts",
    "vmm": "vmm",
    "host_kernel": "host-kernel",
    "host_modules": "host-modules",
    "guest_kernel": "guest-kernel",
    "guest_modules": "guest-modules",
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
        for name, price in prices.items():
            whole = isinstance(price, int) and not isinstance(price, bool)
            if not whole or not 0 <= price < 1 << 63:
                raise _native.Error(f"cost: {name} is {price!r}; give whole cycles, 0 or more")
        lines = [f"{json.dumps(n)} = {{ cycles = {price} }}\n" for n, price in prices.items()]
        self.shown = f"cost={dict(prices)!r}"
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

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Lets errors name what the caller gave, not the file that stands for it."""
        try:
            yield
        except _native.Error as error:
            text = str(error)
            for kept in self._kept:
                text = text.replace(kept.path, kept.shown)
            if text == str(error):
                raise
            raise type(error)(text) from None

    def add_each(self, **options: Any) -> None:
        """Adds options by name."""
        for option, value in options.items():
            self.add(option, value)

    def add_all(
        self,
        names: Mapping[str, str],
        options: Mapping[str, Any],
        function: str,
        others: Sequence[str] = (),
    ) -> None:
        """Adds those of `options` that `names` knows; what is neither there nor in `others`, which
        the function has besides, is a mistake.
        """
        for name, value in options.items():
            if name not in names:
                known = ", ".join(sorted([*names, *others]))
                raise TypeError(f"{function}() has no option {name!r}; it has {known}")
            self.add(names[name], value)


def parameters(function: Callable[..., object]) -> list[str]:
    """Names of a function's own parameters, without those that `**options` takes."""
    known = inspect.signature(function).parameters.values()
    return [one.name for one in known if one.kind is not inspect.Parameter.VAR_KEYWORD]


def named(machine: object) -> str:
    """The name of one machine."""
    if not isinstance(machine, str) or not machine:
        raise _native.Error(f"machine is {machine!r}; give the name of one machine")
    return machine


def all_named(machines: str | Iterable[str]) -> list[str]:
    """Names of machines, none twice; a single name is a list of one."""
    found = [machines] if isinstance(machines, str) else [named(name) for name in machines]
    if not found or not all(found):
        raise _native.Error("machines is empty; name at least one, the baseline first")
    for name in found:
        if found.count(name) > 1:
            raise _native.Error(f"machines names {name} twice, and its runs would be the same")
    return found


def counted(name: str, value: object, least: int = 0) -> int:
    """A number that is whole and not too small."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 64:
        raise _native.Error(f"{name} is {value!r}; give a whole number, {least} or more")
    return value


def workload_named(workload: object) -> str:
    """The name of a workload."""
    if not isinstance(workload, (str, os.PathLike)) or not os.fspath(workload):
        raise _native.Error(f"workload is {workload!r}; give a name of trapless.workloads()")
    return str(os.fspath(workload))


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
