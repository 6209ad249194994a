"""gdb commands for a machine of Trapless: `help trapless` lists them.

    gdb-multiarch -x trapless.py -ex 'target remote :1234'

or, when connected, with nothing installed:

    remote get trapless.py /tmp/trapless.py
    source /tmp/trapless.py
"""

import os
import tempfile

import gdb
import gdb.unwinder


def fetch(name):
    """Fetches a file of the machine and returns where it is now."""
    handle, path = tempfile.mkstemp(prefix="trapless-", suffix=".elf")
    os.close(handle)
    try:
        gdb.execute(f"remote get {name} {path}", to_string=True)
    except gdb.error as error:
        os.unlink(path)
        said = gdb.execute("monitor symbols", to_string=True).strip()
        raise gdb.GdbError(said or str(error)) from error
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
    """Set a breakpoint at a function of the host only: trapless break FUNCTION

    Breakpoints are virtual addresses, which a guest's kernel has, too."""

    def __init__(self):
        super().__init__("trapless break", gdb.COMMAND_BREAKPOINTS, gdb.COMPLETE_LOCATION)

    def invoke(self, argument, from_tty):
        gdb.Breakpoint(argument).condition = "$v == 0"


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


class Frame:
    """Names a frame for gdb."""

    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class Unwinder(gdb.unwinder.Unwinder):
    """Callers by the frame pointers of the kernel (CONFIG_FRAME_POINTER), where the symbols are
    those of `load`: no file says how its functions use the stack."""

    def __init__(self):
        super().__init__("trapless")

    def __call__(self, pending):
        architecture = pending.architecture()
        if not architecture.name().startswith("riscv"):
            return None
        read = pending.read_register
        pc = int(read("pc")) & (1 << 64) - 1
        sp = int(read("sp")) & (1 << 64) - 1
        fp = int(read("fp")) & (1 << 64) - 1
        if not pc >> 63 or not fp >> 63 or fp & 7:
            return None
        try:
            memory = gdb.selected_inferior()
            words = memory.read_memory(fp - 16, 16)
        except gdb.MemoryError:
            return None
        before = int.from_bytes(bytes(words[0:8]), "little")
        ra = int.from_bytes(bytes(words[8:16]), "little")
        if fp <= sp or fp - sp > 1 << 14 or not ra >> 63:
            return None
        word = gdb.lookup_type("unsigned long")
        frame = pending.create_unwind_info(Frame(gdb.Value(fp), gdb.Value(pc)))
        frame.add_saved_register("pc", gdb.Value(ra).cast(word))
        frame.add_saved_register("sp", gdb.Value(fp).cast(word))
        frame.add_saved_register("fp", gdb.Value(before).cast(word))
        return frame


Trapless()
Symbols()
Guest()
Break()
Virtual()
