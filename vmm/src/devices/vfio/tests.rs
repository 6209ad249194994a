//! Passed devices against a model of VFIO and KVM.

use crate::devices::locked::Served;
use crate::devices::pci::function::Function;
use crate::devices::vfio::device::{Device, Region};
use crate::devices::vfio::function::{Passed, Ways};
use crate::devices::vfio::pin::{Intx, Level, Pin};
use crate::devices::vfio::platform::{self, Places};
use crate::irqchip::controller::InterruptController;
use crate::irqchip::messages::{Message, Messages, Route};
use crate::irqchip::plic;
use crate::irqchip::wire::Kind;
use std::any::Any;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use trapless_pci::Windows;
use vmm_sys_util::eventfd::EventFd;

const ENABLE: u16 = 1 << 15;
const MASK_ALL: u16 = 1 << 14;
/// Where the fake device has its capabilities: power management, MSI, MSI-X, PCI Express.
const POWER: usize = 0x44;
const MSI: usize = 0x48;
const MSIX: usize = 0x60;
const EXPRESS: usize = 0x70;

/// What VFIO and KVM have been told.
#[derive(Default)]
struct Model {
    /// Configuration space of the device.
    space: Vec<u8>,
    /// Stores to the device: region, offset, bytes.
    stored: Vec<(Region, u64, Vec<u8>)>,
    /// Parts of BARs in the guest: BAR, part, guest physical address.
    mapped: Vec<(u8, Range<u64>, u64)>,
    /// The events of MSI-X while that is enabled.
    vectors: Vec<EventFd>,
    intx: Option<EventFd>,
    unmasked: usize,
    /// The host has nothing that takes messages.
    no_msix: bool,
    resets: usize,
    /// Messages by route, with the descriptor of an attached event.
    routes: Vec<Option<(Message, Option<RawFd>)>>,
    changes: usize,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Model>>);

impl Fake {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.0.lock().unwrap()
    }

    /// Messages that KVM sends for events.
    fn attached(&self) -> Vec<(u64, u32)> {
        let model = self.model();
        let attached = model.routes.iter().flatten().filter(|r| r.1.is_some());
        attached.map(|(m, _)| (m.address, m.data)).collect()
    }
}

/// A place in the guest that ends when it is dropped.
struct Mapped(Fake, (u8, Range<u64>, u64));

impl Drop for Mapped {
    fn drop(&mut self) {
        self.0.model().mapped.retain(|mapped| *mapped != self.1);
    }
}

impl Device for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    /// BAR 0: registers and the MSI-X table, 64 bits; BAR 2: 256 bytes; BAR 4: I/O ports.
    fn len(&self, region: Region) -> u64 {
        match region {
            Region::Config => 4096,
            Region::Bar(0) => 0x4000,
            Region::Bar(2) => 0x100,
            Region::Bar(4) => 0x20,
            Region::Bar(_) => 0,
        }
    }

    fn read(&self, region: Region, offset: u64, data: &mut [u8]) {
        let model = self.model();
        match region {
            Region::Config => {
                let at = offset as usize;
                data.copy_from_slice(&model.space[at..at + data.len()]);
            }
            Region::Bar(bar) => data.fill(0xb0 | bar),
        }
    }

    fn write(&self, region: Region, offset: u64, data: &[u8]) {
        let mut model = self.model();
        model.stored.push((region, offset, data.to_vec()));
        if region == Region::Config {
            for (at, byte) in (offset as usize..).zip(data) {
                // Of what VFIO lets through, only these matter here.
                if [4, 5, POWER].contains(&at) {
                    model.space[at] = *byte;
                }
            }
        }
    }

    fn mappable(&self, bar: u8) -> Vec<Range<u64>> {
        match bar {
            0 => [(0, 0x4000)].map(|(start, end)| start..end).into(),
            _ => Vec::new(),
        }
    }

    fn map(&self, bar: u8, part: Range<u64>, guest: u64) -> io::Result<Box<dyn Any + Send>> {
        let mapped = (bar, part, guest);
        self.model().mapped.push(mapped.clone());
        Ok(Box::new(Mapped(self.clone(), mapped)))
    }

    fn has_intx(&self) -> bool {
        true
    }

    fn enable_intx(&self, trigger: &EventFd, _: Option<&EventFd>) -> io::Result<()> {
        let mut model = self.model();
        assert!(model.vectors.is_empty(), "VFIO has one kind at a time");
        model.intx = Some(trigger.try_clone()?);
        Ok(())
    }

    fn unmask_intx(&self) {
        self.model().unmasked += 1;
    }

    fn disable_intx(&self) {
        self.model().intx = None;
    }

    fn enable_msix(&self, events: &[&EventFd]) -> io::Result<usize> {
        let mut model = self.model();
        assert!(model.intx.is_none(), "VFIO has one kind at a time");
        if model.no_msix {
            return Err(io::ErrorKind::StorageFull.into());
        }
        model.vectors = events.iter().map(|e| e.try_clone().unwrap()).collect();
        Ok(events.len())
    }

    fn disable_msix(&self) {
        self.model().vectors.clear();
    }

    fn reset(&self) {
        self.model().resets += 1;
    }
}

