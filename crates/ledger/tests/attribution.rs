//! One test per rule of `docs/ledger.md`, each on a hand-written sequence of events.

mod script;

use script::{Script, V0, V1};
use trapless_isa::Mode::{HS, M, U, VS, VU};
use trapless_isa::cause::{exception, interrupt};
use trapless_isa::sbi::eid;
use trapless_ledger::event::{DeviceAccess, Event, Guest, Sink, Trap};
use trapless_ledger::{Config, Ledger};

type Act = fn(&mut Script, [u64; 3]) -> &mut Script;

#[test]
fn one_set_timer_on_sbi_is_one_exit_and_one_firmware_trap() {
    let mut s = Script::new();
    s.enter()
        .ecall(VS, HS, eid::TIME, 50, 0)
        .ecall(HS, M, eid::TIME, 60, 0)
        .ret(M, HS)
        .ret(HS, VS);
    let section = s.done();
    let exit = &section.exits["timer_set"];
    assert_eq!(
        (exit.exits, exit.firmware_traps, exit.host_traps),
        (1, 1, 0)
    );
    assert_eq!(
        (exit.cycles["HS"], exit.cycles["M"], exit.cycles["U"]),
        (20, 10, 0)
    );
    assert_eq!(section.chains["timer_set: HS ecall(TIME) -> M"], 1);
    assert_eq!(
        (
            section.guest_entries,
            section.guest_interrupts.timer_set_with_exit
        ),
        (2, 1)
    );
}

#[test]
fn an_exit_is_fast_if_the_guest_continues_before_interrupts_are_enabled() {
    let mut s = Script::new();
    s.enter().ecall(VS, HS, eid::TIME, 50, 0).ret(HS, VS);
    s.masked = true;
    s.ecall(VS, HS, eid::TIME, 50, 0)
        .ecall(HS, M, eid::TIME, 60, 0)
        .ret(M, HS)
        .ret(HS, VS);
    let exit = &s.done().exits["timer_set"];
    assert_eq!((exit.exits, exit.fast, exit.fast_cycles), (2, 1, 30));
}

#[test]
fn instructions_are_charged_to_exits_by_mode() {
    let mut s = Script::new();
    s.instructions = 7;
    s.enter()
        .ecall(VS, HS, eid::TIME, 50, 0)
        .ecall(HS, M, eid::TIME, 60, 0)
        .ret(M, HS)
        .ret(HS, VS)
        .irq(VS, M, interrupt::MTI)
        .ret(M, VS)
        .irq(VS, HS, interrupt::STI)
        .ret(HS, VS);
    let section = s.done();
    let set = &section.exits["timer_set"].instructions;
    assert_eq!((set["HS"], set["M"], set["U"]), (14, 7, 0));
    let fired: Vec<_> = (section.exits.iter())
        .filter(|(_, exit)| exit.instructions["HS"] == 7)
        .map(|(_, exit)| exit.instructions["M"])
        .collect();
    assert_eq!(fired, [7], "the timer's exit, with what firmware did");
}

#[test]
fn sstc_programs_without_exit_and_measures_deadline_to_trap() {
    let mut s = Script::new();
    s.enter().timer(1_000).at(1_030).irq(VS, VS, interrupt::STI);
    let section = s.done();
    assert_eq!(section.guest_exits, 0);
    assert_eq!(section.guest_interrupts.timer_set_without_exit, 1);
    assert_eq!(section.guest_interrupts.taken["timer"], 1);
    let latency = &section.latency["guest_timer"];
    assert_eq!((latency.count, latency.min, latency.max), (1, 40, 40));
}

#[test]
fn a_deadline_in_the_past_counts_from_the_moment_of_programming() {
    let mut s = Script::new();
    s.enter().at(5_000).timer(1_000).irq(VS, VS, interrupt::STI);
    assert_eq!(s.done().latency["guest_timer"].max, 10);
}

#[test]
fn set_timer_converts_guest_ticks_by_htimedelta() {
    let mut s = Script::new();
    s.enter();
    // Guest time runs 1 000 ticks behind the host's: guest tick 20 is host tick 1 020.
    let trap = s.base(VS, HS, exception::ECALL_VS);
    let args = [20, 0, 0, eid::TIME];
    s.send(Trap {
        args,
        htimedelta: 1_000u64.wrapping_neg(),
        ..trap
    })
    .ret(HS, VS);
    s.at(102_490).irq(VS, VS, interrupt::STI);
    assert_eq!(s.done().latency["guest_timer"].max, 500);
}

