//! Until when harts wait. With many harts most of them do, and the scheduler would else gather this
//! from all of them several times in each round.

/// What is known of the waits of all harts.
pub(crate) struct Waits {
    until: Vec<u64>,
    /// Bits of harts of which nothing is known.
    unknown: Vec<u64>,
    /// See [`ends`](Self::ends); `None` after a change.
    ends: Option<[u64; 2]>,
}

/// Of a hart that runs, or of which nothing is known.
const UNKNOWN: u64 = 0;

impl Waits {
    /// Nothing is known of `harts` harts.
    pub fn new(harts: usize) -> Self {
        let mut waits = Self {
            until: vec![UNKNOWN; harts],
            unknown: vec![0; harts.div_ceil(64)],
            ends: None,
        };
        waits.forget_all();
        waits
    }

    /// `hart` waits, and nothing but a change of its inputs ends this before `time` (cycles).
    pub fn set(&mut self, hart: usize, time: u64) {
        self.change(hart, time);
    }

    /// `hart` may wait no more, or until another time.
    pub fn forget(&mut self, hart: usize) {
        self.change(hart, UNKNOWN);
    }

    #[inline]
    fn change(&mut self, hart: usize, time: u64) {
        let Some(until) = self.until.get_mut(hart) else {
            return;
        };
        let before = std::mem::replace(until, time);
        if before == time {
            return;
        }
        let bit = 1 << (hart % 64);
        match time {
            UNKNOWN => self.unknown[hart / 64] |= bit,
            _ => self.unknown[hart / 64] &= !bit,
        }
        // The wait that is over was a later one, or none.
        let kept = self
            .ends
            .filter(|ends| before == UNKNOWN || before > ends[1]);
        self.ends = kept.map(|ends| match time {
            UNKNOWN => ends,
            _ => with(ends, time),
        });
    }

    /// All harts may.
    pub fn forget_all(&mut self) {
        self.until.fill(UNKNOWN);
        for hart in 0..self.until.len() {
            self.unknown[hart / 64] |= 1 << (hart % 64);
        }
        self.ends = None;
    }

    /// When the first and the second of the known waits end (cycles); `u64::MAX`: never, or there
    /// is none. Rounds in which few harts run look at no other.
    #[inline]
    pub fn ends(&mut self) -> [u64; 2] {
        let known = self.until.iter().filter(|until| **until != UNKNOWN);
        *self
            .ends
            .get_or_insert_with(|| known.fold([u64::MAX; 2], |ends, until| with(ends, *until)))
    }

    /// The first hart from `hart` on of which nothing is known.
    #[inline]
    pub fn next_unknown(&self, hart: usize) -> Option<usize> {
        let mut from = hart % 64;
        for (word, bits) in self.unknown.iter().enumerate().skip(hart / 64) {
            let bits = bits >> from << from;
            if bits != 0 {
                return Some(64 * word + bits.trailing_zeros() as usize);
            }
            from = 0;
        }
        None
    }

    /// The first hart from `hart` on that may have to run before `time` (cycles).
    #[inline]
    pub fn next_due(&mut self, hart: usize, time: u64) -> Option<usize> {
        if self.ends()[0] >= time {
            return self.next_unknown(hart);
        }
        let mut times = self.until.get(hart..)?.iter();
        Some(hart + times.position(|until| *until < time)?)
    }

    /// Until when `hart` waits in cycles, if that is known.
    #[inline]
    pub fn until(&self, hart: usize) -> Option<u64> {
        let time = self.until[hart];
        (time != UNKNOWN).then_some(time)
    }
}

/// The two smallest of these.
fn with([first, second]: [u64; 2], time: u64) -> [u64; 2] {
    [first.min(time), second.min(time.max(first))]
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
        let due = |waits: &mut Waits| {
            let mut next = |hart: usize| waits.next_due(hart, 100);
            std::iter::successors(next(0), |hart| next(hart + 1)).collect::<Vec<_>>()
        };
        assert_eq!(due(&mut waits), [1, 2, 4]);
        waits.forget(0);
        assert_eq!(due(&mut waits), [0, 1, 2, 4]);
        assert_eq!(waits.next_due(5, 100), None);
        assert_eq!(waits.next_due(9, 100), None);
    }

    /// Promise: after any changes, what is said of all harts is what each of them says.
    #[test]
    fn what_is_kept_is_what_harts_say() {
        let mut random = 1_u64;
        let mut below = |bound: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % bound
        };
        for harts in [1, 3, 64, 130] {
            let mut waits = Waits::new(harts);
            for _ in 0..2000 {
                let hart = below(harts as u64) as usize;
                match below(40) {
                    0 => waits.forget_all(),
                    1 => waits.set(hart, u64::MAX),
                    2..15 => waits.forget(hart),
                    _ => waits.set(hart, 1 + below(50)),
                }
                let mut known: Vec<u64> = (0..harts).filter_map(|hart| waits.until(hart)).collect();
                known.extend([u64::MAX; 2]);
                known.sort_unstable();
                let (from, time) = (below(2 * harts as u64) as usize, below(60));
                let due = |&hart: &usize| waits.until(hart).is_none_or(|until| until < time);
                let due = (from..harts).find(due);
                let unknown = (from..harts).find(|&hart| waits.until(hart).is_none());
                assert_eq!(waits.next_unknown(from), unknown);
                assert_eq!(waits.next_due(from, time), due);
                assert_eq!(waits.ends(), known[..2]);
            }
        }
    }
}
