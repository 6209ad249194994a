//! The tables of `/proc/kallsyms` in a kernel's image (scripts/kallsyms.c of Linux 6.6 and later).
//!
//! ```text
//!  num_syms | names | markers | token_table | token_index | offsets | relative_base
//! ```
//!
//! Each begins at a multiple of 8. A name is a length and that many numbers of tokens, the first
//! letter of the text is the symbol's kind; a marker is the place of each 256th name in `names`.
//! Nothing points to these tables, but the tokens include the ten digits as single characters, by
//! which they are found.

use crate::Symbol;

/// Tokens 0x30..=0x39, which are what their numbers stand for in ASCII.
const DIGITS: &[u8] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\x00";
const TOKENS: usize = 256;
/// Names between two markers.
const STRIDE: usize = 256;
/// Maximum number of symbols of a kernel, and of bytes between two markers.
const MOST: usize = 4_000_000;
const MOST_STRIDE: usize = STRIDE * 1024;
/// Maximum length of a token's text, and of a name with its kind: more than `KSYM_NAME_LEN`.
const TEXT: usize = 1024;
/// Maximum number of candidate tables of tokens.
const MOST_TABLES: usize = 64;
/// The upper half of the address space.
const KERNEL: u64 = 1 << 63;

/// Symbols of the kernel with this image; `None` if there are no such tables.
pub fn find(image: &[u8]) -> Option<Vec<Symbol>> {
    let places = image.windows(DIGITS.len()).enumerate();
    let places = places.filter(|(_, part)| *part == DIGITS);
    let tables = places.filter_map(|(digits, _)| Tokens::find(image, digits));
    tables
        .take(MOST_TABLES)
        .find_map(|tokens| read(image, &tokens))
}

fn u32_at(image: &[u8], at: usize) -> Option<u32> {
    let bytes = image.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn aligned(at: usize) -> usize {
    at.next_multiple_of(8)
}

/// The texts of tokens.
struct Tokens<'a> {
    texts: Vec<&'a [u8]>,
    /// Beginning of the table, and end of the index after it.
    start: usize,
    end: usize,
}

impl<'a> Tokens<'a> {
    /// The table with the digits at this place.
    fn find(image: &'a [u8], digits: usize) -> Option<Self> {
        // Backwards over the tokens before the digits: each is a text that ends with zero.
        let mut start = digits;
        for _ in 0..b'0' {
            let end = start.checked_sub(1)?;
            let first = end.saturating_sub(TEXT);
            let zero = image[first..end].iter().rposition(|byte| *byte == 0)?;
            start = first + zero + 1;
        }
        let mut texts = Vec::with_capacity(TOKENS);
        let mut places = Vec::with_capacity(TOKENS);
        let mut at = start;
        for _ in 0..TOKENS {
            let rest = &image[at.min(image.len())..];
            let len = rest.iter().take(TEXT).position(|byte| *byte == 0)?;
            let text = &rest[..len];
            places.push(at - start);
            texts.push(text);
            at += text.len() + 1;
        }
        // The index must agree.
        let index = aligned(at);
        let entries = image.get(index..index + 2 * TOKENS)?.chunks_exact(2);
        let same = entries
            .zip(&places)
            .all(|(entry, place)| usize::from(u16::from_le_bytes([entry[0], entry[1]])) == *place);
        let end = index + 2 * TOKENS;
        (start % 8 == 0 && same).then_some(Self { texts, start, end })
    }
}

/// The markers that end at `end`, and where they begin.
fn markers(image: &[u8], end: usize) -> Option<(Vec<usize>, usize)> {
    // Filled up to a multiple of 8.
    let mut at = end;
    if u32_at(image, at.checked_sub(4)?)? == 0 {
        at -= 4;
    }
    let mut markers = Vec::new();
    loop {
        at = at.checked_sub(4)?;
        let marker = u32_at(image, at)? as usize;
        if markers.last().is_some_and(|next| marker >= *next) || markers.len() > MOST / STRIDE {
            return None;
        }
        markers.push(marker);
        if marker == 0 {
            markers.reverse();
            return Some((markers, at));
        }
    }
}

/// Bytes of the name at `at`: where they begin and end.
fn name_at(image: &[u8], at: usize) -> Option<(usize, usize)> {
    let first = usize::from(*image.get(at)?);
    let (begin, len) = if first & 0x80 == 0 {
        (at + 1, first)
    } else {
        let second = usize::from(*image.get(at + 1)?);
        (at + 2, first & 0x7f | second << 7)
    };
    (len > 0).then_some((begin, begin + len))
}

