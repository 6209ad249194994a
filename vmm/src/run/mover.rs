//! Moves a vCPU's thread between host CPUs, to measure the cost of moves.

use crate::run::affinity::pin_thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moves {
    /// Number of moves.
    pub count: u64,
    /// Time before each in microseconds.
    pub interval: u64,
    /// Host CPUs, in turn.
    pub cpus: Vec<u16>,
}

impl Moves {
    /// Parses `COUNT MICROSECONDS CPU,...`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let mut number = || words.next()?.parse().ok();
        let (count, interval) = (number()?, number()?);
        let cpus = words.next()?.split(',').map(|cpu| cpu.parse().ok());
        let cpus = cpus.collect::<Option<Vec<u16>>>()?;
        words.next().is_none().then_some(Self {
            count,
            interval,
            cpus,
        })
    }
}

/// A thread that moves another one.
pub struct Mover {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Mover {
    /// Moves `target`, which must live as long as the result.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(target: libc::pthread_t, moves: Moves) -> std::io::Result<Self> {
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (stopping, counter) = (Arc::clone(&stop), Arc::clone(&done));
        let work = move || {
            let turns = moves.cpus.iter().cycle();
            for (&cpu, _) in turns.zip(0..moves.count) {
                std::thread::sleep(Duration::from_micros(moves.interval));
                if stopping.load(Ordering::Relaxed) {
                    return;
                }
                // SAFETY: `target` has not been joined.
                unsafe { pin_thread(target, cpu.into()) };
                counter.fetch_add(1, Ordering::Relaxed);
            }
        };
        let thread = std::thread::Builder::new()
            .name("mover".into())
            .spawn(work)?;
        Ok(Self {
            stop,
            done,
            thread: Some(thread),
        })
    }

    /// Moves so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_a_number_microseconds_and_cpus() {
        let moves = Moves {
            count: 3,
            interval: 10,
            cpus: vec![0, 1],
        };
        assert_eq!(Moves::parse(" 3 10 0,1"), Some(moves));
        for bad in [
            "",
            "3",
            "3 10",
            "3 10 x",
            "3 10 0,",
            "-1 10 0",
            "3 10 0 1",
            "3 10 70000",
        ] {
            assert_eq!(Moves::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_mover_stops_after_its_moves_and_when_dropped() {
        let moves = |count, interval| Moves {
            count,
            interval,
            cpus: vec![0],
        };
        // SAFETY: no conditions.
        let this = unsafe { libc::pthread_self() };
        let mover = Mover::start(this, moves(3, 1)).unwrap();
        while mover.done() < 3 {
            std::thread::yield_now();
        }
        drop(mover);
        drop(Mover::start(this, moves(u64::MAX, 1_000)).unwrap());
    }
}
