//! 16550A UART with a level-triggered interrupt, one byte register per address (`ns16550a`,
//! `reg-shift = 0`).
//!
//! `vm_superio::Serial` holds the registers, the receive FIFO and loop-back. Its own interrupt is
//! an edge and its interrupt identification forgets received data once it was read, so this wrapper
//! derives identification (IIR) and the level of the wire from the conditions, as the 16550 data
//! sheet describes them.

use std::convert::Infallible;
use std::io::Write;

use vm_superio::{
    Serial, Trigger,
    serial::{NoEvents, SerialState},
};

use crate::state::{Persist, StateError, StateReader, StateWriter};
use crate::{IrqLine, MmioDevice};

const DATA: u8 = 0;
const IER: u8 = 1;
/// Read: interrupt identification. Written: FIFO control.
const IIR_FCR: u8 = 2;
const LCR: u8 = 3;
const MCR: u8 = 4;
const LSR: u8 = 5;

const IER_RECEIVED: u8 = 1 << 0;
const IER_THR_EMPTY: u8 = 1 << 1;
const IIR_NONE: u8 = 0b0001;
const IIR_THR_EMPTY: u8 = 0b0010;
const IIR_RECEIVED: u8 = 0b0100;
const IIR_FIFO_ENABLED: u8 = 0b1100_0000;
const FCR_FIFO_ENABLE: u8 = 1 << 0;
const FCR_CLEAR_RECEIVER: u8 = 1 << 1;
const LCR_DLAB: u8 = 1 << 7;
const MCR_LOOP: u8 = 1 << 4;
const LSR_DATA_READY: u8 = 1 << 0;

/// Bytes in the receive FIFO of `vm_superio`.
const FIFO: usize = 64;

/// The interrupt is derived by [`Uart::update`] after each access, so the edge is not needed.
struct NoTrigger;