#[test]
fn host_timer_interrupt_is_timer_fire_once_per_passed_guest_deadline() {
    let mut s = Script::new();
    s.enter().ecall(VS, HS, eid::TIME, 10, 0).ret(HS, VS);
    s.at(900).irq(VS, HS, interrupt::STI).ret(HS, VS); // deadline is 1 000: not yet
    s.at(1_000).irq(VS, HS, interrupt::STI).ret(HS, VS);
    s.irq(VS, HS, interrupt::STI).ret(HS, VS); // same deadline again
    let section = s.done();
    assert_eq!(section.exits["timer_fire"].exits, 1);
    assert_eq!(section.exits["host_timer"].exits, 2);
}

#[test]
fn a_deadline_programmed_without_exit_never_makes_timer_fire() {
    let mut s = Script::new();
    s.enter()
        .timer(100)
        .at(500)
        .irq(VS, HS, interrupt::STI)
        .ret(HS, VS);
    assert_eq!(s.done().exits["host_timer"].exits, 1);
}

#[test]
fn set_timer_never_disarms() {
    let mut s = Script::new();
    s.enter().ecall(VS, HS, eid::TIME, 10, 0).ret(HS, VS);
    s.ecall(VS, HS, eid::LEGACY_SET_TIMER, u64::MAX, 0)
        .ret(HS, VS);
    s.at(9_000)
        .irq(VS, HS, interrupt::STI)
        .ret(HS, VS)
        .irq(VS, VS, interrupt::STI);
    let section = s.done();
    assert_eq!(section.exits["timer_set"].exits, 2);
    assert_eq!(section.exits["host_timer"].exits, 1);
    assert_eq!(section.guest_interrupts.timer_unmatched, 1);
}

#[test]
fn machine_timer_straight_from_the_guest_is_charged_to_the_exit_it_leads_to() {
    let mut s = Script::new();
    s.enter()
        .irq(VS, M, interrupt::MTI)
        .ret(M, VS)
        .irq(VS, HS, interrupt::STI)
        .ret(HS, VS);
    let section = s.done();
    let exit = &section.exits["host_timer"];
    assert_eq!(
        (exit.exits, exit.firmware_traps, exit.cycles["M"]),
        (1, 1, 10)
    );
    assert_eq!(section.chains["host_timer: VS MTI -> M"], 1);
    // Resuming from firmware is not an entry from the host.
    assert_eq!(section.guest_entries, 2);
    assert!(section.firmware.direct.is_empty());
}

#[test]
fn machine_software_then_timer_in_one_go_charges_both() {
    let mut s = Script::new();
    s.enter()
        .irq(VU, M, interrupt::MSI)
        .ret(M, VU)
        .irq(VU, M, interrupt::MSI)
        .ret(M, VU);
    s.irq(VU, HS, interrupt::SSI).ret(HS, VU);
    assert_eq!(s.done().exits["ipi_receive"].firmware_traps, 2);
}

#[test]
fn a_machine_trap_after_which_the_guest_runs_on_is_a_class_of_its_own() {
    let mut s = Script::new();
    s.enter().irq(VS, M, interrupt::MTI).ret_to(M, VS, 0x100);
    s.irq(VS, VS, interrupt::STI); // the guest is interrupted itself first
    s.irq(VS, HS, interrupt::STI).ret(HS, VS);
    // ... and one that is followed by an exit of another kind at the same place
    s.irq(VS, M, interrupt::MTI)
        .ret(M, VS)
        .ecall(VS, HS, eid::TIME, u64::MAX, 0)
        .ret(HS, VS);
    // ... and one that is followed by an exit elsewhere
    s.irq(VS, M, interrupt::MTI)
        .ret_to(M, VS, 0x104)
        .irq(VS, HS, interrupt::STI);
    let section = s.done();
    assert_eq!(section.exits["host_timer"].firmware_traps, 0);
    let direct = &section.firmware.direct["machine timer interrupt"];
    assert_eq!((direct.traps, direct.cycles), (3, 30));
}

