//! Spike's host-target interface, as bare-metal test programs use it.
//!
//! The program writes a request to the word `tohost` and waits until the host clears it:
//!
//! * bit 0 set, bits 63:48 clear: exit with code `tohost >> 1`;
//! * bits 63:56 = 1, bits 55:48 = 1: print the character in bits 7:0;
//! * an address with bits 63:48 clear: a system call block (number, arguments) that the host
//!   overwrites with the result; `write` (64) to standard output and `exit` (93) are served.
//!
//! The word is polled after each turn of a hart, so that the result depends only on virtual time.

use std::io::Write;

use trapless_hart::Ram;
use vm_memory::{Bytes, GuestAddress};

/// Addresses of the interface, and the writer for text.
pub struct Htif {
    /// Word the program writes.
    pub tohost: u64,
    /// Word the host writes.
    pub fromhost: Option<u64>,
    out: Box<dyn Write + Send>,
}

/// Maximum length of one `write` call; the rest is dropped, so that a broken program cannot flood
/// the host.
const MAX_WRITE: u64 = 1 << 16;
const SYS_WRITE: u64 = 64;
const SYS_EXIT: u64 = 93;
const ENOSYS: u64 = 38;

impl Htif {
    /// An interface that writes text to `out`.
    #[must_use]
    pub fn new(tohost: u64, fromhost: Option<u64>, out: Box<dyn Write + Send>) -> Self {
        Self {
            tohost,
            fromhost,
            out,
        }
    }

    /// Serves a request, if there is one. Returns the exit code when the program ends.
    pub fn poll(&mut self, ram: &Ram) -> Option<u64> {
        let request = ram.load(self.tohost, 8).filter(|&word| word != 0)?;
        let answer = match (request >> 56, request >> 48 & 0xff) {
            (0, 0) if request & 1 != 0 => return Some(request >> 1),
            (0, 0) => match self.system_call(ram, request) {
                Ok(answer) => answer,
                Err(code) => return Some(code),
            },
            (1, 1) => {
                self.print(&[request as u8]);
                0
            }
            // Unknown devices and commands: accepted and ignored, as Spike does.
            _ => 0,
        };
        ram.store(self.tohost, 8, 0);
        if answer != 0 {
            if let Some(fromhost) = self.fromhost {
                ram.store(fromhost, 8, answer);
            }
        }
        None
    }

    /// Serves the call described at `block`; `Err` is the code of `exit`.
    fn system_call(&mut self, ram: &Ram, block: u64) -> Result<u64, u64> {
        let word = |index: u64| ram.load(block.wrapping_add(8 * index), 8).unwrap_or(0);
        let result = match word(0) {
            SYS_EXIT => return Err(word(1)),
            SYS_WRITE => {
                let len = word(3).min(MAX_WRITE);
                let mut text = vec![0; len as usize];
                match ram
                    .guest_memory()
                    .read_slice(&mut text, GuestAddress(word(2)))
                {
                    Ok(()) => {
                        self.print(&text);
                        len
                    }
                    Err(_) => 0u64.wrapping_sub(14), // EFAULT
                }
            }
            _ => 0u64.wrapping_sub(ENOSYS),
        };
        ram.store(block, 8, result);
        Ok(1)
    }

    fn print(&mut self, text: &[u8]) {
        // A closed terminal must not change what the program does.
        let _ = self.out.write_all(text).and_then(|()| self.out.flush());
    }
}
