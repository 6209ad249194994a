//! `monitor interrupts`: what is pending and enabled in harts and in the interrupt architecture.

use trapless_hart::Hart;
use trapless_isa::cause::interrupt;
use trapless_isa::csr;
use trapless_machine::{InterruptRow as Row, Machine};

use crate::harts::describe;

/// CSRs with a bit for each interrupt. Sets of enabled or delegated interrupts are shown only with
/// these.
const SETS: [(u16, Letter); 8] = [
    (csr::MIP, Letter::Pending),
    (csr::MIE, Letter::Enabled),
    (csr::MIDELEG, Letter::None),
    (csr::HVIP, Letter::Pending),
    (csr::HIE, Letter::Enabled),
    (csr::HIDELEG, Letter::None),
    (csr::VSIP, Letter::Pending),
    (csr::VSIE, Letter::Enabled),
];
/// Others that affect which interrupt is taken, with the value that means none.
const PLAIN: [(u16, u64); 4] = [
    (csr::HGEIP, 0),
    (csr::HGEIE, 0),
    (csr::STIMECMP, u64::MAX),
    (csr::VSTIMECMP, u64::MAX),
];

/// Suffix of a bit's name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Letter {
    Pending,
    Enabled,
    None,
}

impl Letter {
    fn text(self) -> &'static str {
        match self {
            Self::Pending => "P",
            Self::Enabled => "E",
            Self::None => "",
        }
    }
}

/// Interrupts of a set by name.
fn names(set: u64, letter: Letter) -> String {
    let name = |irq: u64| match interrupt::abbreviation(irq) {
        Some(name) => format!("{name}{}", letter.text()),
        None => irq.to_string(),
    };
    let set: Vec<String> = (0..64)
        .filter(|irq| set >> irq & 1 != 0)
        .map(name)
        .collect();
    if set.is_empty() {
        "none".into()
    } else {
        set.join(", ")
    }
}

/// The registers of a hart.
fn registers(hart: &Hart) -> Vec<Row> {
    let row = |name: &str, value: String, active| Row {
        hart: Some(hart.id()),
        part: "hart".into(),
        name: name.into(),
        value,
        active,
    };
    let value = |csr| hart.peek_csr_as_m(csr);
    let mode = describe(hart);
    let mode = mode.split_once("-mode").map_or("", |(_, rest)| rest);
    let mut rows = vec![row("mode", format!("{}{mode}", hart.mode()), true)];
    let both = value(csr::MIP).unwrap_or(0) & value(csr::MIE).unwrap_or(0);
    let enables = [
        ("mstatus.MIE", csr::MSTATUS, 3),
        ("mstatus.SIE", csr::MSTATUS, 1),
        ("vsstatus.SIE", csr::VSSTATUS, 1),
    ];
    for (name, of, bit) in enables {
        if let Some(word) = value(of) {
            rows.push(row(name, (word >> bit & 1).to_string(), true));
        }
    }
    rows.push(row("mip & mie", names(both, Letter::None), both != 0));
    for (of, letter) in SETS {
        if let Some(set) = value(of) {
            let active = set != 0 && letter != Letter::None;
            rows.push(row(&csr::name(of).to_string(), names(set, letter), active));
        }
    }
    for (of, nothing) in PLAIN {
        if let Some(word) = value(of) {
            let name = csr::name(of).to_string();
            rows.push(row(&name, format!("{word:#x}"), word != nothing));
        }
    }
    rows
}

/// The answer to `monitor interrupts` with these words behind it: a hart's number, `all`, or both.
pub fn answer(words: &[&str], machine: &Machine) -> String {
    let mut only = None;
    let mut all = false;
    for word in words {
        match word.parse() {
            Ok(hart) if hart < machine.harts().len() => only = Some(hart),
            _ if *word == "all" => all = true,
            _ => {
                let last = machine.harts().len() - 1;
                return format!(
                    "\"{word}\" is neither a hart from 0 to {last} nor \"all\": \
                     monitor interrupts [HART] [all]\n"
                );
            }
        }
    }
    let harts = machine.harts().iter().flat_map(registers);
    let mut rows: Vec<Row> = harts.chain(machine.interrupt_state()).collect();
    rows.retain(|row| {
        (all || row.active) && (only.is_none() || row.hart.is_none_or(|h| Some(h) == only))
    });
    // By hart; state of no hart comes last.
    rows.sort_by_key(|row| row.hart.unwrap_or(usize::MAX));
    table(&rows)
}

/// Aligned columns; cells equal to those in the line above are left out.
fn table(rows: &[Row]) -> String {
    let width = |text: fn(&Row) -> &str| rows.iter().map(|row| text(row).len()).max().unwrap_or(0);
    let (part, name) = (width(|row| &row.part), width(|row| &row.name));
    let mut text = String::new();
    let mut last: Option<&Row> = None;
    for row in rows {
        let same_hart = last.is_some_and(|last| last.hart == row.hart);
        let same_part = same_hart && last.is_some_and(|last| last.part == row.part);
        let hart = match row.hart {
            Some(hart) if !same_hart => format!("hart {hart}"),
            None if !same_hart => "all".into(),
            _ => String::new(),
        };
        let shown = if same_part { "" } else { &row.part };
        let (what, value) = (&row.name, &row.value);
        text += &format!("{hart:<7} {shown:<part$}  {what:<name$}  {value}\n");
        last = Some(row);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_have_the_names_of_their_bits() {
        let set = 1 << interrupt::SSI | 1 << interrupt::VSEI | 1 << 24;
        assert_eq!(names(set, Letter::Pending), "SSIP, VSEIP, 24");
        assert_eq!(names(0, Letter::Enabled), "none");
    }

    #[test]
    fn columns_are_aligned_and_nothing_is_repeated() {
        let row = |hart, part: &str, name: &str| Row {
            hart,
            part: part.into(),
            name: name.into(),
            value: "x".into(),
            active: true,
        };
        let rows = [
            row(Some(0), "hart", "mip"),
            row(Some(0), "hart", "mie"),
            row(Some(0), "plic S", "enabled"),
            row(None, "plic", "pending"),
        ];
        let expected = "hart 0  hart    mip      x\n                mie      x\n        \
                        plic S  enabled  x\nall     plic    pending  x\n";
        assert_eq!(table(&rows), expected);
    }
}