#[test]
fn a_trap_that_firmware_hands_to_hs_is_one_exit_with_a_detour() {
    let csrr_time = 0xc010_2573; // csrr a0, time
    let mut s = Script::new();
    s.enter()
        .insn(M, exception::ILLEGAL, csrr_time)
        .trap(M, M, exception::LOAD_PAGE)
        .ret(M, M);
    s.ret(M, HS).ret(HS, VS);
    let section = s.done();
    let exit = &section.exits["csr.time"];
    assert_eq!((exit.exits, exit.firmware_traps), (1, 2));
    assert_eq!(exit.cycles["M"], 30);
    let chain = "csr.time: VS illegal instruction -> M; M load page fault -> M";
    assert_eq!(section.chains[chain], 1);
    assert_eq!(section.guest_entries, 2);
}

#[test]
fn everything_until_the_next_entry_is_charged_to_the_exit() {
    let mut s = Script::new();
    s.enter()
        .insn(HS, exception::VIRTUAL_INSTRUCTION, 0x1050_0073);
    s.wait(HS, true).at(1_000).wait(HS, false); // host idles
    s.irq(HS, M, interrupt::MTI)
        .ret(M, HS)
        .irq(HS, HS, interrupt::STI)
        .ret(HS, U);
    s.trap(U, HS, exception::ECALL_U)
        .trap(HS, HS, exception::LOAD_PAGE)
        .ret(HS, HS)
        .ret(HS, VS);
    let section = s.done();
    let exit = &section.exits["wfi"];
    assert_eq!(
        (
            exit.exits,
            exit.firmware_traps,
            exit.host_traps,
            exit.syscalls
        ),
        (1, 1, 3, 1)
    );
    // The guest left at 30, the host waited from 40 to 1 010.
    assert_eq!(
        (exit.cycles["idle"], exit.cycles["M"], exit.cycles["U"]),
        (970, 10, 10)
    );
    assert_eq!(exit.timer_traps, 1);
    let chain = "wfi: HS MTI -> M; HS STI -> HS; U ecall -> HS; HS load page fault -> HS";
    assert_eq!(section.chains[chain], 1);
}

/// Firmware traps for timers are those of a halted vCPU's deadline as well: the call that sets it
/// and the interrupt. Calls for other things are none.
#[test]
fn firmware_traps_for_timers_are_distinguished() {
    let mut s = Script::new();
    s.enter()
        .insn(HS, exception::VIRTUAL_INSTRUCTION, 0x1050_0073)
        .ecall(HS, M, eid::TIME, 500, 0)
        .ret(M, HS)
        .ecall(HS, M, eid::IPI, 1, 0)
        .ret(M, HS)
        .irq(HS, M, interrupt::MTI)
        .ret(M, HS)
        .irq(HS, M, interrupt::MSI)
        .ret(M, HS)
        .ret(HS, VS)
        .irq(VS, M, interrupt::MTI)
        .ret(M, VS)
        .irq(VS, HS, interrupt::STI)
        .ret(HS, VS);
    let section = s.done();
    let timers = |key: &str| {
        let exit = &section.exits[key];
        (exit.firmware_traps, exit.timer_traps)
    };
    assert_eq!((timers("wfi"), timers("host_timer")), ((4, 2), (1, 1)));
}

#[test]
fn firmware_traps_before_any_guest_belong_to_the_host() {
    let mut s = Script::new();
    s.ret(M, HS).ecall(HS, M, eid::BASE, 0, 0).ret(M, HS);
    let section = s.done();
    assert_eq!((section.firmware.host, section.firmware.from["HS"]), (1, 1));
    assert!(section.exits.is_empty());
}

