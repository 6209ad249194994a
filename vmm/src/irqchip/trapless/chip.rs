//! The controller of one guest: its sources, and the ways of injection.

use crate::irqchip::injections::{Counters, count};
use crate::irqchip::options::Injection;
use crate::irqchip::trapless::port::Port;
use crate::irqchip::trapless::source::{MESSAGES, Op, SOURCES, entry};
use crate::irqchip::trapless::uapi;
use crate::irqchip::wire::Kind;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use vmm_sys_util::eventfd::EventFd;

/// Errors of KVM by which a wire cannot drive a source.
const CANNOT: [i32; 2] = [libc::EOPNOTSUPP, libc::ENXIO];

#[derive(Clone, Copy, Debug)]
pub(super) struct Configured {
    pub(super) kind: Kind,
    pub(super) way: Injection,
}

pub(super) struct Source {
    configured: OnceLock<Configured>,
    /// The level that the device drives.
    pub(super) level: AtomicBool,
    /// Callback of its device when the guest has completed it. Without one, the level that the
    /// device drives is asserted again.
    pub(super) on_completion: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// The controller of one guest.
pub struct Chip {
    pub(super) port: Box<dyn Port>,
    pub(super) vharts: u16,
    /// By number; entry 0 is not used.
    sources: Vec<Source>,
    /// While set, lines record their level but do not inject: the controller is being restored.
    pub(super) quiet: AtomicBool,
    /// Counts since the guest's start.
    pub counters: Counters,
}

impl Chip {
    /// A controller for `vharts` vCPUs without any source; with those for messages, as soon as the
    /// guest uses them, if there are `messages`.
    pub fn new(port: Box<dyn Port>, vharts: u16, messages: bool) -> Self {
        let source = || Source {
            configured: OnceLock::new(),
            level: AtomicBool::new(false),
            on_completion: OnceLock::new(),
        };
        Self {
            port,
            vharts,
            sources: (0..=highest(messages)).map(|_| source()).collect(),
            quiet: AtomicBool::new(false),
            counters: Counters::default(),
        }
    }

    /// Highest source that there can be.
    pub fn highest(&self) -> u16 {
        (self.sources.len() - 1) as u16
    }

    /// Whether there are sources for messages.
    pub fn has_messages(&self) -> bool {
        self.highest() == highest(true)
    }

    /// Makes a source one for messages, if it is in their range.
    ///
    /// # Errors
    /// If it is not, or the error that KVM returned.
    pub(super) fn add_message(&self, number: u16) -> io::Result<()> {
        if !self.has_messages() || !MESSAGES.contains(&number) {
            return Err(io::Error::other("there is no such source for messages"));
        }
        let source = &self.sources[usize::from(number)];
        let configured = Configured {
            kind: Kind::Edge,
            way: Injection::Irqfd,
        };
        match source.configured.set(configured) {
            Ok(()) => self
                .port
                .set(uapi::GRP_SOURCE, number.into(), entry(Kind::Edge, 0)),
            // It is one already.
            Err(_) => Ok(()),
        }
    }

    pub(super) fn source(&self, number: u16) -> Option<(&Source, Configured)> {
        let source = self.sources.get(usize::from(number))?;
        Some((source, *source.configured.get()?))
    }

    /// Adds a source, routed to vhart 0.
    ///
    /// # Errors
    /// The error that KVM returned.
    ///
    /// # Panics
    /// If the number is not in 1..=[`SOURCES`] or taken: the numbers are fixed, so this is a bug of
    /// the VMM.
    pub fn add(&self, number: u16, kind: Kind, way: Injection) -> io::Result<()> {
        self.configure(number, kind, way)?;
        // Resample notifications need an irqfd even if it is never written.
        if way == Injection::Irqfd || kind == Kind::Resample {
            self.port.add_irqfd(number, kind == Kind::Resample)?;
        }
        Ok(())
    }

    fn configure(&self, number: u16, kind: Kind, way: Injection) -> io::Result<()> {
        assert!((1..=SOURCES).contains(&number), "source {number}");
        let configured = Configured { kind, way };
        let fresh = self.sources[usize::from(number)].configured.set(configured);
        assert!(fresh.is_ok(), "source {number} is taken");
        self.port
            .set(uapi::GRP_SOURCE, number.into(), entry(kind, 0))
    }

    /// Adds a source of [`Kind::Resample`] that others than this process assert, by writing
    /// `trigger`, and whose completions they hear of by `resample`.
    ///
    /// # Errors
    /// The error that KVM returned.
    ///
    /// # Panics
    /// As [`Chip::add`].
    pub fn resample_by(
        &self,
        number: u16,
        trigger: &EventFd,
        resample: &EventFd,
    ) -> io::Result<()> {
        self.configure(number, Kind::Resample, Injection::Irqfd)?;
        self.port.lend_resampled(number, trigger, resample)
    }

