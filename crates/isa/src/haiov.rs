//! HA-IOV 0.4: CSRs, fields, operations and memory structures.
//!
//! Written by `cargo run -p trapless-spec` from `spec/haiov.toml`; do not edit.

/// Names in ISA strings.
pub mod isa {
    /// Xtraplessuer.
    pub const XTRAPLESSUER: &str = "xtraplessuer";
    /// Xtraplessvei.
    pub const XTRAPLESSVEI: &str = "xtraplessvei";
    /// Xtraplesshcs.
    pub const XTRAPLESSHCS: &str = "xtraplesshcs";
}

/// CSR addresses.
pub mod csr {
    /// State of user-level traps.
    pub const USTATUS: u16 = 0x880;
    /// Address of the handler.
    pub const UTVEC: u16 = 0x885;
    /// For the handler.
    pub const USCRATCH: u16 = 0x8c0;
    /// Address of the instruction that trapped, and to which URET returns.
    pub const UEPC: u16 = 0x8c1;
    /// Cause of the trap.
    pub const UCAUSE: u16 = 0x8c2;
    /// Guest physical address of the access, or the instruction.
    pub const UTVAL: u16 = 0x8c3;
    /// The instruction that trapped, transformed.
    pub const UTINST: u16 = 0x8ca;
    /// Exceptions of the guest that U-mode handles, by code.
    pub const HUEDELEG: u16 = 0x6d0;
    /// Post a virtual event of the virtual machine.
    pub const SGENVEI: u16 = 0x5d0;
    /// Event table of the virtual machine that runs on this hart.
    pub const HVEITAB: u16 = 0x6d1;
    /// Queue of events for this hart.
    pub const HVEIQ: u16 = 0x6d2;
    /// Takes the oldest event from the queue of this hart.
    pub const HVEICLAIM: u16 = 0x6d3;
    /// Post an event of any table.
    pub const HGENVEI: u16 = 0x6d4;
    /// What `sscratch` was before a handler's user context replaced it.
    pub const SUSCRATCH: u16 = 0x5d1;
    /// What `satp` was before a handler's user context replaced it.
    pub const SUATP: u16 = 0x5d2;
    /// Save area of this hart for what a user context interrupts.
    pub const HUCSAVE: u16 = 0x6d5;
    /// User context whose handler has interrupted the guest of this hart.
    pub const HUCONTEXT: u16 = 0x6d6;
    /// Share of this hart's time that user contexts may take from guests.
    pub const HUCSHARE: u16 = 0x6d7;
}

/// Fields of `ustatus`.
pub mod ustatus {
    /// The handler runs in a user context (Xhcs); read-only in U-mode.
    pub const UC: u64 = 0x800;
    /// A handler has not returned yet; read-only in U-mode.
    pub const UH: u64 = 0x400;
    /// Virtualization mode before the trap; read-only in U-mode.
    pub const UPV: u64 = 0x200;
    /// Privilege before the trap: 1 supervisor, 0 user; read-only in U-mode.
    pub const UPP: u64 = 0x100;
    /// UIE before the trap.
    pub const UPIE: u64 = 0x10;
    /// User interrupts are enabled.
    pub const UIE: u64 = 0x1;
}

/// Fields of `utvec`.
pub mod utvec {
    /// Address divided by 4.
    pub const BASE: u64 = 0xffff_ffff_ffff_fffc;
    /// Lowest bit of `BASE`.
    pub const BASE_SHIFT: u32 = 2;
    /// As in `stvec`: 0 direct, 1 vectored; writes of other values are ignored.
    pub const MODE: u64 = 0x3;
    /// Lowest bit of `MODE`.
    pub const MODE_SHIFT: u32 = 0;
}

/// Fields of `uscratch`.
pub mod uscratch {
    /// Anything.
    pub const VALUE: u64 = 0xffff_ffff_ffff_ffff;
    /// Lowest bit of `VALUE`.
    pub const VALUE_SHIFT: u32 = 0;
}

