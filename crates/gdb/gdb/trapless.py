"""gdb commands for a machine of Trapless: `help trapless` lists them.

    gdb-multiarch -x trapless.py -ex 'target remote :1234'

or, when connected, with nothing installed:

    remote get trapless.py /tmp/trapless.py
    source /tmp/trapless.py
"""

import os
import re
import tempfile

import gdb
import gdb.unwinder


def fetch(name):
    """Fetches a file of the machine and returns where it is now."""
    handle, path = tempfile.mkstemp(prefix="trapless-", suffix=".elf")
    os.close(handle)
    # The machine searches its memory first; by default gdb gives it two seconds.
    patience = gdb.parameter("remotetimeout")
    gdb.execute("set remotetimeout 120")
    try:
        gdb.execute(f"remote get {name} {path}", to_string=True)
    except gdb.error as error:
        os.unlink(path)
        said = gdb.execute("monitor symbols", to_string=True).strip()
        raise gdb.GdbError(said or str(error)) from error
    finally:
        gdb.execute(f"set remotetimeout {patience}")
    return path


def load(name):
    """Makes the symbols of a kernel gdb's only ones."""
    path = fetch(name)
    confirm = gdb.parameter("confirm")
    gdb.execute("set confirm off")
    try:
        gdb.execute(f"symbol-file {path}", to_string=True)
    finally:
        gdb.execute(f"set confirm {'on' if confirm else 'off'}")
        os.unlink(path)
    gdb.invalidate_cached_frames()
    gdb.write(gdb.execute("monitor symbols", to_string=True))


class Trapless(gdb.Command):
    """A machine of Trapless."""

    def __init__(self):
        super().__init__("trapless", gdb.COMMAND_USER, prefix=True)


class Symbols(gdb.Command):
    """Load the symbols of the host's kernel and of its modules, as they are in memory now.

    Say it again when modules have been loaded since."""

    def __init__(self):
        super().__init__("trapless symbols", gdb.COMMAND_FILES)

    def invoke(self, argument, from_tty):
        load("host")


class Guest(gdb.Command):
    """Load the symbols of the kernel of a guest instead: of the one that the hart of the current
    thread runs, or has run last.

    Kernels have the same virtual addresses: `trapless symbols` goes back to the host's."""

    def __init__(self):
        super().__init__("trapless guest", gdb.COMMAND_FILES)

    def invoke(self, argument, from_tty):
        thread = gdb.selected_thread()
        if thread is None:
            raise gdb.GdbError("connect first: target remote :PORT")
        # Threads are harts, which count from 0.
        load(f"guest:{thread.ptid[1] - 1 if thread.ptid[1] else thread.num - 1}")


class Break(gdb.Command):
    """Set a breakpoint at a function of the host only: trapless break FUNCTION [if CONDITION]

    Breakpoints are virtual addresses, which a guest's kernel has, too."""

    def __init__(self):
        super().__init__("trapless break", gdb.COMMAND_BREAKPOINTS, gdb.COMPLETE_LOCATION)

    def invoke(self, argument, from_tty):
        location, _, condition = argument.partition(" if ")
        if not location.strip():
            raise gdb.GdbError("say where: trapless break FUNCTION")
        also = f" && ({condition})" if condition.strip() else ""
        gdb.Breakpoint(location).condition = f"$v == 0{also}"


class Virtual(gdb.Function):
    """$kva(ADDRESS): where the host's kernel maps this physical address of RAM, for `x` and
    `watch`. Needs `trapless symbols`."""

    def __init__(self):
        super().__init__("kva")

    def invoke(self, physical):
        def word(symbol):
            return gdb.parse_and_eval(f"*(unsigned long *) &{symbol}")

        # The first member of struct kernel_mapping is page_offset.
        return physical.cast(gdb.lookup_type("unsigned long")) - word("phys_ram_base") + word("kernel_map")


MASK = (1 << 64) - 1
# A function that is entered by a trap keeps the registers of what it interrupts at sp: struct
# pt_regs begins with epc, ra and sp; fp is its ninth word.
TRAPS = ("handle_exception", "ret_from_exception")
# Longest part of a function that is searched for the beginning of its frame.
PROLOGUE = 128


