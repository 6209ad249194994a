//! Makes a failing program smaller while it still fails.

use std::path::Path;

use crate::asm;
use crate::campaign::{Campaign, Verdict};
use crate::program::Program;

/// Runs a shrink may take.
const BUDGET: usize = 120;

fn fails(c: &Campaign, p: &Program, scratch: &Path) -> Option<Verdict> {
    let (v, _) = c.judge(p, scratch);
    (!matches!(v, Verdict::Passed | Verdict::Skipped)).then_some(v)
}

/// Drops steps, then turns instructions into no-ops, as long as the program fails.
pub fn shrink(c: &Campaign, p: &mut Program, verdict: &mut Verdict, scratch: &Path) {
    let mut budget = BUDGET;
    let mut try_out = |p: &mut Program, smaller: Program, verdict: &mut Verdict| {
        if budget == 0 {
            return false;
        }
        budget -= 1;
        match fails(c, &smaller, scratch) {
            Some(v) => {
                *p = smaller;
                *verdict = v;
                true
            }
            None => false,
        }
    };
    // The step at which it shows is usually enough.
    if let Verdict::Differs { difference, .. } = &*verdict {
        if let Some(n) = difference.step {
            let mut one = p.clone();
            one.steps = vec![p.steps[n].clone()];
            try_out(p, one, verdict);
        }
    }
    let mut chunk = p.steps.len().div_ceil(2);
    while p.steps.len() > 1 && chunk > 0 {
        let mut at = 0;
        while at < p.steps.len() && p.steps.len() > 1 {
            let mut fewer = p.clone();
            let end = (at + chunk).min(fewer.steps.len());
            fewer.steps.drain(at..end);
            if fewer.steps.is_empty() || !try_out(p, fewer, verdict) {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    for s in 0..p.steps.len() {
        let mut chunk = p.steps[s].instructions.len().div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while at < p.steps[s].instructions.len() {
                let mut fewer = p.clone();
                let end = (at + chunk).min(fewer.steps[s].instructions.len());
                for (off, len) in fewer.steps[s].instructions.drain(at..end) {
                    let off = off as usize;
                    if len == 2 {
                        fewer.code[off..off + 2].copy_from_slice(&1u16.to_le_bytes());
                    } else {
                        fewer.code[off..off + 4].copy_from_slice(&asm::NOP.to_le_bytes());
                    }
                }
                if !try_out(p, fewer, verdict) {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
    }
}