/// Fields of `uepc`.
pub mod uepc {
    /// Virtual address; low bits as in `sepc`.
    pub const ADDRESS: u64 = 0xffff_ffff_ffff_ffff;
    /// Lowest bit of `ADDRESS`.
    pub const ADDRESS_SHIFT: u32 = 0;
}

/// Fields of `ucause`.
pub mod ucause {
    /// The cause is an interrupt.
    pub const INTERRUPT: u64 = 0x8000_0000_0000_0000;
    /// As in `scause`.
    pub const CODE: u64 = 0x7fff_ffff_ffff_ffff;
    /// Lowest bit of `CODE`.
    pub const CODE_SHIFT: u32 = 0;
}

/// Fields of `utval`.
pub mod utval {
    /// What `UER-6` says.
    pub const VALUE: u64 = 0xffff_ffff_ffff_ffff;
    /// Lowest bit of `VALUE`.
    pub const VALUE_SHIFT: u32 = 0;
}

/// Fields of `utinst`.
pub mod utinst {
    /// As in `htinst`.
    pub const VALUE: u64 = 0xffff_ffff_ffff_ffff;
    /// Lowest bit of `VALUE`.
    pub const VALUE_SHIFT: u32 = 0;
}

/// Fields of `huedeleg`.
pub mod huedeleg {
    /// Store/AMO MMIO page fault.
    pub const STORE_MMIO: u64 = 0x200_0000;
    /// Load MMIO page fault.
    pub const LOAD_MMIO: u64 = 0x100_0000;
    /// Store/AMO guest-page fault.
    pub const STORE_GUEST: u64 = 0x80_0000;
    /// Virtual instruction.
    pub const VIRTUAL: u64 = 0x40_0000;
    /// Load guest-page fault.
    pub const LOAD_GUEST: u64 = 0x20_0000;
    /// Environment call from VS-mode.
    pub const ECALL_VS: u64 = 0x400;
}

/// Fields of `sgenvei`.
pub mod sgenvei {
    /// Number of the event in the table of `hveitab`.
    pub const REQUEST: u64 = 0xffff;
    /// Lowest bit of `REQUEST`.
    pub const REQUEST_SHIFT: u32 = 0;
}

/// Fields of `hveitab`.
pub mod hveitab {
    /// There is a table.
    pub const V: u64 = 0x8000_0000_0000_0000;
    /// Bits 55:12 of its physical address.
    pub const PPN: u64 = 0xff_ffff_ffff_f000;
    /// Lowest bit of `PPN`.
    pub const PPN_SHIFT: u32 = 12;
    /// Base-2 logarithm of its number of entries, at most 10.
    pub const SIZE: u64 = 0xf;
    /// Lowest bit of `SIZE`.
    pub const SIZE_SHIFT: u32 = 0;
}

/// Fields of `hveiq`.
pub mod hveiq {
    /// The queue takes events.
    pub const EN: u64 = 0x8000_0000_0000_0000;
    /// An access to memory has failed; set by hardware, written 0 by software.
    pub const FLT: u64 = 0x4000_0000_0000_0000;
    /// Bits 55:12 of its physical address.
    pub const PPN: u64 = 0xff_ffff_ffff_f000;
    /// Lowest bit of `PPN`.
    pub const PPN_SHIFT: u32 = 12;
    /// Base-2 logarithm of its number of entries, at most 12.
    pub const SIZE: u64 = 0xf;
    /// Lowest bit of `SIZE`.
    pub const SIZE_SHIFT: u32 = 0;
}

/// Fields of `hveiclaim`.
pub mod hveiclaim {
    /// There was an event.
    pub const V: u64 = 0x8000_0000_0000_0000;
    /// Events have been dropped since the last read.
    pub const OVF: u64 = 0x4000_0000_0000_0000;
    /// It is for a user context (Xhcs).
    pub const CTX: u64 = 0x2000_0000_0000_0000;
    /// VEIID of the event.
    pub const ID: u64 = 0xffff_ffff;
    /// Lowest bit of `ID`.
    pub const ID_SHIFT: u32 = 0;
}

