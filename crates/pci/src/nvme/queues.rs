//! Queues as their owner has made them (NVM Express Base 1.4, section 4.1).

use trapless_devices::{StateError, StateReader, StateWriter};

/// Most entries of a queue (CAP.MQES, plus 1).
pub(super) const MAX_ENTRIES: u32 = 1024;
/// Most entries of the administrator's queues: a field of 12 bits, less 1.
pub(super) const MAX_ADMIN: u32 = 4096;
/// Pairs of queues: that of the administrator, and those for I/O.
pub(super) const PAIRS: usize = 17;

/// A ring of entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ring {
    pub base: u64,
    /// 2..=[`MAX_ENTRIES`], or as many as AQA can say for those of the administrator.
    pub entries: u32,
    pub head: u32,
    pub tail: u32,
}

impl Ring {
    pub fn new(base: u64, entries: u32) -> Self {
        Self {
            base,
            entries,
            head: 0,
            tail: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    pub fn is_full(&self) -> bool {
        self.after(self.tail) == self.head
    }

    /// The entry that follows `entry`.
    pub fn after(&self, entry: u32) -> u32 {
        (entry + 1) % self.entries
    }

    fn save(&self, to: &mut StateWriter) {
        to.number(self.base);
        for number in [self.entries, self.head, self.tail] {
            to.number(number);
        }
    }

    fn restore(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        let ring = Self {
            base: from.number()?,
            entries: from.number()?,
            head: from.number()?,
            tail: from.number()?,
        };
        let (entries, last) = (ring.entries, ring.head.max(ring.tail));
        let possible = (2..=MAX_ADMIN).contains(&entries) && last < entries;
        possible
            .then_some(ring)
            .ok_or(StateError("has an impossible queue"))
    }
}

/// A submission queue.
#[derive(Clone, Copy)]
pub(super) struct Submission {
    pub ring: Ring,
    /// Where its completions go.
    pub completions: u16,
}

/// A completion queue.
#[derive(Clone, Copy)]
pub(super) struct Completions {
    pub ring: Ring,
    /// Phase of the entries that follow.
    pub phase: bool,
    /// It interrupts, by this vector.
    pub interrupts: bool,
    pub vector: u16,
    /// There are entries that nobody was told of.
    pub fresh: bool,
}

impl Completions {
    pub fn new(ring: Ring, interrupts: bool, vector: u16) -> Self {
        Self {
            ring,
            phase: true,
            interrupts,
            vector,
            fresh: false,
        }
    }
}

/// All queues, by number.
#[derive(Clone, Default)]
pub(super) struct Queues {
    pub submissions: [Option<Submission>; PAIRS],
    pub completions: [Option<Completions>; PAIRS],
}

impl Queues {
    /// The submission queue, if there is one of this number.
    pub fn submission(&mut self, number: usize) -> Option<&mut Submission> {
        self.submissions.get_mut(number)?.as_mut()
    }

    /// The completion queue, if there is one of this number.
    pub fn completion(&mut self, number: usize) -> Option<&mut Completions> {
        self.completions.get_mut(number)?.as_mut()
    }

    /// Whether completions go to the completion queue of this number.
    pub fn is_used(&self, number: u16) -> bool {
        let mut submissions = self.submissions.iter().flatten();
        submissions.any(|queue| queue.completions == number)
    }

    /// Whether there are queues for I/O.
    pub fn any_io(&self) -> bool {
        let submissions = self.submissions[1..].iter().flatten().count();
        submissions + self.completions[1..].iter().flatten().count() != 0
    }

    pub fn save(&self, to: &mut StateWriter) {
        for queue in &self.submissions {
            to.number(queue.is_some());
            if let Some(queue) = queue {
                queue.ring.save(to);
                to.number(queue.completions);
            }
        }
        for queue in &self.completions {
            to.number(queue.is_some());
            if let Some(queue) = queue {
                queue.ring.save(to);
                to.number(queue.vector);
                for flag in [queue.phase, queue.interrupts, queue.fresh] {
                    to.number(flag);
                }
            }
        }
    }

    pub fn restore(from: &mut StateReader<'_>) -> Result<Self, StateError> {
        let mut queues = Self::default();
        for queue in &mut queues.submissions {
            if from.flag()? {
                *queue = Some(Submission {
                    ring: Ring::restore(from)?,
                    completions: from.number()?,
                });
            }
        }
        for queue in &mut queues.completions {
            if from.flag()? {
                let ring = Ring::restore(from)?;
                let vector = from.number()?;
                *queue = Some(Completions {
                    ring,
                    vector,
                    phase: from.flag()?,
                    interrupts: from.flag()?,
                    fresh: from.flag()?,
                });
            }
        }
        Ok(queues)
    }
}
