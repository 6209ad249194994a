//! Virtual memory of the host's kernel, or of a guest's.

use trapless_hart::Ram;
use trapless_isa::page::PAGE_SIZE;
use vm_memory::{Bytes, GuestAddress};

/// Bytes from the start of RAM in which to search for a kernel's image.
const IMAGE: u64 = 128 << 20;
/// Start of guests' RAM: the VMM uses the machine's memory map.
const GUEST_RAM: u64 = 0x8000_0000;

/// A kernel's memory. Reading it has no side effects on the machine.
pub struct Space<'a> {
    ram: &'a Ram,
    /// `satp` of the host; `vsatp` of a guest.
    atp: u64,
    hgatp: Option<u64>,
}

impl<'a> Space<'a> {
    /// Memory of the kernel in HS-mode, with this value of `satp`.
    #[must_use]
    pub fn host(ram: &'a Ram, satp: u64) -> Self {
        let (atp, hgatp) = (satp, None);
        Self { ram, atp, hgatp }
    }

    /// Memory of a kernel in VS-mode, with these values of `vsatp` and `hgatp`.
    #[must_use]
    pub fn guest(ram: &'a Ram, vsatp: u64, hgatp: u64) -> Self {
        Self {
            ram,
            atp: vsatp,
            hgatp: Some(hgatp),
        }
    }

    /// Address in RAM of `len` bytes, which are in one page.
    fn find(&self, atp: u64, va: u64, len: u64) -> Option<u64> {
        match self.hgatp {
            None => self.ram.find_virtual(atp, va, len),
            Some(hgatp) => self.ram.find_guest_virtual(atp, hgatp, va, len),
        }
    }

    /// Fills `data` from virtual address `va` on; `false` if part of it is not mapped.
    pub fn read(&self, va: u64, data: &mut [u8]) -> bool {
        self.read_by(self.atp, va, data)
    }

    fn read_by(&self, atp: u64, va: u64, data: &mut [u8]) -> bool {
        let memory = self.ram.guest_memory();
        let mut done = 0;
        while done < data.len() {
            let Some(at) = va.checked_add(done as u64) else {
                return false;
            };
            let part = (data.len() - done).min((PAGE_SIZE - at % PAGE_SIZE) as usize);
            let piece = &mut data[done..done + part];
            let place = self.find(atp, at, part as u64);
            if place.is_none_or(|place| memory.read_slice(piece, GuestAddress(place)).is_err()) {
                return false;
            }
            done += part;
        }
        true
    }

    /// The word of 8 bytes at `va`.
    pub fn word(&self, va: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        let there = self.read(va, &mut bytes);
        there.then(|| u64::from_le_bytes(bytes))
    }

    /// The text at `va` up to a zero byte; `None` if it is longer than `most` or not text.
    pub fn text(&self, va: u64, most: u64) -> Option<String> {
        let mut text = Vec::new();
        while (text.len() as u64) < most {
            let at = va.checked_add(text.len() as u64)?;
            let mut piece = vec![0; (PAGE_SIZE - at % PAGE_SIZE).min(64) as usize];
            if !self.read(at, &mut piece) {
                return None;
            }
            let end = piece.iter().position(|byte| *byte == 0);
            text.extend(&piece[..end.unwrap_or(piece.len())]);
            if end.is_some() {
                return String::from_utf8(text).ok();
            }
        }
        None
    }

    /// The part of physical memory with a kernel's image; zero where nothing is mapped.
    pub fn image(&self) -> Vec<u8> {
        let base = match self.hgatp {
            None => self.ram.base(),
            Some(_) => GUEST_RAM,
        };
        let mut image = vec![0; self.ram.size().min(IMAGE) as usize];
        if self.hgatp.is_none() {
            // Left as it is where there is no RAM
            let _ = self
                .ram
                .guest_memory()
                .read_slice(&mut image, GuestAddress(base));
            return image;
        }
        for (page, at) in image
            .chunks_mut(PAGE_SIZE as usize)
            .zip((base..).step_by(PAGE_SIZE as usize))
        {
            // Without virtual memory these addresses are the kernel's physical ones.
            self.read_by(0, at, page);
        }
        image
    }
}
