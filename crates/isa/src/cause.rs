//! Trap causes (privileged specification, table of `mcause` values, with the H extension).

/// Bit that marks an interrupt in `mcause`, `scause` and `vscause` (RV64).
pub const INTERRUPT: u64 = 1 << 63;

macro_rules! codes {
    ($(#[$doc:meta])* $table:ident; $($name:ident = $value:literal, $text:literal;)*) => {
        $(#[doc = $text] pub const $name: u64 = $value;)*
        $(#[$doc])*
        pub const $table: &[(u64, &str)] = &[$(($value, $text)),*];

        /// Abbreviation of a code, as in the specification's names of bits; `None` for unknown
        /// ones.
        #[must_use]
        pub fn abbreviation(code: u64) -> Option<&'static str> {
            let known: &[(u64, &str)] = &[$(($value, stringify!($name))),*];
            known.iter().find(|(c, _)| *c == code).map(|(_, name)| *name)
        }
    };
}

/// Exception codes.
pub mod exception {
    codes! {
        /// Every exception code with its name.
        NAMES;
        FETCH_MISALIGNED = 0, "instruction address misaligned";
        FETCH_ACCESS = 1, "instruction access fault";
        ILLEGAL = 2, "illegal instruction";
        BREAKPOINT = 3, "breakpoint";
        LOAD_MISALIGNED = 4, "load address misaligned";
        LOAD_ACCESS = 5, "load access fault";
        STORE_MISALIGNED = 6, "store/AMO address misaligned";
        STORE_ACCESS = 7, "store/AMO access fault";
        ECALL_U = 8, "environment call from U or VU";
        ECALL_S = 9, "environment call from HS";
        ECALL_VS = 10, "environment call from VS";
        ECALL_M = 11, "environment call from M";
        FETCH_PAGE = 12, "instruction page fault";
        LOAD_PAGE = 13, "load page fault";
        STORE_PAGE = 15, "store/AMO page fault";
        FETCH_GUEST_PAGE = 20, "instruction guest-page fault";
        LOAD_GUEST_PAGE = 21, "load guest-page fault";
        VIRTUAL_INSTRUCTION = 22, "virtual instruction";
        STORE_GUEST_PAGE = 23, "store/AMO guest-page fault";
        LOAD_MMIO_PAGE = 24, "load MMIO page fault";
        STORE_MMIO_PAGE = 25, "store/AMO MMIO page fault";
        HANDLER_END = 26, "end of a handler that HS-mode began";
    }
}

/// Interrupt numbers: bit positions in `mip`/`mie` and codes in `xcause`.
pub mod interrupt {
    codes! {
        /// Every standard interrupt with its name.
        NAMES;
        SSI = 1, "supervisor software interrupt";
        VSSI = 2, "virtual supervisor software interrupt";
        MSI = 3, "machine software interrupt";
        STI = 5, "supervisor timer interrupt";
        VSTI = 6, "virtual supervisor timer interrupt";
        MTI = 7, "machine timer interrupt";
        SEI = 9, "supervisor external interrupt";
        VSEI = 10, "virtual supervisor external interrupt";
        MEI = 11, "machine external interrupt";
        SGEI = 12, "supervisor guest external interrupt";
        LCOFI = 13, "local counter overflow interrupt";
    }
}

/// Name of a full `xcause` value; unknown codes give `None`.
pub fn name(cause: u64) -> Option<&'static str> {
    let (table, code) = if cause & INTERRUPT != 0 {
        (interrupt::NAMES, cause & !INTERRUPT)
    } else {
        (exception::NAMES, cause)
    };
    table.iter().find(|(c, _)| *c == code).map(|(_, n)| *n)
}
