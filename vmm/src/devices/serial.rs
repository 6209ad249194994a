//! The serial port.

use crate::bus::BusDevice;
use crate::devices::input::{InputSink, TYPE_AHEAD, restore_input, save_input};
use crate::devices::state::Stateful;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trapless_devices::{MmioDevice, Persist, StateError, StateReader, StateWriter, Uart};

/// The serial port with its type-ahead: the UART's own FIFO has only 64 bytes.
pub struct SerialPort {
    uart: Mutex<(Uart, VecDeque<u8>)>,
}

impl SerialPort {
    /// Wraps the UART.
    pub fn new(uart: Uart) -> Self {
        Self {
            uart: Mutex::new((uart, VecDeque::new())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Uart, VecDeque<u8>)> {
        self.uart.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refill(uart: &mut Uart, ahead: &mut VecDeque<u8>) {
    if !ahead.is_empty() && uart.input_capacity() > 0 {
        let taken = uart.enqueue(ahead.make_contiguous());
        ahead.drain(..taken);
    }
}

impl BusDevice for SerialPort {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let (uart, ahead) = &mut *self.lock();
        uart.read(offset, data);
        refill(uart, ahead);
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let (uart, ahead) = &mut *self.lock();
        uart.write(offset, data);
        refill(uart, ahead);
    }
}

impl Stateful for SerialPort {
    fn save(&self, to: &mut StateWriter) {
        let (uart, ahead) = &*self.lock();
        uart.save(to);
        save_input(ahead, to);
    }

    fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let (uart, ahead) = &mut *self.lock();
        uart.restore(from)?;
        *ahead = restore_input(from)?;
        Ok(())
    }
}

impl InputSink for SerialPort {
    fn push(&self, bytes: &[u8]) {
        let (uart, ahead) = &mut *self.lock();
        ahead.extend(bytes);
        refill(uart, ahead);
    }

    fn full(&self) -> bool {
        self.lock().1.len() >= TYPE_AHEAD
    }
}
