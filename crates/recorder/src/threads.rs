//! Names of the threads of the machine's own kernel, read from its memory, for the ledger.
//!
//! The ledger knows the address of a thread's `task_struct`. The offsets of number and name in it
//! come from the kernel's type information, which Linux has in its image (`CONFIG_DEBUG_INFO_BTF`).
//! Without it threads have no names.

use std::collections::HashMap;

use memchr::memmem;
use serde::{Deserialize, Serialize};
use trapless_hart::Ram;
use trapless_ledger::event::Switch;
use trapless_ledger::{Ledger, ThreadName};
use vm_memory::{Bytes, GuestAddress};

use trapless_symbols::btf::{self, Btf};

/// Bytes from the start of RAM in which to search for the kernel's image.
const IMAGE: u64 = 128 << 20;
/// Bytes that are searched at once.
const CHUNK: usize = 1 << 20;
/// Alignment of type information in an image.
const ALIGNMENT: usize = 4;
/// Maximum size of type information: more than a kernel has.
const MOST_TYPES: usize = 64 << 20;
/// Length of `comm` (`TASK_COMM_LEN`).
const COMM: usize = 16;

/// Maximum part of a `task_struct` that is read at once, in bytes.
const PART: u64 = 2048;

/// Where the kernel keeps number and name of a thread, in one part of `task_struct`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Layout {
    /// Offset of that part in bytes, and its length.
    part: (u64, usize),
    /// Offsets in it.
    comm: usize,
    pid: usize,
    tgid: usize,
}

impl Layout {
    fn new([comm, pid, tgid]: [u64; 3]) -> Option<Self> {
        let begin = comm.min(pid).min(tgid);
        let len = (comm + COMM as u64).max(pid + 4).max(tgid + 4) - begin;
        let at = |offset| (offset - begin) as usize;
        (len <= PART).then(|| Self {
            part: (begin, len as usize),
            comm: at(comm),
            pid: at(pid),
            tgid: at(tgid),
        })
    }

    /// Whether [`new`](Self::new) could have made this layout: others come from damaged
    /// checkpoints.
    fn is_possible(&self) -> bool {
        let at = |offset: usize| self.part.0.checked_add(offset as u64);
        let offsets = (at(self.comm), at(self.pid), at(self.tgid));
        let (Some(comm), Some(pid), Some(tgid)) = offsets else {
            return false;
        };
        comm.checked_add(PART).is_some() && Self::new([comm, pid, tgid]) == Some(*self)
    }

    /// Number and name in the part; `None` if it is not a thread's.
    fn read<'a>(&self, part: &'a [u8]) -> Option<ThreadName<'a>> {
        let number = |at| Some(u32::from_le_bytes(part.get(at..at + 4)?.try_into().ok()?));
        let comm = part.get(self.comm..self.comm + COMM)?;
        let len = comm.iter().position(|byte| *byte == 0)?;
        let name = std::str::from_utf8(&comm[..len]).ok()?;
        let plain = !name.is_empty() && !name.contains(char::is_control);
        let (pid, process) = (number(self.pid)?, number(self.tgid)?);
        plain.then_some(ThreadName { pid, process, name })
    }
}

/// The layout by the kernel's type information; `None` if there is none, or it has no such fields.
fn layout(ram: &Ram) -> Option<Layout> {
    let memory = ram.guest_memory();
    let mut chunk = vec![0; CHUNK];
    let end = ram.base() + ram.size().min(IMAGE);
    for start in (ram.base()..end).step_by(CHUNK) {
        memory.read_slice(&mut chunk, GuestAddress(start)).ok()?;
        let found = memmem::find_iter(&chunk, &btf::START[..ALIGNMENT]);
        let found = found.filter(|at| at.is_multiple_of(ALIGNMENT));
        let mut layouts = found.filter_map(|at| layout_at(ram, start + at as u64));
        if let Some(layout) = layouts.next() {
            return Some(layout);
        }
    }
    None
}

fn layout_at(ram: &Ram, at: u64) -> Option<Layout> {
    let memory = ram.guest_memory();
    let mut header = [0; 24];
    memory.read_slice(&mut header, GuestAddress(at)).ok()?;
    let size = Btf::size(&header).filter(|size| *size <= MOST_TYPES)?;
    let mut blob = vec![0; size];
    memory.read_slice(&mut blob, GuestAddress(at)).ok()?;
    let btf = Btf::new(&blob)?;
    Layout::new(btf.offsets("task_struct", ["comm", "pid", "tgid"])?)
}

/// Maximum number of threads whose place in RAM is cached; the guest controls how many there are.
const PLACES: usize = 8192;

/// Reads names while the machine runs.
pub struct ThreadNames {
    ram: Ram,
    layout: Layout,
    /// Address in RAM of the part of each `task_struct`, which is in Linux's linear mapping and
    /// does not move.
    places: HashMap<u64, u64>,
}

impl ThreadNames {
    /// Looks for the type information of the kernel that `ram` holds; `None` if there is none.
    pub fn of_kernel(ram: &Ram) -> Option<Self> {
        Self::with(layout(ram)?, ram)
    }

    /// For a kernel in `ram` with this layout; `None` if it is impossible.
    pub fn with(layout: Layout, ram: &Ram) -> Option<Self> {
        layout.is_possible().then(|| Self {
            ram: ram.clone(),
            layout,
            places: HashMap::new(),
        })
    }

