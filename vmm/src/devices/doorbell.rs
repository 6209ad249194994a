//! Registers of virtio devices that the guest's interrupt controller handles (Xvei), without exits.

use crate::devices::virtio::slot::ShadowSource;
use crate::error::{Error, Result};
use crate::kvm::device::KvmDevice;
use crate::kvm::numbers::DEVICE_VEI;
use kvm_ioctls::VmFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use trapless_devices::virtio::shadow::{ACKNOWLEDGEMENT, SHADOWED, Shadow};

const GROUP_SHADOW: u32 = 0;
const GROUP_CLEAR: u32 = 1;

/// Offset of an unused word in a page of registers.
const NOWHERE: u32 = 0xffc;

/// A page of registers.
#[repr(C, align(4096))]
struct Page([AtomicU32; 1024]);

impl Shadow for Page {
    fn register(&self, offset: u32) -> &AtomicU32 {
        &self.0[offset as usize / 4]
    }
}

/// `struct kvm_vei_shadow`.
#[repr(C)]
struct KvmShadow {
    page: u64,
    loads: [u64; 16],
}

/// The shadows of a guest.
pub struct Shadows(KvmDevice);

impl Shadows {
    /// # Errors
    /// [`Error::Failed`] if KVM or the harts do not have them.
    pub fn new(vm: &VmFd) -> Result<Self> {
        KvmDevice::create(vm, DEVICE_VEI).map(Self).map_err(|e| {
            Error::failed(
                "KVM has no doorbells (needs harts with Xvei and this project's KVM)",
                e,
            )
        })
    }
}

impl ShadowSource for Shadows {
    fn shadow(&self, base: u64, fixed: bool) -> Result<Arc<dyn Shadow>> {
        let fail = |e| Error::failed("KVM refuses a shadow of registers", e);
        let page = Arc::new(Page([const { AtomicU32::new(0) }; 1024]));
        let mut request = KvmShadow {
            page: Arc::as_ptr(&page) as u64,
            loads: [0; 16],
        };
        for register in SHADOWED {
            let unit = register as usize / 4;
            request.loads[unit / 64] |= 1 << (unit % 64);
        }
        self.0
            .set_struct(GROUP_SHADOW, base, &request)
            .map_err(fail)?;
        let (store, cleared) = ACKNOWLEDGEMENT;
        let cleared = if fixed { NOWHERE } else { cleared };
        self.0
            .set(GROUP_CLEAR, base + u64::from(store), cleared.into())
            .map_err(fail)?;
        Ok(page)
    }
}
