//! How many cycles operations take when nothing else is under way and memory answers at once, and
//! how many accesses to memory they make: each cycle that memory takes longer counts as often.

use trapless_intc::CsrOp;
use trapless_isa::Mode;
use trapless_isa::csr::VSIP;
use trapless_isa::xtrapless::{csr, hifmap, hnqbase, htlcfg, op, sgenipi, source, state, vsenable};

use crate::access::Access;
use crate::bench::Bench;
use crate::driver::{command, slot, tables};
use crate::layout::{self, queue, source_entry};
use crate::memory::Words;
use crate::random::Random;

/// The domain of all vharts here, with 70 sources.
const DOM: u16 = 1;
/// An edge-sensitive source and a level-sensitive one, both of vhart 0.
const EDGE: u16 = 3;
const LEVEL: u16 = 4;

/// Prints a table.
///
/// # Errors
/// If circuit and model differ.
pub fn print(harts: usize) -> Result<(), String> {
    let fill = |words: &mut Words| {
        layout::fill(words, &mut Random::new(0));
        let valid = source::ENTRY_V | 1 << source::ENTRY_PRIO_SHIFT;
        words.set(source_entry(DOM, EDGE), valid);
        words.set(source_entry(DOM, LEVEL), valid | source::ENTRY_LEVEL);
    };
    let mut bench = Bench::new(harts, 0, fill);
    for hart in 0..harts {
        for access in [
            Access::hs(csr::HVTABLEBASE, tables()),
            Access::hs(csr::HTLCFG, htlcfg::EN),
            Access::hs(csr::HNQBASE, hnqbase::EN | queue(hart) | 2),
        ] {
            time(&mut bench, hart, access)?;
        }
    }
    println!("| operation | cycles to the answer | to the end | accesses to memory |");
    println!("|---|---:|---:|---:|");
    let hs = |csr, value| (Mode::HS, csr, CsrOp::Write(value));
    let vs = |csr, op| (Mode::VS, csr, op);
    let to = |vhart: u64| CsrOp::Write(vhart << sgenipi::BASE_SHIFT | 1);
    let generated = |operation, id| hs(csr::HGENVSI, command(operation, DOM, id));
    let steps = [
        ("read `hifmap`", (Mode::HS, csr::HIFMAP, CsrOp::Read), 0),
        ("attach", hs(csr::HIFMAP, slot(DOM, 0)), 0),
        (
            "enable a source",
            vs(csr::VSENABLE, CsrOp::Write(vsenable::E | u64::from(EDGE))),
            0,
        ),
        (
            "",
            vs(csr::VSENABLE, CsrOp::Write(vsenable::E | u64::from(LEVEL))),
            0,
        ),
        (
            "write the threshold",
            vs(csr::VSTHRESHOLD, CsrOp::Write(0)),
            0,
        ),
        (
            "IPI to a vhart that runs",
            hs(csr::HGENVSI, command(op::SOFT, DOM, 0)),
            1,
        ),
        ("clear `sip.SSIP`", vs(VSIP, CsrOp::Clear(2)), 0),
        ("IPI of a guest to itself", vs(csr::SGENIPI, to(0)), 0),
        ("", vs(VSIP, CsrOp::Clear(2)), 0),
        (
            "IPI of a guest to a vhart that is stopped",
            vs(csr::SGENIPI, to(2)),
            0,
        ),
        (
            "device interrupt for a vhart that runs",
            generated(op::EDGE, EDGE),
            1,
        ),
        ("claim it", vs(csr::VSCLAIM, CsrOp::Read), 0),
        (
            "complete it",
            vs(csr::VSCLAIM, CsrOp::Write(u64::from(EDGE))),
            0,
        ),
        ("claim, nothing pending", vs(csr::VSCLAIM, CsrOp::Read), 0),
        (
            "assert a level-sensitive source",
            generated(op::ASSERT, LEVEL),
            1,
        ),
        ("", vs(csr::VSCLAIM, CsrOp::Read), 0),
        ("de-assert it", generated(op::DEASSERT, LEVEL), 1),
        (
            "complete it, and claim",
            vs(csr::VSCLAIM, CsrOp::Swap(u64::from(LEVEL))),
            0,
        ),
        (
            "detach as halted",
            hs(csr::HIFMAP, state::HALTED << hifmap::STATE_SHIFT),
            0,
        ),
        (
            "IPI to a vhart that is halted",
            hs(csr::HGENVSI, command(op::SOFT, DOM, 0)),
            1,
        ),
        (
            "read the notification",
            (Mode::HS, csr::HNOTIFY, CsrOp::Read),
            0,
        ),
        (
            "another IPI to it",
            hs(csr::HGENVSI, command(op::SOFT, DOM, 0)),
            1,
        ),
        ("`SYNC`", generated(op::SYNC, 0), 1),
    ];
    for (name, (mode, csr, op), hart) in steps {
        let [answer, end, memory] = time(&mut bench, hart, Access { csr, mode, op })?;
        // Those without a name prepare the next one.
        if !name.is_empty() {
            println!("| {name} | {answer} | {end} | {memory} |");
        }
    }
    Ok(())
}

/// Cycles to the answer and to the end of an access, and accesses to memory.
fn time(bench: &mut Bench, hart: usize, access: Access) -> Result<[u64; 3], String> {
    let v = matches!(access.mode, Mode::VS | Mode::VU);
    bench.set_v(hart, v);
    let before = bench.counts;
    bench.begin(hart, access);
    while bench.is_under_way(hart) {
        bench.cycle()?;
    }
    let answer = bench.counts.cycles - before.cycles;
    let mut end = answer;
    while !bench.is_idle() {
        bench.cycle()?;
        end = bench.counts.cycles - before.cycles;
    }
    let memory = bench.counts.memory - before.memory;
    while !bench.is_quiet() {
        bench.cycle()?;
    }
    Ok([answer, end, memory])
}
