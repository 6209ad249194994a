//! The reset vector: the first instructions of every hart, and the data they pass to the firmware.

use crate::bus::map;

/// `fw_dynamic_info` of OpenSBI (firmware/fw_dynamic.S), six 64-bit words.
const FW_DYNAMIC_MAGIC: u64 = 0x4942_534f;
const FW_DYNAMIC_VERSION: u64 = 2;
const NEXT_MODE_S: u64 = 1;

/// Contents of the ROM at [`map::ROM`]: loads `a0` = hart id, `a1` = device tree,
/// `a2` = `fw_dynamic_info`, then jumps to `entry`. `kernel` is where the firmware continues.
#[must_use]
pub fn rom(entry: u64, kernel: u64, fdt: u64) -> Vec<u8> {
    const CODE: [u32; 6] = [
        0x0000_0297, // auipc t0, 0
        0x0282_8613, // addi  a2, t0, 40
        0xf140_2573, // csrr  a0, mhartid
        0x0202_b583, // ld    a1, 32(t0)
        0x0182_b283, // ld    t0, 24(t0)
        0x0002_8067, // jr    t0
    ];
    let data = [
        entry,
        fdt,
        FW_DYNAMIC_MAGIC,
        FW_DYNAMIC_VERSION,
        kernel,
        NEXT_MODE_S,
        0, // options
        0, // boot hart
    ];
    let mut rom: Vec<u8> = CODE.iter().flat_map(|word| word.to_le_bytes()).collect();
    rom.extend(data.iter().flat_map(|word| word.to_le_bytes()));
    debug_assert!(rom.len() as u64 <= map::ROM_LEN);
    rom
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_lies_where_the_code_looks_for_it() {
        let rom = rom(0x8000_0000, 0x8020_0000, 0x8fe0_0000);
        let word = |at: usize| u64::from_le_bytes(rom[at..at + 8].try_into().unwrap());
        assert_eq!(word(24), 0x8000_0000);
        assert_eq!(word(32), 0x8fe0_0000);
        assert_eq!(word(40), FW_DYNAMIC_MAGIC);
        assert_eq!(word(40 + 16), 0x8020_0000);
    }
}
