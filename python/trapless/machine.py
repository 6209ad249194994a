"""Machines that a program runs step by step, inspects and modifies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from . import _native
from .ledger import Ledger
from . import options as given
from .options import program

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import HartOptions, Path, WorkloadOptions

# Virtual time between reads of the events, in cycles.
SLICE = 1_000_000


class Stopped(NamedTuple):
    """Why a machine has stopped."""

    reason: str
    """One of "limit" (`until` or `instructions` reached), "expected" (the console printed what was
    expected), "off" (the guest powered off), "reboot", "exit" (a program ended, with `status`),
    "idle" (all harts wait and only input can wake one), "panic" (the kernel panicked), "stopped"
    (by `stop` or a callback)."""
    status: int | None = None
    """Exit status of the program."""


class InterruptState(NamedTuple):
    """One row of the state of the interrupt architecture."""

    hart: int | None
    """Hart that the state belongs to; None if it belongs to no single hart."""
    part: str
    """Part of the architecture: "plic S", "imsic guest 1", "xvei"."""
    name: str
    """A register, a source, a set of interrupts."""
    value: str
    """Its value as text."""
    active: bool
    """Whether something is pending, enabled or in use."""


class Hart:
    """A hart. Registers and CSRs are items by name: `hart["a0"]`, `hart["mstatus"]`,
    `hart["0x7c0"]`. They can be set. CSRs have the values that M-mode reads.
    """

    def __init__(self, native: _native.Machine, index: int) -> None:
        self._native = native
        self.index = index

    def __getitem__(self, name: str) -> int:
        return self._native.get(self.index, name)

    def __setitem__(self, name: str, value: int) -> None:
        self._native.set(self.index, name, value & (1 << 64) - 1)

    @property
    def pc(self) -> int:
        """Program counter."""
        return self["pc"]

    @property
    def mode(self) -> str:
        """Its mode: M, HS, U, VS or VU."""
        return self._native.state(self.index)[0]

    @property
    def now(self) -> int:
        """The hart's own virtual time in cycles."""
        return self._native.state(self.index)[1]

    @property
    def instructions(self) -> int:
        """Instructions that it has retired."""
        return self._native.state(self.index)[2]

    @property
    def waiting(self) -> bool:
        """Whether it waits in WFI."""
        return self._native.state(self.index)[3]

    def registers(self) -> dict[str, int]:
        """pc and the integer registers."""
        names = ["pc", *(f"x{number}" for number in range(32))]
        return {name: self[name] for name in names}

    def __repr__(self) -> str:
        return f"<hart {self.index}: {self.mode} at {self.pc:#x}>"


