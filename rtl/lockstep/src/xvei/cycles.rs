//! How many cycles operations of Xvei take when nothing else is under way and memory answers at
//! once, and how many accesses to memory they make.

use trapless_intc::CsrOp;
use trapless_isa::Mode;
use trapless_isa::haiov::{bell, csr, event, hveiq, hveitab};

use super::bench::{Act, Bench};
use crate::memory::RAM;

const PAGE: u64 = RAM;
const SHADOW: u64 = RAM + 0x1000;
const TABLE: u64 = RAM + 0x2000;
const QUEUE: u64 = RAM + 0x3000;
/// Doorbells of the page; each has an offset of its own.
const DOORBELLS: u64 = 16;

/// Prints a table.
///
/// # Errors
/// If circuit and model differ.
pub fn print(harts: usize) -> Result<(), String> {
    let mut bench = Bench::new(harts, 0);
    let count = DOORBELLS << bell::HEADER_COUNT_SHIFT;
    bench.set(PAGE + bell::HEADER, bell::HEADER_V | count);
    bench.set(PAGE + bell::SHADOW, bell::SHADOW_V | SHADOW);
    bench.set(PAGE + bell::LOADS, u64::MAX);
    for number in 0..DOORBELLS {
        let mut word = bell::MATCH_V
            | bell::MATCH_ANY
            | number * 4 << bell::MATCH_OFFSET_SHIFT
            | number << bell::MATCH_REQUEST_SHIFT;
        // The last one acknowledges an interrupt, as that of virtio-mmio.
        let posts = number + 1 < DOORBELLS;
        word |= if posts {
            bell::MATCH_POST
        } else {
            bell::MATCH_CLEAR
        };
        bench.set(PAGE + bell::MATCH + number * bell::MATCH_STRIDE, word);
        bench.set(TABLE + number * event::SIZE, event::CTL_V);
    }
    let host = |csr, op| Act::Csr {
        csr,
        mode: Mode::HS,
        op,
    };
    let store = |number: u64| Act::Page {
        page: PAGE,
        offset: 4 * number as u16,
        width: 2,
        stored: Some(0),
    };
    let load = Act::Page {
        page: PAGE,
        offset: 0x60,
        width: 2,
        stored: None,
    };
    let post = Act::Csr {
        csr: csr::SGENVEI,
        mode: Mode::VS,
        op: CsrOp::Write(2),
    };
    let table = CsrOp::Write(hveitab::V | TABLE | 4);
    println!("| operation of Xvei | cycles | accesses to memory |");
    println!("|---|---:|---:|");
    for (name, act) in [
        ("write `hveitab`", host(csr::HVEITAB, table)),
        (
            "open a queue",
            host(csr::HVEIQ, CsrOp::Write(hveiq::EN | QUEUE | 2)),
        ),
        ("store that rings the first doorbell", store(0)),
        ("the same again, before the host has looked", store(0)),
        ("store that rings the eighth", store(7)),
        ("store that clears bits, by the sixteenth", store(15)),
        ("load from the shadow", load),
        ("event of `sgenvei`", post),
        ("take an event", host(csr::HVEICLAIM, CsrOp::Read)),
        ("write 0 to `hgenvei`", host(csr::HGENVEI, CsrOp::Write(0))),
    ] {
        let before = bench.counts;
        bench.begin(0, act);
        while bench.is_under_way(0) {
            bench.cycle()?;
        }
        let cycles = bench.counts.cycles - before.cycles;
        let memory = bench.counts.memory - before.memory;
        println!("| {name} | {cycles} | {memory} |");
        bench.cycle()?;
    }
    Ok(())
}
