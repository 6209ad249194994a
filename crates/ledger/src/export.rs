//! From counters to the file form.

use std::collections::BTreeMap;

use trapless_isa::Mode;
use trapless_isa::cause::{INTERRUPT, interrupt};

use crate::class::Class;
use crate::document::{
    DeviceCount, DirectFirmware, Exit, Firmware, GuestInterrupts, HartInfo, HostInfo, LedgerFile,
    Phase, ReturnCount, RunInfo, SCHEMA, Section, TrapCount, VcpuInfo,
};
use crate::interrupt_files::GuestFiles;
use crate::ledger::Ledger;
use crate::reason::{Reason, cause_index, cause_name, cause_of};
use crate::totals::{HartTotals, IDLE, Totals};

/// Names of the time slots: [`Mode`]s, then idle.
fn slot_name(slot: usize) -> &'static str {
    if slot == IDLE {
        "idle"
    } else {
        Mode::ALL[slot].name()
    }
}

impl Ledger {
    /// The ledger as a file, as of the last [`finish`](Self::finish).
    pub fn to_file(&mut self, run: RunInfo, host: Option<HostInfo>) -> LedgerFile {
        let phase = |p: &crate::ledger::Phase| Phase {
            name: p.name.clone(),
            from: p.from,
            totals: self.section(&p.totals),
        };
        let vcpu = |v: &crate::vcpu::Vcpu| VcpuInfo {
            vmid: v.guest.vmid,
            context: format!("{:#x}", v.guest.context),
            domain: v.domain,
            vhart: v.vhart,
            entries: v.entries,
            exits: v.exits,
        };
        let phases = self.phases.iter().map(phase).collect();
        let vcpus = self.vcpus.iter().map(vcpu).collect();
        LedgerFile {
            schema: SCHEMA.to_string(),
            run,
            total: self.total_section(),
            phases,
            vcpus,
            host,
        }
    }

    /// Totals of the whole run so far.
    pub fn total_section(&mut self) -> Section {
        let total = self.total();
        self.section(&total)
    }

    fn section(&self, totals: &Totals) -> Section {
        let sum = |f: fn(&HartTotals) -> u64| totals.harts.iter().map(f).sum();
        Section {
            cycles: totals.cycles,
            guest_entries: sum(|h| h.guest_entries),
            guest_exits: sum(|h| h.guest_exits),
            exits: self.exits(totals),
            firmware: self.firmware(totals),
            chains: self.chain_counts(totals),
            guest_interrupts: guest_interrupts(totals),
            interrupts: Class::ALL
                .map(|c| (c.name().to_string(), totals.classes[c as usize].summary()))
                .into(),
            notifications: totals
                .host
                .notifications(totals.exits[Reason::Notification.index()].exits),
            slots: totals.host.slots(),
            host_ipis: totals.host.ipis,
            guest_files: (totals.files != GuestFiles::default()).then_some(totals.files),
            latency: latency(totals),
            traps: traps(totals),
            returns: returns(totals),
            harts: harts(totals),
            devices: self.device_counts(totals),
        }
    }

    fn exits(&self, totals: &Totals) -> BTreeMap<String, Exit> {
        let nonzero = totals
            .exits
            .iter()
            .enumerate()
            .filter(|(_, e)| **e != Default::default());
        let entry = nonzero.map(|(index, e)| {
            let modes = [Mode::HS as usize, Mode::U as usize, Mode::M as usize, IDLE];
            let exit = Exit {
                exits: e.exits,
                firmware_traps: e.firmware_traps,
                host_traps: e.host_traps,
                syscalls: e.syscalls,
                cycles: modes
                    .map(|m| (slot_name(m).to_string(), e.cycles[m]))
                    .into(),
            };
            (
                Reason::from_index(index).key(&self.config.guest_devices),
                exit,
            )
        });
        entry.collect()
    }

    fn firmware(&self, totals: &Totals) -> Firmware {
        let mut from = BTreeMap::new();
        for (mode, to, _, n) in totals.harts.iter().flat_map(HartTotals::traps) {
            if to == Mode::M {
                *from.entry(mode.name().to_string()).or_default() += n;
            }
        }
        let direct = totals
            .direct_firmware
            .iter()
            .enumerate()
            .filter(|(_, d)| d.0 != 0);
        Firmware {
            total: from.values().sum(),
            from,
            charged_to_exits: totals.exits.iter().map(|e| e.firmware_traps).sum(),
            direct: direct
                .map(|(c, d)| {
                    (
                        cause_name(c as u8),
                        DirectFirmware {
                            traps: d.0,
                            cycles: d.1,
                        },
                    )
                })
                .collect(),
            host: totals.host_firmware,
        }
    }