impl Messages for Fake {
    fn add(&self, message: Message) -> io::Result<Route> {
        let routes = &mut self.model().routes;
        routes.push(Some((message, None)));
        Ok(Route(routes.len() as u32 - 1))
    }

    fn change(
        &self,
        route: Route,
        message: Message,
        attached: Option<&EventFd>,
    ) -> io::Result<Route> {
        let model = &mut *self.model();
        let before = model.routes[route.0 as usize].as_mut().unwrap();
        assert_eq!(before.1, attached.map(AsRawFd::as_raw_fd));
        before.0 = message;
        model.changes += 1;
        Ok(route)
    }

    fn remove(&self, route: Route) {
        let gone = self.model().routes[route.0 as usize].take();
        assert_eq!(gone.unwrap().1, None, "an event is attached");
    }

    fn attach(&self, route: Route, event: &EventFd) -> io::Result<()> {
        let model = &mut *self.model();
        let event = Some(event.as_raw_fd());
        let before = model.routes[route.0 as usize].as_mut().unwrap();
        assert_eq!(std::mem::replace(&mut before.1, event), None);
        Ok(())
    }

    fn detach(&self, route: Route, event: &EventFd) -> io::Result<()> {
        let model = &mut *self.model();
        let before = &mut model.routes[route.0 as usize].as_mut().unwrap().1;
        assert_eq!(before.take(), Some(event.as_raw_fd()));
        Ok(())
    }
}

/// Configuration space of a PCI Express endpoint with all kinds of capabilities.
fn physical() -> Vec<u8> {
    let mut space = vec![0; 4096];
    let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[0xf4, 0x1a, 0x41, 0x10]);
    put(6, &[0x10, 0]);
    put(0x0e, &[0x80]);
    // Addresses of the host, which are no business of the guest.
    put(0x10, &[0x0c, 0x40, 0xee, 0xfe, 7, 0, 0, 0]);
    put(0x18, &[0, 0, 0xed, 0xfe]);
    put(0x20, &[0x01, 0xe0, 0, 0]);
    put(0x30, &[0x01, 0, 0xec, 0xfe]);
    put(0x34, &[0x40]);
    put(0x3c, &[0x2a, 3]);
    put(0x40, &[0x01, MSI as u8, 3, 0]);
    put(MSI, &[0x05, MSIX as u8, 0x81, 0]);
    // Three vectors, enabled by the host; table in BAR 0 at 0x1000, pending bits at 0x1800.
    put(MSIX, &[0x11, EXPRESS as u8, 2, 0x80]);
    put(MSIX + 4, &[0, 0x10, 0, 0, 0, 0x18, 0, 0]);
    put(EXPRESS, &[0x10, 0, 2, 0]);
    // Errors, SR-IOV, serial number.
    put(0x100, &0x1401_0001_u32.to_le_bytes());
    put(0x140, &0x1801_0010_u32.to_le_bytes());
    put(0x180, &0x0001_0003_u32.to_le_bytes());
    space
}

