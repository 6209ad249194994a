//! Goldfish RTC (`google,goldfish-rtc`): wall-clock time in nanoseconds since 1970, with one alarm.
//!
//! The register layout is that of the Goldfish virtual platform's `goldfish_rtc`, as Linux's
//! `rtc-goldfish` drives it.

use crate::state::{Persist, StateError, StateReader, StateWriter};
use crate::{Clock, IrqLine, MmioDevice, fill_le, value_le};

const TIME_LOW: u64 = 0x00;
const TIME_HIGH: u64 = 0x04;
const ALARM_LOW: u64 = 0x08;
const ALARM_HIGH: u64 = 0x0c;
const IRQ_ENABLED: u64 = 0x10;
const CLEAR_ALARM: u64 = 0x14;
const ALARM_STATUS: u64 = 0x18;
const CLEAR_INTERRUPT: u64 = 0x1c;

/// The RTC. Its time is the clock's plus an offset that the guest may change (setting the time).
pub struct GoldfishRtc {
    clock: Box<dyn Clock>,
    irq: Box<dyn IrqLine>,
    /// RTC time at clock time 0 as the RTC was built.
    epoch_ns: u64,
    /// RTC time minus clock time, modulo 2^64.
    offset_ns: u64,
    /// High half of the time: latched by a read of the low half, or written ahead of it.
    time_high: u32,
    alarm_high: u32,
    alarm_low: u32,
    /// RTC time of the armed alarm.
    alarm: Option<u64>,
    enabled: bool,
    pending: bool,
}

impl GoldfishRtc {
    /// An RTC that shows `epoch_ns` (nanoseconds since 1970) when `clock` shows 0.
    pub fn new(clock: Box<dyn Clock>, epoch_ns: u64, irq: Box<dyn IrqLine>) -> Self {
        Self {
            clock,
            irq,
            epoch_ns,
            offset_ns: epoch_ns,
            time_high: 0,
            alarm_high: 0,
            alarm_low: 0,
            alarm: None,
            enabled: false,
            pending: false,
        }
    }

    fn time(&self) -> u64 {
        self.clock.now_ns().wrapping_add(self.offset_ns)
    }

    /// Fires an alarm that is due and drives the wire.
    fn update(&mut self) {
        if self.alarm.is_some_and(|at| at <= self.time()) {
            self.alarm = None;
            self.pending = true;
        }
        self.irq.set(self.pending && self.enabled);
    }
}

impl MmioDevice for GoldfishRtc {
    fn read(&mut self, offset: u64, data: &mut [u8]) {
        let value = match offset {
            TIME_LOW => {
                let time = self.time();
                // The high half is latched so that the two reads belong together.
                self.time_high = (time >> 32) as u32;
                time as u32
            }
            TIME_HIGH => self.time_high,
            ALARM_LOW => self.alarm_low,
            ALARM_HIGH => self.alarm_high,
            IRQ_ENABLED => u32::from(self.enabled),
            ALARM_STATUS => u32::from(self.alarm.is_some()),
            _ => 0,
        };
        fill_le(data, value.into());
    }

    fn write(&mut self, offset: u64, data: &[u8]) {
        let value = value_le(data) as u32;
        match offset {
            // The low half is written last and sets the time or arms the alarm.
            TIME_LOW => {
                let time = u64::from(self.time_high) << 32 | u64::from(value);
                self.offset_ns = time.wrapping_sub(self.clock.now_ns());
            }
            TIME_HIGH => self.time_high = value,
            ALARM_LOW => {
                self.alarm_low = value;
                self.alarm = Some(u64::from(self.alarm_high) << 32 | u64::from(value));
            }
            ALARM_HIGH => self.alarm_high = value,
            IRQ_ENABLED => self.enabled = value & 1 != 0,
            CLEAR_ALARM => self.alarm = None,
            CLEAR_INTERRUPT => self.pending = false,
            _ => {}
        }
        self.update();
    }

    fn poll(&mut self) {
        self.update();
    }

    fn next_deadline(&self) -> Option<u64> {
        let now = self.clock.now_ns();
        // An alarm too far away for the clock to reach never fires.
        self.alarm
            .and_then(|at| now.checked_add(at.saturating_sub(self.time())))
    }
}

