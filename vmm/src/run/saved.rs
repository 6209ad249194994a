//! Save and restore of a whole guest, whose vCPUs do not run.

use crate::devices::state::States;
use crate::error::{Error, Result};
use crate::irqchip::controller::InterruptController;
use crate::kvm::state::{self, Part};
use crate::run::snapshot::{self, Sections};
use kvm_ioctls::VcpuFd;
use serde_json::{Value, json};
use std::path::Path;
use trapless_devices::{StateError, StateReader, StateWriter};
use vm_memory::GuestMemoryMmap;

/// Properties that a saved guest and the VMM that restores it must share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Number of vCPUs.
    pub cpus: u16,
    /// Bytes of RAM.
    pub memory: u64,
    /// Its interrupt controller, by its name in `--irqchip`.
    pub irqchip: &'static str,
    /// Names of the devices, in order.
    pub devices: Vec<String>,
}

impl Shape {
    fn json(&self) -> Value {
        json!({
            "--cpus": self.cpus,
            "--memory": self.memory,
            "--irqchip": self.irqchip,
            "devices": self.devices,
        })
    }

    /// Compares with the shape in a saved guest.
    fn check(&self, saved: &[u8]) -> Result<()> {
        let saved: Value = serde_json::from_slice(saved)
            .map_err(|_| Error::user("the saved guest does not say what it consists of"))?;
        let own = self.json();
        for (what, value) in own.as_object().into_iter().flatten() {
            if saved.get(what) != Some(value) {
                return Err(Error::user(format!(
                    "the saved guest has {what} {}, this one {value}; use the options it was saved with",
                    saved.get(what).unwrap_or(&Value::Null)
                )));
            }
        }
        Ok(())
    }
}

/// All parts of a guest that is saved or restored.
pub struct Whole<'a> {
    /// vCPUs; to be restored, they have not run.
    pub vcpus: &'a [VcpuFd],
    /// Guest RAM; to be restored, it holds zeroes.
    pub memory: &'a GuestMemoryMmap,
    /// The interrupt controller.
    pub controller: &'a dyn InterruptController,
    /// All devices with state.
    pub states: &'a States,
    /// Its properties.
    pub shape: &'a Shape,
}

impl Whole<'_> {
    /// Writes the guest to `path`.
    ///
    /// # Errors
    /// [`Error::Failed`] if KVM does not report some state, [`Error::User`] if the file cannot be
    /// written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut sections = Sections::new();
        let mut add = |name: &str, bytes: Vec<u8>| sections.insert(name.into(), bytes);
        add("shape", self.shape.json().to_string().into_bytes());
        // vCPUs first: their last change was leaving `KVM_RUN`, whatever devices do meanwhile.
        for (index, fd) in self.vcpus.iter().enumerate() {
            let mut writer = StateWriter::default();
            state::save(fd, &mut writer)?;
            add(&format!("vcpu{index}"), writer.into_bytes());
        }
        let mut writer = StateWriter::default();
        self.controller.save(&mut writer).map_err(|e| {
            Error::failed(
                "KVM does not report the state of the interrupt controller",
                e,
            )
        })?;
        add("interrupts", writer.into_bytes());
        for (name, device) in self.states {
            let mut writer = StateWriter::default();
            device.save(&mut writer);
            add(&format!("device {name}"), writer.into_bytes());
        }
        snapshot::write(path, &sections, self.memory)
    }

    /// Restores the guest, which is in its initial state, from the file at `path`.
    ///
    /// # Errors
    /// [`Error::User`] if the file is damaged or of another guest or host.
    pub fn restore(&self, path: &Path) -> Result<()> {
        let (reader, mut sections) = snapshot::Reader::open(path)?;
        let mut take = |name: &str| {
            sections.remove(name).ok_or_else(|| {
                Error::user(format!("the saved guest {} has no {name}", path.display()))
            })
        };
        self.shape.check(&take("shape")?)?;
        let drop_pending = self.controller.features().holds_pending;
        let vcpus = (0..self.vcpus.len())
            .map(|index| take(&format!("vcpu{index}")))
            .collect::<Result<Vec<_>>>()?;
        for (fd, saved) in self.vcpus.iter().zip(&vcpus) {
            let part = Part::State { drop_pending };
            state::restore(fd, StateReader::new(saved), part)?;
        }
        let interrupts = take("interrupts")?;
        let mut interrupts = StateReader::new(&interrupts);
        self.controller
            .begin_restore(&mut interrupts)
            .map_err(Error::User)?;
        reader.read_ram(self.memory)?;
        for (name, device) in self.states {
            let bad = |e: StateError| Error::user(format!("the saved {name} {e}"));
            let saved = take(&format!("device {name}"))?;
            let mut saved = StateReader::new(&saved);
            device.restore(&mut saved).map_err(bad)?;
            saved.end().map_err(bad)?;
        }
        self.controller
            .restore(&mut interrupts)
            .map_err(Error::User)?;
        // Last, because the guest's time runs from here.
        for (index, (fd, saved)) in self.vcpus.iter().zip(&vcpus).enumerate() {
            let part = Part::Timer { time: index == 0 };
            state::restore(fd, StateReader::new(saved), part)?;
        }
        Ok(())
    }
}