#[test]
fn exits_are_named_by_device_fault_instruction_and_call() {
    let load = exception::LOAD_GUEST_PAGE;
    let store = exception::STORE_GUEST_PAGE;
    let virtual_insn = exception::VIRTUAL_INSTRUCTION;
    let cases: [(&str, Act); 14] = [
        ("mmio.uart.read", |s, c| s.fault(c[0], 0x1000_0005)),
        ("mmio.virtio1.write", |s, c| s.fault(c[1], 0x1000_2050)),
        ("mmio.plic.write", |s, c| s.fault(c[1], 0xc20_1004)),
        ("mmio.unknown.read", |s, c| s.fault(c[0], 0x4000_0000)),
        ("page_fault.store", |s, c| s.fault(c[1], 0x8020_0000)),
        ("page_fault.fetch", |s, _| {
            s.fault(exception::FETCH_GUEST_PAGE, 0x8000_0000)
        }),
        ("wrs", |s, c| s.insn(HS, c[2], 0x00d0_0073)),
        ("csr.stimecmp", |s, c| s.insn(HS, c[2], 0x14d5_1073)),
        ("other.virtual_instruction", |s, c| {
            s.insn(HS, c[2], 0x6200_0073)
        }), // hfence.gvma
        ("sbi_other.dbcn", |s, _| s.ecall(VS, HS, eid::DBCN, 0, 0)),
        ("remote_fence", |s, _| s.ecall(VS, HS, eid::RFENCE, 3, 0)),
        ("external_interrupt", |s, _| s.irq(VU, HS, interrupt::SEI)),
        ("guest_external", |s, _| s.irq(VU, HS, interrupt::SGEI)),
        ("other.breakpoint", |s, _| {
            s.trap(VU, HS, exception::BREAKPOINT)
        }),
    ];
    for (key, act) in cases {
        let mut s = Script::new();
        s.enter();
        act(&mut s, [load, store, virtual_insn]);
        let section = s.done();
        let key = key.to_lowercase();
        let found: Vec<&str> = section.exits.keys().map(|key| key.as_str()).collect();
        assert_eq!(found, [&key]);
    }
}

#[test]
fn ipi_latency_is_send_to_trap_of_the_vcpu_the_mask_names() {
    let mut s = Script::new();
    s.enter();
    // vCPU 0 starts vhart 1 (HSM hart_start), which runs on hart 1.
    s.ecall(VS, HS, eid::HSM, 1, 0x8020_0000).ret(HS, VS);
    s.on(1, V1).ret(M, HS).ret(HS, VS);
    s.on(0, V0)
        .at(1_000)
        .ecall(VS, HS, eid::IPI, 0b10, 0)
        .ret(HS, VS);
    s.ecall(VS, HS, eid::IPI, 0b1, 1).ret(HS, VS); // same target by base: coalesced
    s.on(1, V1).at(1_490).irq(VS, VS, interrupt::SSI);
    s.on(0, V0).irq(VS, VS, interrupt::SSI); // without sender, to vCPU 0
    s.ecall(VS, HS, eid::IPI, 0b1000, 0); // there is no vhart 3
    let section = s.done();
    let i = &section.guest_interrupts;
    assert_eq!(
        (i.ipi_sends, i.ipi_targets, i.ipi_coalesced, i.ipi_unmatched),
        (3, 3, 1, 1)
    );
    let latency = &section.latency["guest_ipi"];
    assert_eq!((latency.count, latency.max), (1, 490));
    assert_eq!(section.guest_interrupts.taken["software"], 2);
}

#[test]
fn broadcast_ipi_names_every_vcpu_of_the_vm_only() {
    let stranger = Guest {
        vmid: 2,
        context: 0x3000,
    };
    let mut s = Script::new();
    s.enter().on(1, stranger).ret(M, HS).ret(HS, VS);
    s.on(0, V0).ecall(VS, HS, eid::IPI, 0, u64::MAX).ret(HS, VS);
    s.on(1, stranger).irq(VS, VS, interrupt::SSI);
    let section = s.done();
    assert_eq!(section.guest_interrupts.ipi_targets, 1);
    assert!(!section.latency.contains_key("guest_ipi"));
}

#[test]
fn external_interrupt_follows_the_vcpu_from_injection_to_trap() {
    let mut s = Script::new();
    s.enter()
        .irq(VS, HS, interrupt::SEI)
        .at(100)
        .raise(interrupt::VSEI as u8)
        .ret(HS, VS);
    s.ecall(VS, HS, eid::BASE, 0, 0).ret(HS, VS); // still masked by the guest
    s.irq(VS, VS, interrupt::SEI);
    let section = s.done();
    // Raised at 110, taken at 150.
    assert_eq!(section.latency["guest_external"].max, 40);
}

