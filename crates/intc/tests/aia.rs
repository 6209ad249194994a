//! IMSICs and APLIC together, as firmware and kernels use them, and against hostile accesses.

use proptest::prelude::*;
use trapless_intc::aia::{APLIC_MACHINE_BASE, APLIC_SUPERVISOR_BASE, Aia, Config};
use trapless_intc::{
    CsrOp, Effects, FileAccess, FileId, FileRegister, InterruptArchitecture, MessageArrival,
    MmioAccess, NoFile, NoRegister, Snapshot, StepKind,
};
use trapless_isa::Mode;

const SUPERVISOR: u64 = 0x2800_0000;
/// Distance of the files of two harts with seven guest files.
const STRIDE: u64 = 0x8000;
const UART: u32 = 10;

const EIDELIVERY: u8 = 0x70;
const EITHRESHOLD: u8 = 0x72;
const EIP0: u8 = 0x80;
const EIE0: u8 = 0xC0;

struct World {
    aia: Aia,
    effects: Effects,
}

fn mmio(addr: u64, size: u8) -> MmioAccess {
    MmioAccess {
        hart: 0,
        mode: Mode::M,
        now: 0,
        addr,
        size,
    }
}

impl World {
    fn new(guests: Option<u8>) -> Self {
        let aia = Aia::new(Config {
            harts: 2,
            cycles_per_tick: 100,
            guests,
        });
        Self {
            aia,
            effects: Effects::default(),
        }
    }

    fn load(&mut self, addr: u64, size: u8) -> Result<u64, NoRegister> {
        self.aia.load(&mmio(addr, size), &mut self.effects)
    }

    fn store(&mut self, addr: u64, size: u8, value: u32) -> Result<(), NoRegister> {
        self.aia
            .store(&mmio(addr, size), value.into(), &mut self.effects)
    }

    fn set_source(&mut self, source: u32, level: bool) {
        self.aia.set_source(0, source, level, &mut self.effects);
    }

    fn hgeip(&mut self, hart: usize) -> u64 {
        self.aia.lines(hart, 0).hgeip
    }

    fn access(
        &mut self,
        hart: usize,
        file: FileId,
        register: FileRegister,
        op: CsrOp,
    ) -> Result<u64, NoFile> {
        let access = FileAccess {
            hart,
            mode: Mode::HS,
            now: 0,
            file,
            register,
            op,
        };
        let files = self.aia.interrupt_files().expect("harts with Smaia");
        files.access(&access, &mut self.effects)
    }

    fn set(&mut self, hart: usize, file: FileId, select: u8, value: u64) {
        let register = FileRegister::Indirect(select);
        self.access(hart, file, register, CsrOp::Write(value))
            .unwrap();
    }

    fn get(&mut self, hart: usize, file: FileId, select: u8) -> u64 {
        let register = FileRegister::Indirect(select);
        self.access(hart, file, register, CsrOp::Read).unwrap()
    }

    /// `csrrw rd, xtopei, x0`.
    fn claim(&mut self, hart: usize, file: FileId) -> u64 {
        self.access(hart, file, FileRegister::Top, CsrOp::Swap(0))
            .unwrap()
    }

    /// Delivery on, identities 1 to 255 enabled.
    fn open(&mut self, hart: usize, file: FileId) {
        self.set(hart, file, EIDELIVERY, 1);
        for word in 0..4 {
            self.set(hart, file, EIE0 + 2 * word, u64::MAX);
        }
    }

    fn write(&mut self, addr: u64, value: u32) {
        self.store(addr, 4, value).unwrap();
    }

    fn read(&mut self, addr: u64) -> u32 {
        self.load(addr, 4).unwrap() as u32
    }

    fn level(&mut self, hart: usize) -> u64 {
        self.aia.lines(hart, 0).level
    }

