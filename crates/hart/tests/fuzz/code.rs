//! Where the instructions of a program are.

use super::instruction::{Place, Style, TO_PATCH};
use super::rng::Rng;
use super::tables::{CODE, CODE_PAGES, PAGE};

/// One instruction of the program.
#[derive(Clone, Copy)]
pub struct Slot {
    /// Physical address.
    pub at: u64,
    /// 2 or 4.
    pub len: u8,
    pub word: u32,
}

/// Instructions in short runs, and where these begin.
pub fn code(rng: &mut Rng, style: &mut Style) -> (Vec<Slot>, Vec<u64>) {
    let (mut slots, mut starts) = (Vec::new(), Vec::new());
    let end = CODE + PAGE * (1 + rng.below(CODE_PAGES));
    let mut at = CODE + 2 * rng.below(100);
    let compressed = rng.pick(&[0, 30, 70]);
    while at + 8 <= end {
        starts.push(at);
        let to_the_end = rng.chance(25);
        let mut left = rng.pick(&[1, 3, 8, 20, 70]);
        while left > 0 && at + 8 <= end {
            let len = if rng.chance(compressed) { 2 } else { 4 };
            slots.push(Slot { at, len, word: 0 });
            at += u64::from(len);
            left -= 1;
            if left == 0 && to_the_end && (at & 0xFFF) >= 0xE80 {
                // A block that ends with its page, or an instruction in two.
                left = 1;
            }
        }
        // Ends with a jump.
        let word = 0x6F;
        slots.push(Slot { at, len: 4, word });
        at += 4;
        at += if rng.chance(50) {
            0
        } else {
            2 * rng.below(300)
        };
        if rng.chance(20) {
            // Close to the end of this page.
            at = ((at | 0xFFF) - 0x7F + 2 * rng.below(40) - 1) & !1;
        }
    }
    let targets: Vec<u64> = slots.iter().map(|slot| slot.at).collect();
    let floats = rng.pick(&[0, 0, 1, 30]);
    let patches = rng.pick(&[0, 0, 0, 8]);
    style.patch.target = rng.pick(&starts);
    let mut pending = Vec::new();
    for slot in &mut slots {
        let place = Place {
            at: slot.at,
            targets: if rng.chance(60) { &starts } else { &targets },
        };
        slot.word = match slot {
            Slot { len: 2, .. } => style.parcel(rng),
            Slot { word: 0x6F, .. } => style.jump(rng, &place),
            _ => {
                if pending.is_empty() && rng.chance(floats) {
                    pending = style.computation(rng);
                    pending.reverse();
                }
                if pending.is_empty() && rng.chance(patches) {
                    pending = style.patching(rng);
                    pending.reverse();
                }
                match pending.pop() {
                    Some(TO_PATCH) => style.to_patch(slot.at),
                    Some(word) => word,
                    None => style.word(rng, &place),
                }
            }
        };
    }
    (slots, starts)
}
