//! The console behind SBI calls that KVM forwards: the debug console and the legacy one.

use crate::devices::input::{InputSink, TYPE_AHEAD, restore_input, save_input};
use crate::devices::state::Stateful;
use crate::kvm::sbi::{BASE, BASE_PROBE, ERR_INVALID_PARAM, ERR_NOT_SUPPORTED, SUCCESS};
use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use trapless_devices::{StateError, StateReader, StateWriter};
use trapless_isa::sbi::eid::{DBCN, LEGACY_GETCHAR, LEGACY_PUTCHAR};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Maximum number of bytes moved by one call; the specification allows fewer than requested.
const CHUNK: usize = 4096;

/// The console behind the SBI calls.
#[derive(Default)]
pub struct SbiConsole {
    input: Mutex<VecDeque<u8>>,
}

impl InputSink for SbiConsole {
    fn push(&self, bytes: &[u8]) {
        self.input().extend(bytes);
    }

    fn full(&self) -> bool {
        self.input().len() >= TYPE_AHEAD
    }
}

impl Stateful for SbiConsole {
    fn save(&self, to: &mut StateWriter) {
        save_input(&self.input(), to);
    }

    fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        *self.input() = restore_input(from)?;
        Ok(())
    }
}

impl SbiConsole {
    fn input(&self) -> std::sync::MutexGuard<'_, VecDeque<u8>> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a call; returns `a0` and `a1`.
    pub fn call(
        &self,
        memory: &GuestMemoryMmap,
        out: &mut dyn Write,
        extension: u64,
        function: u64,
        args: &[u64; 6],
    ) -> (i64, u64) {
        match (extension, function) {
            (LEGACY_PUTCHAR, _) => {
                let _ = out.write_all(&[args[0] as u8]);
                (0, 0)
            }
            (LEGACY_GETCHAR, _) => (self.input().pop_front().map_or(-1, i64::from), 0),
            (DBCN, 0) => write(memory, out, args),
            (DBCN, 1) => self.read(memory, args),
            (DBCN, 2) => {
                let _ = out.write_all(&[args[0] as u8]);
                (SUCCESS, 0)
            }
            // Vendor extensions that do not exist.
            (BASE, BASE_PROBE) => (SUCCESS, 0),
            _ => (ERR_NOT_SUPPORTED, 0),
        }
    }

    fn read(&self, memory: &GuestMemoryMmap, args: &[u64; 6]) -> (i64, u64) {
        let Some((len, at)) = buffer(args) else {
            return (ERR_INVALID_PARAM, 0);
        };
        let mut input = self.input();
        let bytes: Vec<u8> = input.iter().copied().take(len).collect();
        if memory.write_slice(&bytes, at).is_err() {
            return (ERR_INVALID_PARAM, 0);
        }
        input.drain(..bytes.len());
        (SUCCESS, bytes.len() as u64)
    }
}

/// Length (limited) and address of the buffer in `args`: bytes, low and high half of the address.
fn buffer(args: &[u64; 6]) -> Option<(usize, GuestAddress)> {
    (args[2] == 0).then(|| (args[0].min(CHUNK as u64) as usize, GuestAddress(args[1])))
}

fn write(memory: &GuestMemoryMmap, out: &mut dyn Write, args: &[u64; 6]) -> (i64, u64) {
    let Some((len, at)) = buffer(args) else {
        return (ERR_INVALID_PARAM, 0);
    };
    let mut bytes = vec![0; len];
    if memory.read_slice(&mut bytes, at).is_err() {
        return (ERR_INVALID_PARAM, 0);
    }
    let _ = out.write_all(&bytes);
    (SUCCESS, len as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> GuestMemoryMmap {
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0x8000_0000), 0x1000)]).unwrap()
    }

    #[test]
    fn debug_console_moves_bytes_both_ways() {
        let (memory, console, mut out) = (memory(), SbiConsole::default(), Vec::new());
        memory
            .write_slice(b"hello", GuestAddress(0x8000_0100))
            .unwrap();
        assert_eq!(
            console.call(&memory, &mut out, DBCN, 0, &[5, 0x8000_0100, 0, 0, 0, 0]),
            (0, 5)
        );
        assert_eq!(out, b"hello");
        console.push(b"xyz");
        assert_eq!(
            console.call(&memory, &mut out, DBCN, 1, &[2, 0x8000_0200, 0, 0, 0, 0]),
            (0, 2)
        );
        let mut bytes = [0; 3];
        memory
            .read_slice(&mut bytes, GuestAddress(0x8000_0200))
            .unwrap();
        assert_eq!(&bytes, b"xy\0");
        assert_eq!(
            console.call(&memory, &mut out, LEGACY_GETCHAR, 0, &[0; 6]),
            (i64::from(b'z'), 0)
        );
        assert_eq!(
            console.call(&memory, &mut out, LEGACY_GETCHAR, 0, &[0; 6]),
            (-1, 0)
        );
    }

    #[test]
    fn buffers_outside_ram_and_unknown_calls_are_errors() {
        let (memory, console, mut out) = (memory(), SbiConsole::default(), Vec::new());
        for args in [
            [16, 0x8000_0ff8, 0, 0, 0, 0],
            [1, 0, 0, 0, 0, 0],
            [1, 0x8000_0000, 1, 0, 0, 0],
            [u64::MAX; 6],
        ] {
            assert_eq!(
                console.call(&memory, &mut out, DBCN, 0, &args).0,
                ERR_INVALID_PARAM
            );
        }
        assert_eq!(
            console.call(&memory, &mut out, 0x1234, 0, &[0; 6]).0,
            ERR_NOT_SUPPORTED
        );
        assert!(out.is_empty());
    }
}