    /// Adds a source of [`Kind::Level`] that the host's hardware drives, instead of VFIO's writes
    /// to `trigger`; `false`, and no source, if it cannot.
    ///
    /// # Errors
    /// The error that KVM returned for the source.
    ///
    /// # Panics
    /// As [`Chip::add`].
    pub fn drive_by(&self, number: u16, trigger: &EventFd) -> io::Result<bool> {
        let attribute = number.into();
        self.port
            .set(uapi::GRP_SOURCE, attribute, entry(Kind::Level, 0))?;
        let wire = trigger.as_raw_fd() as u64;
        match self.port.set(uapi::GRP_WIRE, attribute, wire) {
            Ok(()) => self
                .configure(number, Kind::Level, Injection::Irqfd)
                .map(|()| true),
            // The host cannot, or KVM knows nothing of it.
            Err(e) if CANNOT.contains(&e.raw_os_error().unwrap_or(libc::EOPNOTSUPP)) => {
                self.port.set(uapi::GRP_SOURCE, attribute, 0)?;
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    /// Numbers of all sources there are.
    pub fn numbers(&self) -> impl Iterator<Item = u16> + '_ {
        (1..=self.highest()).filter(|&number| self.source(number).is_some())
    }

    /// Kind of a source, if there is one.
    pub fn kind(&self, number: u16) -> Option<Kind> {
        self.source(number).map(|(_, configured)| configured.kind)
    }

    /// Routes a source to a vhart; `false` if there is no such source or vhart, or KVM refuses.
    pub fn route(&self, source: u64, vhart: u64) -> bool {
        let number = u16::try_from(source).unwrap_or(0);
        // A driver may route the source of a message before the message is anywhere.
        let _ = self.add_message(number);
        let (Some((_, configured)), Ok(vhart)) = (self.source(number), u16::try_from(vhart)) else {
            return false;
        };
        let entry = entry(configured.kind, vhart);
        let done = vhart < self.vharts && self.port.set(uapi::GRP_SOURCE, source, entry).is_ok();
        if done {
            count(&self.counters.routed);
        }
        done
    }

    /// One operation by the source's way of injection, or by `KVM_IRQ_LINE` if the thread lacks a
    /// grant.
    pub(super) fn inject(&self, number: u16, way: Injection, op: Op) {
        let done = match (way, op) {
            // An irqfd only raises; completion lowers the line.
            (Injection::Irqfd, Op::Deassert) => Ok(()),
            (Injection::Irqfd, _) => {
                count(&self.counters.irqfd);
                self.port.write_irqfd(number)
            }
            (Injection::Ugenvsei, _) if self.port.granted() => {
                count(&self.counters.ugenvsei);
                self.port.ugenvsei(op.operand(number));
                Ok(())
            }
            (Injection::Ugenvsei | Injection::Ioctl, _) => {
                count(&self.counters.ioctl);
                self.port.irq_line(number, op != Op::Deassert)
            }
        };
        if done.is_err() {
            count(&self.counters.failed);
        }
    }

    /// Lets the calling thread inject without system calls until the result is dropped.
    pub fn grant(self: &Arc<Self>) -> Grant {
        if self.port.take_grant() {
            count(&self.counters.grants);
        }
        Grant {
            chip: Arc::clone(self),
            thread: PhantomData,
        }
    }

    /// Lets KVM interrupt by source `number` when `event` is written.
    ///
    /// # Errors
    /// The error that KVM returned.
    pub fn interrupt_by(&self, number: u16, event: &EventFd) -> io::Result<()> {
        self.port.lend_irqfd(number, event)
    }

    /// Descriptor to watch for a [`Kind::Resample`] source.
    pub fn resample_fd(&self, number: u16) -> Option<RawFd> {
        self.port.resample_fd(number)
    }

    /// Handles a readable descriptor of [`Chip::resample_fd`]: the guest has completed the source,
    /// which lowered its line.
    pub fn resampled(&self, number: u16) {
        if !self.port.take_resample(number) {
            return;
        }
        count(&self.counters.resampled);
        self.ask_device(number);
    }

    /// The line is low: raises it again if the device wants it high.
    pub(super) fn ask_device(&self, number: u16) {
        let Some((source, configured)) = self.source(number) else {
            return;
        };
        match source.on_completion.get() {
            Some(device) => device(),
            None if source.level.load(Ordering::SeqCst) => {
                self.inject(number, configured.way, Op::Assert);
            }
            None => {}
        }
    }
}

/// Highest source of a guest with or without sources for messages.
pub(super) fn highest(messages: bool) -> u16 {
    match messages {
        true => *MESSAGES.end(),
        false => SOURCES,
    }
}

/// A thread's right to execute `ugenvsei`. Not sent to other threads.
pub struct Grant {
    chip: Arc<Chip>,
    thread: PhantomData<*const ()>,
}

impl Drop for Grant {
    fn drop(&mut self) {
        let _ = self.thread;
        self.chip.port.return_grant();
    }
}
