//! Xtrapless 0.3: CSRs, fields, operations and memory structures.
//!
//! Written by `cargo run -p trapless-spec` from `spec/registers.toml`; do not edit.

/// Names in ISA strings.
pub mod isa {
    /// Xtraplessvi.
    pub const XTRAPLESSVI: &str = "xtraplessvi";
}

/// CSR addresses.
pub mod csr {
    /// Assert, de-assert or pulse a source of the domain that the hart's grant names.
    pub const UGENVSEI: u16 = 0x800;
    /// Send software interrupts: in VS-mode to vharts of the own domain, in HS- and M-mode to
    /// harts.
    pub const SGENIPI: u16 = 0x5d8;
    /// Read: claim the most urgent pending source (0: none). Write: complete a source.
    pub const VSCLAIM: u16 = 0x5d9;
    /// Enable or disable a source in the file of the vhart that runs on this hart.
    pub const VSENABLE: u16 = 0x5da;
    /// Sources of this priority and below do not interrupt the vhart.
    pub const VSTHRESHOLD: u16 = 0x5db;
    /// The slot of this hart: which vhart of which domain runs here.
    pub const HIFMAP: u16 = 0x6c0;
    /// Configuration of the extension on this hart.
    pub const HTLCFG: u16 = 0x6c1;
    /// Interrupt any vhart of any domain; re-evaluate a vhart; synchronize with lookups.
    pub const HGENVSI: u16 = 0x6c2;
    /// Read: take the next notification off this hart's queue (0: none). Writes are ignored.
    pub const HNOTIFY: u16 = 0x6c3;
    /// What ugenvsei may reach: a range of sources of one domain, switched with the thread.
    pub const HGRANT: u16 = 0x6c4;
    /// Memory of this hart's notification queue.
    pub const HNQBASE: u16 = 0x6c5;
    /// Domain table; all harts of a system hold the same value.
    pub const HVTABLEBASE: u16 = 0x6c6;
}

/// Fields of `ugenvsei`.
pub mod ugenvsei {
    /// Operation: EDGE, ASSERT or DEASSERT.
    pub const OP: u64 = 0xf000_0000_0000_0000;
    /// Lowest bit of `OP`.
    pub const OP_SHIFT: u32 = 60;
    /// Source of the granted domain.
    pub const ID: u64 = 0xffff;
    /// Lowest bit of `ID`.
    pub const ID_SHIFT: u32 = 0;
}

/// Fields of `sgenipi`.
pub mod sgenipi {
    /// Vhart (or hart) that bit 0 of MASK stands for.
    pub const BASE: u64 = 0xffff_0000_0000;
    /// Lowest bit of `BASE`.
    pub const BASE_SHIFT: u32 = 32;
    /// Targets: bit i stands for BASE + i.
    pub const MASK: u64 = 0xffff_ffff;
    /// Lowest bit of `MASK`.
    pub const MASK_SHIFT: u32 = 0;
}

/// Fields of `vsclaim`.
pub mod vsclaim {
    /// Source, 1..=1023; 0 stands for none.
    pub const ID: u64 = 0xffff;
    /// Lowest bit of `ID`.
    pub const ID_SHIFT: u32 = 0;
}

/// Fields of `vsenable`.
pub mod vsenable {
    /// 1 enables, 0 disables.
    pub const E: u64 = 0x8000_0000_0000_0000;
    /// Source.
    pub const ID: u64 = 0xffff;
    /// Lowest bit of `ID`.
    pub const ID_SHIFT: u32 = 0;
}

/// Fields of `vsthreshold`.
pub mod vsthreshold {
    /// Threshold, 0..=7.
    pub const PRIO: u64 = 0x7;
    /// Lowest bit of `PRIO`.
    pub const PRIO_SHIFT: u32 = 0;
}

