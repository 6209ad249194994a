//! Runs one program on the subject and on the references, and compares the outcomes.

use std::path::Path;

use crate::compare::{self, Difference, Side};
use crate::model::{Failure, Model};
use crate::outcome::Outcome;
use crate::program::Program;

/// The model under test and the references.
pub struct Models {
    /// The model under test.
    pub subject: Box<dyn Model>,
    /// The references, each compared separately.
    pub references: Vec<Box<dyn Model>>,
}

/// Result of a program.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// No difference with any reference that could run it.
    Passed,
    /// No reference supports it.
    Skipped,
    /// The subject or a reference gave no outcome.
    NoOutcome {
        /// The model.
        model: String,
        /// The failure.
        why: String,
    },
    /// Outcomes differ.
    Differs {
        /// The reference.
        reference: usize,
        /// The difference.
        difference: Box<Difference>,
    },
}

fn outcome(model: &dyn Model, program: &Program, scratch: &Path) -> Result<Outcome, String> {
    let bytes = model.run(program, scratch).or_else(|f| match f {
        // A loaded host is the more likely reason: try once more.
        Failure::Timeout => model.run(program, scratch),
        Failure::Broken(_) => Err(f),
    });
    bytes
        .map_err(|f| f.to_string())
        .and_then(|b| Outcome::decode(program, &b))
}

impl Models {
    /// Runs one program; also returns the subject's outcome.
    pub fn judge(&self, program: &Program, scratch: &Path) -> (Verdict, Option<Outcome>) {
        if !self.subject.can_run(program) {
            return (Verdict::Skipped, None);
        }
        let ours = match outcome(&*self.subject, program, scratch) {
            Ok(o) => o,
            Err(why) => {
                return (
                    Verdict::NoOutcome {
                        model: self.subject.name(),
                        why,
                    },
                    None,
                );
            }
        };
        let mut compared = false;
        for (n, reference) in self.references.iter().enumerate() {
            if !reference.can_run(program) {
                continue;
            }
            let theirs = match outcome(&**reference, program, scratch) {
                Ok(o) => o,
                Err(why) => {
                    return (
                        Verdict::NoOutcome {
                            model: reference.name(),
                            why,
                        },
                        Some(ours),
                    );
                }
            };
            compared = true;
            let sides = [Side::of(&*self.subject), Side::of(&**reference)];
            if let Some(d) = compare::first_difference(program, &sides, &ours, &theirs) {
                return (
                    Verdict::Differs {
                        reference: n,
                        difference: Box::new(d),
                    },
                    Some(ours),
                );
            }
        }
        (
            if compared {
                Verdict::Passed
            } else {
                Verdict::Skipped
            },
            Some(ours),
        )
    }
}