    fn chain_counts(&self, totals: &Totals) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (number, n) in totals.chains.iter().enumerate().filter(|(_, n)| **n != 0) {
            // Two numbers can share a text: causes above 63 and unknown SBI calls are folded.
            *counts
                .entry(self.chains.text(number, &self.config.guest_devices))
                .or_default() += n;
        }
        counts
    }

    fn device_counts(&self, totals: &Totals) -> BTreeMap<String, Vec<DeviceCount>> {
        let mut counts: BTreeMap<String, Vec<DeviceCount>> = BTreeMap::new();
        for (device, modes) in totals.devices.iter().enumerate() {
            for (mode, [reads, writes]) in Mode::ALL.iter().zip(*modes) {
                if reads + writes != 0 {
                    let mode = mode.name().to_string();
                    let name = self.config.devices.name(device).to_string();
                    counts.entry(name).or_default().push(DeviceCount {
                        mode,
                        reads,
                        writes,
                    });
                }
            }
        }
        counts
    }
}

fn guest_interrupts(totals: &Totals) -> GuestInterrupts {
    let mut taken = BTreeMap::new();
    for (_, to, cause, n) in totals.harts.iter().flat_map(HartTotals::traps) {
        if to == Mode::VS && cause >= 64 {
            let name = match u64::from(cause - 64) {
                interrupt::SSI | interrupt::VSSI => "software".to_string(),
                interrupt::STI | interrupt::VSTI => "timer".to_string(),
                interrupt::SEI | interrupt::VSEI => "external".to_string(),
                other => other.to_string(),
            };
            *taken.entry(name).or_default() += n;
        }
    }
    GuestInterrupts {
        taken,
        timer_set_with_exit: totals.timer_set_with_exit,
        timer_set_without_exit: totals.timer_set_without_exit,
        timer_unmatched: totals.timer_unmatched,
        ipi_sends: totals.ipi_sends,
        ipi_targets: totals.ipi_targets,
        ipi_coalesced: totals.ipi_coalesced,
        ipi_unmatched: totals.ipi_unmatched,
    }
}

/// Keys: `guest_timer`, `guest_ipi` and `guest_device` from cause to effect; `raised.X` from pending to taken.
fn latency(totals: &Totals) -> BTreeMap<String, crate::histogram::Latency> {
    let mut map = BTreeMap::new();
    if totals.timer_latency.count() != 0 {
        map.insert("guest_timer".to_string(), totals.timer_latency.summary());
    }
    if totals.ipi_latency.count() != 0 {
        map.insert("guest_ipi".to_string(), totals.ipi_latency.summary());
    }
    if totals.device_latency.count() != 0 {
        map.insert("guest_device".to_string(), totals.device_latency.summary());
    }
    for (irq, histogram) in totals.raised_to_taken.iter().enumerate() {
        if histogram.count() != 0 {
            let cause = cause_index(INTERRUPT | irq as u64);
            let name = match irq as u64 {
                interrupt::VSEI => "guest_external".to_string(),
                _ => format!("raised.{}", crate::reason::short_cause(cause)),
            };
            map.insert(name, histogram.summary());
        }
    }
    map
}

fn traps(totals: &Totals) -> Vec<TrapCount> {
    let mut list = Vec::new();
    for (hart, h) in totals.harts.iter().enumerate() {
        for (from, to, cause, count) in h.traps() {
            list.push(TrapCount {
                hart,
                from: from.name().to_string(),
                to: to.name().to_string(),
                interrupt: cause_of(cause) & INTERRUPT != 0,
                code: cause & 63,
                cause: cause_name(cause),
                count,
            });
        }
    }
    list
}

fn returns(totals: &Totals) -> Vec<ReturnCount> {
    let mut list = Vec::new();
    for (hart, h) in totals.harts.iter().enumerate() {
        for from in Mode::ALL {
            for to in Mode::ALL {
                let count = h.returns[from as usize][to as usize];
                if count != 0 {
                    let (from, to) = (from.name().to_string(), to.name().to_string());
                    list.push(ReturnCount {
                        hart,
                        from,
                        to,
                        count,
                    });
                }
            }
        }
    }
    list
}

fn harts(totals: &Totals) -> Vec<HartInfo> {
    let info = |(hart, h): (usize, &HartTotals)| HartInfo {
        hart,
        guest_entries: h.guest_entries,
        guest_exits: h.guest_exits,
        cycles: h
            .cycles
            .iter()
            .enumerate()
            .map(|(s, n)| (slot_name(s).to_string(), *n))
            .collect(),
    };
    totals.harts.iter().enumerate().map(info).collect()
}
