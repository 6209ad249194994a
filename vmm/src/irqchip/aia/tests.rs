//! AIA against a model of KVM.

use crate::irqchip::aia::controller::Controller;
use crate::irqchip::aia::device::Aia;
use crate::irqchip::aia::line::Line;
use crate::irqchip::aia::messages::{AplicMessages, ROUTES};
use crate::irqchip::aia::port::Port;
use crate::irqchip::aia::registers::hart_bits;
use crate::irqchip::aia::registers::{aplic, imsic};
use crate::irqchip::aia::routes::Routes;
use crate::irqchip::aia::uapi;
use crate::irqchip::messages::{Message, Messages as _};
use crate::irqchip::wire::{Kind, Wire};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use trapless_devices::{IrqLine, StateReader, StateWriter};
use vmm_sys_util::eventfd::EventFd;

/// KVM's AIA as far as attributes and level-triggered wires go.
#[derive(Default)]
struct Model {
    attributes: BTreeMap<(u32, u64), u64>,
    calls: Vec<(u32, bool)>,
    routes: Vec<Option<Message>>,
    /// Events by GSI.
    attached: BTreeMap<u32, EventFd>,
    signalled: Vec<(u64, u32)>,
}

#[derive(Clone, Default)]
struct Probe(Arc<Mutex<Model>>);

impl Port for Probe {
    fn irq_line(&self, source: u32, high: bool) -> io::Result<()> {
        let model = &mut *self.0.lock().unwrap();
        model.calls.push((source, high));
        let at = (uapi::GRP_APLIC, aplic::SETIP + u64::from(source / 32) * 4);
        if high {
            *model.attributes.entry(at).or_default() |= 1 << (source % 32);
        }
        Ok(())
    }

    fn set_routes(&self, messages: &[Option<Message>]) -> io::Result<()> {
        self.0.lock().unwrap().routes = messages.to_vec();
        Ok(())
    }

    fn attach(&self, gsi: u32, event: &EventFd) -> io::Result<()> {
        let model = &mut *self.0.lock().unwrap();
        assert!(
            model.routes[gsi as usize].is_some(),
            "GSI {gsi} has no route"
        );
        assert!(model.attached.insert(gsi, event.try_clone()?).is_none());
        Ok(())
    }

    fn detach(&self, gsi: u32, _: &EventFd) -> io::Result<()> {
        let model = &mut *self.0.lock().unwrap();
        assert!(model.attached.remove(&gsi).is_some());
        Ok(())
    }

    fn signal(&self, address: u64, data: u32) -> io::Result<()> {
        self.0.lock().unwrap().signalled.push((address, data));
        Ok(())
    }

    fn set(&self, group: u32, attribute: u64, value: u64) -> io::Result<()> {
        let model = &mut *self.0.lock().unwrap();
        let (target, clears) = match (group, attribute & 0xff00) {
            (uapi::GRP_APLIC, aplic::IN_CLRIP) => {
                (attribute - aplic::IN_CLRIP + aplic::SETIP, true)
            }
            (uapi::GRP_APLIC, aplic::CLRIE) => (attribute - aplic::CLRIE + aplic::SETIE, true),
            _ => (attribute, false),
        };
        let entry = model.attributes.entry((group, target)).or_default();
        match (group, target & 0xff00) {
            _ if clears => *entry &= !value,
            (uapi::GRP_APLIC, aplic::SETIP | aplic::SETIE) => *entry |= value,
            _ => *entry = value,
        }
        Ok(())
    }

    fn get(&self, group: u32, attribute: u64) -> io::Result<u64> {
        let model = self.0.lock().unwrap();
        Ok(model
            .attributes
            .get(&(group, attribute))
            .copied()
            .unwrap_or(0))
    }
}

fn aia() -> (Arc<Aia>, Probe) {
    let probe = Probe::default();
    (
        Arc::new(Aia::new(Arc::new(probe.clone()), 2, 255, false)),
        probe,
    )
}

#[test]
fn only_changes_of_a_level_reach_kvm_and_a_pulse_ends_low() {
    let (aia, probe) = aia();
    let level = Line::new(&aia, 3, Kind::Level);
    for high in [true, true, false, false] {
        level.set(high);
    }
    Line::new(&aia, 4, Kind::Edge).pulse();
    let calls = &probe.0.lock().unwrap().calls;
    assert_eq!(*calls, [(3, true), (3, false), (4, true), (4, false)]);
}

