//! The help text after the options, which `--help` shows and manual pages divide into sections.
//!
//! The source text has line breaks. They are removed here inside paragraphs, which are wrapped when
//! they are shown. Lines of examples stay.

use clap::{Command, CommandFactory};

use crate::args::Cli;

/// The text after the options of a command.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Text {
    /// Paragraphs, each one line.
    pub prose: Vec<String>,
    /// Command lines with what they do.
    pub examples: Vec<String>,
    /// What the exit status means.
    pub exit_status: Option<String>,
}

impl Text {
    /// The text of `command`.
    pub fn of(command: &Command) -> Self {
        let text = command.get_after_help().map(ToString::to_string);
        Self::parse(&text.unwrap_or_default())
    }

    fn parse(source: &str) -> Self {
        let mut text = Self::default();
        for paragraph in source.split("\n\n").filter(|p| !p.trim().is_empty()) {
            let mut lines = paragraph.lines();
            if paragraph.starts_with("Example") {
                lines.next();
                text.examples.extend(lines.map(str::to_owned));
                continue;
            }
            let line = lines.map(str::trim).collect::<Vec<_>>().join(" ");
            match line.strip_prefix("Exit status: ") {
                Some(status) => text.exit_status = Some(status.into()),
                None => text.prose.push(line),
            }
        }
        text
    }

    /// The text for a terminal with that many columns. Paragraphs are as wide as it is: clap wraps
    /// them.
    fn shown(&self, columns: usize) -> String {
        let mut paragraphs = self.prose.clone();
        if !self.examples.is_empty() {
            let examples = self.examples.iter().map(|line| example(line, columns));
            let examples: Vec<_> = examples.collect();
            paragraphs.push(format!("Examples:\n{}", examples.join("\n")));
        }
        let status = self.exit_status.as_ref();
        paragraphs.extend(status.map(|status| format!("Exit status: {status}")));
        paragraphs.join("\n\n")
    }
}

/// An example where a line has `columns` characters: the rest is continued with backslashes, and
/// its explanation follows below.
fn example(line: &str, columns: usize) -> String {
    const BELOW: &str = "\n      ";
    if line.chars().count() <= columns {
        return line.into();
    }
    let text = line.trim_start();
    let (command, about) = text.split_once("   ").unwrap_or((text, ""));
    let mut shown = line[..line.len() - text.len()].to_owned();
    let mut used = shown.len();
    // Broken before options only: none of them is inside quotes.
    for (index, part) in command.split(" -").enumerate() {
        let part = if index == 0 {
            part.into()
        } else {
            format!(" -{part}")
        };
        if index > 0 && used + part.len() + " \\".len() > columns {
            shown.push_str(" \\");
            shown.push_str(BELOW);
            shown.push_str(part.trim_start());
            used = BELOW.len() - 2 + part.len();
        } else {
            used += part.len();
            shown.push_str(&part);
        }
    }
    if !about.is_empty() {
        shown.push_str(BELOW);
        shown.push_str(about.trim_start());
    }
    shown
}

/// The command with its subcommands, for a terminal.
pub fn command() -> Command {
    reflowed(Cli::command(), columns())
}

/// Columns of the terminal, as clap sees them.
fn columns() -> usize {
    const MOST: usize = 100;
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    let size = size.ok().map(|size| usize::from(size.ws_col));
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    let columns = size.filter(|columns| *columns > 0).or_else(named);
    columns.map_or(MOST, |columns| columns.min(MOST))
}

fn reflowed(command: Command, columns: usize) -> Command {
    let text = Text::of(&command).shown(columns);
    let command = match text.is_empty() {
        true => command,
        false => command.after_help(text),
    };
    command.mut_subcommands(|command| reflowed(command, columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(command: &Command, see: &mut dyn FnMut(&Command)) {
        see(command);
        command.get_subcommands().for_each(|c| each(c, see));
    }

    #[test]
    fn paragraphs_become_lines_and_examples_stay() {
        let source =
            "One\ntwo.\n\nExamples:\n  trapless a\n      b   c\n\nExit status: that\nof x.";
        let text = Text::parse(source);
        assert_eq!(text.prose, ["One two."]);
        assert_eq!(text.examples, ["  trapless a", "      b   c"]);
        assert_eq!(text.exit_status.as_deref(), Some("that of x."));
        let shown = "One two.\n\nExamples:\n  trapless a\n      b   c\n\nExit status: that of x.";
        assert_eq!(text.shown(100), shown);
    }

    /// Promise: on a narrow terminal an example can still be copied, and what it does is below it.
    #[test]
    fn examples_fit_narrow_terminals() {
        assert_eq!(
            example("  trapless boot --ram 2G --disk a,rw   a disk", 26),
            "  trapless boot --ram 2G \\\n      --disk a,rw\n      a disk"
        );
        each(&reflowed(Cli::command(), 70), &mut |command| {
            for line in Text::of(command).examples {
                assert!(line.len() <= 70, "{}: {line}", command.get_name());
            }
        });
    }

    /// Promise: on a terminal of the usual width no example is broken, and no paragraph is wrapped
    /// where it was wrapped already.
    #[test]
    fn help_is_wrapped_once() {
        each(&command(), &mut |command| {
            let text = Text::of(command);
            for line in &text.examples {
                assert!(line.len() <= 100, "{}: {line}", command.get_name());
            }
            let mut long = command.clone().term_width(100);
            let help = long.render_long_help().to_string();
            for (line, next) in help.lines().zip(help.lines().skip(1)) {
                let word = next.split(' ').next().unwrap_or_default();
                let broken = !line.is_empty()
                    && !line.starts_with(' ')
                    && line.ends_with(|c: char| c.is_ascii_lowercase());
                let fits = line.len() + 1 + word.len() <= 100;
                assert!(!(broken && fits && !word.is_empty()), "{line}\n{next}");
            }
        });
    }
}
