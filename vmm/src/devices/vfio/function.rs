//! A passed device as a function of the guest's root complex.

use crate::devices::pci::function::Function;
use crate::devices::vfio::device::{Device, Region};
use crate::devices::vfio::msix::{self, Msix, Place};
use crate::devices::vfio::pin::Pin;
use crate::devices::vfio::space::{Bar, Space, register};
use crate::error::{Error, Result};
use crate::irqchip::messages::Messages;
use std::any::Any;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trapless_isa::page::PAGE_SIZE;
use trapless_pci::Windows;
use vmm_sys_util::eventfd::EventFd;

/// A BAR where the guest has put it.
struct Placed {
    bar: Bar,
    address: u64,
    /// Parts that the guest accesses without exits.
    _mapped: Vec<Box<dyn Any + Send>>,
}

struct State {
    space: Space,
    msix: Option<Msix>,
    placed: Vec<Placed>,
}

/// The function.
pub struct Passed {
    device: Arc<dyn Device>,
    intx: Option<Arc<Pin>>,
    windows: Windows,
    state: Mutex<State>,
}

/// How a function reaches the guest.
pub struct Ways {
    /// Its pin, if it has one.
    pub intx: Option<Arc<Pin>>,
    /// Where messages go, if the guest has a controller of messages.
    pub messages: Option<Arc<dyn Messages>>,
    /// Where BARs may be.
    pub windows: Windows,
}

impl Passed {
    /// Passes `device`, after a reset.
    ///
    /// # Errors
    /// [`Error::User`] if it cannot be passed, [`Error::Failed`] if the system refuses something.
    pub fn new(device: Arc<dyn Device>, ways: Ways) -> Result<Self> {
        device.reset();
        let refuse = |why: &str| Error::user(format!("--vfio {}: the device {why}", device.name()));
        let events = |e| Error::failed("cannot create the events of MSI-X", e);
        let messages = match ways.messages {
            Some(messages) if sends_messages(&*device).map_err(events)? => Some(messages),
            _ => None,
        };
        let pin = ways.intx.is_some();
        let space = Space::new(&*device, pin, messages.is_some()).map_err(refuse)?;
        let msix = match (space.msix(), messages) {
            (Some(place), Some(messages)) => {
                let msix = Msix::new(place.clone(), Arc::clone(&device), messages);
                Some(msix.map_err(events)?)
            }
            _ => None,
        };
        if msix.is_none() && !pin {
            return Err(refuse(
                "has no interrupts for this guest: no INTx, and MSI-X needs more than a PLIC, in the host and in the guest",
            ));
        }
        let passed = Self {
            intx: ways.intx,
            windows: ways.windows,
            state: Mutex::new(State {
                space,
                msix,
                placed: Vec::new(),
            }),
            device,
        };
        passed.set_command(0);
        let enabled = passed.intx.as_ref().map_or(Ok(()), |intx| intx.enable());
        match enabled {
            // The host may have no wire for it, and the guest's driver no need.
            Err(e) if passed.state().msix.is_none() => Err(Error::failed("VFIO refuses INTx", e)),
            _ => Ok(passed),
        }
    }