/// Where the names begin, and how many there are.
fn names(image: &[u8], markers: &[usize], end: usize) -> Option<(usize, usize)> {
    let last = *markers.last()?;
    let latest = end.checked_sub(last)? / 8 * 8;
    let earliest = latest.saturating_sub(MOST_STRIDE).max(8);
    let counts = STRIDE * (markers.len() - 1) + 1..=STRIDE * markers.len();
    (earliest..=latest).rev().step_by(8).find_map(|start| {
        let count = u32_at(image, start - 8)? as usize;
        let whole = counts.contains(&count) && u32_at(image, start - 4)? == 0;
        if !whole {
            return None;
        }
        // The second marker must point to the name with that number.
        let mut at = start;
        for _ in 0..STRIDE.min(count) {
            at = name_at(image, at)?.1;
        }
        let wanted = markers.get(1).map(|marker| start + marker);
        wanted
            .is_none_or(|wanted| wanted == at)
            .then_some((start, count))
    })
}

fn read(image: &[u8], tokens: &Tokens<'_>) -> Option<Vec<Symbol>> {
    let (markers, markers_at) = markers(image, tokens.start)?;
    let (mut at, count) = names(image, &markers, markers_at)?;
    let offsets = aligned(tokens.end);
    let base = aligned(offsets + 4 * count);
    let base = u64::from(u32_at(image, base)?) | u64::from(u32_at(image, base + 4)?) << 32;
    if base & KERNEL == 0 {
        return None;
    }
    let mut symbols = Vec::with_capacity(count);
    for number in 0..count {
        let (begin, end) = name_at(image, at)?;
        let mut text = Vec::new();
        for token in image.get(begin..end)? {
            text.extend(tokens.texts[usize::from(*token)]);
            if text.len() > TEXT {
                return None;
            }
        }
        let (kind, name) = text.split_first()?;
        symbols.push(Symbol {
            address: base.wrapping_add(u32_at(image, offsets + 4 * number)?.into()),
            kind: *kind,
            name: String::from_utf8_lossy(name).into_owned(),
        });
        at = end;
    }
    Some(symbols)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables of a kernel with these symbols, in ascending order, behind `before` bytes.
    fn image(symbols: &[Symbol], before: usize) -> Vec<u8> {
        let mut image = vec![0x55; before];
        let align = |image: &mut Vec<u8>| image.resize(aligned(image.len()), 0);
        align(&mut image);
        image.extend((symbols.len() as u32).to_le_bytes());
        align(&mut image);
        let start = image.len();
        let mut markers = Vec::new();
        for (number, symbol) in symbols.iter().enumerate() {
            if number % STRIDE == 0 {
                markers.push((image.len() - start) as u32);
            }
            let len = symbol.name.len() + 1;
            match len {
                ..0x80 => image.push(len as u8),
                _ => image.extend([len as u8 & 0x7f | 0x80, (len >> 7) as u8]),
            }
            image.push(symbol.kind);
            image.extend(symbol.name.bytes());
        }
        align(&mut image);
        image.extend(markers.iter().flat_map(|marker| marker.to_le_bytes()));
        align(&mut image);
        // Each letter is itself, each other number some text.
        let mut index = Vec::new();
        let tokens = image.len();
        for number in 0..=u8::MAX {
            index.extend(((image.len() - tokens) as u16).to_le_bytes());
            match number {
                b'!'..=b'~' => image.push(number),
                _ => image.extend(b"token"),
            }
            image.push(0);
        }
        align(&mut image);
        image.extend(index);
        align(&mut image);
        let base = symbols[0].address;
        for symbol in symbols {
            image.extend(((symbol.address - base) as u32).to_le_bytes());
        }
        align(&mut image);
        image.extend(base.to_le_bytes());
        image
    }

    fn symbols(count: u64) -> Vec<Symbol> {
        let symbol = |number| Symbol {
            address: 0xffff_ffff_8000_0000 + 4 * number,
            kind: if number % 3 == 0 { b'T' } else { b'd' },
            name: format!("name_{number}{}", "_".repeat((number % 200) as usize)),
        };
        (0..count).map(symbol).collect()
    }

    #[test]
    fn all_symbols_are_found() {
        // One marker, an even and an odd number of them, and all names full.
        for count in [3, 256, 257, 600, 1024] {
            let symbols = symbols(count);
            assert_eq!(
                find(&image(&symbols, 100)).as_ref(),
                Some(&symbols),
                "{count}"
            );
        }
    }

    #[test]
    fn damaged_tables_do_not_panic() {
        let whole = image(&symbols(300), 8);
        for at in (0..whole.len()).step_by(7) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            let _ = find(&damaged);
            let _ = find(&whole[..at]);
        }
        assert_eq!(find(&[]), None);
    }
}
