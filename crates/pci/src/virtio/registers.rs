//! The common configuration (virtio 1.2, section 4.1.4.3).

use trapless_devices::virtio::{QueueField, VirtioDevice};
use virtio_queue::QueueT;

use super::VirtioPci;
use crate::port::Port;

/// Bytes of the common configuration.
pub(super) const LEN: u32 = 0x38;

/// A register of it, or half of one of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Register {
    DeviceFeaturesSelect,
    DeviceFeatures,
    DriverFeaturesSelect,
    DriverFeatures,
    ConfigVector,
    QueueCount,
    Status,
    Generation,
    QueueSelect,
    QueueVector,
    NotifyOffset,
    Queue(QueueField),
}

impl Register {
    /// What an access of `len` bytes at `offset` means: drivers use the width of the register, and
    /// two words for those of 64 bits (section 4.1.3.1).
    pub fn at(offset: u64, len: usize) -> Option<Self> {
        let high = offset & 4 != 0;
        Some(match (offset, len) {
            (0x00, 4) => Self::DeviceFeaturesSelect,
            (0x04, 4) => Self::DeviceFeatures,
            (0x08, 4) => Self::DriverFeaturesSelect,
            (0x0c, 4) => Self::DriverFeatures,
            (0x10, 2) => Self::ConfigVector,
            (0x12, 2) => Self::QueueCount,
            (0x14, 1) => Self::Status,
            (0x15, 1) => Self::Generation,
            (0x16, 2) => Self::QueueSelect,
            (0x18, 2) => Self::Queue(QueueField::Size),
            (0x1a, 2) => Self::QueueVector,
            (0x1c, 2) => Self::Queue(QueueField::Ready),
            (0x1e, 2) => Self::NotifyOffset,
            (0x20 | 0x24, 4) => Self::Queue(QueueField::Descriptors { high }),
            (0x28 | 0x2c, 4) => Self::Queue(QueueField::Available { high }),
            (0x30 | 0x34, 4) => Self::Queue(QueueField::Used { high }),
            _ => return None,
        })
    }
}

impl<D: VirtioDevice> VirtioPci<D> {
    pub(super) fn read_register(&self, register: Register) -> u32 {
        let common = &self.common;
        let queue = common.queue();
        let half = |address: u64, high: bool| match high {
            true => (address >> 32) as u32,
            false => address as u32,
        };
        match register {
            Register::DeviceFeaturesSelect => common.select.device_features,
            Register::DeviceFeatures => common.offered_features(),
            Register::DriverFeaturesSelect => common.select.driver_features,
            Register::DriverFeatures => common.accepted_features(),
            Register::ConfigVector => self.config_vector.into(),
            Register::QueueCount => common.queue_count() as u32,
            Register::Status => common.status(),
            Register::Generation => common.generation() & 0xff,
            Register::QueueSelect => common.select.queue,
            Register::QueueVector => {
                let vector = self.queue_vectors.get(common.select.queue as usize);
                vector.copied().unwrap_or(super::NO_VECTOR).into()
            }
            // Word n of the notification area belongs to queue n.
            Register::NotifyOffset => queue.map_or(0, |_| common.select.queue),
            Register::Queue(field) => queue.map_or(0, |queue| match field {
                QueueField::Size => queue.size().into(),
                QueueField::Ready => queue.ready().into(),
                QueueField::Descriptors { high } => half(queue.desc_table(), high),
                QueueField::Available { high } => half(queue.avail_ring(), high),
                QueueField::Used { high } => half(queue.used_ring(), high),
            }),
        }
    }

    pub(super) fn write_register(&mut self, register: Register, value: u32, port: &mut Port) {
        let selected = self.common.select.queue as usize;
        match register {
            Register::DeviceFeaturesSelect => self.common.select.device_features = value,
            Register::DriverFeaturesSelect => self.common.select.driver_features = value,
            Register::DriverFeatures => self.common.accept_features(value),
            Register::ConfigVector => self.config_vector = self.checked(value as u16),
            Register::Status if value == 0 => self.reset_device(Some(port)),
            Register::Status => {
                let signal = self.common.add_status(value);
                self.tell(signal, port);
            }
            Register::QueueSelect => self.common.select.queue = value,
            Register::QueueVector => {
                let vector = self.checked(value as u16);
                if let Some(own) = self.queue_vectors.get_mut(selected) {
                    *own = vector;
                }
            }
            Register::Queue(QueueField::Ready) if value != 1 => self
                .common
                .guest_error("a queue is enabled by 1 and disabled by a reset"),
            Register::Queue(field) => {
                let signal = self.common.set_up_queue(field, value);
                self.tell(signal, port);
            }
            Register::DeviceFeatures
            | Register::QueueCount
            | Register::Generation
            | Register::NotifyOffset => self.common.guest_error("write to a read-only register"),
        }
    }
}