    /// What firmware writes: where messages go, and all sources to the supervisor-level domain.
    fn boot(&mut self) {
        self.write(APLIC_MACHINE_BASE + 0x1BC0, 0x2400_0000 >> 12);
        self.write(APLIC_MACHINE_BASE + 0x1BC4, 1 << 12);
        self.write(APLIC_MACHINE_BASE + 0x1BC8, SUPERVISOR as u32 >> 12);
        self.write(APLIC_MACHINE_BASE + 0x1BCC, 3 << 20);
        for source in 1..=96 {
            self.write(APLIC_MACHINE_BASE + 4 * source, 1 << 10);
        }
        self.write(APLIC_SUPERVISOR_BASE, 1 << 8);
    }

    /// Forwards `source` as `identity` to a file of a hart.
    fn forward(&mut self, source: u32, mode: u32, hart: u32, guest: u32, identity: u32) {
        let base = APLIC_SUPERVISOR_BASE;
        self.write(base + 4 * u64::from(source), mode);
        self.write(
            base + 0x3000 + 4 * u64::from(source),
            hart << 18 | guest << 12 | identity,
        );
        self.write(base + 0x1EDC, source);
    }
}

/// An IPI is a store to another hart's page; who receives it claims the lowest identity first, each
/// once.
#[test]
fn store_to_a_page_interrupts_the_file_it_belongs_to() {
    let mut w = World::new(Some(7));
    let guest = FileId::Guest(3);
    w.open(1, FileId::Supervisor);
    w.open(1, guest);
    w.write(SUPERVISOR + STRIDE, 200);
    w.write(SUPERVISOR + STRIDE, 1);
    w.write(SUPERVISOR + STRIDE + 4, 7u32.swap_bytes());
    assert_eq!(w.effects.changed & 2, 2);
    assert_eq!((w.level(1), w.hgeip(1)), (1 << 9, 0));
    assert_eq!(w.level(0), 0);
    w.write(SUPERVISOR + STRIDE + 3 * 0x1000, 9);
    assert_eq!(w.hgeip(1), 1 << 3);
    let claims: Vec<u64> = (0..4).map(|_| w.claim(1, FileId::Supervisor)).collect();
    assert_eq!(claims, [1 << 16 | 1, 7 << 16 | 7, 200 << 16 | 200, 0]);
    assert_eq!(w.level(1), 0);
    assert_eq!(w.claim(1, guest), 9 << 16 | 9);
}

/// Delivery, threshold and enable bits withhold interrupts and lose none.
#[test]
fn withheld_identities_stay_pending() {
    let mut w = World::new(Some(1));
    let file = FileId::Machine;
    w.write(0x2400_0000, 100);
    assert_eq!(w.level(0), 0, "disabled");
    w.open(0, file);
    assert_eq!(w.level(0), 1 << 11);
    w.set(0, file, EITHRESHOLD, 100);
    assert_eq!(
        (w.level(0), w.claim(0, file)),
        (0, 0),
        "identity is not below"
    );
    w.set(0, file, EITHRESHOLD, 101);
    w.set(0, file, EIDELIVERY, 0);
    assert_eq!(w.level(0), 0, "delivery is off");
    assert_eq!(w.get(0, file, EIP0 + 2), 1 << 36);
    assert_eq!(
        w.claim(0, file),
        100 << 16 | 100,
        "which claims do not care about"
    );
}

/// RV64 has even-numbered registers only; what exists beyond the last identity is zero.
#[test]
fn registers_of_a_file_are_those_of_rv64() {
    let mut w = World::new(Some(1));
    for select in [EIP0 + 1, EIE0 + 63] {
        let register = FileRegister::Indirect(select);
        assert_eq!(
            w.access(0, FileId::Supervisor, register, CsrOp::Read),
            Err(NoFile)
        );
    }
    for select in [EIP0 + 8, EIE0 + 62, 0x71, 0x7F] {
        w.set(0, FileId::Supervisor, select, u64::MAX);
        assert_eq!(w.get(0, FileId::Supervisor, select), 0);
    }
    w.set(0, FileId::Supervisor, EIP0, u64::MAX);
    assert_eq!(
        w.get(0, FileId::Supervisor, EIP0),
        !1,
        "identity 0 does not exist"
    );
    let none = w.access(0, FileId::Guest(2), FileRegister::Top, CsrOp::Read);
    assert_eq!(none, Err(NoFile), "there is one guest file");
}

