//! Until when harts wait. With many harts most of them do, and the scheduler would else gather this
//! from all of them several times in each round.

/// What is known of the waits of all harts.
pub(crate) struct Waits(Vec<u64>);

/// Of a hart that runs, or of which nothing is known.
const UNKNOWN: u64 = 0;

impl Waits {
    /// Nothing is known of `harts` harts.
    pub fn new(harts: usize) -> Self {
        Self(vec![UNKNOWN; harts])
    }

    /// `hart` waits, and nothing but a change of its inputs ends this before `time` (cycles).
    pub fn set(&mut self, hart: usize, time: u64) {
        self.0[hart] = time;
    }

    /// `hart` may wait no more, or until another time.
    pub fn forget(&mut self, hart: usize) {
        if let Some(time) = self.0.get_mut(hart) {
            *time = UNKNOWN;
        }
    }

    /// All harts may.
    pub fn forget_all(&mut self) {
        self.0.fill(UNKNOWN);
    }

    /// The first hart from `hart` on that may have to run before `time` (cycles).
    #[inline]
    pub fn next_due(&self, hart: usize, time: u64) -> Option<usize> {
        let mut times = self.0.get(hart..)?.iter();
        Some(hart + times.position(|until| *until < time)?)
    }

    /// Until when `hart` waits in cycles, if that is known.
    #[inline]
    pub fn until(&self, hart: usize) -> Option<u64> {
        let time = self.0[hart];
        (time != UNKNOWN).then_some(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: harts have their turns in order, those that run and those whose wait ends before
    /// the round does, and no others.
    #[test]
    fn turns_are_those_of_harts_that_are_due() {
        let mut waits = Waits::new(5);
        waits.set(0, 100);
        waits.set(1, 99);
        waits.set(3, u64::MAX);
        let due = |waits: &Waits| {
            let next = |hart: usize| waits.next_due(hart, 100);
            std::iter::successors(next(0), |hart| next(hart + 1)).collect::<Vec<_>>()
        };
        assert_eq!(due(&waits), [1, 2, 4]);
        waits.forget(0);
        assert_eq!(due(&waits), [0, 1, 2, 4]);
        assert_eq!(waits.next_due(5, 100), None);
        assert_eq!(waits.next_due(9, 100), None);
    }
}
