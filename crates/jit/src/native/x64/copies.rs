//! Copies of floating-point registers in registers of the host.
//!
//! Each result is written to the context at once and stays in a host register, too, so that what
//! reads it next need not wait for memory. So nothing has to be written back: whatever leaves a
//! block, or ends it by the interpreter, finds the context complete. Copies are forgotten at the
//! end of a block; a region keeps those of the registers that it uses most.

use crate::native::precision::Precision;

/// A host register for floating point, by the number that instructions have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Xmm(pub u8);

/// The assembler's macro takes registers by their numbers.
impl From<Xmm> for u8 {
    fn from(xmm: Xmm) -> Self {
        xmm.0
    }
}

/// Those that hold copies. The others are scratch registers, in trampolines, too.
const POOL: std::ops::Range<u8> = 4..16;
/// How many of them a region may keep.
const KEPT: usize = 9;

const _: () = assert!(
    KEPT + 3 <= (POOL.end - POOL.start) as usize,
    "an instruction has three operands, or two and a result, of which none may make room for another"
);

/// A copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    pub f: u8,
    /// All that is valid: of a single, only the low half.
    pub precision: Precision,
    pub xmm: Xmm,
}

/// What is known of the state of floating point since the block began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) enum Ready {
    #[default]
    Unknown,
    /// FS is dirty.
    Dirty,
    /// FS is dirty, and the rounding mode is to nearest.
    Nearest,
}

/// All copies at a point of a block.
#[derive(Clone)]
pub(super) struct Copies {
    /// Last used last; free registers have `None`.
    others: Vec<(Xmm, Option<Held>)>,
    /// Those of the region, which stay.
    kept: Vec<Held>,
    /// Bit `f`: `f` holds a NaN-boxed single.
    boxed: u32,
    ready: Ready,
}

impl Copies {
    /// None.
    pub fn none() -> Self {
        Self::keeping(Vec::new())
    }

    /// A region's, by the registers that its instructions use, with the format of each and how
    /// often: those with numbers of one format only.
    pub fn of_region(used: impl Iterator<Item = (u8, Precision, u64)>) -> Self {
        let mut uses = [[0_u64; 2]; 32];
        for (f, precision, weight) in used {
            uses[usize::from(f)][precision as usize] += weight;
        }
        let mut kept: Vec<(u64, u8, Precision)> = (0..32)
            .filter_map(|f| match uses[usize::from(f)] {
                [0, 0] => None,
                [single, 0] => Some((single, f, Precision::Single)),
                [0, double] => Some((double, f, Precision::Double)),
                _ => None,
            })
            .collect();
        kept.sort_by_key(|&(uses, f, _)| (std::cmp::Reverse(uses), f));
        kept.truncate(KEPT);
        let copies = kept.into_iter().zip(POOL);
        let copy = |((_, f, precision), xmm)| Held {
            f,
            precision,
            xmm: Xmm(xmm),
        };
        Self::keeping(copies.map(copy).collect())
    }

    fn keeping(kept: Vec<Held>) -> Self {
        let free = POOL.skip(kept.len()).map(|xmm| (Xmm(xmm), None));
        Self {
            others: free.collect(),
            kept,
            boxed: 0,
            ready: Ready::Unknown,
        }
    }

    /// A block begins: nothing but what a region keeps is known.
    pub fn begin(&mut self) {
        self.forget();
        self.boxed = 0;
        self.ready = Ready::Unknown;
    }

    /// An instruction has changed host registers, and perhaps any register of the guest.
    pub fn forget(&mut self) {
        for (_, copy) in &mut self.others {
            *copy = None;
        }
        self.boxed = 0;
    }

    /// What is in host registers when the region is entered.
    pub fn kept(&self) -> &[Held] {
        &self.kept
    }

    /// Whether the block's code from here on relies on anything that holds in compiled code only.
    pub fn relied(&self) -> bool {
        // A block has no copies before its first check.
        self.ready != Ready::Unknown
    }

    /// Whether at least this is known from now on, and was not before.
    pub fn require(&mut self, ready: Ready) -> bool {
        let new = self.ready < ready;
        self.ready = self.ready.max(ready);
        new
    }

    /// Whether `f` is known to hold a NaN-boxed single from now on, and was not before.
    pub fn require_boxed(&mut self, f: u8) -> bool {
        let new = self.boxed & 1 << f == 0;
        self.boxed |= 1 << f;
        new
    }

    /// The copy of `f`, if there is one of which as much is valid.
    pub fn find(&mut self, f: u8, precision: Precision) -> Option<Xmm> {
        let fits = |copy: &Held| {
            copy.f == f && (copy.precision == precision || precision == Precision::Single)
        };
        if let Some(copy) = self.kept.iter().find(|copy| fits(copy)) {
            return Some(copy.xmm);
        }
        let at = self
            .others
            .iter()
            .position(|(_, copy)| copy.as_ref().is_some_and(fits))?;
        Some(self.used(at))
    }

    /// A host register for a value of `f`, which is a copy from now on.
    pub fn place(&mut self, f: u8, precision: Precision) -> Xmm {
        if let Some(copy) = self.kept.iter().find(|copy| copy.f == f) {
            return copy.xmm;
        }
        let own = |copy: &Option<Held>| copy.is_some_and(|copy| copy.f == f);
        let free = |copy: &Option<Held>| copy.is_none();
        let at = |which: &dyn Fn(&Option<Held>) -> bool| {
            self.others.iter().position(|(_, copy)| which(copy))
        };
        let at = at(&own).or_else(|| at(&free)).unwrap_or(0);
        let xmm = self.others[at].0;
        self.others[at].1 = Some(Held { f, precision, xmm });
        self.used(at)
    }

    /// The context has a new value of `f`: a single is in its box, a double may be anything.
    pub fn written(&mut self, f: u8, precision: Precision) {
        match precision {
            Precision::Single => self.boxed |= 1 << f,
            Precision::Double => self.boxed &= !(1 << f),
        }
    }

    /// Moves a host register behind those that were used before.
    fn used(&mut self, at: usize) -> Xmm {
        let entry = self.others.remove(at);
        self.others.push(entry);
        entry.0
    }
}