/// A level-triggered wire makes one message; after a handler it makes another exactly if it is
/// still high and the handler asks.
#[test]
fn level_source_is_forwarded_once_and_again_on_request() {
    let mut w = World::new(Some(7));
    w.boot();
    w.forward(UART, 6, 1, 0, 77);
    w.open(1, FileId::Supervisor);
    w.set_source(UART, true);
    assert_eq!(w.claim(1, FileId::Supervisor), 77 << 16 | 77);
    assert_eq!(w.level(1), 0);
    w.write(APLIC_SUPERVISOR_BASE + 0x2000, UART);
    assert_eq!(w.claim(1, FileId::Supervisor), 77 << 16 | 77, "still high");
    w.set_source(UART, false);
    w.write(APLIC_SUPERVISOR_BASE + 0x2000, UART);
    assert_eq!(w.claim(1, FileId::Supervisor), 0, "low");
}

/// What happens while a domain is off waits: an edge for good, a level for as long as it is high.
#[test]
fn domain_that_is_switched_on_forwards_what_is_pending() {
    let mut w = World::new(Some(7));
    w.boot();
    w.forward(1, 4, 0, 2, 5);
    w.forward(2, 6, 0, 2, 6);
    w.open(0, FileId::Guest(2));
    w.write(APLIC_SUPERVISOR_BASE, 0);
    for source in [1, 2] {
        w.set_source(source, true);
        w.set_source(source, false);
    }
    assert_eq!(w.read(APLIC_SUPERVISOR_BASE + 0x1C00), 1 << 1);
    w.write(APLIC_SUPERVISOR_BASE, 1 << 8);
    assert_eq!(w.hgeip(0), 1 << 2);
    assert_eq!(w.claim(0, FileId::Guest(2)), 5 << 16 | 5);
    assert_eq!(w.claim(0, FileId::Guest(2)), 0);
}

/// The supervisor-level domain has only what firmware gave it, and loses all of a source that is
/// taken back.
#[test]
fn delegation_decides_whose_source_it_is() {
    let mut w = World::new(Some(7));
    let config = APLIC_SUPERVISOR_BASE + 4 * u64::from(UART);
    w.write(config, 6);
    assert_eq!(w.read(config), 0, "not delegated");
    w.boot();
    w.forward(UART, 6, 0, 0, 3);
    assert_eq!(w.read(config), 6);
    w.write(APLIC_MACHINE_BASE + 4 * u64::from(UART), 6);
    assert_eq!(w.read(config), 0);
    assert_eq!(w.read(APLIC_SUPERVISOR_BASE + 0x1E00), 0);
    w.write(APLIC_SUPERVISOR_BASE + 4, 1 << 10);
    assert_eq!(
        w.read(APLIC_SUPERVISOR_BASE + 4),
        0,
        "a leaf delegates nothing"
    );
}

/// Firmware locks the targets of messages: they cannot be redirected to a file of M-mode any more.
#[test]
fn message_addresses_can_be_locked() {
    let mut w = World::new(Some(7));
    w.boot();
    w.write(APLIC_MACHINE_BASE + 0x1BC4, 1 << 31 | 1 << 12);
    w.write(APLIC_MACHINE_BASE + 0x1BC8, 0x2400_0000 >> 12);
    assert_eq!(w.read(APLIC_MACHINE_BASE + 0x1BC8), SUPERVISOR as u32 >> 12);
    assert_eq!(
        w.read(APLIC_SUPERVISOR_BASE + 0x1BC8),
        0,
        "the child has none"
    );
}

