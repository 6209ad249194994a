//! Drives a real gdb; skipped with a message where there is none.

mod common;

use common::{FCVT_D_L_FA0_S1, RECONNECT, debug, gdb, machine, session};
use trapless_asm::reg::{A0, A1, RA, S0, S1, S2, T0, T1};
use trapless_asm::{addi, auipc, bne, csrr, csrs, csrw, jal, jalr, ld, lui, sd, sw};
use trapless_gdb::{Ended, Server};
use trapless_machine::{Limits, Machine, Outcome};

/// Hart 0 counts to `rounds` in memory with a function call in each round, then powers off; the
/// others count in `s2`.
fn program(harts: usize, rounds: i32) -> Machine {
    let words = [
        csrr(T0, 0xf14),     // 00 mhartid
        bne(T0, 0, 0x44),    // 04 -> 48
        auipc(S0, 1),        // 08 s0 = BASE + 0x1008
        lui(T0, 6),          // 0c FS = dirty
        csrs(0x300, T0),     // 10 mstatus
        csrw(0x140, S0),     // 14 sscratch
        addi(S1, S1, 1),     // 18 loop
        sd(S1, S0, 0),       // 1c
        ld(A1, S0, 8),       // 20
        FCVT_D_L_FA0_S1,     // 24
        jal(RA, 0x28),       // 28 -> 50
        addi(T1, 0, rounds), // 2c
        bne(S1, T1, -0x18),  // 30 -> 18
        lui(T0, 0x100),      // 34 test finisher
        lui(T1, 5),          // 38
        addi(T1, T1, 0x555), // 3c
        sw(T1, T0, 0),       // 40
        jal(0, 0),           // 44
        addi(S2, S2, 1),     // 48 other
        jal(0, -4),          // 4c -> 48
        addi(A0, S1, 100),   // 50 function
        jalr(0, RA, 0),      // 54
    ];
    machine(harts, &words)
}

/// State after a run without gdb.
fn undisturbed(harts: usize, rounds: i32) -> (Outcome, u64, u64) {
    let mut machine = program(harts, rounds);
    let outcome = machine.run(&Limits::default());
    (outcome, machine.now(), machine.state_hash())
}

#[test]
fn breakpoints_registers_and_memory() {
    let Some(gdb) = gdb() else { return };
    let mut machine = program(1, 10);
    let commands = [
        "break *0x80000050",
        "continue",
        "continue",
        "printf \"pc %lx s1 %ld fa0 %f\\n\", $pc, $s1, $fa0",
        "printf \"sscratch %lx misa %lx\\n\", $sscratch, $misa",
        "printf \"priv %d v %d\\n\", $priv, $v",
        "info registers mstatus",
        "info registers",
        "x/i $pc",
        "x/gd $s0",
        "x/gx 0x10",
        "delete",
        // The hardware breakpoint behind the loop.
        "hbreak *0x80000034",
        "continue",
        "printf \"behind %lx %ld\\n\", $pc, $s1",
        "delete",
        "continue",
    ];
    let session = debug(gdb, &mut machine, &commands, false);
    session.has("Breakpoint 1, 0x0000000080000050");
    assert_eq!(session.value("pc 80000050 "), "s1 2 fa0 2.000000");
    assert!(
        session
            .value("sscratch ")
            .starts_with("80001008 misa 8000000000")
    );
    assert_eq!(session.value("priv "), "3 v 0");
    session.has("FS:3");
    assert!(!session.text.contains("\nv  "), "{}", session.text);
    session.has("s11            0x0");
    session.has("\ta0,s1,100");
    session.has("0x80001008:\t2");
    session.has("Cannot access memory at address 0x10");
    assert_eq!(session.value("behind "), "80000034 10");
    session.has("exited normally");
    assert_eq!(session.ended, Ended::Machine(Outcome::PoweredOff));
}

#[test]
fn watchpoints_stop_for_their_kind_of_access() {
    let Some(gdb) = gdb() else { return };
    let mut machine = program(1, 10);
    let commands = [
        "watch *(long *) 0x80001008",
        "continue",
        "continue",
        "printf \"wrote %ld pc %lx\\n\", *(long *) 0x80001008, $pc",
        "delete",
        "rwatch *(long *) 0x80001010",
        "continue",
        "printf \"read at %lx s1 %ld\\n\", $pc, $s1",
        "delete",
        "awatch *(char *) 0x8000100b",
        "continue",
        "printf \"touched at %lx s1 %ld\\n\", $pc, $s1",
        "kill",
    ];
    let session = debug(gdb, &mut machine, &commands, false);
    session.has("Hardware watchpoint 1");
    session.has("Old value = 1\nNew value = 2");
    assert_eq!(session.value("wrote 2 pc "), "80000020");
    session.has("Hardware read watchpoint 2");
    assert_eq!(session.value("read at "), "80000024 s1 2");
    session.has("Hardware access (read/write) watchpoint 3");
    assert_eq!(session.value("touched at "), "80000020 s1 3");
    assert_eq!(session.ended, Ended::Killed);
}

