//! The serial port.

use crate::bus::BusDevice;
use crate::devices::input::{InputSink, TYPE_AHEAD, restore_input, save_input};
use crate::devices::quiet_lock::{Guard, QuietLock};
use crate::devices::state::Stateful;
use crate::devices::transmit::Transmit;
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

/// State of a port that is accessed in user mode.
pub struct Redirected {
    /// Output of the UART.
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
    /// Remaining work after an access in a handler, which may have transmitted a byte that the
    /// event loop does not expect.
    fn done(&self, forgotten: bool) -> Answer {
        if forgotten || self.line.waiting() {
            Answer::Settle
        } else {
            Answer::Done
        }
    }

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
    fn load(&self, offset: u64, len: u8) -> (Answer, u64) {
        const LEFT: (Answer, u64) = (Answer::Left, 0);
        let (Some(redirected), Some(mut locked)) = (&self.redirected, self.uart.try_lock()) else {
            return LEFT;
        };
        let (uart, ahead) = &mut *locked;
        if len != 1 || !uart.is_plain(offset, false) || !ahead.is_empty() {
            return LEFT;
        }
        let value = redirected.line.in_handler(|| uart.load(offset));
        (redirected.done(false), value.into())
    }

    fn store(&self, offset: u64, len: u8, value: u64) -> Answer {
        let (Some(redirected), Some(mut locked)) = (&self.redirected, self.uart.try_lock()) else {
            return Answer::Left;
        };
        let (uart, ahead) = &mut *locked;
        let transmits = Uart::transmits(offset);
        if len != 1
            || !uart.is_plain(offset, true)
            || !ahead.is_empty()
            || transmits && !redirected.transmit.ready()
        {
            return Answer::Left;
        }
        redirected
            .line
            .in_handler(|| uart.store(offset, value as u8));
        redirected.done(transmits && redirected.transmit.forgotten())
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
        // From the guest's view it has been sent.
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
