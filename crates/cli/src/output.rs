//! What goes to standard output.

use std::io::IsTerminal;

use trapless_report::Style;

/// How to print reports on this terminal.
pub fn style() -> Style {
    let out = std::io::stdout();
    let width = rustix::termios::tcgetwinsize(&out).map_or(100, |size| usize::from(size.ws_col));
    Style {
        colour: out.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        width: width.clamp(60, 160),
    }
}

/// Prints names with explanations in two columns.
pub fn table<'a>(rows: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (name, text) in rows {
        println!("  {name:<12} {text}");
    }
}

/// Prints JSON for programs.
pub fn print_json(value: &serde_json::Value) {
    println!("{value:#}");
}