#[test]
fn a_restored_aia_is_as_it_was_saved_whatever_wires_did_meanwhile() {
    let (aia, probe) = aia();
    let registers = [
        (uapi::GRP_APLIC, aplic::SOURCECFG + 8, 6),
        (uapi::GRP_APLIC, aplic::TARGET + 8, 1 << 18 | 7),
        (uapi::GRP_APLIC, aplic::SETIP + 4, 1 << 5),
        (uapi::GRP_APLIC, aplic::SETIE, 1 << 3),
        (uapi::GRP_APLIC, aplic::DOMAINCFG, 0x8000_0104),
        (uapi::GRP_IMSIC, (1 << 12) + imsic::EIE + 6, 1 << 63),
        (uapi::GRP_IMSIC, imsic::EIP, 2),
        (uapi::GRP_IMSIC, imsic::EIDELIVERY, 1),
    ];
    for (group, register, value) in registers {
        aia.port.set(group, register, value).unwrap();
    }
    let mut writer = StateWriter::default();
    aia.save(&mut writer).unwrap();
    let bytes = writer.into_bytes();

    let (again, other) = self::aia();
    Line::new(&again, 3, Kind::Level).set(true);
    let mut reader = StateReader::new(&bytes);
    again.restore(&mut reader).unwrap();
    reader.end().unwrap();
    let nonzero = |probe: &Probe| {
        let mut attributes = probe.0.lock().unwrap().attributes.clone();
        attributes.retain(|_, value| *value != 0);
        attributes
    };
    assert_eq!(nonzero(&other), nonzero(&probe));

    let fewer = Aia::new(Arc::new(Probe::default()), 2, 63, false);
    let error = fewer.restore(&mut StateReader::new(&bytes)).unwrap_err();
    assert!(error.contains("255 identities"), "{error}");
}

#[test]
fn each_message_has_a_route_until_a_guest_wants_too_many() {
    let probe = Probe::default();
    let port = Arc::new(probe.clone());
    let routes = Arc::new(Routes::new(port.clone()));
    let messages = AplicMessages::new(port, routes.clone(), 8, Arc::default());
    // Of a PCI function, which does not count.
    let message = |address, data| Message { address, data };
    let other = routes.add(message(0x2800_0000, 1)).unwrap();
    for (hart, identity) in [(0, 9), (1, 9), (0, 9), (8, 9), (0, 0)] {
        messages.send(hart, identity);
    }
    {
        let model = probe.0.lock().unwrap();
        let expected = [(0x2800_0000, 1), (0x2800_0000, 9), (0x2800_1000, 9)];
        assert_eq!(
            model.routes,
            expected.map(|(at, data)| Some(message(at, data)))
        );
        let written = |gsi| model.attached[&gsi].read().ok();
        let written = [written(1), written(2)];
        assert_eq!(written, [Some(2), Some(1)], "nothing without a target");
        assert_eq!(model.attached.len(), 2);
    }
    for identity in 1..=2 * ROUTES as u32 {
        messages.send(2, identity);
    }
    {
        let model = probe.0.lock().unwrap();
        assert_eq!(model.attached.len(), ROUTES);
        assert_eq!(model.signalled.len(), ROUTES + 2);
        let last = (0x2800_2000, 2 * ROUTES as u32);
        assert_eq!(model.signalled.last(), Some(&last));
    }
    routes.remove(other);
    assert_eq!(routes.add(message(0x2800_0000, 2)).unwrap(), other);
}

#[test]
fn hart_index_has_as_many_bits_as_the_last_vcpu_needs() {
    assert_eq!([1, 2, 3, 4, 5, 512].map(hart_bits), [0, 1, 2, 2, 3, 9]);
}

/// A controller without KVM whose files have `ids` identities, for tests of what uses one.
pub(crate) fn controller(ids: u32) -> Controller {
    let port = Arc::new(Probe::default());
    Controller::new(Arc::new(Aia::new(port, 2, ids, false)))
}
