//! A device of the host as VFIO gives it to this process, behind a trait: other modules run in
//! tests anywhere.

use std::any::Any;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use vmm_sys_util::eventfd::EventFd;

/// A device of the user's choice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// Its folder in sysfs.
    pub path: PathBuf,
    /// The host's kernel relays its interrupts, even if hardware could interrupt the guest.
    pub relay: bool,
}

/// Number of BARs.
pub const BARS: u8 = 6;

/// A part of the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Region {
    /// A BAR, by its number.
    Bar(u8),
    /// The configuration space.
    Config,
}

/// The device. Offsets and lengths come from the guest: any are allowed.
pub trait Device: Send + Sync {
    /// What the user calls it.
    fn name(&self) -> &str;

    /// Length of a region in bytes; 0 if there is none.
    fn len(&self, region: Region) -> u64;

    /// Loads from a region; what cannot be read is all ones.
    fn read(&self, region: Region, offset: u64, data: &mut [u8]);

    /// Stores to a region.
    fn write(&self, region: Region, offset: u64, data: &[u8]);

    /// Parts of a BAR that can be mapped, in whole pages.
    fn mappable(&self, bar: u8) -> Vec<Range<u64>>;

    /// Lets the guest access a part of a BAR, of what is [`mappable`](Self::mappable), at guest
    /// physical address `guest` without exits, until the result is dropped.
    ///
    /// # Errors
    /// The error that the system returned, for instance because something else is there.
    fn map(&self, bar: u8, part: Range<u64>, guest: u64) -> io::Result<Box<dyn Any + Send>>;

    /// Whether it has INTx.
    fn has_intx(&self) -> bool;

    /// Writes `trigger` when INTx is asserted, which masks it; a write of `resample`, if given,
    /// unmasks it.
    ///
    /// # Errors
    /// The error that the system returned.
    fn enable_intx(&self, trigger: &EventFd, resample: Option<&EventFd>) -> io::Result<()>;

    /// Unmasks INTx: `trigger` is written again if it is still asserted.
    fn unmask_intx(&self);

    /// Ends [`enable_intx`](Self::enable_intx).
    fn disable_intx(&self);

    /// Writes `events[n]` when vector n of MSI-X interrupts. INTx is disabled. Returns the number
    /// of vectors that do so: there are fewer than asked for if the host has no more.
    ///
    /// # Errors
    /// The error that the system returned.
    fn enable_msix(&self, events: &[&EventFd]) -> io::Result<usize>;

    /// Ends [`enable_msix`](Self::enable_msix).
    fn disable_msix(&self);

    /// Resets the device, if it can be reset.
    fn reset(&self);
}