fn passed(messages: bool) -> (Fake, Arc<Pin>, Passed) {
    passed_by(messages, &*plic::unconnected())
}

fn passed_by(messages: bool, controller: &dyn InterruptController) -> (Fake, Arc<Pin>, Passed) {
    let fake = Fake::default();
    fake.model().space = physical();
    let device: Arc<dyn Device> = Arc::new(fake.clone());
    let intx = Pin::connect(Arc::new(Intx(device.clone())), 29, controller).unwrap();
    let ways = Ways {
        intx: Some(intx.clone()),
        messages: messages.then(|| Arc::new(fake.clone()) as _),
        windows: Windows::virt(0x9000_0000),
    };
    let passed = Passed::new(device, ways).unwrap();
    fake.model().stored.clear();
    (fake, intx, passed)
}

fn word(passed: &Passed, at: usize) -> u32 {
    let mut data = [0; 4];
    passed.read_config(at, &mut data);
    u32::from_le_bytes(data)
}

fn set(passed: &Passed, at: usize, value: u32) {
    passed.write_config(at, &value.to_le_bytes());
}

/// Places BAR 0, BAR 2 below it, and lets memory answer.
fn place(passed: &Passed) {
    set(passed, 0x10, 0x4000_8000);
    set(passed, 0x14, 0);
    set(passed, 0x18, 0x4000_0100);
    passed.write_config(4, &6_u16.to_le_bytes());
}

/// IDs of the capabilities that a guest finds.
fn capabilities(passed: &Passed) -> Vec<u8> {
    let mut ids = Vec::new();
    let mut at = word(passed, 0x34) as u8;
    while at != 0 {
        let header = word(passed, at.into()).to_le_bytes();
        ids.push(header[0]);
        at = header[1];
    }
    ids
}

/// Promise: a guest learns the sizes of BARs as from hardware, nothing of the host's addresses, and
/// changes no register of the device by that.
#[test]
fn bars_are_the_guests_and_tell_their_sizes() {
    let (fake, _, passed) = passed(true);
    assert_eq!(fake.model().resets, 1);
    assert_eq!(
        [0x10, 0x14, 0x18, 0x20, 0x30].map(|at| word(&passed, at)),
        [0xc, 0, 0, 0, 0]
    );
    for at in (0x10..0x28).step_by(4).chain([0x30]) {
        set(&passed, at, u32::MAX);
    }
    let sizes = [0x10, 0x14, 0x18, 0x1c, 0x20, 0x24, 0x30].map(|at| word(&passed, at));
    assert_eq!(sizes, [0xffff_c00c, u32::MAX, 0xffff_ff00, 0, 0, 0, 0]);
    assert!(fake.model().stored.is_empty());
    assert_eq!(word(&passed, 0), 0x1041_1af4);
    assert_eq!(word(&passed, 0xc) >> 16 & 0xff, 0, "one function");
}

/// Promise: BARs are mapped where memory answers, inside of the windows, without the page of the
/// MSI-X table, and move with their registers.
#[test]
fn bars_are_mapped_where_the_guest_puts_them() {
    let (fake, _, passed) = passed(true);
    place(&passed);
    let expected = [
        (0, 0..0x1000, 0x4000_8000),
        (0, 0x2000..0x4000, 0x4000_a000),
    ];
    assert_eq!(fake.model().mapped, expected);
    set(&passed, 0x14, 1);
    assert!(fake.model().mapped.is_empty(), "outside of all windows");
    set(&passed, 0x10, 0xffff_c000);
    set(&passed, 0x14, 7);
    assert_eq!(fake.model().mapped[0], (0, 0..0x1000, 0x7_ffff_c000));
    set(&passed, 0x14, 8);
    assert!(fake.model().mapped.is_empty(), "behind the last window");
    set(&passed, 0x10, 0);
    set(&passed, 0x14, 4);
    assert_eq!(fake.model().mapped[0], (0, 0..0x1000, 0x4_0000_0000));
    passed.write_config(POWER, &[3, 0]);
    assert!(fake.model().mapped.is_empty(), "the device sleeps");
    passed.write_config(POWER, &[0, 0]);
    assert_eq!(fake.model().mapped.len(), 2);
    passed.write_config(4, &[4]);
    assert!(fake.model().mapped.is_empty(), "memory is disabled");
    let mut data = [0; 4];
    assert!(!passed.read_memory(0x4_0000_0000, &mut data));
}

