"""Machines: run in pieces, looked into, changed, saved."""

import gc
import signal
import threading
import time
import weakref

import pandas
import pytest
import riscv

import trapless


def test_a_run_in_pieces_is_the_run_in_one(boot):
    """Promise: looking at a machine on its way changes nothing of what it does."""
    whole, pieces = boot(riscv.traps(2000)), boot(riscv.traps(2000))
    assert whole.run().reason == "off"
    stops = 0
    while pieces.run(until=pieces.now + 700).reason == "limit":
        pieces.harts[0].registers()
        stops += 1
    assert stops > 1
    assert (pieces.now, pieces.instructions) == (whole.now, whole.instructions)
    assert pieces.ledger().data["total"] == whole.ledger().data["total"]
    assert whole.harts[0]["a0"] == 2000 and whole.console == "hi\n"


def test_limits_are_virtual_time_and_instructions(boot):
    machine = boot(riscv.spin())
    assert machine.run(until=2_000_000) == ("limit", None)
    assert 2_000_000 <= machine.now < 2_100_000
    executed = machine.instructions
    assert machine.run(instructions=executed + 5_000).reason == "limit"
    assert executed + 5_000 <= machine.instructions < executed + 20_000
    # What has been reached already ends a run before it begins.
    now = machine.now
    assert machine.run(until=1).reason == "limit" and machine.now == now


def test_registers_and_csrs_have_their_names(traps):
    hart = traps.harts[0]
    assert hart.mode == "M" and not hart.waiting
    traps.run()
    assert hart["a0"] == hart["x10"] == 3
    assert hart["mepc"] == hart["0x341"] and hart["mcause"] == 11
    hart["a1"], hart["mscratch"], hart["ft0"] = -1, 7, 9
    assert hart["a1"] == 2**64 - 1 and hart["mscratch"] == 7 and hart["f0"] == 9
    with pytest.raises(trapless.Error, match="no register mcuase: use pc"):
        hart["mcuase"]
    with pytest.raises(trapless.Error, match="no hart 1"):
        trapless.Hart(traps._native, 1)["a0"]


def test_memory_is_read_and_written_all_or_nothing(traps):
    code = riscv.traps(3)
    assert traps.read(riscv.RAM, len(code)) == code
    assert traps.read(riscv.RAM, 8, hart=0) == code[:8]
    end = traps.ram.stop
    traps.write(end - 4, b"abcd")
    assert traps.read(end - 4, 4) == b"abcd" and traps.read_word(end - 4, 4) == 0x64636261
    for bad in (lambda: traps.read(end - 2, 4), lambda: traps.write(end - 2, b"wxyz")):
        with pytest.raises(trapless.Error, match="RAM is from 0x80000000"):
            bad()
    assert traps.read(end - 4, 4) == b"abcd"
    # Code that is changed is executed as it is now: instead of each call, 100 are counted.
    at = riscv.RAM + code.index((riscv.ECALL).to_bytes(4, "little"))
    traps.write(at, riscv.program([riscv.addi(riscv.A0, riscv.A0, 100)]))
    traps.run()
    assert traps.harts[0]["a0"] == 300


def test_the_console_is_typed_and_expected(boot):
    machine = boot(riscv.echo())
    machine.type("one two ")
    assert machine.run(expect="t.o").reason == "expected"
    assert machine.read_console().startswith("one two")
    # What was found is not found again; the last words before the power goes are.
    machine.type("three q")
    assert machine.run(expect="t.*q").reason == "expected"
    assert machine.run(expect="t").reason == "off"
    assert machine.console == "one two three q"
    with pytest.raises(trapless.Error, match="cannot use expect: regex parse error"):
        machine.run(expect="(")


