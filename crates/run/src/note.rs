//! Messages to the user during a run.

/// Prints a message on standard error; errors are ignored. Text from guests and files in it cannot
/// control the terminal.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let text = format!($($text)*);
        let _ = writeln!(std::io::stderr(), "{}", $crate::printable(&text));
    }};
}

/// Text without control characters except line ends and tabs. All text that guests or files control
/// is filtered by this before it is shown, except the console of a session.
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