/// Fields of `hifmap`.
pub mod hifmap {
    /// The slot is valid; writing 1 attaches, writing 0 detaches.
    pub const V: u64 = 0x8000_0000_0000_0000;
    /// On a write with V = 0: state the detached vhart is left in.
    pub const STATE: u64 = 0x300_0000_0000_0000;
    /// Lowest bit of `STATE`.
    pub const STATE_SHIFT: u32 = 56;
    /// Interrupt domain.
    pub const DOM: u64 = 0xffff_0000_0000;
    /// Lowest bit of `DOM`.
    pub const DOM_SHIFT: u32 = 32;
    /// Vhart in that domain.
    pub const VHART: u64 = 0xffff;
    /// Lowest bit of `VHART`.
    pub const VHART_SHIFT: u32 = 0;
}

/// Fields of `htlcfg`.
pub mod htlcfg {
    /// Version of the encodings and rules; read-only.
    pub const VERSION: u64 = 0xf000_0000_0000_0000;
    /// Lowest bit of `VERSION`.
    pub const VERSION_SHIFT: u32 = 60;
    /// Sticky: an access to memory on behalf of this hart failed.
    pub const FLT: u64 = 0x200;
    /// Sticky: a lookup of this hart matched more than one slot (optional).
    pub const ERR: u64 = 0x100;
    /// Notifications go to any hart, as in the 2020 design, instead of where the vhart's state
    /// says.
    pub const ANY: u64 = 0x2;
    /// Opt-in: separates VS-level pending and enable bits and opens the other CSRs.
    pub const EN: u64 = 0x1;
}

/// Fields of `hgenvsi`.
pub mod hgenvsi {
    /// Operation.
    pub const OP: u64 = 0xf000_0000_0000_0000;
    /// Lowest bit of `OP`.
    pub const OP_SHIFT: u32 = 60;
    /// Interrupt domain.
    pub const DOM: u64 = 0xffff_0000_0000;
    /// Lowest bit of `DOM`.
    pub const DOM_SHIFT: u32 = 32;
    /// Source (EDGE, ASSERT, DEASSERT) or vhart (SOFT, EVAL); bit 0 for SYNC: of domain DOM only.
    pub const ID: u64 = 0xffff;
    /// Lowest bit of `ID`.
    pub const ID_SHIFT: u32 = 0;
}

/// Fields of `hnotify`.
pub mod hnotify {
    /// This is a notification.
    pub const V: u64 = 0x8000_0000_0000_0000;
    /// Notifications were dropped since the last read: look at every vhart.
    pub const OVF: u64 = 0x4000_0000_0000_0000;
    /// What happened.
    pub const KIND: u64 = 0x300_0000_0000_0000;
    /// Lowest bit of `KIND`.
    pub const KIND_SHIFT: u32 = 56;
    /// Interrupt domain.
    pub const DOM: u64 = 0xffff_0000_0000;
    /// Lowest bit of `DOM`.
    pub const DOM_SHIFT: u32 = 32;
    /// Vhart, or source for RESAMPLE and SOURCE.
    pub const ID: u64 = 0xffff;
    /// Lowest bit of `ID`.
    pub const ID_SHIFT: u32 = 0;
}

/// Fields of `hgrant`.
pub mod hgrant {
    /// There is a grant.
    pub const V: u64 = 0x8000_0000_0000_0000;
    /// Interrupt domain.
    pub const DOM: u64 = 0xffff_0000_0000;
    /// Lowest bit of `DOM`.
    pub const DOM_SHIFT: u32 = 32;
    /// Number of sources.
    pub const COUNT: u64 = 0xffff_0000;
    /// Lowest bit of `COUNT`.
    pub const COUNT_SHIFT: u32 = 16;
    /// First source.
    pub const FIRST: u64 = 0xffff;
    /// Lowest bit of `FIRST`.
    pub const FIRST_SHIFT: u32 = 0;
}

/// Fields of `hnqbase`.
pub mod hnqbase {
    /// The queue takes notifications; written 0: takes no more, but what it holds can still be
    /// read.
    pub const EN: u64 = 0x8000_0000_0000_0000;
    /// Page number of its first entry; the memory is naturally aligned.
    pub const PPN: u64 = 0xff_ffff_ffff_f000;
    /// Lowest bit of `PPN`.
    pub const PPN_SHIFT: u32 = 12;
    /// log2 of the number of 8-byte entries, 0..=12.
    pub const SIZE: u64 = 0xf;
    /// Lowest bit of `SIZE`.
    pub const SIZE_SHIFT: u32 = 0;
}

