//! Where registers and pages are.

use trapless_isa::xtrapless::{limits, wcontrol};
use vm_fdt::{Error, FdtWriter};

use crate::architecture::EXTERNAL_PHANDLE;
use crate::mmio::Window;

/// The registers.
const CONTROL: Window = Window::new("xtrapless", 0x302_0000, wcontrol::SIZE);
/// First page: where QEMU's `virt` has interrupt files of supervisor level, which this architecture
/// has not.
const PAGES: u64 = 0x2800_0000;
/// Phandle of the node that devices name as `msi-parent`.
pub(in super::super) const PHANDLE: u32 = EXTERNAL_PHANDLE + 1;

/// What is at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Place {
    /// A register, by its offset.
    Register(u64),
    /// The page of a window, and the offset in it.
    Page(u16, u64),
}

impl Place {
    /// What 2^`size` windows have at `addr`.
    pub fn of(addr: u64, size: u8) -> Option<Self> {
        let control = CONTROL.offset(addr).map(Self::Register);
        control.or_else(|| {
            let offset = pages(size).offset(addr)?;
            let window = u16::try_from(offset / limits::WINDOW_BYTES).ok()?;
            Some(Self::Page(window, offset % limits::WINDOW_BYTES))
        })
    }

    /// The MMIO windows of 2^`size` message windows.
    pub fn windows(size: u8) -> [Window; 2] {
        [CONTROL, pages(size)]
    }
}

fn pages(size: u8) -> Window {
    Window::new("messages", PAGES, limits::WINDOW_BYTES << size)
}

/// Adds the node of 2^`size` windows (DISC-5).
pub(in super::super) fn node(fdt: &mut FdtWriter, size: u8) -> Result<(), Error> {
    let [control, pages] = Place::windows(size);
    let node = fdt.begin_node(&format!("message-windows@{:x}", control.base))?;
    fdt.property_string("compatible", "trapless,message-windows")?;
    fdt.property_array_u64("reg", &[control.base, control.len, pages.base, pages.len])?;
    fdt.property_string_list("reg-names", vec!["control".into(), "windows".into()])?;
    fdt.property_null("msi-controller")?;
    fdt.property_u32("#msi-cells", 0)?;
    fdt.property_u32("interrupt-parent", EXTERNAL_PHANDLE)?;
    fdt.property_phandle(PHANDLE)?;
    fdt.end_node(node)
}