impl Trigger for NoTrigger {
    type E = Infallible;
    fn trigger(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The UART. Output of the guest is written and flushed to `out` at once, byte by byte: use a
/// buffering writer whose `flush` does nothing where that costs too much. Output that cannot be
/// written is dropped.
pub struct Uart {
    serial: Serial<NoTrigger, NoEvents, Box<dyn Write + Send>>,
    irq: Box<dyn IrqLine>,
    /// The "transmitter holding register empty" condition; set when the register becomes empty or
    /// its interrupt is enabled, cleared when IIR reports it.
    thr_empty: bool,
    fifo_enabled: bool,
    /// Copies of IER (also behind the divisor latch), LCR and MCR in `serial`, which every access
    /// needs.
    registers: Registers,
}

#[derive(Clone, Copy, Default)]
struct Registers {
    ier: u8,
    lcr: u8,
    mcr: u8,
}

impl Uart {
    /// A UART that transmits to `out` and drives `irq`.
    pub fn new(out: Box<dyn Write + Send>, irq: Box<dyn IrqLine>) -> Self {
        let mut uart = Self {
            serial: Serial::new(NoTrigger, out),
            irq,
            thr_empty: false,
            fifo_enabled: false,
            registers: Registers::default(),
        };
        uart.remember();
        uart
    }

    /// Updates [`Self::registers`].
    fn remember(&mut self) {
        let lcr = self.serial.read(LCR);
        self.registers = Registers {
            ier: if lcr & LCR_DLAB == 0 {
                self.serial.read(IER)
            } else {
                self.serial.state().interrupt_enable
            },
            lcr,
            mcr: self.serial.read(MCR),
        };
    }

    /// How many bytes [`Self::enqueue`] would take now: the free space of the receive FIFO (64
    /// bytes).
    pub fn input_capacity(&self) -> usize {
        self.serial.fifo_capacity()
    }

    /// Receives bytes from the line and returns how many fitted into the receive FIFO. Keep the
    /// rest and offer it again later. While the guest has the UART in loop-back mode nothing is
    /// taken.
    pub fn enqueue(&mut self, bytes: &[u8]) -> usize {
        let taken = self.serial.enqueue_raw_bytes(bytes).unwrap_or(0);
        if taken > 0 {
            self.condition_came_up();
        }
        taken
    }

    /// Whether a store to the register at `offset` may write to `out`.
    pub fn transmits(offset: u64) -> bool {
        offset == u64::from(DATA)
    }

    /// Whether an access to the register at `offset` only changes this UART, writes to `out` and
    /// drives the wire, without allocations. Others set up the line.
    pub fn is_plain(&self, offset: u64, write: bool) -> bool {
        let plain = match offset {
            0 | 1 => true,
            2..=7 => !write,
            _ => false,
        };
        plain && !self.dlab() && self.registers.mcr & MCR_LOOP == 0
    }

    /// The register IIR, without its side effect; received data has priority over an empty
    /// transmitter.
    fn identification(&mut self) -> u8 {
        let enabled = self.registers.ier;
        if enabled & IER_RECEIVED != 0 && self.serial.read(LSR) & LSR_DATA_READY != 0 {
            IIR_RECEIVED
        } else if enabled & IER_THR_EMPTY != 0 && self.thr_empty {
            IIR_THR_EMPTY
        } else {
            IIR_NONE
        }
    }

    fn dlab(&self) -> bool {
        self.registers.lcr & LCR_DLAB != 0
    }

    fn clear_receiver(&mut self) {
        // The FIFO is read through the data register, which the divisor latch may cover.
        let lcr = self.serial.read(LCR);
        let _ = self.serial.write(LCR, lcr & !LCR_DLAB);
        while self.serial.read(LSR) & LSR_DATA_READY != 0 {
            self.serial.read(DATA);
        }
        let _ = self.serial.write(LCR, lcr);
    }

    fn update(&mut self) {
        let level = self.identification() != IIR_NONE;
        self.irq.set(level);
    }

    /// As [`update`](Self::update), when there may be a new condition.
    fn condition_came_up(&mut self) {
        let level = self.identification() != IIR_NONE;
        self.irq.set(level);
        if level {
            self.irq.again();
        }
    }
}

impl MmioDevice for Uart {
    fn read(&mut self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        // Registers are bytes: a wider access reaches the first one.
        if let Some(byte) = data.first_mut() {
            *byte = self.load(offset);
        }
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        if let Some(&value) = data.first() {
            self.store(offset, value);
        }
    }
}

impl Uart {
    /// Loads the register at `offset`; 0 if there is none.
    pub fn load(&mut self, offset: u64) -> u8 {
        let Ok(register @ 0..8) = u8::try_from(offset) else {
            return 0;
        };
        let value = match register {
            IIR_FCR => {
                let identification = self.identification();
                if identification == IIR_THR_EMPTY {
                    self.thr_empty = false;
                }
                identification
                    | if self.fifo_enabled {
                        IIR_FIFO_ENABLED
                    } else {
                        0
                    }
            }
            _ => self.serial.read(register),
        };
        // Bytes left in the FIFO are a condition of their own: a driver that reads one byte for
        // each interrupt gets all.
        if register == DATA && !self.dlab() && self.serial.read(LSR) & LSR_DATA_READY != 0 {
            self.condition_came_up();
        } else {
            self.update();
        }
        value
    }

    /// Transmits a byte, when nothing covers the register. `serial` would do the same and keep an
    /// interrupt identification of its own, which is not used: this is the path of a console that
    /// is printed to.
    fn transmit(&mut self, value: u8) {
        let out = self.serial.writer_mut();
        // An error here is a failure of `out`; see the type's comment.
        let _ = out.write_all(&[value]).and_then(|()| out.flush());
        if self.thr_empty {
            self.update();
        } else {
            self.thr_empty = true;
            self.condition_came_up();
        }
    }

    /// Stores to the register at `offset`, if there is one.
    pub fn store(&mut self, offset: u64, value: u8) {
        if Self::transmits(offset) && self.is_plain(offset, true) {
            self.transmit(value);
        } else {
            self.store_other(offset, value);
        }
    }

    fn store_other(&mut self, offset: u64, value: u8) {
        let Ok(register @ 0..8) = u8::try_from(offset) else {
            return;
        };
        let mut came_up = false;
        match register {
            IIR_FCR => {
                let enable = value & FCR_FIFO_ENABLE != 0;
                if value & FCR_CLEAR_RECEIVER != 0 || enable != self.fifo_enabled {
                    self.clear_receiver();
                }
                self.fifo_enabled = enable;
            }
            DATA | IER => {
                let dlab = self.dlab();
                let was_enabled = if dlab { 0 } else { self.registers.ier };
                // An error here is a failure of `out`; see the type's comment.
                let _ = self.serial.write(register, value);
                // In loop-back mode.
                if register == DATA && !dlab {
                    came_up = !self.thr_empty;
                    self.thr_empty = true;
                }
                if register == IER && !dlab {
                    // Only interrupts that exist.
                    self.registers.ier = self.serial.read(IER);
                    came_up = value & !was_enabled != 0;
                    // The register is always empty: enabling its interrupt reports that at once.
                    self.thr_empty |= value & !was_enabled & IER_THR_EMPTY != 0;
                }
            }
            _ => {
                let _ = self.serial.write(register, value);
                self.remember();
            }
        }
        if came_up {
            self.condition_came_up();
        } else {
            self.update();
        }
    }
}

impl Persist for Uart {
    fn save(&self, to: &mut StateWriter) {
        let state = self.serial.state();
        for register in [
            state.baud_divisor_low,
            state.baud_divisor_high,
            state.interrupt_enable,
            state.interrupt_identification,
            state.line_control,
            state.line_status,
            state.modem_control,
            state.modem_status,
            state.scratch,
        ] {
            to.number(register);
        }
        to.bytes(&state.in_buffer);
        to.number(self.thr_empty);
        to.number(self.fifo_enabled);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let state = SerialState {
            baud_divisor_low: from.number()?,
            baud_divisor_high: from.number()?,
            interrupt_enable: from.number()?,
            interrupt_identification: from.number()?,
            line_control: from.number()?,
            line_status: from.number()?,
            modem_control: from.number()?,
            modem_status: from.number()?,
            scratch: from.number()?,
            in_buffer: from.bytes(FIFO)?.to_vec(),
        };
        let out = std::mem::replace(self.serial.writer_mut(), Box::new(std::io::sink()));
        self.serial = Serial::from_state(&state, NoTrigger, NoEvents, out)
            .map_err(|_| StateError("holds more than such a device can"))?;
        self.remember();
        self.thr_empty = from.flag()?;
        self.fifo_enabled = from.flag()?;
        self.update();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Line(Arc<AtomicBool>);
    impl IrqLine for Line {
        fn set(&self, high: bool) {
            self.0.store(high, Ordering::Relaxed);
        }
    }
    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);
    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn uart() -> (Uart, Output, Line) {
        let (out, line) = (Output::default(), Line::default());
        (
            Uart::new(Box::new(out.clone()), Box::new(line.clone())),
            out,
            line,
        )
    }

    fn read(uart: &mut Uart, register: u8) -> u8 {
        let mut data = [0xff];
        uart.read(register.into(), &mut data);
        data[0]
    }

    #[test]
    fn received_data_keeps_the_wire_high_until_the_fifo_is_empty() {
        let (mut uart, _, line) = uart();
        uart.write(IER.into(), &[IER_RECEIVED]);
        assert_eq!(uart.enqueue(b"ab"), 2);
        assert!(line.0.load(Ordering::Relaxed));
        assert_eq!(read(&mut uart, IIR_FCR), IIR_RECEIVED);
        assert_eq!(
            read(&mut uart, IIR_FCR),
            IIR_RECEIVED,
            "reading IIR does not consume data"
        );
        assert_eq!(read(&mut uart, DATA), b'a');
        assert!(line.0.load(Ordering::Relaxed));
        assert_eq!(read(&mut uart, DATA), b'b');
        assert!(!line.0.load(Ordering::Relaxed));
        assert_eq!(read(&mut uart, IIR_FCR), IIR_NONE);
    }

    #[test]
    fn input_is_bounded_and_the_rest_stays_with_the_caller() {
        let (mut uart, _, line) = uart();
        assert_eq!(uart.enqueue(&[b'x'; 100]), 64);
        assert_eq!((uart.input_capacity(), uart.enqueue(b"y")), (0, 0));
        assert!(!line.0.load(Ordering::Relaxed), "not enabled yet");
        uart.write(IER.into(), &[IER_RECEIVED]);
        assert!(
            line.0.load(Ordering::Relaxed),
            "enabling reports data already there"
        );
        uart.write(LCR.into(), &[LCR_DLAB]);
        assert!(
            line.0.load(Ordering::Relaxed),
            "the divisor latch hides IER but does not change it"
        );
        uart.write(IIR_FCR.into(), &[FCR_FIFO_ENABLE | FCR_CLEAR_RECEIVER]);
        assert_eq!(uart.input_capacity(), 64);
        assert!(!line.0.load(Ordering::Relaxed));
        assert_eq!(read(&mut uart, LCR), LCR_DLAB);
    }

    #[test]
    fn a_restored_uart_has_the_input_the_line_and_its_own_output() {
        let (mut saved, _, _) = uart();
        saved.write(IER.into(), &[IER_RECEIVED]);
        saved.enqueue(b"ab");
        let mut writer = StateWriter::default();
        saved.save(&mut writer);
        let state = writer.into_bytes();
        let (mut uart, out, line) = uart();
        let mut reader = StateReader::new(&state);
        uart.restore(&mut reader).unwrap();
        reader.end().unwrap();
        assert!(line.0.load(Ordering::Relaxed));
        assert_eq!([read(&mut uart, DATA), read(&mut uart, DATA)], *b"ab");
        assert!(!line.0.load(Ordering::Relaxed));
        uart.write(DATA.into(), b"k");
        assert_eq!(*out.0.lock().unwrap(), b"k");
    }

    #[test]
    fn transmitter_interrupt_follows_the_linux_start_up_test() {
        let (mut uart, out, line) = uart();
        // Enabling THRI twice reports it twice: the 8250 driver looks for UARTs that do not.
        for _ in 0..2 {
            uart.write(IER.into(), &[IER_THR_EMPTY]);
            assert!(line.0.load(Ordering::Relaxed));
            assert_eq!(read(&mut uart, IIR_FCR), IIR_THR_EMPTY);
            assert!(!line.0.load(Ordering::Relaxed));
            assert_eq!(read(&mut uart, IIR_FCR), IIR_NONE);
            uart.write(IER.into(), &[0]);
        }
        uart.write(IER.into(), &[IER_THR_EMPTY]);
        assert_eq!(read(&mut uart, IIR_FCR), IIR_THR_EMPTY);
        uart.write(DATA.into(), b"k");
        assert!(line.0.load(Ordering::Relaxed));
        assert_eq!(*out.0.lock().unwrap(), b"k");
        // A write to the divisor latch is not a transmission.
        uart.write(LCR.into(), &[LCR_DLAB]);
        uart.write(DATA.into(), b"1");
        assert_eq!(*out.0.lock().unwrap(), b"k");
    }
}
