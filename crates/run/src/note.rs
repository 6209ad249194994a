//! What a run tells the user while it goes on.

/// Tells the user something on standard error. Nothing can be done if that is closed. What guests
/// and files have said is among it, and does not drive the terminal.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let text = format!($($text)*);
        let _ = writeln!(std::io::stderr(), "{}", $crate::printable(&text));
    }};
}

/// Text without control characters but for line ends and tabs: all that guests or files have a say
/// in goes through this before it is shown, but for the console of a session.
pub fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let ends_line = c == '\r' && matches!(rest.peek(), None | Some('\n'));
        let plain = !c.is_control() || matches!(c, '\n' | '\t') || ends_line;
        printable.push(if plain { c } else { '?' });
    }
    printable
}