#[test]
fn what_is_not_mapped_is_reached_by_exits() {
    let (fake, _, passed) = passed(true);
    place(&passed);
    let mut data = [0; 4];
    assert!(passed.read_memory(0x4000_0104, &mut data));
    assert_eq!(data, [0xb2; 4]);
    assert!(passed.write_memory(0x4000_01f8, &[1; 8]));
    assert!(!passed.write_memory(0x4000_01fc, &[1; 8]), "beyond the end");
    assert!(!passed.read_memory(u64::MAX - 1, &mut data));
    let last = fake.model().stored.last().cloned();
    assert_eq!(last, Some((Region::Bar(2), 0xf8, vec![1; 8])));
}

/// Promise: capabilities that the guest cannot use are not found.
#[test]
fn capabilities_fit_the_guest() {
    let (_, _, with) = passed(true);
    assert_eq!(capabilities(&with), [0x01, 0x11, 0x10]);
    assert_eq!(word(&with, MSIX) >> 16, 2, "disabled, three vectors");
    assert_eq!(word(&with, EXPRESS) >> 16 & 0xf0, 0x90, "no port above");
    assert_eq!(word(&with, 0x100), 0x1801_0001, "SR-IOV is left out");
    assert_eq!(word(&with, 0x140), 0);
    assert_eq!(word(&with, 0x3c) & 0xffff, 0x0100, "INTA");
    let (fake, _, without) = passed(false);
    assert_eq!(capabilities(&without), [0x01, 0x10]);
    set(&without, MSIX, u32::MAX);
    assert!(fake.model().vectors.is_empty());
    place(&without);
    let mapped = fake.model().mapped.clone();
    assert_eq!(mapped[0].1, 0..0x1000, "not the table either");
}

fn entry(passed: &Passed, vector: u64, address: u64, data: u32, masked: bool) {
    let at = 0x4000_9000 + 16 * vector;
    assert!(passed.write_memory(at, &address.to_le_bytes()));
    assert!(passed.write_memory(at + 8, &data.to_le_bytes()));
    assert!(passed.write_memory(at + 12, &u32::from(masked).to_le_bytes()));
}

fn control(passed: &Passed, control: u16) {
    passed.write_config(MSIX + 2, &control.to_le_bytes());
}

/// Promise: KVM has a message exactly while its vector, the function and MSI-X are open; the device
/// never sees the guest's table.
#[test]
fn open_vectors_have_messages() {
    let (fake, _, passed) = passed(true);
    place(&passed);
    fake.model().stored.clear();
    control(&passed, ENABLE | MASK_ALL);
    assert_eq!(fake.model().vectors.len(), 3);
    entry(&passed, 0, 0x2800_0003, 7, false);
    entry(&passed, 2, 0x2800_1000, 8, false);
    assert!(fake.attached().is_empty(), "the function is masked");
    control(&passed, ENABLE);
    assert_eq!(fake.attached(), [(0x2800_0000, 7), (0x2800_1000, 8)]);
    entry(&passed, 0, 0x2800_0000, 7, true);
    assert_eq!(fake.attached(), [(0x2800_1000, 8)]);
    assert_eq!(fake.model().changes, 0);
    entry(&passed, 0, 0x2800_2000, 9, false);
    assert_eq!(fake.attached(), [(0x2800_2000, 9), (0x2800_1000, 8)]);
    let mut data = [0; 8];
    assert!(passed.read_memory(0x4000_9000 + 8, &mut data));
    assert_eq!(data, [9, 0, 0, 0, 0, 0, 0, 0]);
    control(&passed, 0);
    let model = fake.model();
    assert!(model.routes.iter().all(Option::is_none));
    assert!(model.vectors.is_empty() && model.intx.is_some());
    let config = |stored: &&(Region, u64, Vec<u8>)| stored.0 != Region::Bar(0);
    assert_eq!(model.stored.iter().filter(config).count(), 0);
    assert!(model.stored.is_empty());
}

