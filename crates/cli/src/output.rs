//! What goes to standard output and standard error. Both may be full or closed: neither is a reason
//! to panic.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use trapless_ledger::LedgerFile;
use trapless_report::Style;
use trapless_run::printable;

/// The reader of standard output closed the pipe, as `head` does. The command exits silently with
/// 141, like other programs in a pipe.
#[derive(Debug)]
pub struct Closed;

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the reader of standard output has gone")
    }
}

impl std::error::Error for Closed {}

/// Why standard output took no more.
fn failed(kind: ErrorKind) -> anyhow::Error {
    match kind {
        ErrorKind::BrokenPipe => Closed.into(),
        kind => {
            anyhow::Error::new(io::Error::from(kind)).context("cannot write to standard output")
        }
    }
}

/// Prints `text`, parts of which may come from guests and files.
///
/// # Errors
/// If standard output is closed or full.
pub fn print(text: &str) -> Result<()> {
    put(&printable(text))
}

/// Prints JSON text for programs.
///
/// # Errors
/// If standard output is closed or full.
pub fn print_json_text(json: &str) -> Result<()> {
    put(&escaped(json))
}

/// Prints a report, which may have colours.
///
/// # Errors
/// If standard output is closed or full.
pub fn print_report(ledgers: &[LedgerFile]) -> Result<()> {
    put(&trapless_report::report(ledgers, style()))
}

fn put(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|e| failed(e.kind()))
}

/// Prints JSON for programs.
///
/// # Errors
/// If standard output is closed or full.
pub fn print_json(value: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    print_json_text(&format!("{text}\n"))
}

/// JSON in which control characters that JSON allows are escaped, too.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' => text.push(c),
            c if c.is_control() => {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            c => text.push(c),
        }
    }
    text
}

/// Ledgers as one JSON list.
///
/// # Errors
/// If one of them cannot be written as JSON.
pub fn ledgers(ledgers: &[LedgerFile]) -> Result<String> {
    let mut text = serde_json::to_string_pretty(ledgers)?;
    text.push('\n');
    Ok(text)
}

/// Prints the result of several runs: the report, or the ledgers as JSON.
///
/// # Errors
/// As [`print`].
pub fn show(runs: &[LedgerFile], as_json: bool) -> Result<()> {
    if as_json {
        return print_json_text(&ledgers(runs)?);
    }
    if runs.is_empty() {
        return Ok(());
    }
    print_report(runs)
}

/// Names with explanations, in two columns.
pub fn table<'a>(rows: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    rows.into_iter()
        .fold(String::new(), |mut all, (name, text)| {
            // Writing to a string cannot fail.
            let _ = writeln!(all, "  {name:<12} {text}");
            all
        })
}

/// Standard output as the console of a machine. A machine does not stop when its console breaks, so
/// the first error is kept for the command to find.
#[derive(Clone, Default)]
pub struct Screen(Arc<Mutex<Option<ErrorKind>>>);

impl Screen {
    /// Whether everything could be written so far.
    ///
    /// # Errors
    /// If standard output is closed or full.
    pub fn check(&self) -> Result<()> {
        let broken = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        broken.map_or(Ok(()), |kind| Err(failed(kind)))
    }

    fn keep<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            let mut broken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            broken.get_or_insert(error.kind());
        }
        result
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.keep(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.keep(io::stdout().flush())
    }
}

/// How to print reports on this terminal.
pub fn style() -> Style {
    let out = io::stdout();
    let width = rustix::termios::tcgetwinsize(&out).map_or(100, |size| usize::from(size.ws_col));
    Style {
        colour: out.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        width: width.clamp(60, 160),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_does_not_drive_the_terminal() {
        let text = "a\x1b[2J\u{9b}31m\x07\rc\tb\r\n";
        assert_eq!(printable(text), "a?[2J?31m??c\tb\r\n");
        let json = serde_json::json!({ "a": text });
        let shown = escaped(&format!("{json:#}\n"));
        assert!(
            !shown.contains(|c: char| c.is_control() && c != '\n'),
            "{shown:?}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            json
        );
    }
}
