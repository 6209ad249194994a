//! Signature files as riscv-arch-test defines them: lines of hexadecimal digits, most significant
//! first, any number of bytes a line.

use std::path::Path;

use super::Failure;

/// The bytes of a signature file.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| Failure::Broken(format!("wrote no signature: {e}")))?;
    parse(&text).ok_or_else(|| Failure::Broken("wrote a malformed signature".into()))
}

fn parse(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 2);
    for line in text.lines() {
        let line = line.trim().as_bytes();
        let mut pairs = line.rchunks_exact(2);
        for pair in &mut pairs {
            let digits = std::str::from_utf8(pair).ok()?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
        }
        if !pairs.remainder().is_empty() {
            return None;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn lines_of_any_width_are_little_endian_words() {
        assert_eq!(super::parse("04030201\n0605").unwrap(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(super::parse("abc"), None);
    }
}