/// Without IMSICs the APLIC interrupts the hart that a source names, by priority, until it is
/// claimed or low.
#[test]
fn direct_delivery_follows_priority_and_threshold() {
    let mut w = World::new(None);
    let base = APLIC_MACHINE_BASE;
    for (source, priority) in [(1, 5), (2, 3), (3, 3)] {
        w.write(base + 4 * source, 6);
        w.write(base + 0x3000 + 4 * source, 1 << 18 | priority);
        w.write(base + 0x1EDC, source as u32);
        w.set_source(source as u32, true);
    }
    w.write(base, 1 << 8);
    assert_eq!(w.level(1), 0, "idelivery is off");
    w.write(base + 0x4020, 1);
    assert_eq!((w.level(0), w.level(1)), (0, 1 << 11));
    assert_eq!(w.read(base + 0x403C), 2 << 16 | 3);
    assert_eq!(
        w.read(base + 0x403C),
        2 << 16 | 3,
        "a claim does not clear a level"
    );
    w.set_source(2, false);
    assert_eq!(w.read(base + 0x4038), 3 << 16 | 3);
    w.write(base + 0x4028, 3);
    assert_eq!((w.level(1), w.read(base + 0x4038)), (0, 0));
    w.write(base + 0x4024, 1);
    assert_eq!(w.level(1), 1 << 11, "forced");
    assert_eq!(w.read(base + 0x403C), 0);
    assert_eq!(w.level(1), 0, "a spurious claim ends it");
    assert_eq!(w.aia.interrupt_files().unwrap().guest_files(), 0);
}

/// The ledger gets messages and claims as steps, and none unless they were requested.
#[test]
fn steps_report_messages_and_claims() {
    let mut w = World::new(Some(7));
    w.write(SUPERVISOR + 0x2000, 4);
    assert_eq!(w.effects.steps.drain().count(), 0);
    w.effects.steps.record();
    w.open(0, FileId::Guest(2));
    w.write(SUPERVISOR + 0x2000, 4);
    w.claim(0, FileId::Guest(2));
    let steps: Vec<StepKind> = w.effects.steps.drain().map(|step| step.kind).collect();
    let message = StepKind::Message {
        on: 0,
        file: 2,
        identity: 4,
        merged: true,
    };
    let claim = StepKind::FileClaimed {
        file: 2,
        identity: 4,
    };
    assert_eq!(steps, [message, claim]);
}

/// A device's message arrives where its address says, and the machine learns where; elsewhere, and
/// without IMSICs, nothing takes it.
#[test]
fn devices_messages_arrive_at_files() {
    let mut w = World::new(Some(7));
    w.effects.steps.record();
    w.open(1, FileId::Guest(2));
    let place = SUPERVISOR + STRIDE + 0x2000;
    let arrival = |merged| {
        Some(MessageArrival::File {
            hart: 1,
            file: FileId::Guest(2),
            merged,
        })
    };
    for merged in [false, true] {
        w.effects.changed = 0;
        let arrived = w.aia.message(0, place, 4, &mut w.effects);
        assert_eq!(arrived, arrival(merged));
        assert_eq!(w.effects.changed, 1 << 1);
    }
    assert_eq!(w.claim(1, FileId::Guest(2)), 4 << 16 | 4);
    for addr in [place + 8, place + 2, SUPERVISOR - 4, APLIC_MACHINE_BASE, 0] {
        let arrived = w.aia.message(0, addr, 4, &mut w.effects);
        assert_eq!(arrived, None, "{addr:#x}");
    }
    let mut without = World::new(None);
    let arrived = without.aia.message(0, place, 4, &mut without.effects);
    assert_eq!(arrived, None);
    assert_eq!(without.aia.describe().msi_parent, None);
}

/// A saved machine continues as if it had not been saved; state of another shape is refused.
#[test]
fn state_survives_saving() {
    let mut w = World::new(Some(7));
    w.boot();
    w.forward(UART, 6, 0, 0, 3);
    w.open(0, FileId::Supervisor);
    w.set_source(UART, true);
    let saved = w.aia.save();
    let mut other = World::new(Some(7));
    other.aia.restore(&saved).unwrap();
    assert_eq!(other.claim(0, FileId::Supervisor), 3 << 16 | 3);
    assert!(World::new(Some(3)).aia.restore(&saved).is_err());
    assert!(World::new(None).aia.restore(&saved).is_err());
    assert!(w.aia.restore(&serde_json::json!({"aclint": 1})).is_err());
}

