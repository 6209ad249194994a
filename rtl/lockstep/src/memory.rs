//! The memory of the circuit and that of the model.

use std::sync::{Arc, Mutex, MutexGuard};

use trapless_intc::Memory;

/// First byte.
pub const RAM: u64 = 0x8000_0000;
/// Number of words.
pub const WORDS: usize = 0x6000;

/// Why a word cannot be used (MEM-6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// Nothing can be done with it.
    Lost,
    /// It can be loaded.
    ReadOnly,
}

/// Words, those that cannot be used, and those that have been written.
pub struct Words {
    words: Vec<u64>,
    damaged: Vec<(u64, Damage)>,
    /// Addresses that were stored to since this was last emptied.
    pub written: Vec<u64>,
    /// An access has failed since this was last cleared.
    pub failed: bool,
}

impl Words {
    /// Zeros.
    #[must_use]
    pub fn new() -> Self {
        Self {
            words: vec![0; WORDS],
            damaged: Vec::new(),
            written: Vec::new(),
            failed: false,
        }
    }

    /// Makes a word unusable.
    pub fn damage(&mut self, addr: u64, damage: Damage) {
        self.damaged.push((addr, damage));
    }

    /// Makes all words usable.
    pub fn repair(&mut self) {
        self.damaged.clear();
    }

    /// Words that are not usable.
    pub fn damaged(&self) -> impl Iterator<Item = (u64, Damage)> + '_ {
        self.damaged.iter().copied()
    }

    /// What is wrong with a word.
    #[must_use]
    pub fn damage_at(&self, addr: u64) -> Option<Damage> {
        let found = self.damaged.iter().find(|(at, _)| *at == addr);
        found.map(|(_, damage)| *damage)
    }

    /// What a load answers.
    pub fn load(&mut self, addr: u64) -> Option<u64> {
        let word = self.usable(addr, false).map(|index| self.words[index]);
        self.failed |= word.is_none();
        word
    }

    /// What is there before an atomic operation or a store, if that is possible.
    pub fn load_to_store(&mut self, addr: u64) -> Option<u64> {
        let word = self.usable(addr, true).map(|index| self.words[index]);
        self.failed |= word.is_none();
        word
    }

    /// Stores a word.
    pub fn store(&mut self, addr: u64, value: u64) -> Option<()> {
        let index = self.usable(addr, true);
        self.failed |= index.is_none();
        self.words[index?] = value;
        self.written.push(addr);
        Some(())
    }

    /// The word, whatever is wrong with it.
    #[must_use]
    pub fn get(&self, addr: u64) -> u64 {
        self.words[((addr - RAM) / 8) as usize]
    }

    /// Changes it, likewise.
    pub fn set(&mut self, addr: u64, value: u64) {
        self.words[((addr - RAM) / 8) as usize] = value;
    }

    /// The first address at which two memories differ.
    #[must_use]
    pub fn differs(&self, other: &Self) -> Option<u64> {
        let pairs = self.words.iter().zip(&other.words);
        let index = pairs.into_iter().position(|(a, b)| a != b)?;
        Some(RAM + index as u64 * 8)
    }

    fn usable(&self, addr: u64, write: bool) -> Option<usize> {
        assert_eq!(addr % 8, 0, "accesses are aligned");
        let index = usize::try_from(addr.checked_sub(RAM)? / 8).ok()?;
        let damage = self.damage_at(addr);
        let usable = damage.is_none() || (damage == Some(Damage::ReadOnly) && !write);
        (index < WORDS && usable).then_some(index)
    }
}

/// Words that the model shares with who drives it.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Words>>);

impl Shared {
    /// Zeros.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Words::new())))
    }

    /// The words.
    pub fn words(&self) -> MutexGuard<'_, Words> {
        self.0.lock().expect("no holder panics and goes on")
    }
}

impl Memory for Shared {
    fn load(&self, _hart: usize, addr: u64) -> Option<u64> {
        self.words().load(addr)
    }

    fn store(&self, _hart: usize, addr: u64, value: u64) -> Option<()> {
        self.words().store(addr, value)
    }
}