/// Fields of `hgenvei`.
pub mod hgenvei {
    /// Bits 55:4 of the physical address of the entry; 0: wait for posts under way.
    pub const ENTRY: u64 = 0xff_ffff_ffff_fff0;
    /// Lowest bit of `ENTRY`.
    pub const ENTRY_SHIFT: u32 = 4;
}

/// Fields of `suscratch`.
pub mod suscratch {
    /// As `sscratch`.
    pub const VALUE: u64 = 0xffff_ffff_ffff_ffff;
    /// Lowest bit of `VALUE`.
    pub const VALUE_SHIFT: u32 = 0;
}

/// Fields of `suatp`.
pub mod suatp {
    /// As `satp`.
    pub const VALUE: u64 = 0xffff_ffff_ffff_ffff;
    /// Lowest bit of `VALUE`.
    pub const VALUE_SHIFT: u32 = 0;
}

/// Fields of `hucsave`.
pub mod hucsave {
    /// There is a save area: user contexts may interrupt guests on this hart.
    pub const V: u64 = 0x8000_0000_0000_0000;
    /// Bits 55:9 of its physical address.
    pub const ADDRESS: u64 = 0xff_ffff_ffff_fe00;
    /// Lowest bit of `ADDRESS`.
    pub const ADDRESS_SHIFT: u32 = 9;
}

/// Fields of `hucontext`.
pub mod hucontext {
    /// Bits 55:7 of its physical address; 0: none.
    pub const ADDRESS: u64 = 0xff_ffff_ffff_ff80;
    /// Lowest bit of `ADDRESS`.
    pub const ADDRESS_SHIFT: u32 = 7;
}

/// Fields of `hucshare`.
pub mod hucshare {
    /// Handlers have taken `LIMIT` cycles: none begins; read-only.
    pub const FULL: u64 = 0x8000_0000_0000_0000;
    /// What has been taken is forgotten at a rate of 1/2^SHIFT^ of the other cycles.
    pub const SHIFT: u64 = 0x1f_0000_0000;
    /// Lowest bit of `SHIFT`.
    pub const SHIFT_SHIFT: u32 = 32;
    /// Cycles; 0: the share has no bound.
    pub const LIMIT: u64 = 0xffff_ffff;
    /// Lowest bit of `LIMIT`.
    pub const LIMIT_SHIFT: u32 = 0;
}

/// Exception codes that the extension adds.
pub mod cause {
    /// Load MMIO page fault.
    pub const LOAD_MMIO: u64 = 24;
    /// Store/AMO MMIO page fault.
    pub const STORE_MMIO: u64 = 25;
    /// End of a handler that HS-mode began (Xhcs).
    pub const HANDLER_END: u64 = 26;
}

/// Type of a G-stage leaf (bits 58:57 of the entry).
pub mod leaf {
    /// Memory: accesses go to the physical address.
    pub const MEMORY: u64 = 0;
    /// Accesses are for a handler in U-mode (Xuer).
    pub const MMIO: u64 = 1;
    /// Accesses are matched with a doorbell page (Xvei).
    pub const DOORBELL: u64 = 2;
}

/// Who is told of an event (`KIND` of an entry).
pub mod target {
    /// HS-mode of hart `HART`, by its queue.
    pub const HART: u64 = 0;
    /// The user context at `TARGET` (Xhcs).
    pub const CONTEXT: u64 = 1;
}

/// Limits and numbers.
pub mod limits {
    /// Bit of `hstatus` that switches the redirection on.
    pub const HSTATUS_HUR_BIT: u64 = 10;
    /// Lowest bit of the type in a G-stage leaf.
    pub const LEAF_TYPE_SHIFT: u64 = 57;
    /// Interrupt number of the event interrupt.
    pub const VEI_IRQ: u64 = 25;
    /// Most doorbells of a page.
    pub const MAX_DOORBELLS: u64 = 240;
}

