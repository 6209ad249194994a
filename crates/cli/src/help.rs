//! What the command says of itself: the text after its options, which `--help` shows and manual
//! pages divide into sections.
//!
//! It is written in lines as source is. Whoever shows it wraps it: here lines of a paragraph become
//! one. Lines of examples stay.

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
    /// That of `command`.
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

    /// The text for a terminal, which is as wide as it is.
    fn shown(&self) -> String {
        let mut paragraphs = self.prose.clone();
        if !self.examples.is_empty() {
            paragraphs.push(format!("Examples:\n{}", self.examples.join("\n")));
        }
        let status = self.exit_status.as_ref();
        paragraphs.extend(status.map(|status| format!("Exit status: {status}")));
        paragraphs.join("\n\n")
    }
}

/// The command with its subcommands, for a terminal.
pub fn command() -> Command {
    reflowed(Cli::command())
}

fn reflowed(command: Command) -> Command {
    let text = Text::of(&command).shown();
    let command = match text.is_empty() {
        true => command,
        false => command.after_help(text),
    };
    command.mut_subcommands(reflowed)
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
        assert_eq!(text.shown(), shown);
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
