//! Save and restore of an [`Aia`]. The vCPUs do not run, and no device interrupts.

use crate::irqchip::aia::device::Aia;
use crate::irqchip::aia::registers::{SOURCES, aplic, imsic};
use crate::irqchip::aia::uapi;
use std::io;
use trapless_devices::{StateError, StateReader, StateWriter};

impl Aia {
    /// Registers of the APLIC that are saved, in the order in which they can be restored: those
    /// that make it send come last. Bits of `setip` are cleared first, because a wire that a device
    /// drives has made its source pending.
    fn aplic_registers() -> impl Iterator<Item = u64> {
        let per_source = |base: u64| (0..u64::from(SOURCES)).map(move |n| base + 4 * n);
        let per_word = |base: u64| (0..u64::from(SOURCES + 1) / 32).map(move |n| base + 4 * n);
        per_source(aplic::SOURCECFG)
            .chain(per_source(aplic::TARGET))
            .chain(per_word(aplic::SETIP))
            .chain(per_word(aplic::SETIE))
            .chain([aplic::DOMAINCFG])
    }

    /// Registers of an interrupt file that are saved, delivery last.
    fn imsic_registers(&self) -> impl Iterator<Item = u64> + use<> {
        // Registers with even numbers have 64 bits each.
        let words = u64::from(self.ids + 1).div_ceil(64);
        let array = move |base: u64| (0..words).map(move |n| base + 2 * n);
        array(imsic::EIP)
            .chain(array(imsic::EIE))
            .chain([imsic::EITHRESHOLD, imsic::EIDELIVERY])
    }

    fn imsic_attributes(&self) -> impl Iterator<Item = u64> + '_ {
        (0..u64::from(self.vcpus)).flat_map(|vcpu| {
            self.imsic_registers()
                .map(move |register| (vcpu << 12) | register)
        })
    }

    /// Appends the state. The vCPUs do not run, and no device interrupts.
    ///
    /// # Errors
    /// The error that KVM returned.
    pub fn save(&self, to: &mut StateWriter) -> io::Result<()> {
        to.number(self.ids);
        to.number(self.aplic.is_some());
        if let Some(own) = &self.aplic {
            own.save(to);
        } else {
            for offset in Self::aplic_registers() {
                to.number(self.port.get(uapi::GRP_APLIC, offset)? as u32);
            }
        }
        for attribute in self.imsic_attributes() {
            to.number(self.port.get(uapi::GRP_IMSIC, attribute)?);
        }
        Ok(())
    }

    /// Restores the state, after the devices have driven their wires: nothing was enabled until
    /// now.
    ///
    /// # Errors
    /// If the state cannot be restored.
    pub fn restore(&self, from: &mut StateReader<'_>) -> Result<(), String> {
        let bad = |e: StateError| format!("the saved interrupt controller {e}");
        let set = |group, attribute, value| {
            self.port
                .set(group, attribute, value)
                .map_err(|e| format!("KVM refuses the saved interrupt controller: {e}"))
        };
        let ids: u32 = from.number().map_err(bad)?;
        if ids != self.ids {
            return Err(format!(
                "the saved guest has interrupt files of {ids} identities, this host offers {}; use a host like the one it was saved on",
                self.ids
            ));
        }
        if from.flag().map_err(bad)? != self.aplic.is_some() {
            return Err(
                "the saved guest has its APLIC elsewhere; use the --inject it was saved with"
                    .into(),
            );
        }
        if let Some(own) = &self.aplic {
            own.restore(from).map_err(bad)?;
        } else {
            self.restore_aplic(from)?;
        }
        for attribute in self.imsic_attributes() {
            let value = from.number().map_err(bad)?;
            set(uapi::GRP_IMSIC, attribute, value)?;
        }
        Ok(())
    }

    fn restore_aplic(&self, from: &mut StateReader<'_>) -> Result<(), String> {
        let set = |offset, value| {
            self.port
                .set(uapi::GRP_APLIC, offset, value)
                .map_err(|e| format!("KVM refuses the saved APLIC: {e}"))
        };
        for offset in Self::aplic_registers() {
            let value: u32 = from
                .number()
                .map_err(|e: StateError| format!("the saved APLIC {e}"))?;
            // Writing ones to these sets or clears, zeroes do nothing.
            let clear = match offset & 0xff00 {
                aplic::SETIP => Some(offset - aplic::SETIP + aplic::IN_CLRIP),
                aplic::SETIE => Some(offset - aplic::SETIE + aplic::CLRIE),
                _ => None,
            };
            if let Some(clear) = clear {
                set(clear, u32::MAX.into())?;
            }
            set(offset, value.into())?;
        }
        Ok(())
    }
}
