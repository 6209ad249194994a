//! Makes a failing program smaller while it still fails.

use std::path::Path;

use crate::asm;
use crate::coverage::word;
use crate::program::Program;
use crate::verdict::{Models, Verdict};

/// Maximum number of runs of a shrink.
const BUDGET: usize = 120;

/// True if a smaller program fails in the way the larger one did.
fn alike(a: &Verdict, b: &Verdict) -> bool {
    match (a, b) {
        (Verdict::NoOutcome { model: a, .. }, Verdict::NoOutcome { model: b, .. }) => a == b,
        (Verdict::Differs { difference: a, .. }, Verdict::Differs { difference: b, .. }) => {
            // The very same values: without its operands an instruction differs in other ways.
            (&a.what, &a.left, &a.right) == (&b.what, &b.left, &b.right)
        }
        _ => false,
    }
}

/// Without its fence, a changed page table or instruction may become visible late.
fn is_fence(raw: u32) -> bool {
    let funct7 = raw >> 25;
    let fences = [0x09, 0x0b, 0x0c, 0x11, 0x13, 0x31, 0x33];
    raw == asm::FENCE_I || raw & 0x707f == 0x73 && fences.contains(&funct7)
}

/// Drops steps, then turns instructions into no-ops, as long as the program fails.
pub fn shrink(models: &Models, p: &mut Program, verdict: &mut Verdict, scratch: &Path) {
    let mut budget = BUDGET;
    let mut try_out = |p: &mut Program, smaller: Program, verdict: &mut Verdict| {
        if budget == 0 {
            return false;
        }
        budget -= 1;
        let (v, _) = models.judge(&smaller, scratch);
        let same = alike(verdict, &v);
        if same {
            *p = smaller;
            *verdict = v;
        }
        same
    };
    // The step at which the difference occurs is usually enough.
    if let Verdict::Differs { difference, .. } = &*verdict {
        if let Some(n) = difference.step {
            let mut one = p.clone();
            one.steps = vec![p.steps[n].clone()];
            // Summaries contain step numbers: compare with the summary of this program alone.
            if !try_out(p, one, verdict) {
                p.steps.truncate(n + 1);
            }
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
                let mut kept = Vec::new();
                for (off, len) in fewer.steps[s].instructions.drain(at..end) {
                    let start = off;
                    let off = off as usize;
                    if is_fence(word(&fewer.code, off, len)) {
                        kept.push((start, len));
                    } else if len == 2 {
                        fewer.code[off..off + 2].copy_from_slice(&1u16.to_le_bytes());
                    } else {
                        fewer.code[off..off + 4].copy_from_slice(&asm::NOP.to_le_bytes());
                    }
                }
                let stays = kept.len();
                fewer.steps[s].instructions.splice(at..at, kept);
                if stays == end - at || !try_out(p, fewer, verdict) {
                    at += chunk;
                } else {
                    at += stays;
                }
            }
            chunk /= 2;
        }
    }
}