/// The clock runs between save and restore: the guest finds the present time, as after a
/// suspension. If it has set the time, the difference is kept.
impl Persist for GoldfishRtc {
    fn save(&self, to: &mut StateWriter) {
        to.number(self.offset_ns.wrapping_sub(self.epoch_ns));
        to.number(self.time_high);
        to.number(self.alarm_high);
        to.number(self.alarm_low);
        to.number(self.alarm.is_some());
        to.number(self.alarm.unwrap_or(0));
        to.number(self.enabled);
        to.number(self.pending);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        self.offset_ns = self.epoch_ns.wrapping_add(from.number()?);
        self.time_high = from.number()?;
        self.alarm_high = from.number()?;
        self.alarm_low = from.number()?;
        let (armed, at) = (from.flag()?, from.number()?);
        self.alarm = armed.then_some(at);
        self.enabled = from.flag()?;
        self.pending = from.flag()?;
        self.update();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    struct Manual(Arc<AtomicU64>);
    impl Clock for Manual {
        fn now_ns(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }
    struct Wire(Arc<AtomicBool>);
    impl IrqLine for Wire {
        fn set(&self, high: bool) {
            self.0.store(high, Ordering::Relaxed);
        }
    }

    const EPOCH: u64 = 1_700_000_000_000_000_000;

    fn rtc() -> (GoldfishRtc, Arc<AtomicU64>, Arc<AtomicBool>) {
        let (time, wire) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let rtc = GoldfishRtc::new(
            Box::new(Manual(time.clone())),
            EPOCH,
            Box::new(Wire(wire.clone())),
        );
        (rtc, time, wire)
    }

    fn read(rtc: &mut GoldfishRtc, offset: u64) -> u64 {
        let mut data = [0xff; 4];
        rtc.read(offset, &mut data);
        u32::from_le_bytes(data).into()
    }

    fn write64(rtc: &mut GoldfishRtc, offset: u64, value: u64) {
        rtc.write(offset + 4, &((value >> 32) as u32).to_le_bytes());
        rtc.write(offset, &(value as u32).to_le_bytes());
    }

    fn time(rtc: &mut GoldfishRtc) -> u64 {
        read(rtc, TIME_LOW) | read(rtc, TIME_HIGH) << 32
    }

    #[test]
    fn time_is_the_clocks_plus_what_the_guest_set() {
        let (mut rtc, clock, _) = rtc();
        clock.store(123, Ordering::Relaxed);
        assert_eq!(time(&mut rtc), EPOCH + 123);
        // The half read second belongs to the one read first.
        assert_eq!(read(&mut rtc, TIME_LOW), (EPOCH + 123) & 0xffff_ffff);
        clock.store(1 << 33, Ordering::Relaxed);
        assert_eq!(read(&mut rtc, TIME_HIGH), EPOCH >> 32);
        write64(&mut rtc, TIME_LOW, 5_000_000_000);
        clock.fetch_add(7, Ordering::Relaxed);
        assert_eq!(time(&mut rtc), 5_000_000_007);
    }

    #[test]
    fn alarm_raises_the_wire_at_its_deadline_until_cleared() {
        let (mut rtc, clock, wire) = rtc();
        rtc.write(IRQ_ENABLED, &1_u32.to_le_bytes());
        write64(&mut rtc, ALARM_LOW, EPOCH + 1000);
        assert_eq!(rtc.next_deadline(), Some(1000));
        assert_eq!(read(&mut rtc, ALARM_STATUS), 1);
        clock.store(999, Ordering::Relaxed);
        rtc.poll();
        assert!(!wire.load(Ordering::Relaxed));
        clock.store(1000, Ordering::Relaxed);
        rtc.poll();
        assert!(wire.load(Ordering::Relaxed));
        assert_eq!(
            (rtc.next_deadline(), read(&mut rtc, ALARM_STATUS)),
            (None, 0)
        );
        rtc.write(CLEAR_INTERRUPT, &1_u32.to_le_bytes());
        assert!(!wire.load(Ordering::Relaxed));
    }

    #[test]
    fn alarm_can_be_cancelled_and_one_in_the_past_fires_at_once() {
        let (mut rtc, clock, wire) = rtc();
        rtc.write(IRQ_ENABLED, &1_u32.to_le_bytes());
        write64(&mut rtc, ALARM_LOW, EPOCH + 10);
        rtc.write(CLEAR_ALARM, &0_u32.to_le_bytes());
        clock.store(20, Ordering::Relaxed);
        rtc.poll();
        assert!(!wire.load(Ordering::Relaxed));
        write64(&mut rtc, ALARM_LOW, EPOCH);
        assert!(wire.load(Ordering::Relaxed));
        write64(&mut rtc, ALARM_LOW, u64::MAX);
        clock.store(u64::MAX - EPOCH - 1, Ordering::Relaxed);
        assert_eq!(rtc.next_deadline(), Some(u64::MAX - EPOCH));
    }
}