/// Entry of an event table (`event`).
pub mod event {
    /// Size in bytes.
    pub const SIZE: u64 = 16;
    /// Offset in bytes.
    pub const CTL: u64 = 0;
    /// VEIID: what `hveiclaim` returns.
    pub const CTL_ID: u64 = 0xffff_ffff_0000_0000;
    /// Lowest bit of `CTL_ID`.
    pub const CTL_ID_SHIFT: u32 = 32;
    /// Hart that is told.
    pub const CTL_HART: u64 = 0xffff_0000;
    /// Lowest bit of `CTL_HART`.
    pub const CTL_HART_SHIFT: u32 = 16;
    /// Bit of `PENDING` of a user context.
    pub const CTL_VECTOR: u64 = 0x3f00;
    /// Lowest bit of `CTL_VECTOR`.
    pub const CTL_VECTOR_SHIFT: u32 = 8;
    /// Who is told.
    pub const CTL_KIND: u64 = 0x30;
    /// Lowest bit of `CTL_KIND`.
    pub const CTL_KIND_SHIFT: u32 = 4;
    /// Masked: nobody is told.
    pub const CTL_M: u64 = 0x4;
    /// Posted since software last cleared the bit.
    pub const CTL_P: u64 = 0x2;
    /// The entry is valid.
    pub const CTL_V: u64 = 0x1;
    /// Offset in bytes.
    pub const TARGET: u64 = 8;
    /// Bits 55:7 of the physical address of the user context.
    pub const TARGET_ADDRESS: u64 = 0xff_ffff_ffff_ff80;
    /// Lowest bit of `TARGET_ADDRESS`.
    pub const TARGET_ADDRESS_SHIFT: u32 = 7;
}

/// User context (Xhcs) (`context`).
pub mod context {
    /// Size in bytes.
    pub const SIZE: u64 = 128;
    /// Offset in bytes.
    pub const CTL: u64 = 0;
    /// What `hveiclaim` returns.
    pub const CTL_ID: u64 = 0xffff_ffff_0000_0000;
    /// Lowest bit of `CTL_ID`.
    pub const CTL_ID_SHIFT: u32 = 32;
    /// Hart that is told.
    pub const CTL_HART: u64 = 0xffff_0000;
    /// Lowest bit of `CTL_HART`.
    pub const CTL_HART_SHIFT: u32 = 16;
    /// The hart that posts is told, whatever `HART` says.
    pub const CTL_OWN: u64 = 0x10;
    /// `sscratch` is exchanged, too.
    pub const CTL_SS: u64 = 0x8;
    /// Masked: nobody is told.
    pub const CTL_M: u64 = 0x4;
    /// Somebody has been told, and no handler has ended since.
    pub const CTL_N: u64 = 0x2;
    /// The context is valid.
    pub const CTL_V: u64 = 0x1;
    /// Offset in bytes. Bit n: an event with `VECTOR` n has been posted.
    pub const PENDING: u64 = 8;
    /// Offset in bytes. `utvec` of the handler.
    pub const UTVEC: u64 = 16;
    /// Offset in bytes. `uscratch` of the handler.
    pub const USCRATCH: u64 = 24;
    /// Offset in bytes. `satp` of the handler: its address space.
    pub const SUATP: u64 = 32;
    /// Offset in bytes. `sscratch` while the handler runs, if `SS`.
    pub const SUSCRATCH: u64 = 40;
    /// Offset in bytes. `hgrant` of Xtrapless while the handler runs, if the hart has that.
    pub const GRANT: u64 = 48;
    /// Offset in bytes. Cycles that the handler may take from the guest.
    pub const BUDGET: u64 = 56;
}

/// Save area of a hart (Xhcs) (`save`).
pub mod save {
    /// Size in bytes.
    pub const SIZE: u64 = 512;
    /// Offset in bytes. Address of the guest's next instruction.
    pub const PC: u64 = 0;
    /// Offset of the first in bytes. Integer registers x1 to x31 of the guest.
    pub const X: u64 = 8;
    /// Bytes from one `X` word to the next.
    pub const X_STRIDE: u64 = 8;
    /// Number of `X` words.
    pub const X_COUNT: u64 = 31;
    /// Offset in bytes. `ustatus` before the interrupt.
    pub const USTATUS: u64 = 256;
    /// Offset in bytes. `utvec` before the interrupt.
    pub const UTVEC: u64 = 264;
    /// Offset in bytes. `uscratch` before the interrupt.
    pub const USCRATCH: u64 = 272;
    /// Offset in bytes. `hgrant` before the interrupt.
    pub const GRANT: u64 = 280;
    /// Offset in bytes. Bit 0: the guest expects a landing pad (Zicfilp).
    pub const ELP: u64 = 288;
}

