//! Offsets of fields of a kernel's structures, from the kernel's own type information
//! (Documentation/bpf/btf.rst). Only the parts needed for that are read.

/// Length of the header of this version.
const HEADER: usize = 24;
/// Begins a blob: magic number, version 1, no flags, length of the header.
pub const START: [u8; 8] = [0x9f, 0xeb, 1, 0, HEADER as u8, 0, 0, 0];

const KIND_STRUCT: u32 = 4;

/// Types and names of a kernel.
pub struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

/// A type that is a structure.
struct Structure {
    /// Where its members begin, and how many there are.
    members: usize,
    count: usize,
    /// The offset of a member shares its word with the width of a bit field.
    packed: bool,
    size: u64,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

/// `[at, at + len)` of what follows the header, by the two words at `place` of it.
fn section(blob: &[u8], place: usize) -> Option<&[u8]> {
    let at = HEADER.checked_add(word(blob, place)? as usize)?;
    blob.get(at..at.checked_add(word(blob, place + 4)? as usize)?)
}

impl<'a> Btf<'a> {
    /// Bytes of the blob that begins with these, by its header.
    pub fn size(header: &[u8; HEADER]) -> Option<usize> {
        let end = |place| {
            let at = word(header, place)?.checked_add(word(header, place + 4)?)?;
            (HEADER as u32).checked_add(at)
        };
        let size = end(8)?.max(end(16)?);
        (header[..8] == START).then_some(size as usize)
    }

    /// The blob at the front of these bytes.
    pub fn new(blob: &'a [u8]) -> Option<Self> {
        let types = section(blob, 8)?;
        let strings = section(blob, 16)?;
        blob.starts_with(&START).then_some(Self { types, strings })
    }

    fn is(&self, name: u32, wanted: &str) -> bool {
        let rest = self.strings.get(name as usize..).unwrap_or_default();
        rest.strip_prefix(wanted.as_bytes())
            .is_some_and(|end| end.first() == Some(&0))
    }

    /// Offsets in bytes of the named members of a structure. `None` if it does not exist, lacks one
    /// of them, or there is a type of unknown kind before it.
    #[must_use]
    pub fn offsets<const N: usize>(&self, name: &str, members: [&str; N]) -> Option<[u64; N]> {
        let structure = self.structure(name)?;
        self.members(&structure, members)
    }

    /// Size of a structure in bytes; `None` as for [`offsets`](Self::offsets).
    #[must_use]
    pub fn size_of(&self, name: &str) -> Option<u64> {
        Some(self.structure(name)?.size)
    }

    fn structure(&self, name: &str) -> Option<Structure> {
        let mut at = 0;
        loop {
            let head = word(self.types, at)?;
            let info = word(self.types, at + 4)?;
            let (kind, count) = (info >> 24 & 31, info as usize & 0xffff);
            at += 12;
            if kind == KIND_STRUCT && self.is(head, name) {
                return Some(Structure {
                    members: at,
                    count,
                    packed: info >> 31 != 0,
                    size: word(self.types, at - 4)?.into(),
                });
            }
            at += match kind {
                // Pointer, forward, typedef, volatile, const, restrict, function, float, tag.
                2 | 7..=12 | 16 | 18 => 0,
                // Integer, variable, tag of a declaration.
                1 | 14 | 17 => 4,
                // Array.
                3 => 12,
                // Enumeration, prototype.
                6 | 13 => 8 * count,
                // Structure, union, data section, enumeration of 64 bits.
                4 | 5 | 15 | 19 => 12 * count,
                _ => return None,
            };
        }
    }

    fn members<const N: usize>(&self, of: &Structure, wanted: [&str; N]) -> Option<[u64; N]> {
        let packed = of.packed;
        let mut found = [None; N];
        for at in (of.members..).step_by(12).take(of.count) {
            let (name, bits) = (word(self.types, at)?, word(self.types, at + 8)?);
            let bits = if packed { bits & 0xff_ffff } else { bits };
            for (place, wanted) in found.iter_mut().zip(wanted) {
                if self.is(name, wanted) {
                    *place = Some(u64::from(bits / 8));
                }
            }
        }
        let mut offsets = [0; N];
        for (offset, place) in offsets.iter_mut().zip(found) {
            *offset = place?;
        }
        Some(offsets)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Members of a structure with their offsets in bytes.
    type Members<'a> = &'a [(&'a str, u32)];

    /// A blob with an integer, a union and these structures: name, size, members.
    pub fn blob(structures: &[(&str, u32, Members<'_>)]) -> Vec<u8> {
        let mut strings = b"\0int\0".to_vec();
        let mut name = |wanted: &str| {
            let at = strings.len() as u32;
            strings.extend(wanted.bytes());
            strings.push(0);
            at
        };
        let mut types = Vec::new();
        let mut push = |words: &[u32]| types.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        push(&[1, 1 << 24, 4, 32]);
        push(&[0, 5 << 24 | 1, 4, 1, 1, 0]);
        for (structure, size, members) in structures {
            let count = members.len() as u32;
            push(&[name(structure), 4 << 24 | 1 << 31 | count, *size]);
            for (member, offset) in *members {
                push(&[name(member), 1, (offset * 8) | (32 << 24)]);
            }
        }
        let mut blob = START.to_vec();
        let lengths = [0, types.len(), types.len(), strings.len()];
        blob.extend(lengths.iter().flat_map(|n| (*n as u32).to_le_bytes()));
        blob.extend(types);
        blob.extend(strings);
        blob
    }

    fn task() -> Vec<u8> {
        blob(&[("task_struct", 64, &[("pid", 8), ("tgid", 12), ("comm", 20)])])
    }

    #[test]
    fn members_are_found_by_name() {
        let blob = task();
        let btf = Btf::new(&blob).unwrap();
        let found = btf.offsets("task_struct", ["comm", "pid", "tgid"]);
        assert_eq!(found, Some([20, 8, 12]));
        assert_eq!(btf.offsets("task_struct", ["mm"]), None);
        assert_eq!(btf.offsets("task", ["pid"]), None);
        assert_eq!(btf.size_of("task_struct"), Some(64));
        assert_eq!(
            Btf::size(blob[..HEADER].try_into().unwrap()),
            Some(blob.len())
        );
    }

    #[test]
    fn damaged_blobs_are_refused() {
        let whole = task();
        for len in 0..whole.len() {
            assert!(Btf::new(&whole[..len]).is_none());
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            // Whatever it says: no panic, no endless loop.
            let btf = Btf::new(&damaged);
            let _ = btf.map(|btf| btf.offsets("task_struct", ["comm"]));
        }
    }
}
