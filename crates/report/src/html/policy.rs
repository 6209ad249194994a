//! The page's content security policy.
//!
//! Nothing is loaded, and only the page's own script and style are used, whatever names in a ledger
//! contain.

use base64::prelude::{BASE64_STANDARD, Engine};
use sha2::{Digest, Sha256};

/// The Content-Security-Policy of a page with this style sheet and this script.
pub fn policy(style: &str, script: &str) -> String {
    let [style, script] = [style, script].map(source);
    format!("default-src 'none'; style-src {style}; script-src {script}")
}

/// An element by the hash of its text.
fn source(text: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 of nothing, as browsers name it.
    #[test]
    fn sources_are_named_by_their_hash() {
        let empty = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='";
        assert_eq!(source(""), empty);
    }
}