#[test]
fn harts_are_threads_that_step_by_themselves() {
    let Some(gdb) = gdb() else { return };
    // gdb steps with breakpoints behind the instruction where it expects Linux, else by command.
    for osabi in ["set osabi GNU/Linux", "set osabi none"] {
        let mut machine = program(3, 2000);
        let commands = [
            osabi,
            "info threads",
            "break *0x8000004c thread 3",
            "continue",
            "printf \"stopped %d pc %lx a0 %ld\\n\", $_thread, $pc, $a0",
            "set $before = $s2",
            "stepi",
            "printf \"stepped %d pc %lx\\n\", $_thread, $pc",
            "stepi",
            "stepi",
            "printf \"counted %ld pc %lx\\n\", $s2 - $before, $pc",
            "thread 1",
            "set $s2 = 77",
            "printf \"hart %ld s2 %ld\\n\", $mhartid, $s2",
            "thread 2",
            "printf \"hart %ld s2 %d\\n\", $mhartid, $s2 == 77",
            "monitor harts",
            "monitor nonsense",
            "kill",
        ];
        let session = debug(gdb, &mut machine, &commands, false);
        session.has("Thread 1.3 (hart 2 M-mode)");
        assert_eq!(session.value("stopped 3 "), "pc 8000004c a0 2");
        assert_eq!(session.value("stepped 3 "), "pc 80000048");
        assert_eq!(session.value("counted 1 "), "pc 80000048");
        session.has("hart 0 s2 77");
        session.has("hart 1 s2 0");
        session.has("hart 1 M-mode, pc 0x8000004");
        session.has("there is no monitor command \"nonsense\"");
        assert_eq!(session.ended, Ended::Killed);
    }
}

#[test]
fn changes_of_registers_memory_and_code_count() {
    let Some(gdb) = gdb() else { return };
    let mut machine = program(1, 10);
    let commands = [
        "break *0x80000050",
        "continue",
        "set $s1 = 8",
        "set *(long *) 0x80001010 = 1234",
        // addi a0,s1,100 -> addi a0,s1,200, after it has been decoded and executed.
        "continue",
        "set *(unsigned *) 0x80000050 = 0x0c848513",
        "set $sscratch = 0x55",
        "continue",
        "stepi",
        "printf \"a0 %ld a1 %ld s1 %ld sscratch %lx\\n\", $a0, $a1, $s1, $sscratch",
        "set $pc = 0x80000044",
        "stepi",
        "printf \"pc %lx\\n\", $pc",
        "kill",
    ];
    let session = debug(gdb, &mut machine, &commands, false);
    assert_eq!(session.value("a0 210 "), "a1 1234 s1 10 sscratch 55");
    assert_eq!(session.value("pc "), "80000044");
}

#[test]
fn waiting_harts_can_be_stepped_interrupted_and_found_again() {
    let Some(gdb) = gdb() else { return };
    // addi s2,s2,1; wfi; jump back: waits for ever, because no interrupt is enabled.
    let mut machine = machine(1, &[addi(S2, S2, 1), 0x1050_0073, jal(0, -8)]);
    let commands = [
        "set osabi none",
        "break *0x80000004",
        "continue",
        "stepi",
        "printf \"behind wfi %lx\\n\", $pc",
        "monitor harts",
        "delete",
        // Once more around, then nothing ever happens: only Ctrl-C ends this.
        "set $pc = 0x80000000",
        "continue",
        "printf \"interrupted %lx s2 %ld\\n\", $pc, $s2",
        "detach",
        RECONNECT,
        "printf \"again %lx\\n\", $pc",
        "set $pc = 0x80000000",
        "kill",
    ];
    let session = session(
        gdb,
        &mut machine,
        &commands,
        false,
        Some(|m| m.harts()[0].x(18) == 2),
    );
    session.has("SIGINT");
    assert_eq!(session.value("behind wfi "), "80000008");
    session.has("hart 0 M-mode, waits in wfi, pc 0x80000008");
    assert_eq!(session.value("interrupted "), "80000008 s2 2");
    assert_eq!(session.value("again "), "80000008");
    assert_eq!(session.notices.len(), 3, "{:?}", session.notices);
    assert_eq!(session.ended, Ended::Killed);
}

#[test]
fn unusable_addresses_are_explained() {
    let server = Server::bind("127.0.0.1:0").unwrap();
    for address in [&server.address().to_string(), ":99999", "nonsense"] {
        let error = Server::bind(address).err().unwrap().to_string();
        assert!(
            error.contains(address) && error.contains("--gdb"),
            "{error}"
        );
    }
}

