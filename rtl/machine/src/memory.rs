//! The memory of the machine, as circuit and model access it one after the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use trapless_intc::Memory;

/// A word that an access has changed.
#[derive(Clone, Copy)]
struct Word {
    /// What the circuit has made of it, which is in memory.
    circuit: u64,
    /// What the model sees: what was there before, or what it has stored itself.
    model: u64,
}

/// The memory of the machine. What the circuit has stored since the last comparison is hidden from
/// the model, and what the model stores is only remembered.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    memory: Option<Arc<dyn Memory>>,
    changed: BTreeMap<u64, Word>,
}

impl Shared {
    /// From now on this is the memory.
    pub fn attach(&self, memory: Arc<dyn Memory>) {
        self.lock().memory = Some(memory);
    }

    /// The circuit loads a word.
    pub fn load_circuit(&self, hart: usize, addr: u64) -> Option<u64> {
        self.lock().memory.as_ref()?.load(hart, addr)
    }

    /// What is at `addr`, if the circuit can store there.
    pub fn load_to_store(&self, hart: usize, addr: u64) -> Option<u64> {
        let inner = self.lock();
        let memory = inner.memory.as_ref()?;
        let old = memory.load(hart, addr)?;
        memory.store(hart, addr, old).map(|()| old)
    }

    /// The circuit stores a word that [`load_to_store`](Self::load_to_store) has found to be `old`.
    pub fn store_circuit(&self, hart: usize, addr: u64, old: u64, value: u64) {
        let mut inner = self.lock();
        if let Some(memory) = &inner.memory {
            memory.store(hart, addr, value);
        }
        let first = Word {
            circuit: value,
            model: old,
        };
        inner.changed.entry(addr).or_insert(first).circuit = value;
    }

    /// Compares what both have stored.
    ///
    /// # Errors
    /// The first word that differs.
    pub fn compare(&self) -> Result<(), String> {
        let changed = std::mem::take(&mut self.lock().changed);
        match changed.iter().find(|(_, word)| word.circuit != word.model) {
            None => Ok(()),
            Some((addr, word)) => Err(format!(
                "{addr:#x} is {:#x} by the circuit, {:#x} by the model",
                word.circuit, word.model
            )),
        }
    }

    /// What the circuit has stored since the last comparison need not be compared.
    pub fn forget(&self) {
        self.lock().changed.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no holder panics and goes on")
    }
}

/// As the model sees it.
impl Memory for Shared {
    fn load(&self, hart: usize, addr: u64) -> Option<u64> {
        let inner = self.lock();
        let present = inner.memory.as_ref()?.load(hart, addr)?;
        Some(inner.changed.get(&addr).map_or(present, |word| word.model))
    }

    fn store(&self, hart: usize, addr: u64, value: u64) -> Option<()> {
        let mut inner = self.lock();
        let memory = inner.memory.as_ref()?;
        let present = memory.load(hart, addr)?;
        // Storing what is there changes nothing, and says whether the hart may store.
        memory.store(hart, addr, present)?;
        let first = Word {
            circuit: present,
            model: value,
        };
        inner.changed.entry(addr).or_insert(first).model = value;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One word at address 0x100.
    #[derive(Default)]
    struct One(Mutex<u64>);

    impl Memory for One {
        fn load(&self, _hart: usize, addr: u64) -> Option<u64> {
            (addr == 0x100).then(|| *self.0.lock().unwrap())
        }

        fn store(&self, _hart: usize, addr: u64, value: u64) -> Option<()> {
            (addr == 0x100).then(|| *self.0.lock().unwrap() = value)
        }
    }

    fn both(circuit: Option<u64>, model: Option<u64>) -> Result<(), String> {
        let shared = Shared::default();
        shared.attach(Arc::<One>::default());
        if let Some(value) = circuit {
            let old = shared.load_to_store(0, 0x100).unwrap();
            shared.store_circuit(0, 0x100, old, value);
        }
        assert_eq!(
            shared.load(0, 0x100),
            Some(0),
            "the circuit's store is hidden"
        );
        if let Some(value) = model {
            shared.store(0, 0x100, value).unwrap();
            assert_eq!(shared.load(0, 0x100), Some(value));
        }
        assert_eq!(shared.load_circuit(0, 0x100), Some(circuit.unwrap_or(0)));
        shared.compare()
    }

    /// A store that only one of them makes, or another value, is a difference.
    #[test]
    fn stores_are_compared() {
        assert_eq!(both(Some(5), Some(5)), Ok(()));
        assert!(both(Some(5), Some(6)).is_err());
        assert!(both(Some(5), None).is_err());
        assert!(both(None, Some(5)).is_err());
        assert_eq!(both(None, None), Ok(()));
    }

    /// What is not memory stays so for both.
    #[test]
    fn elsewhere_there_is_nothing() {
        let shared = Shared::default();
        shared.attach(Arc::<One>::default());
        assert_eq!(shared.load_to_store(0, 0x200), None);
        assert_eq!(shared.store(0, 0x200, 1), None);
    }
}