@pytest.mark.parametrize("engine", ["jit", "interp"])
def test_a_checkpoint_continues_as_if_nothing_had_happened(boot, tmp_path, engine):
    """Promise: a restored machine does what the saved one does, to the last count."""
    machine = boot(riscv.traps(2000), engine=engine)
    machine.run(instructions=60)
    assert 0 < machine.harts[0]["a0"] < 2000
    machine.save(tmp_path / "half.checkpoint")
    machine.run()
    again = trapless.Machine.restore(tmp_path / "half.checkpoint")
    assert again.harts[0]["a0"] < 2000
    again.run()
    assert (again.now, again.console) == (machine.now, "")
    assert again.ledger().data["total"] == machine.ledger().data["total"]
    damaged = bytearray((tmp_path / "half.checkpoint").read_bytes())
    damaged[-20] ^= 1
    (tmp_path / "damaged").write_bytes(damaged)
    with pytest.raises(trapless.Error, match="damaged"):
        trapless.Machine.restore(tmp_path / "damaged")


def test_events_are_iterated(traps):
    events = list(traps.events("trap", "return"))
    calls = [event for event in events if event.event == "trap"]
    assert [event.cause for event in calls] == [11] * 3
    assert [event.event for event in events] == ["trap", "return"] * 3
    first = calls[0]
    assert (first.from_, first["to"], first.exit, first.hart) == ("M", "M", False, 0)
    assert first.to_dict()["epc"] == first.epc and "epc" in repr(first)
    with pytest.raises(AttributeError, match="has no satp; it has event, time, hart, from"):
        first.satp
    with pytest.raises(trapless.Error, match="no events of kind traps; use trap, return"):
        next(traps.events("traps"))


def test_callbacks_see_traps_stop_the_run_and_raise(boot):
    machine = boot(riscv.traps(2000))
    seen = []
    off = machine.on(lambda event: seen.append(event.epc) or len(seen) == 2)
    assert machine.run().reason == "stopped"
    # Soon after: what the hart has done in its turn is done.
    assert 2 <= len(seen) < 1500
    off()
    assert machine.run().reason == "off"

    def fails(event):
        raise ValueError("no more")

    machine = boot(riscv.traps(3))
    machine.on(fails, causes=[11])
    with pytest.raises(ValueError, match="no more"):
        machine.run()
    machine = boot(riscv.traps(3))
    looks = []
    machine.on(lambda event: looks.append(machine.now))
    with pytest.raises(trapless.Error, match="the machine is running"):
        machine.run()


def test_a_callback_that_knows_its_machine_keeps_it_no_longer_than_needed(boot):
    """Promise: a machine, whose RAM may be large, is freed with its last reference."""

    def make():
        machine = boot(riscv.traps(3))
        machine.on(lambda event: machine.stop())
        return weakref.ref(machine)

    gone = make()
    gc.collect()
    assert gone() is None


def test_the_interpreter_is_free_while_a_machine_runs(boot):
    """Promise: other Python threads keep running, and one of them can end the run."""
    machine = boot(riscv.spin())
    counted = 0

    def count():
        nonlocal counted
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            counted += 1
        machine.stop()

    thread = threading.Thread(target=count)
    thread.start()
    assert machine.run().reason == "stopped"
    thread.join()
    assert counted > 1_000 and machine.instructions > 100_000


def test_ctrl_c_ends_a_run_that_can_go_on(boot):
    """Promise: KeyboardInterrupt comes within a moment, and nothing is lost."""
    machine = boot(riscv.spin())
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        machine.run()
    assert time.monotonic() - begun < 5
    now = machine.now
    assert machine.run(until=now + 1_000_000).reason == "limit" and machine.now > now


def test_errors_have_the_text_of_the_command(boot, tmp_path):
    with pytest.raises(
        trapless.Error, match="there is no machine called stsc; use one of: aia, full"
    ):
        boot(riscv.spin(), machine="stsc")
    with pytest.raises(trapless.Error, match="a machine has 1 to 64 harts, not 65"):
        trapless.Machine.boot(firmware=tmp_path / "program.bin", harts=65)
    with pytest.raises(trapless.Error, match="cannot read the firmware"):
        trapless.Machine.boot(firmware=tmp_path / "none.bin")
    with pytest.raises(trapless.Error, match="lots is not a size; write it like 512M"):
        trapless.Machine.exec(tmp_path / "program.bin", ram="lots")
    with pytest.raises(TypeError, match="has no option 'quantun'; it has code_cache, cost, engine"):
        trapless.Machine.exec(tmp_path / "program.bin", quantun=5)
    with pytest.raises(trapless.Error, match="nothing_such"):
        boot(riscv.spin(), cost={"nothing_such": 5})


