//! Tracks of VMs: the state of each vCPU, and below `exits` the reasons of exits.

use std::collections::BTreeMap;
use std::io::Write;

use trapless_ledger::{Config, Ledger, Left, Reason, State, VcpuNow, event};

use super::exits::{Clock, Exits};
use super::rank::{FIRST_VM, rank};
use super::writer::{Event, Kind, Track, Writer};

/// Rank of the first vCPU whose number is not known, among the tracks of its VM.
const NUMBERLESS: u32 = 1 << 24;

/// State of a vCPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    /// On this hart.
    Running(usize),
    /// On this hart, where M-mode handles a trap that may not become an exit.
    InFirmware(usize),
    /// The host handles an exit.
    Exit(Reason),
    /// On a hart at V=0, and its last exit is over.
    Paused,
    /// On no hart.
    Off(Option<Left>),
}

impl Doing {
    fn of(now: &VcpuNow, before: Option<Self>) -> Self {
        let hart = now.hart.unwrap_or_default();
        match (now.state, before) {
            (State::Running, _) => Self::Running(hart),
            (State::Paused, _) if now.in_firmware => Self::InFirmware(hart),
            (State::Paused, Some(exit @ Self::Exit(_))) => exit,
            (State::Paused, _) => Self::Paused,
            (State::ScheduledOff | State::Unknown, _) => Self::Off(now.left),
        }
    }

    /// Slices that show it, outermost first.
    fn slices(self) -> impl Iterator<Item = Self> {
        let outer = match self {
            Self::InFirmware(hart) => Some(Self::Running(hart)),
            _ => None,
        };
        outer.into_iter().chain([self])
    }

    /// The beginning of its innermost slice.
    fn event(self, config: &Config) -> Event {
        match self {
            Self::Running(hart) => Event::named(&format!("running on hart {hart}"), "guest"),
            Self::InFirmware(_) => Event::named("firmware", "firmware"),
            Self::Exit(reason) => Event::named(&reason.key(&config.guest_devices), "exit"),
            Self::Paused => Event::named(State::Paused.name(), "host"),
            Self::Off(left) => {
                let name = left.map_or(State::ScheduledOff.name(), Left::name);
                Event::named(name, State::ScheduledOff.name())
            }
        }
    }
}

#[derive(Debug)]
struct Vcpu {
    name: String,
    track: Track,
    /// Open slices, outermost first.
    open: Vec<Doing>,
}

impl Vcpu {
    fn show<W: Write>(&mut self, out: &mut Writer<W>, time: u64, doing: Doing, config: &Config) {
        let pairs = self.open.iter().zip(doing.slices());
        let kept = pairs.take_while(|(open, wanted)| **open == *wanted).count();
        self.end(out, time, kept);
        for slice in doing.slices().skip(kept) {
            out.begin(self.track, time, slice.event(config));
            self.open.push(slice);
        }
    }

    /// Ends all slices but the outermost `kept`.
    fn end<W: Write>(&mut self, out: &mut Writer<W>, time: u64, kept: usize) {
        for _ in self.open.drain(kept..) {
            out.end(self.track, time);
        }
    }
}

#[derive(Debug)]
struct Vm {
    track: Track,
    exits: Exits,
}

/// All VMs. The ledger bounds the number of vCPUs.
#[derive(Debug)]
pub struct Vms {
    parent: Track,
    /// By VMID.
    list: BTreeMap<u16, Vm>,
    /// By index in the ledger.
    vcpus: BTreeMap<usize, Vcpu>,
    /// vCPU that was on each hart after its last event.
    on_hart: Vec<Option<usize>>,
    clock: Clock,
}

impl Vms {
    /// Tracks below `parent`, of a machine whose virtual time has `cycles_per_second`.
    pub fn new(parent: Track, cycles_per_second: u64) -> Self {
        Self {
            parent,
            list: BTreeMap::new(),
            vcpus: BTreeMap::new(),
            on_hart: Vec::new(),
            clock: Clock::new(cycles_per_second),
        }
    }

    /// Shows changes by `event`, which the ledger has counted: of vCPUs on its hart only.
    pub fn record<W: Write>(
        &mut self,
        out: &mut Writer<W>,
        ledger: &mut Ledger,
        event: &event::Event,
    ) {
        let (time, hart) = (event.time(), event.hart());
        if let Some((from, to, more)) = self.clock.pass(time) {
            for vm in self.list.values_mut() {
                vm.exits.end_millisecond(out, from, to, more);
            }
        }
        if let Some(exit) = ledger.take_exit() {
            let now = ledger.vcpu(exit.vcpu);
            let config = ledger.config();
            let (vm, vcpu) = self.find(out, exit.vcpu, &now);
            // Also if the entry before was not seen: one slice for each exit.
            vcpu.end(out, time, 0);
            vcpu.show(out, time, Doing::Exit(exit.reason), config);
            vm.exits.record(out, time, &vcpu.name, exit.reason, config);
        }
        if hart >= self.on_hart.len() {
            self.on_hart.resize(hart + 1, None);
        }
        let loaded = ledger.loaded_on(hart);
        let before = std::mem::replace(&mut self.on_hart[hart], loaded);
        let left = before.filter(|_| before != loaded);
        for index in left.into_iter().chain(loaded) {
            let now = ledger.vcpu(index);
            let (_, vcpu) = self.find(out, index, &now);
            let before = vcpu.open.last().copied();
            let doing = Doing::of(&now, before);
            if before != Some(doing) {
                vcpu.show(out, time, doing, ledger.config());
            }
        }
    }

    /// Ends open slices.
    pub fn finish<W: Write>(&mut self, out: &mut Writer<W>, time: u64) {
        for vcpu in self.vcpus.values_mut() {
            vcpu.end(out, time, 0);
        }
        let (from, to, more) = self.clock.last();
        for vm in self.list.values_mut() {
            vm.exits.end_millisecond(out, from, to, more);
        }
    }

    /// The vCPU at `index`, and its VM.
    fn find<W: Write>(
        &mut self,
        out: &mut Writer<W>,
        index: usize,
        now: &VcpuNow,
    ) -> (&mut Vm, &mut Vcpu) {
        let vmid = now.guest.vmid;
        let vm = self.list.entry(vmid).or_insert_with(|| {
            let name = match now.domain {
                Some(domain) => format!("VM {vmid}, domain {domain}"),
                None => format!("VM {vmid}"),
            };
            let rank = rank(FIRST_VM, vmid.into());
            let track = out.track(Kind::Group, &name, Some(self.parent), rank);
            Vm {
                track,
                exits: Exits::new(track),
            }
        });
        let vcpu = self.vcpus.entry(index).or_insert_with(|| {
            let (name, rank) = match now.number {
                Some(number) => (format!("vCPU {number}"), rank(0, number)),
                None => (
                    format!("vCPU {:#x}", now.guest.context),
                    rank(NUMBERLESS, index as u64),
                ),
            };
            Vcpu {
                track: out.track(Kind::Slices, &name, Some(vm.track), rank),
                open: Vec::new(),
                name,
            }
        });
        (vm, vcpu)
    }
}
