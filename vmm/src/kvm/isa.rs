//! The ISA that a guest sees.

use trapless_isa::extension::{LETTERS, isa_string};

/// Extensions KVM can name, by their `KVM_RISCV_ISA_EXT_*` number (Linux UAPI `asm/kvm.h`), with
/// the name used in the device tree (devicetree binding `riscv/extensions.yaml`).
pub const KVM_EXTENSIONS: [(u64, &str); 71] = [
    (0, "a"),
    (1, "c"),
    (2, "d"),
    (3, "f"),
    (4, "h"),
    (5, "i"),
    (6, "m"),
    (7, "svpbmt"),
    (8, "sstc"),
    (9, "svinval"),
    (10, "zihintpause"),
    (11, "zicbom"),
    (12, "zicboz"),
    (13, "zbb"),
    (14, "ssaia"),
    (15, "v"),
    (16, "svnapot"),
    (17, "zba"),
    (18, "zbs"),
    (19, "zicntr"),
    (20, "zicsr"),
    (21, "zifencei"),
    (22, "zihpm"),
    (23, "smstateen"),
    (24, "zicond"),
    (25, "zbc"),
    (26, "zbkb"),
    (27, "zbkc"),
    (28, "zbkx"),
    (29, "zknd"),
    (30, "zkne"),
    (31, "zknh"),
    (32, "zkr"),
    (33, "zksed"),
    (34, "zksh"),
    (35, "zkt"),
    (36, "zvbb"),
    (37, "zvbc"),
    (38, "zvkb"),
    (39, "zvkg"),
    (40, "zvkned"),
    (41, "zvknha"),
    (42, "zvknhb"),
    (43, "zvksed"),
    (44, "zvksh"),
    (45, "zvkt"),
    (46, "zfh"),
    (47, "zfhmin"),
    (48, "zihintntl"),
    (49, "zvfh"),
    (50, "zvfhmin"),
    (51, "zfa"),
    (52, "ztso"),
    (53, "zacas"),
    (54, "sscofpmf"),
    (55, "zimop"),
    (56, "zca"),
    (57, "zcb"),
    (58, "zcd"),
    (59, "zcf"),
    (60, "zcmop"),
    (61, "zawrs"),
    (62, "smnpm"),
    (63, "ssnpm"),
    (64, "svade"),
    (65, "svadu"),
    (66, "svvptc"),
    (67, "zabha"),
    (68, "ziccrse"),
    (69, "zaamo"),
    (70, "zalrsc"),
];

/// ISA of the guest's harts, as KVM reports it for vCPU 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Isa {
    /// Names of the extensions in lower case, single letters and others, in any order.
    pub extensions: Vec<String>,
    /// Frequency of the `time` CSR in Hz.
    pub timebase_hz: u64,
    /// Largest `satp.MODE` (8 = Sv39, 9 = Sv48, 10 = Sv57).
    pub satp_mode: u64,
    /// Bytes per cache block for Zicbom.
    pub cbom_block: Option<u32>,
    /// Bytes per cache block for Zicboz.
    pub cboz_block: Option<u32>,
}

impl Isa {
    /// Whether the extension is offered.
    pub fn has(&self, name: &str) -> bool {
        self.extensions.iter().any(|ext| ext == name)
    }

    /// The extensions: single letters in the order of ISA strings, then the others in any order.
    pub fn ordered(&self) -> Vec<&str> {
        let (mut single, multi): (Vec<&str>, Vec<&str>) = self
            .extensions
            .iter()
            .map(String::as_str)
            .partition(|ext| ext.len() == 1);
        single.sort_by_key(|ext| LETTERS.find(*ext).unwrap_or(usize::MAX));
        single.extend(multi);
        single
    }

    /// The `riscv,isa` string, for instance `rv64imafdc_zicsr_sstc`.
    pub fn string(&self) -> String {
        isa_string(self.ordered())
    }

    /// The `mmu-type` string.
    pub fn mmu_type(&self) -> &'static str {
        match self.satp_mode {
            10 => "riscv,sv57",
            9 => "riscv,sv48",
            8 => "riscv,sv39",
            _ => "riscv,none",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isa_string_is_in_canonical_order() {
        let extensions = ["a", "c", "d", "f", "i", "m", "svpbmt", "sstc"]
            .map(String::from)
            .to_vec();
        let isa = Isa {
            extensions,
            ..Isa::default()
        };
        assert_eq!(isa.string(), "rv64imafdc_svpbmt_sstc");
        assert!(isa.has("sstc") && !isa.has("h"));
    }

    #[test]
    fn extension_numbers_are_dense() {
        assert!(
            KVM_EXTENSIONS
                .iter()
                .enumerate()
                .all(|(i, &(id, _))| i as u64 == id)
        );
    }
}
