//! Converts counters to the form of ledger files.

use std::collections::BTreeMap;

use trapless_isa::Mode;
use trapless_isa::cause::{INTERRUPT, interrupt};

use crate::class::{Class, Left, NotificationKind, Place, State};
use crate::document::{
    DeviceCount, EventCounts, Events, Exit, Firmware, FirmwareCounts, GuestFileCounts,
    GuestInterrupts, HartInfo, HostInfo, InterruptClass, LedgerFile, LeftArrivals,
    NotificationCounts, NotificationQueue, Notifications, Pci, PciCounts, Phase, Redirected,
    ReturnCount, RunInfo, SCHEMA, Section, SectionCounts, Slots, Thread, ThreadCounts, TrapCount,
    VcpuInfo,
};
use crate::histogram::{Histogram, Latency};

use crate::ledger::Ledger;
use crate::per_mode::Slot;
use crate::reason::{Reason, cause_index, cause_name, cause_of, short_cause};
use crate::reason_key::ReasonKey;
use crate::state::totals::{ClassTotals, HartTotals, ThreadTotals, Totals};

impl Ledger {
    /// The ledger as a file, as of the last [`finish`](Self::finish).
    pub fn to_file(&mut self, run: RunInfo, host: Option<HostInfo>) -> LedgerFile {
        let phase = |p: &crate::ledger::Phase| Phase {
            name: p.name.clone(),
            from: p.from,
            totals: self.section(&p.totals),
        };
        let vcpu = |v: &crate::state::vcpu::Vcpu| VcpuInfo {
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
        let counts = SectionCounts {
            guest_entries: sum(|h| h.counts.guest_entries),
            guest_exits: sum(|h| h.counts.guest_exits),
            ..totals.counts
        };
        Section {
            exits: self.exits(totals),
            redirected: self.redirected_counts(totals),
            firmware: firmware(totals),
            chains: self.chain_counts(totals),
            guest_interrupts: guest_interrupts(totals),
            interrupts: Class::ALL
                .map(|class| (class, interrupt_class(&totals.classes[class as usize])))
                .into(),
            notifications: notifications(totals),
            events: events(totals),
            slots: Slots {
                detached: Left::ALL
                    .map(|left| (left, totals.detached[left as usize]))
                    .into(),
                ..totals.slots.into()
            },
            guest_files: (totals.files != GuestFileCounts::default()).then(|| totals.files.into()),
            pci: pci(totals),
            latency: latency(totals),
            traps: traps(totals),
            returns: returns(totals),
            harts: harts(totals),
            threads: self.threads_of(totals),
            devices: self.device_counts(totals),
            ..counts.into()
        }
    }

    fn exits(&self, totals: &Totals) -> BTreeMap<ReasonKey, Exit> {
        let nonzero = totals
            .exits
            .iter()
            .enumerate()
            .filter(|(_, e)| **e != Default::default());
        let entry = nonzero.map(|(index, e)| {
            let exit = Exit {
                cycles: [Slot::HS, Slot::U, Slot::M, Slot::Idle]
                    .map(|slot| (slot, e.cycles[slot as usize]))
                    .into(),
                instructions: [Slot::HS, Slot::U, Slot::M]
                    .map(|slot| (slot, e.instructions[slot as usize]))
                    .into(),
                ..e.counts.into()
            };
            let reason = Reason::from_index(index);
            (reason.key(&self.config.guest_devices), exit)
        });
        entry.collect()
    }

    fn redirected_counts(&self, totals: &Totals) -> BTreeMap<ReasonKey, Redirected> {
        let all = totals.redirected.iter().enumerate();
        let some = all.filter(|(_, counts)| counts.accesses != 0);
        let entry = some.map(|(index, counts)| {
            let reason = Reason::from_index(index);
            (reason.key(&self.config.guest_devices), (*counts).into())
        });
        entry.collect()
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

    fn threads_of(&self, totals: &Totals) -> Vec<Thread> {
        let all = totals.threads.iter().enumerate();
        let some = all.filter(|(_, t)| **t != ThreadTotals::default());
        let thread = some.map(|(index, t)| {
            let known = self.threads.get(index).cloned();
            let known = known.unwrap_or_else(|| crate::state::thread::Thread::named("(others)"));
            let cycles = Slot::ALL.map(|slot| (slot, t.cycles[slot as usize]));
            Thread {
                number: index as u64,
                name: known.name,
                pid: known.pid,
                process: known.process,
                cycles: cycles.into_iter().filter(|(_, n)| *n != 0).collect(),
                ..ThreadCounts {
                    switches: t.switches,
                }
                .into()
            }
        });
        thread.collect()
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

fn firmware(totals: &Totals) -> Firmware {
    let mut from: BTreeMap<String, u64> = BTreeMap::new();
    for (mode, to, _, n) in totals.harts.iter().flat_map(HartTotals::traps) {
        if to == Mode::M {
            *from.entry(mode.name().to_string()).or_default() += n;
        }
    }
    let counts = FirmwareCounts {
        total: from.values().sum(),
        charged_to_exits: totals.exits.iter().map(|e| e.counts.firmware_traps).sum(),
        ..totals.firmware
    };
    let direct = totals.direct_firmware.iter().enumerate();
    let direct = direct.filter(|(_, d)| d.traps != 0);
    Firmware {
        from,
        direct: direct
            .map(|(cause, d)| (cause_name(cause as u8), (*d).into()))
            .collect(),
        ..counts.into()
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
        ..totals.guest_interrupts.into()
    }
}

fn interrupt_class(totals: &ClassTotals) -> InterruptClass {
    let arrived = State::ALL.map(|state| {
        let places = Place::of(state).iter();
        (state, places.map(|p| totals.arrived[*p as usize]).sum())
    });
    let measured = State::ALL.into_iter().filter_map(|state| {
        let mut all = Histogram::default();
        let places = Place::of(state).iter();
        places.for_each(|p| all.add(&totals.latency[*p as usize]));
        Some((state, summary(&all)?))
    });
    let left = Left::ALL.into_iter().filter_map(|left| {
        let place = Place::of_left(left) as usize;
        let arrivals = LeftArrivals {
            arrived: totals.arrived[place],
            latency: summary(&totals.latency[place]),
        };
        (arrivals != LeftArrivals::default()).then_some((left, arrivals))
    });
    InterruptClass {
        arrived: arrived.into(),
        left: left.collect(),
        latency: measured.collect(),
        ..totals.counts.into()
    }
}

fn notifications(totals: &Totals) -> Notifications {
    let kinds = NotificationKind::ALL.into_iter().filter_map(|kind| {
        let queue = &totals.queues[kind as usize];
        let used = queue.counts.queued + queue.counts.fetched != 0;
        used.then(|| {
            let latency = summary(&queue.latency);
            let counts = queue.counts.into();
            (kind, NotificationQueue { latency, ..counts })
        })
    });
    let counts = NotificationCounts {
        exits: totals.exits[Reason::Notification.index()].counts.exits,
        ..totals.notifications
    };
    Notifications {
        kinds: kinds.collect(),
        ..counts.into()
    }
}

fn pci(totals: &Totals) -> Option<Pci> {
    let functions = totals.pci_functions.iter();
    let functions = functions.map(|(id, counts)| (function_name(*id), (*counts).into()));
    (totals.pci != PciCounts::default()).then(|| Pci {
        functions: functions.collect(),
        ..totals.pci.into()
    })
}

/// What Linux calls a function, without the domain.
fn function_name(id: u32) -> String {
    match u16::try_from(id) {
        Ok(id) => format!("{:02x}:{:02x}.{}", id >> 8, id >> 3 & 0x1f, id & 7),
        Err(_) => "iommu".into(),
    }
}

fn events(totals: &Totals) -> Option<Events> {
    let counts = EventCounts {
        exits: totals.exits[Reason::Event.index()].counts.exits,
        ..totals.events
    };
    (counts != EventCounts::default()).then(|| Events {
        latency: summary(&totals.event_latency),
        ..counts.into()
    })
}

fn summary(histogram: &Histogram) -> Option<Latency> {
    (histogram.count() != 0).then(|| histogram.summary())
}

/// Keys: `guest_timer`, `guest_ipi` and `guest_device` from cause to effect; `raised.X` from
/// pending to taken.
fn latency(totals: &Totals) -> BTreeMap<String, Latency> {
    let mut all = vec![
        ("guest_timer".to_string(), &totals.timer_latency),
        ("guest_ipi".to_string(), &totals.ipi_latency),
        ("guest_device".to_string(), &totals.device_latency),
    ];
    for (irq, histogram) in totals.raised_to_taken.iter().enumerate() {
        let name = match irq as u64 {
            interrupt::VSEI => "guest_external".to_string(),
            irq => format!("raised.{}", short_cause(cause_index(INTERRUPT | irq))),
        };
        all.push((name, histogram));
    }
    let measured = all.into_iter();
    measured
        .filter_map(|(name, histogram)| Some((name, summary(histogram)?)))
        .collect()
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
        cycles: h
            .cycles
            .iter()
            .enumerate()
            .map(|(slot, n)| (Slot::ALL[slot], *n))
            .collect(),
        ..h.counts.into()
    };
    totals.harts.iter().enumerate().map(info).collect()
}
