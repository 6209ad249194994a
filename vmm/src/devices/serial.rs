//! The serial port.

use crate::bus::{self, BusDevice};
use crate::devices::input::{InputSink, TYPE_AHEAD, restore_input, save_input};
use crate::devices::quiet_lock::{Guard, QuietLock};
use crate::devices::state::Stateful;
use crate::devices::transmit::Transmit;
use crate::uer::access::Access;
use crate::uer::device::{Answer, RedirectedDevice};
use crate::uer::line::DeferredLine;
use std::collections::VecDeque;
use std::sync::Arc;
use trapless_devices::{MmioDevice, Persist, StateError, StateReader, StateWriter, Uart};
use vmm_sys_util::eventfd::EventFd;

/// The serial port with its type-ahead: the UART's own FIFO has only 64 bytes.
pub struct SerialPort {
    uart: QuietLock<(Uart, VecDeque<u8>)>,
    redirected: Option<Redirected>,
}

/// What a port needs that answers in user mode.
pub struct Redirected {
    /// Where the UART transmits to.
    pub transmit: Arc<Transmit>,
    /// The wire that it drives.
    pub line: Arc<DeferredLine>,
    /// Wakes the event loop.
    pub wake: Arc<EventFd>,
}

impl SerialPort {
    /// Wraps the UART.
    pub fn new(uart: Uart, redirected: Option<Redirected>) -> Self {
        Self {
            uart: QuietLock::new((uart, VecDeque::new())),
            redirected,
        }
    }

    fn lock(&self) -> Guard<'_, (Uart, VecDeque<u8>)> {
        self.uart.lock()
    }

    /// After an access in a thread.
    fn wake(&self) {
        if let Some(redirected) = &self.redirected {
            redirected.wake_for_output();
        }
    }
}

impl Redirected {
    fn wake_for_output(&self) {
        if self.transmit.forgotten() && self.transmit.waits() {
            self.transmit.expect();
            let _ = self.wake.write(1);
        }
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
        {
            let (uart, ahead) = &mut *self.lock();
            uart.write(offset, data);
            refill(uart, ahead);
        }
        self.wake();
    }
}

impl RedirectedDevice for SerialPort {
    fn access(&self, offset: u64, access: &Access) -> (Answer, u64) {
        const LEFT: (Answer, u64) = (Answer::Left, 0);
        let (Some(redirected), Some(mut locked)) = (&self.redirected, self.uart.try_lock()) else {
            return LEFT;
        };
        let (uart, ahead) = &mut *locked;
        let plain = uart.is_plain(offset, access.store.is_some());
        if !plain || !ahead.is_empty() || !redirected.transmit.ready() {
            return LEFT;
        }
        let mut data = [0; 8];
        let data = &mut data[..usize::from(access.len)];
        redirected.line.in_handler(|| match access.store {
            Some(value) => {
                bus::fill(data, value);
                uart.write(offset, data);
            }
            None => uart.read(offset, data),
        });
        let woken = redirected.transmit.forgotten() && redirected.transmit.waits();
        let answer = if woken || redirected.line.waiting() {
            Answer::Settle
        } else {
            Answer::Done
        };
        (answer, bus::value(data))
    }

    fn settle(&self) {
        if let Some(redirected) = &self.redirected {
            let _port = self.lock();
            redirected.line.settle();
            redirected.wake_for_output();
        }
    }
}

impl Stateful for SerialPort {
    fn save(&self, to: &mut StateWriter) {
        let (uart, ahead) = &*self.lock();
        // To the guest it has been sent.
        self.redirected.iter().for_each(|r| r.transmit.flush());
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
