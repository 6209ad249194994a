//! What a browser may do with the page: nothing but show it.
//!
//! Nothing is loaded from anywhere, and no script or style runs but the page's own, whatever names
//! in a ledger say.

use sha2::{Digest, Sha256};

/// The Content-Security-Policy of a page with this style sheet and this script.
pub fn policy(style: &str, script: &str) -> String {
    let [style, script] = [style, script].map(source);
    format!("default-src 'none'; style-src {style}; script-src {script}")
}

/// An element by the hash of its text.
fn source(text: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text)))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |i: usize| group.get(i).map_or(0, |b| u32::from(*b));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= group.len() { digit.into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 4648, and SHA-256 of nothing.
    #[test]
    fn sources_are_named_by_their_hash() {
        let texts = ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes()));
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
        let empty = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='";
        assert_eq!(source(""), empty);
    }
}
