//! What kind of failure an error is, and its sentence.

use crate::interrupt::Interrupted;

/// A workload that did not do what it should.
#[derive(Debug)]
pub struct Failed(pub String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

/// What kind of failure an error is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The user has ended the run.
    Interrupted,
    /// A workload did not do what it should, or a kernel panicked.
    Workload,
    /// An option or a file cannot be used.
    Usage,
}

impl Failure {
    /// The kind of `error`.
    pub fn of(error: &anyhow::Error) -> Self {
        if error.is::<Interrupted>() {
            Self::Interrupted
        } else if error.is::<Failed>() {
            Self::Workload
        } else {
            Self::Usage
        }
    }
}

/// The error and its causes. Some errors name their cause themselves; it is said once.
pub fn sentence(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| {
        let cause = cause.to_string();
        match text.as_str() {
            "" => cause,
            told if told.contains(&cause) => text,
            _ => format!("{text}: {cause}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::sentence;

    /// Promise: a message says each cause once, whether the error above names it or not.
    #[test]
    fn each_cause_is_said_once() {
        let silent = anyhow!("no such file").context("cannot read x");
        assert_eq!(sentence(&silent), "cannot read x: no such file");
        let talking = anyhow!("no such file").context("cannot read x: no such file");
        assert_eq!(
            sentence(&talking.context("no machine")),
            "no machine: cannot read x: no such file"
        );
    }
}