/// Fields of `hvtablebase`.
pub mod hvtablebase {
    /// There is a table.
    pub const V: u64 = 0x8000_0000_0000_0000;
    /// Page number of its first entry.
    pub const PPN: u64 = 0xff_ffff_ffff_f000;
    /// Lowest bit of `PPN`.
    pub const PPN_SHIFT: u32 = 12;
    /// log2 of the number of 32-byte entries, 0..=16.
    pub const SIZE: u64 = 0x1f;
    /// Lowest bit of `SIZE`.
    pub const SIZE_SHIFT: u32 = 0;
}

/// Kinds of notifications (hnotify.KIND).
pub mod kind {
    /// A source of a domain of the host is pending (only with message windows).
    pub const SOURCE: u64 = 0;
    /// Something is pending for a HALTED vhart.
    pub const WAKE: u64 = 1;
    /// Something is pending for a PREEMPTED vhart.
    pub const YIELD: u64 = 2;
    /// A RESAMPLE source was completed.
    pub const RESAMPLE: u64 = 3;
}

/// Operations of ugenvsei and hgenvsi (field OP).
pub mod op {
    /// The source becomes pending.
    pub const EDGE: u64 = 0;
    /// The source's line goes high; it becomes pending if it was low.
    pub const ASSERT: u64 = 1;
    /// The source's line goes low; a level-sensitive source is pending no more.
    pub const DEASSERT: u64 = 2;
    /// Software interrupt for a vhart (hgenvsi only).
    pub const SOFT: u64 = 3;
    /// Look the vhart up and notify as if something had been posted, if anything is pending
    /// (hgenvsi only).
    pub const EVAL: u64 = 4;
    /// Completes when every lookup that used older table contents has completed (hgenvsi only).
    pub const SYNC: u64 = 5;
}

/// State of a vhart (hifmap.STATE and the state field of its file).
pub mod state {
    /// Not scheduled; nobody is notified.
    pub const STOPPED: u64 = 0;
    /// Could run but does not; its last hart is notified.
    pub const PREEMPTED: u64 = 1;
    /// Waits for an interrupt; its last hart is notified.
    pub const HALTED: u64 = 2;
    /// Attached to a hart (written by the controller).
    pub const LOADED: u64 = 3;
}

/// Limits and numbers.
pub mod limits {
    /// Interrupt number of the notification interrupt in mip, sip and scause; read-only one in
    /// mideleg.
    pub const NOTIFY_IRQ: u64 = 24;
    /// Value of htlcfg.VERSION.
    pub const VERSION: u64 = 1;
    /// Highest source of a domain.
    pub const MAX_SOURCES: u64 = 1023;
    /// Most vharts of a domain.
    pub const MAX_VHARTS: u64 = 1024;
    /// Length and alignment of a message window; messages are stored to its first four bytes.
    pub const WINDOW_BYTES: u64 = 4096;
    /// Most message windows.
    pub const MAX_WINDOWS: u64 = 65536;
}

/// Entry of the domain table (`domain`).
pub mod domain {
    /// Size in bytes.
    pub const SIZE: u64 = 32;
    /// Offset in bytes.
    pub const CONFIG: u64 = 0;
    /// The domain exists.
    pub const CONFIG_V: u64 = 0x8000_0000_0000_0000;
    /// Its sources interrupt harts instead of vharts; only with message windows.
    pub const CONFIG_HOST: u64 = 0x4000_0000_0000_0000;
    /// Highest source, 0..=1023.
    pub const CONFIG_SOURCES: u64 = 0xffff_0000;
    /// Lowest bit of `CONFIG_SOURCES`.
    pub const CONFIG_SOURCES_SHIFT: u32 = 16;
    /// Number of vharts, 1..=1024.
    pub const CONFIG_VHARTS: u64 = 0xffff;
    /// Lowest bit of `CONFIG_VHARTS`.
    pub const CONFIG_VHARTS_SHIFT: u32 = 0;
    /// Offset in bytes. Physical address of the vhart table.
    pub const VHART_TABLE: u64 = 8;
    /// Offset in bytes. Physical address of the source (affinity) table.
    pub const SOURCE_TABLE: u64 = 16;
    /// Offset in bytes. Physical address of the line bitmaps: 128 bytes of line levels, then 128
    /// bytes of outstanding resample notifications (HOST: of pending sources).
    pub const LINES: u64 = 24;
}

