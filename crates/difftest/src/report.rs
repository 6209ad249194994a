//! Reports as text.

use std::fmt::Write;
use std::path::Path;

use crate::compare::Side;
use crate::coverage::word;
use crate::layout::{self, SETUP, kind};
use crate::outcome::Outcome;
use crate::program::{Program, Step};
use crate::verdict::{Models, Verdict};

/// The verdict in one line.
pub fn one_line(models: &Models, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Passed => "passed".into(),
        Verdict::Skipped => "skipped".into(),
        Verdict::NoOutcome { model, why } => format!("{model}: {why}"),
        Verdict::Differs {
            reference,
            difference: d,
        } => format!(
            "{}: {} {}, {} {}",
            d.what,
            models.subject.name(),
            d.left,
            models.references[*reference].name(),
            d.right
        ),
    }
}

fn listing(out: &mut String, program: &Program, step: &Step, mark: Option<u64>) {
    for (off, len) in &step.instructions {
        let pc = layout::CODE + u64::from(*off);
        let raw = word(&program.code, *off as usize, *len);
        let text = trapless_isa::disasm::disasm(trapless_isa::decode::decode(raw), pc);
        let here = mark.is_some_and(|m| m & 0xf_ffff == pc & 0xf_ffff);
        let arrow = if here { "=>" } else { "  " };
        let width = usize::from(*len) * 2;
        let _ = writeln!(out, "  {arrow} {pc:x}: {raw:0width$x}\t{text}");
    }
}

fn start_state(out: &mut String, step: &Step) {
    let _ = writeln!(
        out,
        "  starts in {} at {:#x} by {}",
        step.mode,
        step.get(0x341),
        if step.by_sret { "sret" } else { "mret" }
    );
    let mut line = String::from("   ");
    for (csr, v) in SETUP.iter().zip(&step.csrs) {
        if *v != 0 {
            let _ = write!(line, " {}={v:#x}", trapless_isa::csr::name(*csr));
            if line.len() > 100 {
                let _ = writeln!(out, "{line}");
                line = String::from("   ");
            }
        }
    }
    let _ = writeln!(out, "{line}");
    for (addr, v) in &step.pokes {
        let _ = writeln!(out, "    memory {addr:#x} = {v:#x}");
    }
}

/// A page about a failing program: the difference, the log around it, the code.
pub fn failure(models: &Models, program: &Program, verdict: &Verdict, scratch: &Path) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "== {} seed {}", program.family, program.seed);
    let _ = writeln!(out, "{}", one_line(models, verdict));
    let Verdict::Differs {
        reference,
        difference,
    } = verdict
    else {
        for s in program.steps.iter().take(4) {
            let _ = writeln!(out, "step: {}", s.note);
            start_state(&mut out, s);
            listing(&mut out, program, s, None);
        }
        return out;
    };
    let run = |m: &dyn crate::model::Model| {
        let bytes = m.run(program, scratch).ok()?;
        Outcome::decode(program, &bytes).ok()
    };
    let pair = [&*models.subject, &*models.references[*reference]];
    let outcomes = pair.map(run);
    let n = difference.step.unwrap_or(0);
    let Some(step) = program.steps.get(n) else {
        return out;
    };
    let _ = writeln!(out, "step {n}: {}", step.note);
    start_state(&mut out, step);
    let mut mark = None;
    for (model, outcome) in pair.iter().zip(&outcomes) {
        let Some(o) = outcome else { continue };
        let _ = writeln!(out, "  log of {}:", model.name());
        let at = difference.entry.unwrap_or(o.log.len());
        for (i, e) in o
            .log
            .iter()
            .enumerate()
            .filter(|(i, e)| e.step == n && *i <= at + 1)
        {
            let here = if i == at { "=>" } else { "  " };
            let _ = writeln!(out, "  {here} {}", e.summary());
            if i == at && e.kind != kind::END {
                mark = Some(e.words[1]);
                let fields: Vec<String> = e
                    .words
                    .iter()
                    .enumerate()
                    .map(|(w, v)| format!("{}={v:#x}", e.field(w)))
                    .collect();
                let _ = writeln!(out, "       {}", fields.join(" "));
            }
        }
    }
    // Outcomes of the other references help to find which model is wrong.
    if let (Some(ours), Some(_)) = (&outcomes[0], difference.step) {
        for (i, r) in models.references.iter().enumerate() {
            if i == *reference || !r.can_run(program) {
                continue;
            }
            if let Some(o) = run(&**r) {
                let sides = [Side::of(&*models.subject), Side::of(&**r)];
                let verdict = match crate::compare::first_difference(program, &sides, ours, &o) {
                    None => "agrees".to_string(),
                    Some(d) => format!("{}: {} here, {} there", d.what, d.left, d.right),
                };
                let _ = writeln!(out, "  {} and {}: {verdict}", sides[0].name, sides[1].name);
            }
        }
    }
    if step.instructions.len() <= 80 {
        listing(&mut out, program, step, mark);
    }
    out
}
