//! SBI calls that KVM forwards to user space: the debug console, the legacy console, and those of Xtrapless.

use crate::devices::{InputSink, Stateful, TYPE_AHEAD, restore_input, save_input};
use crate::irqchip::trapless::uapi;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use trapless_devices::{StateError, StateReader, StateWriter};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Extension id of the debug console, "DBCN".
pub const EXT_DBCN: u64 = 0x4442_434e;
/// Legacy extension: write a character.
pub const EXT_PUTCHAR: u64 = 1;
/// Legacy extension: read a character.
pub const EXT_GETCHAR: u64 = 2;

/// Base extension; KVM forwards only its probe of vendor extensions.
const EXT_BASE: u64 = 0x10;
const BASE_PROBE: u64 = 3;

const SUCCESS: i64 = 0;
const ERR_NOT_SUPPORTED: i64 = -2;
const ERR_INVALID_PARAM: i64 = -3;

/// Bytes moved by one call; the specification allows fewer than asked for.
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

    /// Executes a call; returns what goes into `a0` and `a1`.
    pub fn call(
        &self,
        memory: &GuestMemoryMmap,
        out: &mut dyn Write,
        extension: u64,
        function: u64,
        args: &[u64; 6],
    ) -> (i64, u64) {
        match (extension, function) {
            (EXT_PUTCHAR, _) => {
                let _ = out.write_all(&[args[0] as u8]);
                (0, 0)
            }
            (EXT_GETCHAR, _) => (self.input().pop_front().map_or(-1, i64::from), 0),
            (EXT_DBCN, 0) => write(memory, out, args),
            (EXT_DBCN, 1) => self.read(memory, args),
            (EXT_DBCN, 2) => {
                let _ = out.write_all(&[args[0] as u8]);
                (SUCCESS, 0)
            }
            // Vendor extensions that are not there.
            (EXT_BASE, BASE_PROBE) => (SUCCESS, 0),
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

/// The vendor extension of Xtrapless and the probe for it; `None` for other calls. `route` routes a source to a vhart
/// and says whether both exist.
pub fn trapless_call(
    extension: u64,
    function: u64,
    args: &[u64; 6],
    route: impl FnOnce(u64, u64) -> bool,
) -> Option<(i64, u64)> {
    match (extension, function) {
        (EXT_BASE, BASE_PROBE) if args[0] == uapi::SBI_EXT => Some((SUCCESS, 1)),
        (uapi::SBI_EXT, 0) if route(args[0], args[1]) => Some((SUCCESS, 0)),
        (uapi::SBI_EXT, 0) => Some((ERR_INVALID_PARAM, 0)),
        _ => None,
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
            console.call(
                &memory,
                &mut out,
                EXT_DBCN,
                0,
                &[5, 0x8000_0100, 0, 0, 0, 0]
            ),
            (0, 5)
        );
        assert_eq!(out, b"hello");
        console.push(b"xyz");
        assert_eq!(
            console.call(
                &memory,
                &mut out,
                EXT_DBCN,
                1,
                &[2, 0x8000_0200, 0, 0, 0, 0]
            ),
            (0, 2)
        );
        let mut bytes = [0; 3];
        memory
            .read_slice(&mut bytes, GuestAddress(0x8000_0200))
            .unwrap();
        assert_eq!(&bytes, b"xy\0");
        assert_eq!(
            console.call(&memory, &mut out, EXT_GETCHAR, 0, &[0; 6]),
            (i64::from(b'z'), 0)
        );
        assert_eq!(
            console.call(&memory, &mut out, EXT_GETCHAR, 0, &[0; 6]),
            (-1, 0)
        );
    }

    #[test]
    fn routing_is_found_by_probing_and_checks_its_arguments() {
        let call = |extension, function, args: [u64; 2]| {
            let args = [args[0], args[1], 0, 0, 0, 0];
            trapless_call(extension, function, &args, |source, vhart| {
                (source, vhart) == (32, 1)
            })
        };
        assert_eq!(call(EXT_BASE, BASE_PROBE, [uapi::SBI_EXT, 0]), Some((0, 1)));
        assert_eq!(call(uapi::SBI_EXT, 0, [32, 1]), Some((SUCCESS, 0)));
        assert_eq!(
            call(uapi::SBI_EXT, 0, [32, 2]),
            Some((ERR_INVALID_PARAM, 0))
        );
        assert_eq!(call(uapi::SBI_EXT, 1, [32, 1]), None);
        assert_eq!(call(EXT_BASE, BASE_PROBE, [0x0900_0000, 0]), None);
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
                console.call(&memory, &mut out, EXT_DBCN, 0, &args).0,
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