class Machine:
    """A machine with its console and its ledger. Make one with `boot`, `exec`, `workload` or
    `restore`.

    Several calls of `run` give the same results as a single one. A machine must not be accessed
    while it runs. Meanwhile the interpreter lock is released for other threads, and Ctrl-C ends the
    run; `run` continues it.
    """

    def __init__(self, native: _native.Machine) -> None:
        self._native = native
        self._read = 0

    @classmethod
    def boot(
        cls,
        machine: str = "sstc",
        *,
        kernel: Path | None = None,
        initrd: Path | None = None,
        firmware: Path | None = None,
        append: str | None = None,
        disks: Path | Iterable[Path] = (),
        share: Path | Iterable[Path] = (),
        pci: str | Iterable[str] = (),
        copy: Path | Iterable[Path] = (),
        net: str | None = None,
        record: Path | None = None,
        replay: Path | None = None,
        dtb: Path | None = None,
        console: str = "uart",
        rtc: str | None = None,
        harts: int | None = None,
        seed: int = 0,
        settings: Mapping[str, int | str] | None = None,
        trace: Path | None = None,
        project: Path | None = None,
        **options: Unpack[HartOptions],
    ) -> Machine:
        """A machine that is about to boot, as `trapless boot` makes it.

        `kernel`: a file, "debian" (the default, a KVM host with a shell), "patched" or "none".
        `firmware`: a file, OpenSBI by default, or "none". `console`: "uart" or "virtio". `rtc`:
        date of the machine's clock at power-on, "now" or UTC as in "2026-11-26" (by default "now"
        with `net="user"`, else 2025-01-01, each time).

        `disks`: images, raw or qcow2. What the guest writes stays in memory; with "disk.img,rw" it
        goes to the file, and "disk.img,ro" cannot be written. `share`: folders for the guest by
        virtio-fs, "folder,ro,tag=NAME" as for `--share`. `pci`: PCI devices, as for `--pci`.
        `copy`: files and folders for its initial RAM file system, "file:/path/in/the/guest". `net`:
        "peer" (the default), "none", or "user" with `hostfwd`, as for `--net`: the network of this
        computer. `record`: a file for all that
        comes from outside; `replay` repeats the run of one, made with the same other arguments.
        """
        fields = given.fields(
            cls.boot,
            "boot",
            options,
            machine=machine,
            kernel=kernel,
            initrd=initrd,
            firmware=firmware,
            append=append,
            disks=disks,
            share=share,
            pci=pci,
            copy=copy,
            net=net,
            record=record,
            replay=replay,
            dtb=dtb,
            console=console,
            rtc=rtc,
            harts=harts,
            seed=seed,
            settings=settings,
        )
        return cls(program(project).boot(given.encoded(fields), trace))

    @classmethod
    def exec(
        cls,
        file: Path,
        machine: str = "sstc",
        *,
        harts: int | None = None,
        seed: int = 0,
        settings: Mapping[str, int | str] | None = None,
        project: Path | None = None,
        **options: Unpack[HartOptions],
    ) -> Machine:
        """A machine that is about to run a bare-metal ELF program from reset in M-mode."""
        fields = given.fields(
            cls.exec,
            "exec",
            options,
            file=file,
            machine=machine,
            harts=harts,
            seed=seed,
            settings=settings,
        )
        return cls(program(project).exec(given.encoded(fields)))

    @classmethod
    def workload(
        cls,
        workload: str,
        machine: str,
        *,
        seed: int = 0,
        trace: Path | None = None,
        project: Path | None = None,
        **options: Unpack[WorkloadOptions],
    ) -> Machine:
        """A machine that is about to boot a workload. When it has run to its end, `ledger` is what
        `trapless.run` returns.
        """
        machine, seed = given.named(machine), given.counted("seed", seed)
        workload = given.workload_named(workload)
        fields = given.fields(cls.workload, "run", options, workload=workload)
        plan = program(project).plan(given.encoded(fields))
        plan.check([machine])
        return cls(plan.start(machine, seed, trace))

    @classmethod
    def restore(cls, file: Path, project: Path | None = None) -> Machine:
        """Continues from a checkpoint of `save` or of `trapless run --checkpoint`, as if the
        machine had never stopped. Files that it booted must still exist.
        """
        return cls(program(project).resume(file))

    def save(self, file: Path) -> None:
        """Writes a checkpoint. `trapless resume`, too, can continue one of a workload."""
        self._native.save(file)

    def run(
        self,
        until: int | None = None,
        instructions: int | None = None,
        expect: str | None = None,
    ) -> Stopped:
        """Runs the machine, and returns why it has stopped.

        `until`: virtual time in cycles; `instructions`: of all harts since reset; it stops soon
        after. `expect`: a regular expression that the console is to print, after the match of an
        earlier `expect`; also give `until`, in case there is no match. A workload also stops at its
        time limit.
        """
        return Stopped(*self._native.run(until, instructions, expect))

    def stop(self) -> None:
        """Ends the run, from a callback or from another thread."""
        self._native.stop()

    @property
    def name(self) -> str:
        """Name of the machine."""
        return self._native.name

    @property
    def now(self) -> int:
        """Virtual time in cycles that all harts have reached."""
        return self._native.now

    @property
    def instructions(self) -> int:
        """Instructions retired by all harts."""
        return self._native.instructions

    @property
    def measuring(self) -> bool:
        """Whether the measured part of the workload has begun."""
        return self._native.measuring

    @property
    def harts(self) -> list[Hart]:
        """The harts."""
        return [Hart(self._native, index) for index in range(self._native.harts)]

    @property
    def ram(self) -> range:
        """Physical addresses of RAM."""
        base, size = self._native.ram
        return range(base, base + size)

    @property
    def device_tree(self) -> bytes:
        """The device tree that the guest receives."""
        return self._native.device_tree

    def read(self, addr: int, length: int, hart: int | None = None) -> bytes:
        """Reads memory at a physical address, or at a virtual address of a hart as it is now."""
        return self._native.read(addr, length, hart)

    def write(self, addr: int, data: bytes, hart: int | None = None) -> None:
        """Writes memory. The results of the run then differ from those of an unmodified one."""
        self._native.write(addr, data, hart)

    def read_word(self, addr: int, size: int = 8, hart: int | None = None) -> int:
        """Reads an unsigned little-endian word of `size` bytes."""
        return int.from_bytes(self.read(addr, size, hart), "little")

    def interrupts(self) -> list[InterruptState]:
        """State of the interrupt architecture now, as `monitor interrupts all` of gdb shows it
        below the registers of the harts. This has no side effects. `pandas.DataFrame`
        accepts the list.
        """
        return [InterruptState(*row) for row in self._native.interrupts()]

    @property
    def console(self) -> str:
        """What the console has printed (at most the last 32 MiB)."""
        return self._native.output(0)[0].decode(errors="replace")

    def read_console(self) -> str:
        """What the console has printed since the last call."""
        text, self._read = self._native.output(self._read)
        return text.decode(errors="replace")

    def type(self, text: str | bytes, at: int | None = None) -> None:
        """Types on the console, now or at a virtual time in cycles."""
        self._native.input(text.encode() if isinstance(text, str) else text, at)

    def ledger(self) -> Ledger:
        """The ledger so far. After the end of a workload it contains the workload's results,
        unless the workload has failed.
        """
        return Ledger(self._native.ledger())

    def events(
        self,
        *kinds: str,
        causes: Iterable[int] = (),
        until: int | None = None,
        instructions: int | None = None,
    ) -> Iterator[_native.Event]:
        """Runs the machine and yields its events of these kinds (all, if none is named), in the
        order in which they happen.

        Kinds: "trap", "return", "raise", "timer_set", "device", "switch", "virtual", "wait", "pci".
        `causes`: of traps, only those with these values of `xcause`. The machine is up to a
        millisecond of virtual time ahead of the event.
        """
        self._native.keep_events(list(kinds), list(causes))
        try:
            while True:
                end = self.now + SLICE
                end = end if until is None else min(end, until)
                stopped = self.run(end, instructions)
                yield from self._native.take_events()
                late = until is not None and self.now >= until
                many = instructions is not None and self.instructions >= instructions
                if stopped.reason != "limit" or late or many:
                    return
        finally:
            self._native.drop_events()

    def on(
        self,
        callback: Callable[[_native.Event], object],
        *kinds: str,
        causes: Iterable[int] = (),
    ) -> Callable[[], None]:
        """Calls `callback` at each such event from now on (traps, if no kind is named). Returns
        a function that unregisters it.

        If the callback returns True, the run stops soon after; `run` re-raises its exceptions. It
        is called while the machine runs, so it cannot access the machine.
        """
        wanted = list(kinds) or ["trap"]
        number = self._native.on_event(callback, wanted, list(causes))
        return lambda: self._native.off_event(number)

    def __repr__(self) -> str:
        return f"<machine {self.name} at {self.now / 1e9:.6f} s>"