def test_a_record_is_repeated_to_its_end(boot, tmp_path):
    """Promise: what was typed comes again at the same moments, and the machine stops where the
    recorded one was left.
    """
    file = tmp_path / "typed.record"
    machine = boot(riscv.echo(), record=file)
    machine.type("abc", at=5_000_000)
    assert machine.run(expect="abc").reason == "expected"
    machine.run(until=machine.now + 1_000_000)
    end = machine.now
    with pytest.raises(trapless.Error, match="cannot be saved"):
        machine.save(tmp_path / "none.checkpoint")
    del machine
    again = boot(riscv.echo(), replay=file)
    assert again.run().reason == "stopped"
    assert (again.console, again.now) == ("abc", end)
    assert again.run().reason == "stopped" and again.now == end


def test_devices_of_a_machine_are_those_of_the_command(boot, tmp_path):
    """Promise: disks, folders and networks are named as on the command line, one or several."""
    image = tmp_path / "disk.img"
    image.write_bytes(bytes(4096))
    shared = [tmp_path, f"{tmp_path},ro,tag=second"]
    machine = boot(riscv.spin(), disks=f"{image},ro", share=shared, net="none")
    assert machine.run(until=100_000).reason == "limit"
    machine = boot(riscv.spin(), disks=[image, image], net="user")
    assert machine.run(until=100_000).reason == "limit"
    for wrong in {"share": tmp_path / "no"}, {"disks": tmp_path / "no"}, {"net": "tap"}:
        with pytest.raises(trapless.Error, match="no|tap"):
            boot(riscv.spin(), **wrong)


def test_prices_of_a_mapping_are_those_of_the_machine(boot):
    usual, dear = boot(riscv.traps(10)), boot(riscv.traps(10), cost={"trap": 5_000})
    usual.run()
    dear.run()
    assert dear.harts[0].now > usual.harts[0].now + 10 * 4_000
    prices = {cost["name"]: cost["cycles"] for cost in dear.ledger().data["run"]["cost_model"]}
    assert prices["trap"] == 5_000


@pytest.mark.parametrize(
    ("machine", "parts"),
    [
        ("sbi", {"aclint", "plic S"}),
        ("sstc", {"aclint", "plic S"}),
        ("aia", {"aclint", "imsic S"}),
        ("trapless", {"aclint"}),
        ("haiov", {"aclint", "xvei"}),
        ("full", {"aclint", "xvei"}),
    ],
)
def test_interrupt_controllers_tell_their_state(boot, machine, parts):
    """Promise: on each machine, what the interrupt controllers do is plain data, and looking at it
    changes nothing."""
    looked, other = (boot(riscv.compares(), machine=machine) for _ in range(2))
    before = {row[:3]: row for row in looked.interrupts()}
    looked.run(until=100_000)
    other.run(until=100_000)
    after = {row[:3]: row for row in looked.interrupts()}
    assert {row.part for row in after.values()} >= parts
    compare = (0, "aclint", "mtimecmp")
    assert before[compare].value == "never" and not before[compare].active
    # 10 MHz: one tick is 100 cycles.
    value, rest = after[compare].value.split(", ", 1)
    assert value == "5000" and after[compare].active
    assert rest == f"in {5000 * 100 - looked.now} cycles"
    table = pandas.DataFrame(looked.interrupts())
    assert list(table.columns) == ["hart", "part", "name", "value", "active"]
    assert len(table) == len(looked.interrupts())
    looked.run(until=200_000)
    other.run(until=200_000)
    assert looked.harts[0].registers() == other.harts[0].registers()
    assert (looked.now, looked.instructions) == (other.now, other.instructions)