    /// A poisoned mutex still holds a device: a call that ended early has at worst left BARs
    /// unmapped.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_command(&self, command: u16) {
        let at = register::COMMAND as u64;
        self.device
            .write(Region::Config, at, &command.to_le_bytes());
    }

    /// Maps BARs where the guest wants them. Those outside of the windows do not answer: nothing
    /// else of the guest can be hidden by them.
    fn place(&self, state: &mut State) {
        let wanted: Vec<(Bar, u64)> = match state.space.decodes(&*self.device) {
            true => state
                .space
                .bars()
                .filter(|at| self.in_window(*at))
                .collect(),
            false => Vec::new(),
        };
        let stays = |placed: &Placed| wanted.contains(&(placed.bar, placed.address));
        // First what goes, so that others find their place free.
        state.placed.retain(stays);
        for (bar, address) in wanted {
            if !state.placed.iter().any(|placed| placed.bar == bar) {
                let mapped = self.map(bar, address, state.space.msix());
                state.placed.push(Placed {
                    bar,
                    address,
                    _mapped: mapped,
                });
            }
        }
    }

    fn in_window(&self, (bar, address): (Bar, u64)) -> bool {
        let windows = [&self.windows.low, &self.windows.high];
        windows.into_iter().any(|window| {
            let room = window.end.checked_sub(address);
            window.start <= address && room.is_some_and(|room| bar.size <= room)
        })
    }

    /// Maps what can be mapped, but for the table of MSI-X, which is VFIO's or [`Msix`]'s; what
    /// cannot, because something else is there, is reached by exits.
    fn map(&self, bar: Bar, address: u64, msix: Option<&Place>) -> Vec<Box<dyn Any + Send>> {
        let mut parts = self.device.mappable(bar.index);
        if let Some(msix) = msix {
            for (of, bytes) in [&msix.table, &msix.pending] {
                if *of == bar.index {
                    parts = parts.into_iter().flat_map(|p| without(p, bytes)).collect();
                }
            }
        }
        let map = |part: Range<u64>| {
            let guest = address + part.start;
            self.device.map(bar.index, part, guest).ok()
        };
        parts.into_iter().filter_map(map).collect()
    }

    /// Function level reset by the guest: what VFIO does not reset of it.
    fn forget(&self, state: &mut State) {
        state.placed.clear();
        if let Some(msix) = &mut state.msix {
            let by_messages = msix.enabled();
            msix.reset();
            if by_messages {
                self.enable_intx();
            }
        }
        state.space.reset();
    }

    fn enable_intx(&self) {
        if let Some(Err(e)) = self.intx.as_ref().map(|intx| intx.enable()) {
            let name = self.device.name();
            eprintln!("trapless-vmm: {name} cannot interrupt by INTx any more: {e}");
        }
    }

    /// Follows message control. VFIO has one kind of interrupts at a time.
    fn follow_msix(&self, state: &mut State) {
        let (Some(table), Some(control)) = (&mut state.msix, state.space.msix_control()) else {
            return;
        };
        let before = table.enabled();
        let after = control & msix::ENABLE != 0;
        if let (false, true, Some(intx)) = (before, after, &self.intx) {
            intx.disable();
        }
        table.control(control);
        if before && !after {
            self.enable_intx();
        }
    }
}

impl State {
    /// The BAR that has `len` bytes at a bus address, and the offset in it.
    fn at(&self, address: u64, len: usize) -> Option<(u8, u64)> {
        self.placed.iter().find_map(|placed| {
            let offset = address.checked_sub(placed.address)?;
            let end = offset.checked_add(len as u64)?;
            (end <= placed.bar.size).then_some((placed.bar.index, offset))
        })
    }
}

impl Function for Passed {
    fn read_config(&self, offset: usize, data: &mut [u8]) {
        self.state().space.read(&*self.device, offset, data);
    }

    fn write_config(&self, offset: usize, data: &[u8]) {
        let mut state = self.state();
        let state = &mut *state;
        let resets = state.space.resets(offset, data);
        if resets {
            self.forget(state);
        }
        // VFIO takes mappings away then, and a guest that accessed them would end.
        if state.space.ends_decoding(offset, data) {
            state.placed.clear();
        }
        for (at, data) in state.space.write(offset, data) {
            self.device.write(Region::Config, at as u64, data);
        }
        if resets {
            state.space.reset();
            self.set_command(0);
        }
        self.follow_msix(state);
        self.place(state);
    }

    fn read_memory(&self, address: u64, data: &mut [u8]) -> bool {
        let state = self.state();
        let Some((bar, offset)) = state.at(address, data.len()) else {
            return false;
        };
        let msix = state.msix.as_ref();
        if !msix.is_some_and(|msix| msix.read(bar, offset, data)) {
            self.device.read(Region::Bar(bar), offset, data);
        }
        true
    }

    fn write_memory(&self, address: u64, data: &[u8]) -> bool {
        let mut state = self.state();
        let Some((bar, offset)) = state.at(address, data.len()) else {
            return false;
        };
        let msix = state.msix.as_mut();
        if !msix.is_some_and(|msix| msix.write(bar, offset, data)) {
            self.device.write(Region::Bar(bar), offset, data);
        }
        true
    }
}

impl Drop for Passed {
    fn drop(&mut self) {
        self.forget(&mut self.state());
        if let Some(intx) = &self.intx {
            intx.disable();
        }
        self.set_command(0);
    }
}

/// Whether the host lets the device interrupt by MSI-X: it may have nothing that takes messages.
fn sends_messages(device: &dyn Device) -> io::Result<bool> {
    let event = EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)?;
    let sends = device.enable_msix(&[&event]).is_ok();
    if sends {
        device.disable_msix();
    }
    Ok(sends)
}

/// What is left of `part` without the pages that hold `bytes`.
fn without(part: Range<u64>, bytes: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let start = bytes.start / PAGE_SIZE * PAGE_SIZE;
    let end = bytes.end.next_multiple_of(PAGE_SIZE);
    let before = part.start..part.end.min(start);
    let behind = part.start.max(end)..part.end;
    [before, behind].into_iter().filter(|part| !part.is_empty())
}