#[test]
fn raised_but_not_taken_moves_with_the_vcpu_to_another_hart() {
    let mut s = Script::new();
    s.enter()
        .raise(interrupt::VSEI as u8)
        .irq(VS, HS, interrupt::SSI); // raised at 30
    s.on(0, V1).ret(HS, VS).irq(VS, VS, interrupt::SEI); // another vCPU: not its interrupt
    s.on(1, V0)
        .ret(M, HS)
        .raise(interrupt::VSEI as u8)
        .ret(HS, VS)
        .irq(VS, VS, interrupt::SEI);
    let section = s.done();
    let latency = &section.latency["guest_external"];
    assert_eq!((latency.count, latency.max), (1, 100 - 30));
}

#[test]
fn time_is_split_by_mode_and_native_wfi_is_idle() {
    let mut s = Script::new();
    s.enter()
        .ret(VS, VU)
        .trap(VU, VS, exception::ECALL_U)
        .wait(VS, true)
        .at(1_000);
    s.irq(VS, VS, interrupt::STI).ret(VS, VU);
    let section = s.done();
    let c = &section.harts[0].cycles;
    assert_eq!(
        (c["M"], c["HS"], c["VS"], c["VU"], c["idle"]),
        (10, 10, 30, 10, 960)
    );
    assert_eq!(c.values().sum::<u64>(), section.cycles);
    // Hart 1 never left M-mode.
    assert_eq!(section.harts[1].cycles["M"], section.cycles);
}

#[test]
fn phases_add_up_to_the_total_and_a_name_can_be_taken_up_again() {
    let mut s = Script::new();
    s.enter();
    for round in 1..=3u64 {
        s.ledger.mark("workload", s.time);
        for _ in 0..round {
            s.ecall(VS, HS, eid::TIME, 1, 0)
                .ret(HS, VS)
                .irq(VS, VS, interrupt::STI);
        }
        s.ledger.mark("rest", s.time);
        s.ecall(VS, HS, eid::BASE, 1, 0).ret(HS, VS);
    }
    s.ledger.finish(s.time);
    let total = s.done();
    let file = s.ledger.to_file(Default::default(), None);
    let names: Vec<&str> = file.phases.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["start", "workload", "rest"]);
    let workload = file.workload();
    assert_eq!(
        (workload.exits["timer_set"].exits, workload.guest_exits),
        (6, 6)
    );
    assert_eq!(workload.cycles, 6 * 30);
    assert_eq!(
        file.phases.iter().map(|p| p.totals.cycles).sum::<u64>(),
        total.cycles
    );
    assert_eq!(
        file.phases
            .iter()
            .map(|p| p.totals.guest_exits)
            .sum::<u64>(),
        total.guest_exits
    );
    assert_eq!(file.total, total);
}

#[test]
fn a_guest_that_marks_without_end_does_not_grow_the_ledger() {
    let mut ledger = Ledger::new(Config::new(1));
    (0..10_000).for_each(|i| ledger.mark(&i.to_string(), i));
    assert_eq!(ledger.to_file(Default::default(), None).phases.len(), 64);
}

#[test]
fn device_accesses_are_counted_by_device_and_mode() {
    let mut s = Script::new();
    for (addr, write, mode) in [
        (0x1000_0000, true, U),
        (0x1000_0005, false, HS),
        (4, true, M),
    ] {
        let access = DeviceAccess {
            time: 0,
            hart: 0,
            mode,
            addr,
            write,
        };
        s.ledger.record(&Event::DeviceAccess(access));
    }
    let devices = s.done().devices;
    let uart: Vec<_> = devices["uart"]
        .iter()
        .map(|d| (d.mode.as_str(), d.reads, d.writes))
        .collect();
    assert_eq!(uart, [("U", 0, 1), ("HS", 1, 0)]);
    assert_eq!(devices["unknown"][0].writes, 1);
}

#[test]
fn events_of_a_hart_beyond_the_configuration_are_counted() {
    let mut s = Script::new();
    s.on(7, V0).enter().ecall(VS, HS, eid::BASE, 0, 0);
    assert_eq!(s.done().harts[7].guest_exits, 1);
}
