//! Queue notifications handled by KVM (`KVM_IOEVENTFD`), without an exit to user space.

use crate::devices::virtio::slot::{QUEUE_NOTIFY, Slot};
use crate::error::{Error, Result};
use crate::irqchip::controller::Watch;
use crate::map;
use kvm_ioctls::{Cap, IoEventAddress, VmFd};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use vmm_sys_util::eventfd::EventFd;

/// Makes KVM signal the eventfds of `slots` whose queues are served outside this process.
///
/// # Errors
/// [`Error::Failed`] if KVM refuses.
pub fn notify_elsewhere(vm: &VmFd, slots: &[Arc<dyn Slot>]) -> Result<()> {
    for (number, slot) in slots.iter().enumerate() {
        let address = IoEventAddress::Mmio(map::virtio_slot(number).0 + QUEUE_NOTIFY);
        for (queue, kick) in slot.kicks().iter().enumerate() {
            vm.register_ioevent(&**kick, &address, queue as u32)
                .map_err(|e| Error::failed("KVM refuses an ioeventfd", e))?;
        }
    }
    Ok(())
}

/// Makes KVM turn writes to QueueNotify of `slots` into events for the event loop.
///
/// # Errors
/// [`Error::User`] if KVM does not support that, [`Error::Failed`] if it fails or there are no
/// descriptors.
pub fn notify_by_eventfd(vm: &VmFd, slots: &[Arc<dyn Slot>]) -> Result<Vec<Watch>> {
    if !vm.check_extension(Cap::Ioeventfd) {
        return Err(Error::user(
            "this KVM has no ioeventfd; leave out --ioeventfd",
        ));
    }
    let mut watches = Vec::new();
    for (number, slot) in slots.iter().enumerate() {
        let address = IoEventAddress::Mmio(map::virtio_slot(number).0 + QUEUE_NOTIFY);
        if !slot.kicks().is_empty() {
            continue;
        }
        for queue in 0..slot.queues() as u32 {
            let event = EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)
                .map_err(|e| Error::failed("eventfd", e))?;
            vm.register_ioevent(&event, &address, queue)
                .map_err(|e| Error::failed("KVM refuses an ioeventfd", e))?;
            let (slot, fd) = (Arc::clone(slot), event.as_raw_fd());
            let notify = move || {
                let _ = event.read();
                slot.notify(queue);
            };
            watches.push((fd, Box::new(notify) as _));
        }
    }
    Ok(watches)
}