/// Doorbell page (`bell`).
pub mod bell {
    /// Size in bytes.
    pub const SIZE: u64 = 4096;
    /// Offset in bytes.
    pub const HEADER: u64 = 0;
    /// Number of doorbells, at most 240.
    pub const HEADER_COUNT: u64 = 0xff00;
    /// Lowest bit of `HEADER_COUNT`.
    pub const HEADER_COUNT_SHIFT: u32 = 8;
    /// Accesses that nothing here answers act as those through an MMIO leaf.
    pub const HEADER_MMIO: u64 = 0x2;
    /// The page is valid.
    pub const HEADER_V: u64 = 0x1;
    /// Offset in bytes.
    pub const SHADOW: u64 = 8;
    /// Bits 55:12 of the physical address of the shadow.
    pub const SHADOW_PPN: u64 = 0xff_ffff_ffff_f000;
    /// Lowest bit of `SHADOW_PPN`.
    pub const SHADOW_PPN_SHIFT: u32 = 12;
    /// There is a shadow.
    pub const SHADOW_V: u64 = 0x1;
    /// Offset of the first in bytes. Bit n mod 64 of word n / 64: loads from bytes 4n to 4n+3 of
    /// the page are answered by the shadow.
    pub const LOADS: u64 = 128;
    /// Bytes from one `LOADS` word to the next.
    pub const LOADS_STRIDE: u64 = 8;
    /// Number of `LOADS` words.
    pub const LOADS_COUNT: u64 = 16;
    /// Offset in bytes.
    pub const MATCH: u64 = 256;
    /// Bytes from one `MATCH` word to the next.
    pub const MATCH_STRIDE: u64 = 16;
    /// Number of `MATCH` words.
    pub const MATCH_COUNT: u64 = 240;
    /// Which 4 bytes of the shadow `CLEAR` changes.
    pub const MATCH_UNIT: u64 = 0x3ff_0000_0000_0000;
    /// Lowest bit of `MATCH_UNIT`.
    pub const MATCH_UNIT_SHIFT: u32 = 48;
    /// Event that `POST` posts.
    pub const MATCH_REQUEST: u64 = 0xffff_0000_0000;
    /// Lowest bit of `MATCH_REQUEST`.
    pub const MATCH_REQUEST_SHIFT: u32 = 32;
    /// Offset of the access in the page.
    pub const MATCH_OFFSET: u64 = 0xfff_0000;
    /// Lowest bit of `MATCH_OFFSET`.
    pub const MATCH_OFFSET_SHIFT: u32 = 16;
    /// The bits that are stored become 0 in the shadow.
    pub const MATCH_CLEAR: u64 = 0x40;
    /// The event is posted.
    pub const MATCH_POST: u64 = 0x20;
    /// The value that is stored must be that of `VALUE`.
    pub const MATCH_DATA: u64 = 0x10;
    /// Accesses of any width match.
    pub const MATCH_ANY: u64 = 0x8;
    /// Base-2 logarithm of the number of bytes.
    pub const MATCH_WIDTH: u64 = 0x6;
    /// Lowest bit of `MATCH_WIDTH`.
    pub const MATCH_WIDTH_SHIFT: u32 = 1;
    /// There is a doorbell.
    pub const MATCH_V: u64 = 0x1;
    /// Offset of the first in bytes. Value that `DATA` asks for.
    pub const VALUE: u64 = 264;
    /// Bytes from one `VALUE` word to the next.
    pub const VALUE_STRIDE: u64 = 16;
    /// Number of `VALUE` words.
    pub const VALUE_COUNT: u64 = 240;
}