def read(address, length):
    return bytes(gdb.selected_inferior().read_memory(address & MASK, length))


def word_at(address):
    return int.from_bytes(read(address, 8), "little")


def function(pc):
    """Name of the function at pc, and pc's offset in it."""
    text = gdb.execute(f"info symbol {pc:#x}", to_string=True)
    # Names that gdb has demangled have spaces.
    found = re.match(r"(.+?)(?: \+ (\d+))? in section ", text)
    if found is None:
        return None, 0
    return found[1], int(found[2] or 0)


def prologue(start, pc):
    """What the instructions from `start` to `pc` have done: bytes by which they have moved sp, and
    whether they have set fp."""
    code = read(start, min(pc - start, PROLOGUE))
    at, moved = 0, 0
    while at + 2 <= len(code):
        short = int.from_bytes(code[at : at + 2], "little")
        instruction = int.from_bytes(code[at : at + 4], "little")
        if short & 3 != 3:
            at += 2
            if short & 0xEF83 == 0x6101 and short >> 12 & 1:  # c.addi16sp, down
                bits = short >> 6 & 1, short >> 2 & 1, short >> 5 & 1, short >> 3 & 3
                moved += 512 - (bits[0] << 4 | bits[1] << 5 | bits[2] << 6 | bits[3] << 7)
            elif short & 0xEF83 == 0x1101 and short >> 12 & 1:  # c.addi sp, down
                moved += 32 - (short >> 2 & 31)
            elif short & 0xE01F == 0 and short:  # c.addi4spn s0
                return moved, True
        else:
            at += 4
            if instruction & 0xFFFFF == 0x10113 and instruction >> 31:  # addi sp, sp, down
                moved += 4096 - (instruction >> 20)
            elif instruction & 0xFFFFF == 0x10413:  # addi s0, sp
                return moved, True
    return moved, False


class Frame:
    """Names a frame for gdb."""

    def __init__(self, sp, pc):
        self.sp = gdb.Value(sp)
        self.pc = gdb.Value(pc)


class Unwinder(gdb.unwinder.Unwinder):
    """Callers by the frame pointers of kernels (CONFIG_FRAME_POINTER, as Debian's): their names
    are known, but no file says how functions use the stack."""

    def __init__(self):
        super().__init__("trapless")

    def __call__(self, pending):
        pc, sp, fp = (int(pending.read_register(name)) & MASK for name in ("pc", "sp", "fp"))
        try:
            ra = int(pending.read_register("ra")) & MASK
        except gdb.error:
            # Of the innermost function only, and of one that a trap has interrupted
            ra = 0
        if not pc >> 63 or not pending.architecture().name().startswith("riscv"):
            return None
        # A file with lines says how functions use the stack.
        if gdb.find_pc_line(pc).symtab is not None:
            return None
        name, offset = function(pc)
        if name is None:
            return None
        try:
            before = self.caller(name, offset, pc, sp, fp, ra)
        except gdb.MemoryError:
            before = None
        if before is None or not before["pc"] >> 63:
            # The same once more, at which gdb stops
            before = {"pc": pc, "sp": sp, "fp": fp}
        frame = pending.create_unwind_info(Frame(before["sp"], pc))
        for name, value in before.items():
            register = gdb.Value(value).cast(gdb.lookup_type("unsigned long"))
            frame.add_saved_register(name, register)
        return frame

    @staticmethod
    def caller(name, offset, pc, sp, fp, ra):
        if name in TRAPS:
            regs = {"pc": 0, "ra": 8, "sp": 16, "fp": 64}
            return {register: word_at(sp + at) for register, at in regs.items()}
        moved, has_frame = prologue(pc - offset, pc)
        if not has_frame:
            return {"pc": ra, "sp": sp + moved, "fp": fp}
        if not fp >> 63 or fp & 7 or not sp <= fp <= sp + (1 << 14):
            return None
        return {"pc": word_at(fp - 8), "sp": fp, "fp": word_at(fp - 16)}


gdb.unwinder.register_unwinder(None, Unwinder(), replace=True)
Trapless()
Symbols()
Guest()
Break()
Virtual()
