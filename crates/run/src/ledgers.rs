//! Ledgers in files.

use std::path::Path;

use anyhow::Result;
use trapless_ledger::LedgerFile;

use crate::files;

/// Reads ledgers from a file that `run` (one) or `compare` (a list) has written.
///
/// # Errors
/// If the file has none; the message names the file.
pub fn read_ledgers(path: &Path) -> Result<Vec<LedgerFile>> {
    let named = || format!("{} is not a ledger", path.display());
    let text = files::text(path, "ledger")?;
    let value = serde_json::from_str(&text).map_err(|e| anyhow::Error::new(e).context(named()))?;
    let values = match value {
        serde_json::Value::Array(list) => list,
        value => vec![value],
    };
    let ledger = |value: serde_json::Value| {
        LedgerFile::from_json(&value.to_string())
            .map_err(|e| anyhow::Error::new(e).context(named()))
    };
    values.into_iter().map(ledger).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure;

    #[test]
    fn ledgers_are_read_alone_and_in_lists() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ledger.json");
        let config = trapless_ledger::Config::new(1);
        let ledger = trapless_ledger::Ledger::new(config).to_file(Default::default(), None);
        std::fs::write(&file, ledger.to_json()).unwrap();
        assert_eq!(read_ledgers(&file).unwrap(), std::slice::from_ref(&ledger));
        let list = serde_json::to_string(&[&ledger, &ledger]).unwrap();
        std::fs::write(&file, list).unwrap();
        assert_eq!(read_ledgers(&file).unwrap().len(), 2);
        std::fs::write(&file, "[1]").unwrap();
        let wrong = failure::sentence(&read_ledgers(&file).unwrap_err());
        assert!(wrong.contains("ledger.json is not a ledger: "), "{wrong}");
    }
}