/// Promise: what interrupts while its vector is masked is pending, and not lost.
#[test]
fn masked_vectors_become_pending() {
    let (fake, _, passed) = passed(true);
    place(&passed);
    control(&passed, ENABLE);
    entry(&passed, 1, 0x2800_0000, 7, true);
    fake.model().vectors[1].write(1).unwrap();
    let mut bits = [0xff; 8];
    assert!(passed.read_memory(0x4000_9800, &mut bits));
    assert_eq!(bits, [2, 0, 0, 0, 0, 0, 0, 0]);
    passed.write_memory(0x4000_9800, &[0xff; 8]);
    // The event is still written when KVM gets it, which counts that.
    entry(&passed, 1, 0x2800_0000, 7, false);
    assert_eq!(fake.attached(), [(0x2800_0000, 7)]);
    assert_eq!(fake.model().vectors[1].read().ok(), Some(1));
    // What was pending when MSI-X ends does not interrupt later.
    entry(&passed, 1, 0x2800_0000, 7, true);
    fake.model().vectors[1].write(1).unwrap();
    control(&passed, 0);
    control(&passed, ENABLE);
    assert!(passed.read_memory(0x4000_9800, &mut bits));
    assert_eq!(bits, [0; 8]);
}

/// Promise: a reset by the guest leaves nothing of what it has set up.
#[test]
fn a_function_level_reset_forgets_everything() {
    let (fake, _, passed) = passed(true);
    place(&passed);
    control(&passed, ENABLE);
    entry(&passed, 0, 0x2800_0000, 7, false);
    passed.write_config(EXPRESS + 8, &0x8000_u16.to_le_bytes());
    assert_eq!(word(&passed, 0x10), 0xc);
    assert_eq!(word(&passed, 4) & 0xffff, 0);
    assert_eq!(word(&passed, MSIX) >> 16, 2);
    let model = fake.model();
    assert!(model.mapped.is_empty() && model.vectors.is_empty() && model.intx.is_some());
    let reset = (Region::Config, EXPRESS as u64 + 8, vec![0, 0x80]);
    assert!(model.stored.contains(&reset), "the device resets itself");
}

/// Promise: no access of any width, place or value panics, changes links between capabilities, or
/// lets the device see the guest's BARs.
#[test]
fn hostile_accesses_stay_inside() {
    let (fake, _, passed) = passed(true);
    let mut random = 0x1234_5678_9abc_def0_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let first = capabilities(&passed);
    for _ in 0..20_000 {
        let (at, value) = (next(), next().to_le_bytes());
        let data = &value[..1 << (next() % 4)];
        match next() % 4 {
            // Places that matter come more often.
            0 => passed.write_config(
                [0, 4, 0x10, 0x34, 0x3c, MSIX, EXPRESS + 6][at as usize % 7],
                data,
            ),
            1 => passed.write_config(at as usize % 4100, data),
            2 => drop(passed.write_memory(0x4000_0000 + at % 0x1_0000, data)),
            _ => {
                place(&passed);
                let mut data = [0; 8];
                passed.read_config(at as usize % 4100, &mut data);
                passed.read_memory(0x4000_0000 + at % 0x1_0000, &mut data);
                passed.write_memory(0x4000_9000 + at % 0x50, &value);
            }
        }
    }
    assert_eq!(capabilities(&passed), first);
    assert_eq!(word(&passed, 0), 0x1041_1af4);
    let model = fake.model();
    let bars = model.stored.iter().filter(|(region, at, data)| {
        let end = at + data.len() as u64;
        *region == Region::Config && *at < 0x28 && end > 0x10
    });
    assert_eq!(bars.count(), 0);
}