    /// The layout by the type information.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Gives `ledger` the names of both threads of a switch before it records the switch: the old
    /// thread's name again, since `execve` may have changed it.
    pub fn name(&mut self, ledger: &mut Ledger, switch: &Switch) {
        for task in [switch.from, switch.to] {
            self.name_one(ledger, switch.satp, task);
        }
    }

    fn name_one(&mut self, ledger: &mut Ledger, satp: u64, task: u64) {
        let Some(place) = self.place(satp, task) else {
            return;
        };
        let mut part = [0; PART as usize];
        let part = &mut part[..self.layout.part.1];
        let memory = self.ram.guest_memory();
        if memory.read_slice(part, GuestAddress(place)).is_err() {
            return;
        }
        if let Some(name) = self.layout.read(part) {
            ledger.name_thread(task, &name);
        }
    }

    fn place(&mut self, satp: u64, task: u64) -> Option<u64> {
        if let Some(place) = self.places.get(&task) {
            return Some(*place);
        }
        let (offset, len) = self.layout.part;
        let at = task.checked_add(offset).filter(|_| task != 0)?;
        let place = self.ram.find_virtual(satp, at, len as u64)?;
        if self.places.len() == PLACES {
            self.places.clear();
        }
        self.places.insert(task, place);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_ledger::event::{Event, Sink};
    use trapless_ledger::{Config, RunInfo};

    const BASE: u64 = 0x8000_0000;

    /// Type information: structure `task_struct` of `pid` at 8, `tgid` at 12, `comm` at 20.
    fn types() -> Vec<u8> {
        let strings = b"\0task_struct\0pid\0tgid\0comm\0";
        // A structure of three members: name, type, offset in bits.
        let types = [1, 4 << 24 | 3, 64, 13, 1, 64, 17, 1, 96, 22, 1, 160];
        let len = 4 * types.len() as u32;
        let header = [0, len, len, strings.len() as u32];
        let words = header.iter().chain(&types).flat_map(|w| w.to_le_bytes());
        btf::START
            .into_iter()
            .chain(words)
            .chain(*strings)
            .collect()
    }

    fn ram() -> Ram {
        let ram = Ram::new(BASE, 8 << 20).unwrap();
        let memory = ram.guest_memory();
        let at = GuestAddress(BASE + 0x2_0004);
        memory.write_slice(&types(), at).unwrap();
        ram
    }

    /// A thread at `task` of RAM.
    fn thread(ram: &Ram, task: u64, pid: u32, comm: &str) {
        let memory = ram.guest_memory();
        let mut name = [0; COMM];
        name[..comm.len()].copy_from_slice(comm.as_bytes());
        for at in [8, 12] {
            memory.write_obj(pid, GuestAddress(task + at)).unwrap();
        }
        memory.write_slice(&name, GuestAddress(task + 20)).unwrap();
    }

    #[test]
    fn names_are_those_of_the_last_switch() {
        let ram = ram();
        let mut names = ThreadNames::of_kernel(&ram).unwrap();
        let mut ledger = Ledger::new(Config::new(1));
        // Across a page, and beside it.
        let (a, b) = (BASE + 0x10_0000 - 24, BASE + 0x20_0000);
        thread(&ram, a, 7, "sh");
        thread(&ram, b, 0, "swapper/0");
        let mut go = |time, from, to| {
            let (hart, satp) = (0, 0);
            let switch = Switch {
                time,
                hart,
                from,
                to,
                satp,
            };
            names.name(&mut ledger, &switch);
            ledger.record(&Event::Switch(switch));
        };
        go(10, 0, a);
        thread(&ram, a, 7, "cat");
        go(30, a, b);
        // Another thread where the first one was.
        thread(&ram, a, 8, "ls");
        go(50, b, a);
        ledger.finish(100);
        let file = ledger.to_file(RunInfo::default(), None);
        let threads = file.total.threads.iter();
        let seen: Vec<_> = threads
            .map(|t| (t.name.as_deref(), t.pid, t.switches, t.cycles["M"]))
            .collect();
        assert_eq!(
            seen,
            [
                (Some("(none)"), None, 0, 10),
                (Some("cat"), Some(7), 0, 20),
                (Some("swapper/0"), Some(0), 1, 20),
                (Some("ls"), Some(8), 1, 50),
            ]
        );
    }

    /// Promise: a checkpoint that says something impossible of threads is refused.
    #[test]
    fn layouts_out_of_files_are_checked() {
        let ram = Ram::new(BASE, 8 << 20).unwrap();
        let sound = Layout::new([20, 8, 12]).unwrap();
        assert!(ThreadNames::with(sound, &ram).is_some());
        let far = u64::MAX - 4;
        for wrong in [
            Layout {
                part: (8, 4096),
                ..sound
            },
            Layout {
                part: (8, 27),
                ..sound
            },
            Layout {
                part: (far, 28),
                ..sound
            },
            Layout {
                comm: usize::MAX,
                ..sound
            },
            Layout { pid: 2048, ..sound },
        ] {
            assert!(ThreadNames::with(wrong, &ram).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn memory_without_type_information_has_no_names() {
        assert!(ThreadNames::of_kernel(&Ram::new(BASE, 8 << 20).unwrap()).is_none());
    }
}
