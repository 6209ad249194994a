"""Options as keyword arguments. They become fields of a request, which the program checks."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from . import _native

if TYPE_CHECKING:
    Path = str | os.PathLike[str]


class HartOptions(TypedDict, total=False):
    """Options of every machine."""

    ram: int | str
    """Size of RAM: bytes, or text as in "2G"."""
    isa: str
    """ISA string ("rv64gc_h_sstc"), or extensions to add and remove ("-svadu,+zicond")."""
    cost: Path | Mapping[str, int]
    """Cost model: a file, or the costs that differ from the built-in one, in cycles by name."""
    prices: Mapping[str, int | str]
    """Costs that override those of the cost model: cycles, or a factor as in "x0.5"."""
    trap_misaligned: bool
    """Whether misaligned loads and stores trap."""
    quantum: int
    """Cycles that a hart runs before the scheduler switches to the next hart."""
    engine: str
    """Either "jit" or "interp"; results are the same."""
    hot: int
    """Number of times a block is interpreted before it is compiled."""
    region: int | str
    """Cycles that a block runs for before its loop becomes a region; "never" for not at all."""
    code_cache: int | str
    """Maximum size of the memory for compiled code."""


class WorkloadOptions(HartOptions, total=False):
    """Options of a workload."""

    settings: Mapping[str, int | str]
    """Parameters of the workload, and of machines as in {"aia.guests": 3}."""
    harts: int
    """Number of harts of the machine; the default is the workload's."""
    guest_harts: int
    """Number of vCPUs; the default is the workload's."""
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
    """Seconds of virtual time after which the run is aborted."""


def fields(
    function: Callable[..., object],
    of: str,
    options: Mapping[str, object],
    **own: object,
) -> dict[str, Any]:
    """The fields of a request: the function's own arguments (`own`), and `options`, which it passes
    on to the program. `of`: "run", "boot" or "exec", each with its own set of options; a TypeError
    names an unknown option.
    """
    known = _native.option_names(of)
    for name in options:
        if name not in known:
            there = ", ".join(sorted({*known, *parameters(function)}))
            raise TypeError(f"{function.__qualname__}() has no option {name!r}; it has {there}")
    return {name: value for name, value in {**own, **options}.items() if value is not None}


def encoded(found: Mapping[str, Any]) -> str:
    """Fields as JSON."""
    return json.dumps(found, default=_plain)


def _plain(value: object) -> object:
    """Converts what `json` cannot encode: paths, mappings and sequences of any type."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{value!r} cannot be an option")


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
    """Names of machines, without duplicates; a single name is a list of one."""
    found = [machines] if isinstance(machines, str) else [named(name) for name in machines]
    if not found or not all(found):
        raise _native.Error("machines is empty; name at least one, the baseline first")
    for name in found:
        if found.count(name) > 1:
            raise _native.Error(f"machines names {name} twice, and its runs would be the same")
    return found


def counted(name: str, value: object, least: int = 0) -> int:
    """Checks that a number is an integer of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 64:
        raise _native.Error(f"{name} is {value!r}; give a whole number, {least} or more")
    return value


def workload_named(workload: object) -> str:
    """The name of a workload."""
    if not isinstance(workload, (str, os.PathLike)) or not os.fspath(workload):
        raise _native.Error(f"workload is {workload!r}; give a name of trapless.workloads()")
    return str(os.fspath(workload))


def program(project: Path | None) -> _native.Program:
    """The program with a project folder."""
    return _native.Program(project or os.environ.get("TRAPLESS_PROJECT") or None)


def machines(project: Path | None = None) -> dict[str, str]:
    """Names of the machines, with a line about each: the project's, and your own from
    `trapless.toml` (docs/own-machines.md).
    """
    return dict(program(project).machines())


def machine(name: str, harts: int = 2, project: Path | None = None) -> dict[str, Any]:
    """Everything about a machine: extensions, interrupt architecture, cost model."""
    return program(project).machine(name, harts)


def workloads(project: Path | None = None) -> dict[str, dict[str, Any]]:
    """The workloads by name: title, explanation, and parameters with their ranges."""
    return {workload["name"]: workload for workload in program(project).workloads()}
