//! A lock that a handler in user mode can take, and release, without system calls.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Threads wait for each other on a mutex of the standard library, and spin only for a handler,
/// which is brief.
pub struct QuietLock<T> {
    turn: Mutex<()>,
    value: spin::Mutex<T>,
}

/// Guard of a thread that holds a [`QuietLock`].
pub struct Guard<'a, T> {
    // Released first.
    value: spin::MutexGuard<'a, T>,
    _turn: MutexGuard<'a, ()>,
}

impl<T> QuietLock<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        Self {
            turn: Mutex::new(()),
            value: spin::Mutex::new(value),
        }
    }

    /// Takes it. A panic of another thread that held it leaves no unsafe state behind.
    pub fn lock(&self) -> Guard<'_, T> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        Guard {
            value: self.value.lock(),
            _turn: turn,
        }
    }

    /// Takes it if it is free; for handlers.
    pub fn try_lock(&self) -> Option<spin::MutexGuard<'_, T>> {
        self.value.try_lock()
    }
}

impl<T> std::ops::Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> std::ops::DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn handlers_get_it_only_while_no_thread_has_it() {
        let lock = Arc::new(QuietLock::new(1));
        let mut guard = lock.lock();
        *guard += 1;
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert_eq!(lock.try_lock().map(|value| *value), Some(2));
        let quiet = lock.try_lock();
        let other = Arc::clone(&lock);
        let thread = std::thread::spawn(move || *other.lock());
        drop(quiet);
        assert_eq!(thread.join().unwrap(), 2);
    }
}
