//! The IMSIC of `rtl/imsic` and the model of `crates/intc`, in lock-step.

use std::ffi::{c_int, c_void};

use trapless_intc::CsrOp;
use trapless_intc::aia::file::IDENTITIES;
use trapless_intc::aia::imsic::{Destination, Imsics, PAGE, SUPERVISOR_BASE};
use trapless_isa::Mode;
use trapless_isa::port::{FileAccess, FileId, FileRegister};

use crate::access::port_op;
use crate::random::Random;

/// Identities of the model; circuits with fewer never hear of others.
const MODEL: u16 = IDENTITIES;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct In {
    operand: u64,
    data: u32,
    reset: bool,
    msg_valid: bool,
    msg_file: u8,
    msg_be: bool,
    req_valid: bool,
    req_file: u8,
    topei: bool,
    select: u8,
    op: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Out {
    data: u64,
    hgeip: u64,
    valid: bool,
    fault: bool,
    seip: bool,
}

#[repr(C)]
struct Functions {
    make: extern "C" fn(c_int) -> *mut c_void,
    destroy: extern "C" fn(*mut c_void),
    cycle: extern "C" fn(*mut c_void, *const In, *mut Out),
}

include!(concat!(env!("OUT_DIR"), "/imsics.rs"));

/// Drives circuit and model.
struct Bench {
    functions: &'static Functions,
    circuit: *mut c_void,
    /// Guest files, and identities of each.
    guests: u8,
    identities: u16,
    model: Imsics,
    random: Random,
    claims: u64,
}

impl Drop for Bench {
    fn drop(&mut self) {
        (self.functions.destroy)(self.circuit);
    }
}

/// Runs all circuits for `accesses` accesses each; returns what has been done.
///
/// # Errors
/// The first difference.
pub fn run(seed: u64, accesses: u64) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for (guests, identities, functions) in IMSICS {
        let circuit = (functions.make)((seed & 0x7fff_ffff).max(1) as c_int);
        let mut bench = Bench {
            functions,
            circuit,
            guests: *guests,
            identities: *identities,
            model: Imsics::new(1, *guests),
            random: Random::new(seed),
            claims: 0,
        };
        let name = format!("IMSIC with {guests} guest files of {identities} identities");
        let done = bench.run(accesses);
        done.map_err(|text| format!("{name}, seed {seed}: {text}"))?;
        let claims = bench.claims;
        lines.push(format!(
            "{name}, seed {seed}: {accesses} accesses, {claims} claims"
        ));
    }
    Ok(lines)
}

impl Bench {
    fn run(&mut self, accesses: u64) -> Result<(), String> {
        let mut outputs = Out::default();
        let mut inputs = In {
            reset: true,
            ..In::default()
        };
        (self.functions.cycle)(self.circuit, &inputs, &mut outputs);
        let mut levels = (false, 0);
        let mut made = 0;
        while made < accesses {
            inputs = In::default();
            let expected = if self.random.one_in(4) {
                None
            } else {
                made += 1;
                Some(self.access(&mut inputs))
            };
            if self.random.one_in(3) {
                self.message(&mut inputs);
            }
            (self.functions.cycle)(self.circuit, &inputs, &mut outputs);
            let after = |text: String| format!("after {made} accesses: {text}");
            // Levels come a cycle after what changes them.
            if (outputs.seip, outputs.hgeip) != levels {
                let circuit = (outputs.seip, outputs.hgeip);
                return Err(after(format!("levels are {circuit:x?}, not {levels:x?}")));
            }
            levels = (self.model.supervisor(0), self.model.hgeip(0));
            if outputs.valid != expected.is_some() {
                return Err(after("an answer without an access, or none".into()));
            }
            let circuit = (!outputs.fault).then_some(outputs.data);
            if let Some(model) = expected.filter(|model| *model != circuit) {
                return Err(after(format!("answer {circuit:x?}, model {model:x?}")));
            }
        }
        Ok(())
    }

    /// A file; now and then one that does not exist.
    fn any_file(&mut self) -> u8 {
        let few = if self.random.one_in(2) { 2 } else { 64 };
        let file = self.random.below(few) as u8;
        if self.random.one_in(16) {
            file
        } else {
            file % (self.guests + 1)
        }
    }

    fn id(file: u8) -> FileId {
        match file {
            0 => FileId::Supervisor,
            guest => FileId::Guest(guest),
        }
    }

    /// The model does it; what it answers, `None` for an exception.
    fn access(&mut self, inputs: &mut In) -> Option<u64> {
        inputs.req_valid = true;
        inputs.req_file = self.any_file();
        inputs.topei = self.random.one_in(3);
        let words = (self.identities + 1) / 64;
        let value;
        match self.random.below(8) {
            0 | 1 => {
                inputs.select = self.random.of(&[0x70, 0x70, 0x71, 0x73, 0x7f]);
                value = u64::from(!self.random.one_in(3)) | self.random.bits() << 1;
            }
            2 => {
                inputs.select = 0x72;
                value = self.random.of(&[0, 0, self.random.clone().bits()])
                    & u64::from(self.identities);
            }
            choice => {
                let word = self.random.below(u64::from(words)) as u8;
                // Registers that no file has.
                let odd = u8::from(self.random.one_in(20));
                let none = if self.random.one_in(20) { 0x20 } else { 0 };
                let array = if choice == 3 { 0x80 } else { 0xc0 };
                inputs.select = array + 2 * word + odd + none;
                // A few are enabled at a time.
                value = self.random.bits() & self.random.bits() & self.random.bits();
            }
        }
        let any = [
            CsrOp::Read,
            CsrOp::Write(value),
            CsrOp::Swap(value),
            CsrOp::Set(value),
            CsrOp::Clear(value),
        ];
        let op = self.random.of(&any);
        (inputs.op, inputs.operand) = port_op(op);
        let register = if inputs.topei {
            FileRegister::Top
        } else {
            FileRegister::Indirect(inputs.select)
        };
        let access = FileAccess {
            hart: 0,
            mode: Mode::HS,
            now: 0,
            file: Self::id(inputs.req_file),
            register,
            op,
        };
        let answer = self.model.access(&access).ok();
        let claims = inputs.topei && op != CsrOp::Read;
        self.claims += u64::from(claims && answer.is_some_and(|top| top != 0));
        answer
    }

    /// The model gets it as a store to the page of the file.
    fn message(&mut self, inputs: &mut In) {
        let most = u64::from(self.identities);
        let identity = match self.random.below(8) {
            0 => 0,
            1 if self.identities == MODEL => self.random.bits() as u32,
            2 if self.identities == MODEL => u32::from(MODEL) + 1,
            3 => self.identities.into(),
            _ => self.random.below(most + 1) as u32,
        };
        inputs.msg_valid = true;
        inputs.msg_be = self.random.one_in(4);
        inputs.data = if inputs.msg_be {
            identity.swap_bytes()
        } else {
            identity
        };
        inputs.msg_file = self.any_file();
        if inputs.msg_file > self.guests {
            return;
        }
        let page = SUPERVISOR_BASE + PAGE * u64::from(inputs.msg_file);
        let offset = 4 * u64::from(inputs.msg_be);
        let message = self.model.message(page + offset, 4, inputs.data);
        let Ok(Some((to, identity))) = message else {
            unreachable!("the page of file {} takes messages", inputs.msg_file);
        };
        let Destination { hart: 0, .. } = to else {
            unreachable!("there is one hart");
        };
        let _ = self.model.post(to, identity);
    }
}
