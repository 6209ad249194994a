//! An APLIC in the VMM, for guests whose IMSICs alone are in KVM: it turns wires into messages.
//!
//! A guest has a supervisor-level domain only. It is the child of a hidden machine-level domain
//! that delegates everything.

use crate::bus::{BusDevice, fill, value};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trapless_devices::{StateError, StateReader, StateWriter};
use trapless_intc::aia::aplic::{Aplic, Delivery, Level, Message, SOURCES};

/// `sourcecfg` of source 1, and its bit that delegates the source to child 0.
const SOURCECFG: u64 = 4;
const DELEGATE: u32 = 1 << 10;
/// Maximum length of a saved state in bytes.
const STATE_LIMIT: usize = 1 << 20;

/// Callback for each message that the APLIC sends.
pub type Send = Box<dyn Fn(Message) + std::marker::Send + Sync>;

/// The APLIC.
pub struct UserAplic {
    model: Mutex<Aplic>,
    send: Send,
}

fn delegated(vcpus: u16) -> Aplic {
    let mut model = Aplic::new(Delivery::Msi, usize::from(vcpus));
    for source in 1..=u64::from(SOURCES) {
        // An aligned word, which every register is.
        let _ = model.store(Level::Machine, SOURCECFG + 4 * (source - 1), 4, DELEGATE);
    }
    model
}

impl UserAplic {
    /// An APLIC after reset.
    pub fn new(vcpus: u16, send: Send) -> Self {
        Self {
            model: Mutex::new(delegated(vcpus)),
            send,
        }
    }

    /// A poisoned mutex still holds a usable APLIC: no method of it leaves a half-done change
    /// behind.
    fn model(&self) -> MutexGuard<'_, Aplic> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drives the wire of `source`.
    pub fn drive(&self, source: u32, high: bool) {
        let mut model = self.model();
        let message = model.set_level(source, high);
        self.send(&model, message.into_iter());
    }

    /// Makes an edge-triggered source pending; its wire stays high.
    pub fn pulse(&self, source: u32) {
        let mut model = self.model();
        model.set_level(source, false);
        let message = model.set_level(source, true);
        self.send(&model, message.into_iter());
    }

    /// Sends messages with the APLIC locked: a guest that has written a source's target expects no
    /// further message to the old one, whose identity it may reuse.
    fn send(&self, _: &MutexGuard<'_, Aplic>, messages: impl Iterator<Item = (u64, Message)>) {
        for (_, message) in messages {
            (self.send)(message);
        }
    }

    /// Appends the state.
    pub fn save(&self, to: &mut StateWriter) {
        // Serializing numbers and lists of them cannot fail.
        to.bytes(&serde_json::to_vec(&*self.model()).unwrap_or_default());
    }

    /// Restores the state, wires included.
    ///
    /// # Errors
    /// [`StateError`] if it is not the state of such an APLIC.
    pub fn restore(&self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let saved: Aplic = serde_json::from_slice(from.bytes(STATE_LIMIT)?)
            .map_err(|_| StateError("is not an APLIC"))?;
        let mut model = self.model();
        if !model.fits(&saved) {
            return Err(StateError("has another number of sources or vCPUs"));
        }
        *model = saved;
        Ok(())
    }
}

impl BusDevice for UserAplic {
    fn read(&self, offset: u64, data: &mut [u8]) {
        let size = data.len() as u8;
        let word = self.model().load(Level::Supervisor, offset, size);
        fill(data, word.unwrap_or(0).into());
    }

    fn write(&self, offset: u64, data: &[u8]) {
        let (size, word) = (data.len() as u8, value(data) as u32);
        let mut model = self.model();
        let messages = model.store(Level::Supervisor, offset, size, word);
        self.send(&model, messages.unwrap_or_default().into_iter());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const DOMAINCFG: u64 = 0;
    const SETIENUM: u64 = 0x1edc;
    const TARGET: u64 = 0x3000;

    /// Hart and identity of each message.
    type Sent = Arc<Mutex<Vec<(u32, u32)>>>;

    fn aplic() -> (UserAplic, Sent) {
        let sent = Sent::default();
        let log = Arc::clone(&sent);
        let send = move |m: Message| log.lock().unwrap().push((m.hart, m.identity));
        (UserAplic::new(2, Box::new(send)), sent)
    }

    fn store(aplic: &UserAplic, offset: u64, value: u32) {
        aplic.write(offset, &value.to_le_bytes());
    }

    #[test]
    fn a_guest_owns_every_source_and_its_edges_become_messages() {
        let (aplic, sent) = aplic();
        let source = 5;
        store(&aplic, SOURCECFG + 4 * (source - 1), 4); // rising edge
        store(&aplic, TARGET + 4 * source, 1 << 18 | 77);
        store(&aplic, SETIENUM, source as u32);
        store(&aplic, DOMAINCFG, 1 << 8);
        aplic.pulse(source as u32);
        aplic.pulse(source as u32);
        assert_eq!(*sent.lock().unwrap(), [(1, 77), (1, 77)]);

        let mut writer = StateWriter::default();
        aplic.save(&mut writer);
        let bytes = writer.into_bytes();
        let (again, sent) = self::aplic();
        again.restore(&mut StateReader::new(&bytes)).unwrap();
        again.pulse(source as u32);
        assert_eq!(*sent.lock().unwrap(), [(1, 77)]);
        let three = UserAplic::new(3, Box::new(|_| {}));
        assert!(three.restore(&mut StateReader::new(&bytes)).is_err());
    }

    /// After a guest has written a source's target, a message to the old one would count as another
    /// source's.
    #[test]
    fn a_source_gets_another_target_only_when_its_message_has_been_sent() {
        use std::sync::atomic::{AtomicBool, Ordering};
        use std::sync::mpsc;
        use std::time::Duration;

        let (sending, is_sending) = mpsc::channel();
        let (retargeted, is_retargeted) = mpsc::channel::<()>();
        let is_retargeted = Mutex::new(is_retargeted);
        let early = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&early);
        let send = move |_: Message| {
            sending.send(()).unwrap();
            let done = is_retargeted.lock().unwrap();
            let done = done.recv_timeout(Duration::from_millis(200)).is_ok();
            seen.store(done, Ordering::SeqCst);
        };
        let aplic = UserAplic::new(2, Box::new(send));
        store(&aplic, SOURCECFG, 4); // rising edge
        store(&aplic, TARGET + 4, 77);
        store(&aplic, SETIENUM, 1);
        store(&aplic, DOMAINCFG, 1 << 8);
        std::thread::scope(|scope| {
            scope.spawn(|| aplic.pulse(1));
            is_sending.recv().unwrap();
            store(&aplic, TARGET + 4, 1 << 18 | 78);
            // Nobody listens if the message has been sent.
            let _ = retargeted.send(());
        });
        assert!(!early.load(Ordering::SeqCst));
    }

    #[test]
    fn accesses_of_other_sizes_do_nothing() {
        let (aplic, _) = aplic();
        aplic.write(DOMAINCFG + 1, &[1]);
        aplic.write(DOMAINCFG, &[0; 8]);
        let mut byte = [0xff];
        aplic.read(DOMAINCFG, &mut byte);
        assert_eq!(byte, [0]);
    }
}