proptest! {
    /// A file hands out what was posted and enabled, lowest first, each once: compared with a list.
    #[test]
    fn file_agrees_with_a_list(ops in prop::collection::vec((0..5u8, 0..300u32), 1..200)) {
        let mut w = World::new(Some(2));
        let file = FileId::Guest(1);
        w.set(0, file, EIDELIVERY, 1);
        let (mut pending, mut enabled) = ([false; 256], [false; 256]);
        let mut threshold = 0;
        for (what, n) in ops {
            let id = n as usize;
            let known = (1..256).contains(&id);
            let (word, bit) = ((id / 64 % 4) as u8, 1u64 << (id % 64));
            match what {
                0 => {
                    w.write(SUPERVISOR + 0x1000, n);
                    if known { pending[id] = true; }
                }
                1 if known => {
                    let register = FileRegister::Indirect(EIE0 + 2 * word);
                    w.access(0, file, register, CsrOp::Set(bit)).unwrap();
                    enabled[id] = true;
                }
                2 if known => {
                    let register = FileRegister::Indirect(EIP0 + 2 * word);
                    w.access(0, file, register, CsrOp::Clear(bit)).unwrap();
                    pending[id] = false;
                }
                3 => {
                    w.set(0, file, EITHRESHOLD, n.into());
                    threshold = id;
                }
                _ => {}
            }
            let open = |i: &usize| pending[*i] && enabled[*i] && (threshold == 0 || *i < threshold);
            let top = (1..256).find(open).unwrap_or(0);
            prop_assert_eq!(w.hgeip(0) != 0, top != 0);
            if what == 4 {
                prop_assert_eq!(w.claim(0, file) >> 16, top as u64);
                pending[top] = false;
            }
        }
    }

    /// No access panics, whatever guests write; only naturally aligned words work.
    #[test]
    fn hostile_accesses_are_harmless(
        guests in prop::option::of(0..=63u8),
        ops in prop::collection::vec((0..5usize, 0..0x9000u64, any::<u32>(), 0..6u8, any::<bool>()), 1..300)
    ) {
        let mut w = World::new(guests);
        let bases = [APLIC_MACHINE_BASE, APLIC_SUPERVISOR_BASE, 0x200_0000, 0x2400_0000, SUPERVISOR];
        for (base, offset, value, kind, high) in ops {
            let addr = bases[base] + offset;
            match kind {
                0 | 1 => { let _ = w.store(addr & !3, 4, value); }
                2 => { let _ = w.load(addr & !3, 4); }
                3 => {
                    let size = 1 << (value % 4);
                    if base != 2 && (size != 4 || addr % 4 != 0) {
                        prop_assert_eq!(w.load(addr, size), Err(NoRegister));
                        prop_assert_eq!(w.store(addr, size, 1), Err(NoRegister));
                    }
                }
                4 => w.set_source(value % 100, high),
                _ => {
                    let file = FileId::Guest(value as u8);
                    let register = FileRegister::Indirect((value >> 8) as u8);
                    let _ = w.access(1, file, register, CsrOp::Set(u64::MAX));
                }
            }
            for hart in 0..2 {
                w.aia.lines(hart, 5);
            }
        }
        let saved = w.aia.save();
        prop_assert!(w.aia.restore(&saved).is_ok());
    }
}

/// Debuggers see what is pending and enabled, in guests' files too, and change nothing by looking.
#[test]
fn state_is_shown_by_file() {
    let mut w = World::new(Some(7));
    w.open(1, FileId::Guest(3));
    w.write(SUPERVISOR + STRIDE + 3 * 0x1000, 9);
    let before = w.aia.save();
    let rows = w.aia.inspect(0);
    assert_eq!(w.aia.save(), before);
    let of = |hart, part: &'static str| {
        let rows = rows.iter();
        rows.filter(move |row| row.hart == Some(hart) && row.part == part)
    };
    let value = |name: &str| {
        let row = of(1, "imsic guest 3").find(|row| row.name == name)?;
        Some((row.value.as_str(), row.active))
    };
    assert_eq!(value("pending"), Some(("9", true)));
    assert_eq!(value("raised"), Some(("yes, by 9", true)));
    assert!(of(0, "imsic S").count() > 0 && of(0, "imsic S").all(|row| !row.active));
}
