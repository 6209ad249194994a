//! The circuit, as `circuit.cpp` wraps what Verilator makes of it.

use std::ffi::{c_int, c_void};

/// Most harts of a circuit that is built.
pub const MOST_HARTS: usize = 8;

/// Inputs of a hart.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct HartIn {
    /// `req_operand`.
    pub operand: u64,
    /// `htimedelta`.
    pub delta: u64,
    /// `req_csr`.
    pub csr: u16,
    /// `hart_reset`.
    pub reset: bool,
    /// There is an access.
    pub req_valid: bool,
    /// `req_op`.
    pub op: u8,
    /// `req_mode`.
    pub mode: u8,
    /// An interrupt is pending.
    pub withdraw: bool,
    /// V.
    pub v: bool,
    /// Latches of `hip` that become 0.
    pub hip_clear: u8,
}

/// All inputs.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct In {
    /// Answer of memory.
    pub mem_rdata: u64,
    /// `time`.
    pub now: u64,
    /// Of the whole controller.
    pub reset: bool,
    /// Memory answers.
    pub mem_ack: bool,
    /// The access fails.
    pub mem_err: bool,
    /// By hart.
    pub harts: [HartIn; MOST_HARTS],
}

/// Outputs of a hart.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct HartOut {
    /// `rsp_data`, with `rsp_valid`.
    pub data: u64,
    /// The access is answered.
    pub rsp_valid: bool,
    /// `rsp_fault`.
    pub fault: u8,
    /// Nothing has been done.
    pub retry: bool,
    /// `vsip.SSIP` and `vsip.SEIP`, bits 0 and 1.
    pub terms: u8,
    /// `hip.VSSIP` and `hip.VSEIP`.
    pub latches: u8,
    /// Comparison of `vstimecmp`.
    pub vstip: bool,
    /// Comparison of `stimecmp`.
    pub stip: bool,
    /// Interrupt 24.
    pub notify: bool,
    /// Sets `sip.SSIP`.
    pub ipi: bool,
    /// `htlcfg.EN`.
    pub split: bool,
    /// `vsip` is as it should be.
    pub settled: bool,
    /// Posts of `sgenipi` are left.
    pub posting: bool,
}

/// All outputs, after the edge.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Out {
    /// Address in bytes.
    pub mem_addr: u64,
    /// What the word becomes by the access that memory has answered.
    pub mem_value: u64,
    /// Domain and vhart of a post.
    pub job_target: u32,
    /// There is an access to memory.
    pub mem_req: bool,
    /// Its operation.
    pub mem_op: u8,
    /// On behalf of which hart.
    pub mem_hart: u8,
    /// The engine has a job.
    pub job_busy: bool,
    /// It ends with the next edge.
    pub job_end: bool,
    /// Whose it is.
    pub job_hart: u8,
    /// It is a post of an `sgenipi`.
    pub job_post: bool,
    /// By hart.
    pub harts: [HartOut; MOST_HARTS],
}

#[repr(C)]
struct Functions {
    make: extern "C" fn(c_int) -> *mut c_void,
    destroy: extern "C" fn(*mut c_void),
    cycle: extern "C" fn(*mut c_void, *const In, *mut Out),
}

include!(concat!(env!("OUT_DIR"), "/circuits.rs"));

/// Numbers of harts for which there is a circuit.
pub fn built() -> impl Iterator<Item = usize> {
    CIRCUITS.iter().map(|(harts, _)| *harts)
}

/// A circuit that is simulated.
pub struct Circuit {
    functions: &'static Functions,
    circuit: *mut c_void,
}

// SAFETY: what it points to belongs to it alone, and the simulation keeps nothing in threads.
unsafe impl Send for Circuit {}

impl Circuit {
    /// A circuit for `harts` harts before its reset. What is in registers depends on `seed`.
    ///
    /// # Panics
    /// If there is none for that number.
    #[must_use]
    pub fn new(harts: usize, seed: u64) -> Self {
        let found = CIRCUITS.iter().find(|(number, _)| *number == harts);
        let (_, functions) = found.unwrap_or_else(|| panic!("no circuit for {harts} harts"));
        // Verilator takes 31 bits that are not 0.
        let seed = (seed & 0x7fff_ffff).max(1) as c_int;
        let circuit = (functions.make)(seed);
        Self { functions, circuit }
    }

    /// One cycle: inputs, a rising edge, outputs after it.
    pub fn cycle(&mut self, inputs: &In, outputs: &mut Out) {
        (self.functions.cycle)(self.circuit, inputs, outputs);
    }
}

impl Drop for Circuit {
    fn drop(&mut self) {
        (self.functions.destroy)(self.circuit);
    }
}