/// Promise: a list of capabilities without an end, as of a broken device, ends.
#[test]
fn circles_of_capabilities_end() {
    let fake = Fake::default();
    let mut space = physical();
    space[EXPRESS + 1] = 0x40;
    space[0x180..0x184].copy_from_slice(&0x1001_0003_u32.to_le_bytes());
    fake.model().space = space;
    let device: Arc<dyn Device> = Arc::new(fake.clone());
    let ways = Ways {
        intx: None,
        messages: Some(Arc::new(fake)),
        windows: Windows::virt(0x9000_0000),
    };
    assert!(Passed::new(device, ways).is_ok());
}

#[test]
fn what_cannot_be_passed_is_refused_with_a_reason() {
    let refused = |change: &dyn Fn(&mut Vec<u8>), messages: bool| {
        let fake = Fake::default();
        let mut space = physical();
        change(&mut space);
        fake.model().space = space;
        let ways = Ways {
            intx: None,
            messages: messages.then(|| Arc::new(fake.clone()) as _),
            windows: Windows::virt(0x9000_0000),
        };
        Passed::new(Arc::new(fake), ways).err().unwrap().to_string()
    };
    assert!(refused(&|space| space[0x0e] = 1, true).contains("bridge"));
    assert!(refused(&|_| {}, false).contains("interrupt"));
}

/// Promise: a guest is offered MSI-X only if the host can have it, and INTx else.
#[test]
fn hosts_without_messages_pass_intx() {
    let fake = Fake::default();
    fake.model().space = physical();
    fake.model().no_msix = true;
    let device: Arc<dyn Device> = Arc::new(fake.clone());
    let ways = Ways {
        intx: Some(
            Pin::connect(Arc::new(Intx(device.clone())), 29, &*plic::unconnected()).unwrap(),
        ),
        messages: Some(Arc::new(fake.clone())),
        windows: Windows::virt(0x9000_0000),
    };
    let passed = Passed::new(device, ways).unwrap();
    assert_eq!(capabilities(&passed), [0x01, 0x10]);
    assert!(fake.model().intx.is_some());
}

/// Promise: a level goes up with the device's and down with the completion, which lets VFIO look at
/// the device again.
#[test]
fn intx_is_relayed_and_unmasked_by_completion() {
    use crate::irqchip::plic::controller::Controller;
    use crate::irqchip::plic::shared::SharedPlic;
    let plic = Arc::new(SharedPlic::new(95, vec![Box::new(NoLine) as _]));
    plic.store(4 * 29, 4, 1);
    plic.store(0x2000, 4, 1 << 29);
    let (fake, intx, passed) = passed_by(true, &Controller::new(plic.clone()));
    let (_, asserted) = intx.watch().unwrap();
    let trigger = || fake.model().intx.as_ref().unwrap().write(1).unwrap();
    for times in [1, 2] {
        trigger();
        asserted();
        assert_eq!(plic.load(0x20_0004, 4), 29);
        plic.store(0x20_0004, 4, 29);
        assert_eq!(fake.model().unmasked, times);
        assert_eq!(plic.load(0x20_0004, 4), 0);
    }
    // An interrupt that was under way when the driver chose messages is gone.
    let late = fake.model().intx.as_ref().unwrap().try_clone().unwrap();
    late.write(1).unwrap();
    control(&passed, ENABLE);
    asserted();
    assert_eq!(plic.load(0x20_0004, 4), 0);
}

struct NoLine;

