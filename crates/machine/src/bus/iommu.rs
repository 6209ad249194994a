//! The IOMMU between PCI functions and the rest of the machine.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trapless_devices::ats::{
    self, Completion, GroupResponse, PageRequest, Refusal, Translation, TranslationAgent,
    TranslationRequest,
};
use trapless_devices::dma::{DmaAccess, DmaFault, Extent};
use trapless_devices::{
    DeviceId, Dma, GuestRam, MmioDevice, Persist, StateError, StateReader, StateWriter,
};
use trapless_iommu::{Access, AddressType, Arrived, Iommu, Request, Target, WIRES};

use crate::bus::dma::{self, Message, Messages, post};
use crate::bus::map;
use crate::bus::places::Wiring;
use crate::bus::wires::Wire;

/// The IOMMU as harts see it; functions see it through [`Translating`].
#[derive(Clone)]
pub(crate) struct SharedIommu(Arc<Mutex<Iommu>>);

impl SharedIommu {
    pub fn new(wiring: &Wiring<'_>) -> Self {
        let line = |wire: usize| Wire::line(wiring.wires, map::IOMMU_IRQ + wire as u32);
        let messages = wiring.messages.clone();
        let windows = wiring.interrupt_windows.to_vec();
        let post = Box::new(move |addr, data| {
            let device = dma::IOMMU;
            messages.push(Message { device, addr, data });
            windows.iter().any(|window| window.offset(addr).is_some())
        });
        let wires = std::array::from_fn::<_, WIRES, _>(line);
        let clock = Box::new(wiring.clock.clone());
        let mut iommu = Iommu::new(wiring.ram.clone(), wires, clock, post);
        let steps = wiring.iommu_steps.clone();
        iommu.observe(Box::new(move |step| steps.push(step)));
        Self(Arc::new(Mutex::new(iommu)))
    }

    /// The way of functions through it.
    pub fn dma(&self, wiring: &Wiring<'_>) -> Translating {
        Translating {
            iommu: self.clone(),
            ram: wiring.ram.clone(),
            messages: wiring.messages.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Iommu> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MmioDevice for SharedIommu {
    fn writes_memory(&self) -> bool {
        true
    }

    fn read(&mut self, offset: u64, data: &mut [u8]) {
        trapless_devices::fill_le(data, self.lock().read(offset, data.len()));
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let value = trapless_devices::value_le(data);
        self.lock().write(offset, data.len(), value);
    }
}

impl Persist for SharedIommu {
    fn save(&self, to: &mut StateWriter) {
        self.lock().save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.lock().restore(from)
    }
}

/// Accesses of functions go where the IOMMU says.
pub(crate) struct Translating {
    iommu: SharedIommu,
    ram: Arc<GuestRam>,
    messages: Messages,
}

impl Translating {
    fn locate_as(
        &self,
        address_type: AddressType,
        device: DeviceId,
        address: u64,
        len: u64,
        access: DmaAccess,
    ) -> Result<Extent, DmaFault> {
        let request = Request {
            device,
            process: None,
            privileged: false,
            address,
            address_type,
            access: match access {
                DmaAccess::Read => Access::Read,
                DmaAccess::Write => Access::Write,
            },
        };
        let found = self.iommu.lock().translate(&request)?;
        match found.target {
            Target::Memory(address) => Ok(Extent {
                address,
                len: len.min(found.len),
            }),
            // Only messages go there.
            Target::Mrif { .. } => Err(DmaFault),
        }
    }
}

impl Dma for Translating {
    fn locate(
        &self,
        device: DeviceId,
        address: u64,
        len: u64,
        access: DmaAccess,
    ) -> Result<Extent, DmaFault> {
        self.locate_as(AddressType::Untranslated, device, address, len, access)
    }

    fn message(&self, device: DeviceId, address: u64, data: u32) {
        let arrived = self.iommu.lock().message(device, address, data);
        if let Ok(Arrived::At(address)) = arrived {
            post(&self.ram, &self.messages, device, address, data);
        }
    }

    fn translates(&self) -> bool {
        true
    }

    fn agent(&self) -> Option<&dyn TranslationAgent> {
        Some(self)
    }
}

impl TranslationAgent for Translating {
    fn translation(&self, request: &TranslationRequest) -> Result<Translation, Refusal> {
        self.iommu.lock().translation(request)
    }

    fn locate_translated(
        &self,
        device: DeviceId,
        address: u64,
        len: u64,
        access: DmaAccess,
    ) -> Result<Extent, DmaFault> {
        self.locate_as(AddressType::Translated, device, address, len, access)
    }

    fn request_page(&self, request: &PageRequest) -> Option<GroupResponse> {
        self.iommu.lock().request_page(request)
    }

    fn take_message(&self) -> Option<(DeviceId, ats::Message)> {
        self.iommu.lock().take_message()
    }

    fn has_messages(&self) -> bool {
        self.iommu.lock().has_messages()
    }

    fn complete(&self, completion: &Completion) {
        self.iommu.lock().complete(completion);
    }

    fn time_out(&self, tag: u8) {
        self.iommu.lock().time_out(tag);
    }
}