/// Entry of a vhart table (`vhart`).
pub mod vhart {
    /// Size in bytes.
    pub const SIZE: u64 = 8;
    /// Offset in bytes.
    pub const ENTRY: u64 = 0;
    /// The vhart exists.
    pub const ENTRY_V: u64 = 0x8000_0000_0000_0000;
    /// Bits 55:10 of the physical address of its file.
    pub const ENTRY_FILE: u64 = 0xff_ffff_ffff_fc00;
    /// Lowest bit of `ENTRY_FILE`.
    pub const ENTRY_FILE_SHIFT: u32 = 10;
}

/// Entry of a source table, indexed by source (`source`).
pub mod source {
    /// Size in bytes.
    pub const SIZE: u64 = 8;
    /// Offset in bytes.
    pub const ENTRY: u64 = 0;
    /// The source exists.
    pub const ENTRY_V: u64 = 0x8000_0000_0000_0000;
    /// Completion lowers the line and notifies the host.
    pub const ENTRY_RESAMPLE: u64 = 0x2_0000_0000;
    /// Level-sensitive: pending again on completion while the line is high.
    pub const ENTRY_LEVEL: u64 = 0x1_0000_0000;
    /// Priority, 0 (never interrupts) to 7 (most urgent).
    pub const ENTRY_PRIO: u64 = 0x7_0000;
    /// Lowest bit of `ENTRY_PRIO`.
    pub const ENTRY_PRIO_SHIFT: u32 = 16;
    /// Vhart it interrupts (HOST: hart).
    pub const ENTRY_VHART: u64 = 0xffff;
    /// Lowest bit of `ENTRY_VHART`.
    pub const ENTRY_VHART_SHIFT: u32 = 0;
}

/// What is pending for one vhart. Bytes 0..512 have the layout of an AIA memory-resident interrupt
/// file (MRIF) (`file`).
pub mod file {
    /// Size in bytes.
    pub const SIZE: u64 = 1024;
    /// Offset of the first in bytes. Pending bits of sources 64 i .. 64 i + 63.
    pub const PENDING: u64 = 0;
    /// Bytes from one `PENDING` word to the next.
    pub const PENDING_STRIDE: u64 = 16;
    /// Number of `PENDING` words.
    pub const PENDING_COUNT: u64 = 16;
    /// Offset of the first in bytes. Enable bits of the same sources.
    pub const ENABLE: u64 = 8;
    /// Bytes from one `ENABLE` word to the next.
    pub const ENABLE_STRIDE: u64 = 16;
    /// Number of `ENABLE` words.
    pub const ENABLE_COUNT: u64 = 16;
    /// Offset in bytes.
    pub const CTL: u64 = 512;
    /// Hart it last ran on.
    pub const CTL_HART: u64 = 0xffff_0000;
    /// Lowest bit of `CTL_HART`.
    pub const CTL_HART_SHIFT: u32 = 16;
    /// State of the vhart.
    pub const CTL_STATE: u64 = 0x300;
    /// Lowest bit of `CTL_STATE`.
    pub const CTL_STATE_SHIFT: u32 = 8;
    /// A notification for this vhart is outstanding.
    pub const CTL_ON: u64 = 0x2;
    /// A software interrupt is pending: what vsip.SSIP shows while the vhart is loaded.
    pub const CTL_SOFT: u64 = 0x1;
    /// Offset in bytes. vsthreshold of the vhart.
    pub const THRESHOLD: u64 = 520;
}

