//! KVM's statistics in the host (`/sys/kernel/debug/kvm/PID-FD/*`, read when the guest has ended,
//! so that they cover all of its life, as the ledger's totals do).

use crate::runs::{Run, ledger, logged};

/// SBI extensions whose calls KVM 6.12 hands to the VMM (`kvm_riscv_vcpu_sbi_forward`), as exit
/// reasons.
const FORWARDED: [&str; 5] = [
    "sbi_other.dbcn",
    "sbi_other.susp",
    "sbi_other.legacy_putchar",
    "sbi_other.legacy_getchar",
    // Vendor extensions: the call by which the guest's driver of Xtrapless chooses a source's vCPU.
    "sbi_other.unknown",
];

fn exits(run: &Run, class: &str) -> u64 {
    run.ledger.total.exits_of(class).exits
}

/// Promise: every exit that KVM counts is in the ledger and the other way round; every exit ends
/// with an entry, because KVM counts once each time round its loop.
#[test]
fn exits_are_those_that_kvm_counts() {
    for run in logged() {
        let total = &run.ledger.total;
        assert_eq!(
            total.guest_exits,
            run.console.kvm()["exits"],
            "{}",
            run.name()
        );
        assert_eq!(total.guest_exits, total.guest_entries, "{}", run.name());
        let by_reason: u64 = total.exits.values().map(|e| e.exits).sum();
        assert_eq!(by_reason, total.guest_exits, "{}", run.name());
        let by_vcpu: u64 = run.ledger.vcpus.iter().map(|v| v.exits).sum();
        assert_eq!(by_vcpu, total.guest_exits, "{}", run.name());
    }
}

/// Promise: the ledger's reasons of exits are the ones KVM acts on.
#[test]
fn reasons_are_those_that_kvm_acts_on() {
    for run in logged() {
        let (kvm, name) = (run.console.kvm(), run.name());
        assert_eq!(exits(run, "wfi"), kvm["wfi_exit_stat"], "{name}");
        assert_eq!(exits(run, "wrs"), kvm["wrs_exit_stat"], "{name}");
        // In the kernel: by an ioeventfd. Else by the VMM.
        let mut mmio = kvm["mmio_exit_user"] + kvm["mmio_exit_kernel"];
        // Accesses that a handler in user mode has answered, but had more to do for the device.
        mmio += kvm.get("uer_exit_stat").unwrap_or(&0);
        // The kernel counts signals in memory of the module: not where this is counted.
        assert_eq!(exits(run, "mmio"), mmio, "{name}");
        let csr = kvm["csr_exit_user"] + kvm["csr_exit_kernel"];
        assert_eq!(exits(run, "csr"), csr, "{name}");
        let forwarded: u64 = FORWARDED.iter().map(|f| exits(run, f)).sum();
        assert_eq!(forwarded, kvm["ecall_exit_stat"], "{name}");
    }
}

/// Promise: nothing is left over: with what KVM does not count for itself (page faults, SBI calls
/// it answers, host interrupts) the reasons add up to KVM's `exits`.
#[test]
fn reasons_add_up_to_kvms_exits() {
    /// Classes with a counter in KVM.
    const COUNTED: [&str; 4] = ["wfi", "wrs", "mmio", "csr"];
    /// SBI calls; those not in [`FORWARDED`] KVM answers without counting.
    const SBI: [&str; 4] = ["timer_set", "ipi_send", "remote_fence", "sbi_other"];
    /// Interrupts of the host, which KVM leaves to the host.
    const INTERRUPTS: [&str; 8] = [
        "timer_fire",
        "host_timer",
        "ipi_receive",
        "external_interrupt",
        "guest_external",
        "notification",
        "event",
        "vs_level",
    ];
    for run in logged() {
        let sum = |classes: &[&str]| classes.iter().map(|c| exits(run, c)).sum::<u64>();
        // "other": page faults of handlers in user mode, which KVM serves for them.
        let faults = exits(run, "page_fault") + exits(run, "other");
        let all = sum(&COUNTED) + sum(&SBI) + sum(&INTERRUPTS) + faults;
        assert_eq!(all, run.console.kvm()["exits"], "{}", run.name());
        // The same from the table of traps, which has neither reasons nor who was interrupted in
        // U-mode: a process, or the handler of a guest.
        if !run.ledger.total.redirected.is_empty() {
            continue;
        }
        let traps = |what: &dyn Fn(&trapless_ledger::document::TrapCount) -> bool| -> u64 {
            let out = run.ledger.total.traps.iter();
            out.filter(|t| t.from.starts_with('V') && t.to == "HS" && what(t))
                .map(|t| t.count)
                .sum()
        };
        assert_eq!(sum(&INTERRUPTS), traps(&|t| t.interrupt), "{}", run.name());
        assert_eq!(
            sum(&SBI),
            traps(&|t| !t.interrupt && t.code == 10),
            "{}",
            run.name()
        );
    }
}

/// Promise: `tracepoints=1` counts KVM's tracepoints, those of Xtrapless among them, and they tell
/// what the ledger counts from outside.
#[test]
fn tracepoints_agree_with_the_ledger() {
    let more = ["--set", "loops=5", "--set", "tracepoints=1"];
    let file = ledger("tracepoints", "trapless", "ipi", &more);
    let traced = |name: &str| {
        let counter = file.run.counters.get(&format!("tracepoint {name}"));
        *counter.unwrap_or_else(|| panic!("no {name}: {:?}", file.run.counters))
    };
    assert_eq!(traced("lost"), 0);
    assert_eq!(traced("kvm_exit"), file.total.guest_exits);
    assert_eq!(traced("kvm_entry"), file.total.guest_entries);
    assert_eq!(traced("kvm_trapless_attach"), file.total.slots.attached);
    let detached: u64 = file.total.slots.detached.values().sum();
    assert_eq!(traced("kvm_trapless_detach"), detached);
    assert!(traced("kvm_trapless_notification") > 0);
}