impl crate::irqchip::plic::shared::ExternalLine for NoLine {
    fn set(&self, _: bool) {}
}

/// Promise: where nothing tells of completions, a device that keeps its pin asserted gets another
/// edge after a while, and VFIO is told when it does not any more.
#[test]
fn without_completions_the_device_is_looked_at() {
    let controller = crate::irqchip::aia::tests::controller(255);
    let (fake, intx, _passed) = passed_by(true, &controller);
    assert_eq!(intx.due_in(), None);
    fake.model().space[6] |= 1 << 3;
    fake.model().intx.as_ref().unwrap().write(1).unwrap();
    let edges = || controller.injections().ioctl;
    let before = edges();
    (intx.watch().unwrap().1)();
    let after = edges() - before;
    assert!(after > 0 && intx.due_in().is_some());
    intx.poll();
    assert_eq!(edges() - before, 2 * after);
    assert_eq!(fake.model().unmasked, 0);
    fake.model().space[6] &= !(1 << 3);
    intx.poll();
    assert_eq!((edges() - before, fake.model().unmasked), (2 * after, 1));
    assert_eq!(intx.due_in(), None);
}

/// A platform device with two regions and a wire.
#[derive(Default)]
struct Platform {
    /// The second region shares a page.
    part: bool,
    edge: bool,
    relayed: bool,
    mapped: Mutex<Vec<(u32, u64)>>,
    wire: Arc<PlatformWire>,
}

#[derive(Default)]
struct PlatformWire {
    trigger: Mutex<Option<EventFd>>,
    unmasked: AtomicUsize,
}

impl PlatformWire {
    fn assert(&self) {
        self.trigger
            .lock()
            .unwrap()
            .as_ref()
            .unwrap()
            .write(1)
            .unwrap();
    }
}

impl Level for PlatformWire {
    fn enable(&self, trigger: &EventFd, _: Option<&EventFd>) -> io::Result<()> {
        *self.trigger.lock().unwrap() = Some(trigger.try_clone()?);
        Ok(())
    }

    fn unmask(&self) {
        self.unmasked.fetch_add(1, Ordering::Relaxed);
    }

    fn disable(&self) {
        *self.trigger.lock().unwrap() = None;
    }
}

impl platform::Platform for Platform {
    fn name(&self) -> &str {
        "10009000.virtio_mmio"
    }

    fn compatible(&self) -> Vec<String> {
        vec!["virtio,mmio".into()]
    }

    fn regions(&self) -> Vec<(u64, bool)> {
        vec![(0x1000, true), (0x3000, !self.part)]
    }

    fn map(&self, region: u32, guest: u64) -> io::Result<Box<dyn Any + Send>> {
        self.mapped.lock().unwrap().push((region, guest));
        Ok(Box::new(()))
    }

    fn interrupts(self: Arc<Self>) -> Vec<Option<Arc<dyn Level>>> {
        vec![(!self.edge).then(|| self.wire.clone() as _)]
    }

    fn is_relayed(&self) -> bool {
        self.relayed
    }
}

/// Promise: registers of platform devices are where the guest's device tree says, aligned and
/// without overlap, and a wire that the host relays is unmasked by the guest's completion.
#[test]
fn platform_devices_have_registers_and_a_wire() {
    let plic = plic::shared::SharedPlic::new(64, vec![Box::new(NoLine)]);
    let plic = Arc::new(plic);
    let controller = plic::controller::Controller::new(plic.clone());
    let mut places = Places::default();
    let (first, second) = (Arc::new(Platform::default()), Arc::new(Platform::default()));
    let passed = [&first, &second]
        .map(|device| platform::Passed::new(device, &mut places, &controller).unwrap());
    let regions = passed.each_ref().map(|passed| passed.node.regions.clone());
    assert_eq!(regions[0], [(0x1100_0000, 0x1000), (0x1100_4000, 0x3000)]);
    assert_eq!(regions[1], [(0x1100_8000, 0x1000), (0x1100_c000, 0x3000)]);
    let mapped = second.mapped.lock().unwrap().clone();
    assert_eq!(mapped, [(0, 0x1100_8000), (1, 0x1100_c000)]);
    assert_eq!(passed[1].node.name, "virtio_mmio");
    assert_eq!(passed[1].node.interrupts, [(13, Kind::Resample)]);
    plic.store(13 * 4, 4, 1);
    plic.store(0x2000, 4, 1 << 13);
    let pin = passed[1].relayed().next().unwrap();
    let (_, asserted) = pin.watch().unwrap();
    second.wire.assert();
    asserted();
    assert_eq!(plic.load(0x20_0004, 4), 13);
    plic.store(0x20_0004, 4, 13);
    assert_eq!(second.wire.unmasked.load(Ordering::Relaxed), 1);
    drop(passed);
    assert!(second.wire.trigger.lock().unwrap().is_none());
}