/// Entry of the window table, indexed by message window (`window`).
pub mod window {
    /// Size in bytes.
    pub const SIZE: u64 = 16;
    /// Offset in bytes.
    pub const ENTRY: u64 = 0;
    /// The window is in use.
    pub const ENTRY_V: u64 = 0x8000_0000_0000_0000;
    /// Interrupt domain.
    pub const ENTRY_DOM: u64 = 0xffff_0000_0000;
    /// Lowest bit of `ENTRY_DOM`.
    pub const ENTRY_DOM_SHIFT: u32 = 32;
    /// Number of sources.
    pub const ENTRY_COUNT: u64 = 0xffff_0000;
    /// Lowest bit of `ENTRY_COUNT`.
    pub const ENTRY_COUNT_SHIFT: u32 = 16;
    /// First source.
    pub const ENTRY_FIRST: u64 = 0xffff;
    /// Lowest bit of `ENTRY_FIRST`.
    pub const ENTRY_FIRST_SHIFT: u32 = 0;
    /// Offset in bytes. Number of messages that were dropped; wraps around.
    pub const DROPPED: u64 = 8;
}

/// Registers of message windows and wired windows, in a region of I/O (`wcontrol`).
pub mod wcontrol {
    /// Size in bytes.
    pub const SIZE: u64 = 16384;
    /// Offset in bytes.
    pub const CAP: u64 = 0;
    /// Version of the encodings and rules, 1; read-only.
    pub const CAP_VERSION: u64 = 0xf000_0000_0000_0000;
    /// Lowest bit of `CAP_VERSION`.
    pub const CAP_VERSION_SHIFT: u32 = 60;
    /// Highest wire, 0 if there are no wired windows; read-only.
    pub const CAP_WIRES: u64 = 0x3ff_0000;
    /// Lowest bit of `CAP_WIRES`.
    pub const CAP_WIRES_SHIFT: u32 = 16;
    /// log2 of the number of message windows; read-only.
    pub const CAP_WINDOWS: u64 = 0x1f;
    /// Lowest bit of `CAP_WINDOWS`.
    pub const CAP_WINDOWS_SHIFT: u32 = 0;
    /// Offset in bytes.
    pub const DOMAINS: u64 = 8;
    /// There is a domain table.
    pub const DOMAINS_V: u64 = 0x8000_0000_0000_0000;
    /// Page number of its first entry.
    pub const DOMAINS_PPN: u64 = 0xff_ffff_ffff_f000;
    /// Lowest bit of `DOMAINS_PPN`.
    pub const DOMAINS_PPN_SHIFT: u32 = 12;
    /// log2 of the number of 32-byte entries, 0..=16.
    pub const DOMAINS_SIZE: u64 = 0x1f;
    /// Lowest bit of `DOMAINS_SIZE`.
    pub const DOMAINS_SIZE_SHIFT: u32 = 0;
    /// Offset in bytes.
    pub const TABLE: u64 = 16;
    /// There is a window table.
    pub const TABLE_V: u64 = 0x8000_0000_0000_0000;
    /// Page number of its first entry.
    pub const TABLE_PPN: u64 = 0xff_ffff_ffff_f000;
    /// Lowest bit of `TABLE_PPN`.
    pub const TABLE_PPN_SHIFT: u32 = 12;
    /// log2 of the number of 16-byte entries, 0..=16.
    pub const TABLE_SIZE: u64 = 0x1f;
    /// Lowest bit of `TABLE_SIZE`.
    pub const TABLE_SIZE_SHIFT: u32 = 0;
    /// Offset in bytes.
    pub const STATUS: u64 = 24;
    /// Sticky: an access to memory on behalf of a window or a wire failed; writing 0 clears it.
    pub const STATUS_FLT: u64 = 0x1;
    /// Offset in bytes.
    pub const WIRE: u64 = 8192;
    /// Bytes from one `WIRE` word to the next.
    pub const WIRE_STRIDE: u64 = 8;
    /// Number of `WIRE` words.
    pub const WIRE_COUNT: u64 = 1024;
    /// The wire is given to a domain.
    pub const WIRE_V: u64 = 0x8000_0000_0000_0000;
    /// Interrupt domain.
    pub const WIRE_DOM: u64 = 0xffff_0000_0000;
    /// Lowest bit of `WIRE_DOM`.
    pub const WIRE_DOM_SHIFT: u32 = 32;
    /// Source of that domain.
    pub const WIRE_ID: u64 = 0xffff;
    /// Lowest bit of `WIRE_ID`.
    pub const WIRE_ID_SHIFT: u32 = 0;
}