/// Promise: a step back undoes a step, reverse-continue finds the last breakpoint and the last
/// write, and the run that went back and forth ends as one that was left alone.
#[test]
fn backwards_is_where_it_was() {
    let Some(gdb) = gdb() else { return };
    for harts in [1, 3] {
        let mut machine = program(harts, 500);
        let commands = [
            "break *0x80000050 if $s1 == 400",
            "continue",
            "printf \"there s1 %ld pc %lx\\n\", $s1, $pc",
            "reverse-stepi",
            "printf \"one s1 %ld pc %lx\\n\", $s1, $pc",
            "reverse-stepi",
            "reverse-stepi",
            "reverse-stepi",
            "printf \"four s1 %ld pc %lx\\n\", $s1, $pc",
            "set $s1 = 3",
            "set *(long *) 0x80001008 = 3",
            "stepi 4",
            "printf \"again s1 %ld pc %lx\\n\", $s1, $pc",
            "delete",
            "break *0x80000030",
            "reverse-continue",
            "printf \"back s1 %ld pc %lx\\n\", $s1, $pc",
            "delete",
            "watch *(long *) 0x80001008",
            "reverse-continue",
            "printf \"written s1 %ld pc %lx word %ld\\n\", $s1, $pc, *(long *) 0x80001008",
            "reverse-continue",
            "printf \"before s1 %ld pc %lx word %ld\\n\", $s1, $pc, *(long *) 0x80001008",
            "monitor history",
            "delete",
            "reverse-continue",
            "printf \"first s1 %ld pc %lx\\n\", $s1, $pc",
            "break *0x80000034",
            "continue",
            "printf \"last s1 %ld pc %lx\\n\", $s1, $pc",
            "delete",
            "reverse-stepi",
            "detach",
        ];
        let session = debug(gdb, &mut machine, &commands, true);
        session.has("Could not write register \"s1\"");
        session.has("Cannot access memory at address 0x80001008");
        assert_eq!(session.value("there s1 "), "400 pc 80000050");
        assert_eq!(session.value("one s1 "), "400 pc 80000028");
        assert_eq!(session.value("four s1 "), "400 pc 8000001c");
        assert_eq!(session.value("again s1 "), "400 pc 80000050");
        assert_eq!(session.value("back s1 "), "399 pc 80000030");
        assert_eq!(session.value("written s1 "), "399 pc 8000001c word 398");
        assert_eq!(session.value("before s1 "), "398 pc 8000001c word 397");
        session.has("No more reverse-execution history");
        assert_eq!(session.value("last s1 "), "500 pc 80000034");
        let Ended::Machine(outcome) = session.ended else {
            panic!("{:?}", session.ended)
        };
        let seen = (outcome, machine.now(), machine.state_hash());
        assert_eq!(seen, undisturbed(harts, 500), "{harts} harts");
    }
}

/// Promise: forwards from the past, steps and breakpoints do what they did before, also in a loop
/// that is one block.
#[test]
fn forwards_again_in_a_loop_of_one_block() {
    let Some(gdb) = gdb() else { return };
    // addi s1,s1,1; jump back: one block. When it begins, all of it counts as retired, so that one
    // round earlier the counters are those of the present.
    let mut machine = machine(1, &[addi(S1, S1, 1), jal(0, -4)]);
    let commands = [
        // Steps are steps then, and no breakpoints.
        "set osabi none",
        "break *0x80000000 if $s1 == 1000",
        "continue",
        "delete",
        "break *0x80000000",
        "reverse-continue",
        "printf \"back s1 %ld\\n\", $s1",
        "delete",
        "stepi",
        "printf \"stepped s1 %ld pc %lx\\n\", $s1, $pc",
        "stepi",
        "stepi",
        "printf \"again s1 %ld pc %lx\\n\", $s1, $pc",
        "break *0x80000000 if $s1 >= 1003",
        "continue",
        "printf \"on s1 %ld pc %lx\\n\", $s1, $pc",
        "kill",
    ];
    let session = debug(gdb, &mut machine, &commands, false);
    assert_eq!(session.value("back s1 "), "999");
    assert_eq!(session.value("stepped s1 "), "1000 pc 80000004");
    assert_eq!(session.value("again s1 "), "1001 pc 80000004");
    assert_eq!(session.value("on s1 "), "1003 pc 80000000");
}

/// A run that is only looked at is the same run.
#[test]
fn looking_changes_nothing() {
    let Some(gdb) = gdb() else { return };
    for harts in [1, 3] {
        let mut machine = program(harts, 500);
        let commands = [
            "break *0x80000024",
            "watch *(long *) 0x80001008",
            "continue",
            "stepi",
            "stepi",
            "stepi",
            "continue",
            "x/16gx $s0",
            "info registers csr",
            "continue",
            "stepi 7",
            "delete",
            "detach",
        ];
        let session = debug(gdb, &mut machine, &commands, true);
        assert!(!session.text.contains("rror"), "{}", session.text);
        session.has("detached");
        assert_eq!(session.notices[0], "gdb connected");
        assert_eq!(
            session.notices[1],
            "gdb detached, the machine keeps running"
        );
        let Ended::Machine(outcome) = session.ended else {
            panic!("{:?}", session.ended)
        };
        let seen = (outcome, machine.now(), machine.state_hash());
        assert_eq!(seen, undisturbed(harts, 500), "{harts} harts");
    }
}