/// Promise: where nothing tells of completions the wire is unmasked after a while.
#[test]
fn wires_without_completions_are_unmasked_after_a_while() {
    let controller = crate::irqchip::aia::tests::controller(255);
    let device = Arc::new(Platform::default());
    let passed = platform::Passed::new(&device, &mut Places::default(), &controller).unwrap();
    assert_eq!(passed.node.interrupts, [(12, Kind::Edge)]);
    let pin = passed.relayed().next().unwrap();
    device.wire.assert();
    (pin.watch().unwrap().1)();
    assert!(pin.due_in().is_some());
    pin.poll();
    assert_eq!(device.wire.unmasked.load(Ordering::Relaxed), 1);
    assert_eq!(pin.due_in(), None);
}

/// Promise: what cannot be passed is refused with the reason.
#[test]
fn platform_devices_that_cannot_be_passed_are_refused() {
    let refused = |device: Platform| {
        let mut places = Places::default();
        let device = Arc::new(device);
        let passed = platform::Passed::new(&device, &mut places, &*plic::unconnected());
        passed.err().map(|e| e.to_string()).unwrap_or_default()
    };
    let part = Platform {
        part: true,
        ..Platform::default()
    };
    assert!(refused(part).contains("share a page"));
    let edge = Platform {
        edge: true,
        ..Platform::default()
    };
    assert!(refused(edge).contains("edge-triggered"));
}

/// A controller whose hardware drives every source.
struct Driven;

impl InterruptController for Driven {
    fn features(&self) -> crate::irqchip::controller::Features {
        plic::unconnected().features()
    }

    fn connect(
        &self,
        _: u32,
        _: Kind,
        _: Option<crate::irqchip::options::Injection>,
    ) -> crate::error::Result<Box<dyn crate::irqchip::wire::Wire>> {
        plic::unconnected().connect(1, Kind::Resample, None)
    }

    fn drive_by(&self, _: u32, _: &EventFd) -> io::Result<bool> {
        Ok(true)
    }

    fn fdt(&self, _: &mut vm_fdt::FdtWriter, _: &[u32]) -> Result<(), vm_fdt::Error> {
        Ok(())
    }

    fn save(&self, _: &mut trapless_devices::StateWriter) -> io::Result<()> {
        Ok(())
    }

    fn restore(&self, _: &mut trapless_devices::StateReader<'_>) -> Result<(), String> {
        Ok(())
    }

    fn injections(&self) -> crate::irqchip::injections::Injections {
        Default::default()
    }
}

/// Promise: a wire that hardware can drive is not relayed, unless the user says so.
#[test]
fn hardware_drives_wires_unless_they_are_to_be_relayed() {
    for relayed in [false, true] {
        let device = Arc::new(Platform {
            relayed,
            ..Platform::default()
        });
        let passed = platform::Passed::new(&device, &mut Places::default(), &Driven).unwrap();
        assert_eq!(passed.relayed().count(), usize::from(relayed));
        assert!(device.wire.trigger.lock().unwrap().is_some());
    }
}
