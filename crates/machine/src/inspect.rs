//! Physical memory, results and state of a machine, from outside.

use trapless_hart::DoorbellPage;
use trapless_intc::Row as InterruptRow;
use vm_memory::{Bytes, GuestAddress};

use crate::error::Error;
use crate::machine::Machine;

/// Maximum size of a program's signature, in bytes; those of riscv-arch-test have some KiB.
const MAX_SIGNATURE: u64 = 16 << 20;

impl Machine {
    /// Reads physical memory, RAM and ROM, without accesses to devices. Returns how many bytes
    /// there are from `addr` on, at most `data.len()`.
    pub fn read_physical(&mut self, addr: u64, data: &mut [u8]) -> usize {
        if let Some(rom) = self.bus.rom_at(addr) {
            let len = rom.len().min(data.len());
            data[..len].copy_from_slice(&rom[..len]);
            return len;
        }
        let room = (self.ram.base() + self.ram.size()).saturating_sub(addr);
        let len = room.min(data.len() as u64) as usize;
        match self
            .ram
            .guest_memory()
            .read_slice(&mut data[..len], GuestAddress(addr))
        {
            Ok(()) => len,
            Err(_) => 0,
        }
    }

    /// Description of the present state of the interrupt architecture, and of the doorbells of the
    /// guests that harts run.
    #[must_use]
    pub fn interrupt_state(&self) -> Vec<InterruptRow> {
        let architecture = self.bus.interrupts.architecture();
        let mut rows = architecture.inspect(self.clock.now);
        for hart in &self.harts {
            let found = hart.doorbell_pages();
            for DoorbellPage { gpa, page } in found.pages {
                rows.extend(architecture.inspect_doorbells(hart.id(), gpa, page));
            }
            if found.more {
                rows.push(InterruptRow {
                    hart: Some(hart.id()),
                    part: "doorbells".into(),
                    name: "more".into(),
                    value: "page tables are too large: not all of them were searched".into(),
                    active: true,
                });
            }
        }
        rows
    }

    /// Writes RAM, for debuggers. Returns how many bytes were written.
    pub fn write_physical(&mut self, addr: u64, data: &[u8]) -> usize {
        let room = (self.ram.base() + self.ram.size()).saturating_sub(addr);
        let len = room.min(data.len() as u64) as usize;
        let memory = self.ram.guest_memory();
        let written = match memory.write_slice(&data[..len], GuestAddress(addr)) {
            Ok(()) => len,
            Err(_) => 0,
        };
        self.ram.written_by_device();
        self.code.compare(&self.ram);
        written
    }

    /// The signature of a riscv-arch-test program: the bytes between its two symbols.
    ///
    /// # Errors
    /// If the program has no usable signature.
    pub fn signature(&self) -> Result<Vec<u8>, Error> {
        let fail = |text: &str| Error::Invalid(text.into());
        let (Some(begin), Some(end)) = (self.symbols.begin_signature, self.symbols.end_signature)
        else {
            return Err(fail(
                "the program has no symbols begin_signature and end_signature",
            ));
        };
        let len = end
            .checked_sub(begin)
            .filter(|&len| self.ram.contains(begin, len));
        let Some(len) = len else {
            return Err(fail("the program's signature lies outside RAM"));
        };
        if len > MAX_SIGNATURE {
            return Err(Error::Invalid(format!(
                "the program's signature would have {len} bytes, more than 16 MiB; \
                 correct its symbols begin_signature and end_signature"
            )));
        }
        let mut bytes = vec![0; len as usize];
        self.ram
            .guest_memory()
            .read_slice(&mut bytes, GuestAddress(begin))
            .map_err(|e| Error::Invalid(format!("cannot read the signature: {e}")))?;
        Ok(bytes)
    }

    /// Digest of all registers and RAM: equal for equal states. Reads all of RAM.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        let mut hash = Digest(0xcbf2_9ce4_8422_2325);
        for hart in &self.harts {
            (0..32).for_each(|i| hash.add(hart.x(i)));
            (0..32).for_each(|i| hash.add(hart.f(i)));
            for value in [hart.pc(), hart.now(), hart.instret(), hart.mode() as u64] {
                hash.add(value);
            }
            (0..0x1000)
                .filter_map(|csr| hart.peek_csr(csr))
                .for_each(|v| hash.add(v));
        }
        let mut page = [0; 4096];
        for at in (self.ram.base()..self.ram.base() + self.ram.size()).step_by(page.len()) {
            if self
                .ram
                .guest_memory()
                .read_slice(&mut page, GuestAddress(at))
                .is_ok()
                && page.iter().any(|&b| b != 0)
            {
                hash.add(at);
                for word in page.chunks_exact(8) {
                    hash.add(u64::from_le_bytes(word.try_into().unwrap_or_default()));
                }
            }
        }
        hash.0
    }
}

/// FNV-1a over words with a finishing shift.
struct Digest(u64);

impl Digest {
    fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }
}
