//! Host CPUs on which threads may run.

use crate::error::{Error, Result};

fn cpu_set(cpus: &[usize]) -> libc::cpu_set_t {
    // SAFETY: a cpu_set_t of zeroes is the empty set; CPU_SET ignores numbers beyond its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus {
            libc::CPU_SET(cpu, &mut set);
        }
        set
    }
}

/// Binds the calling thread to a host CPU. A CPU that does not exist has no effect.
pub fn pin_this_thread(cpu: usize) {
    let set = cpu_set(&[cpu]);
    // SAFETY: `set` has the size given.
    unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
}

/// Binds `thread` to a host CPU. A CPU that does not exist has no effect.
///
/// # Safety
/// The thread has not been joined.
pub unsafe fn pin_thread(thread: libc::pthread_t, cpu: usize) {
    let set = cpu_set(&[cpu]);
    // SAFETY: `set` has the size given, and the caller guarantees that the thread exists.
    unsafe { libc::pthread_setaffinity_np(thread, size_of_val(&set), &set) };
}

/// Checks that this process may run on all of `cpus`, as `--pin` names them.
///
/// # Errors
/// [`Error::User`] with a CPU on which it may not.
pub fn check(cpus: &[u16]) -> Result<()> {
    let mut set = cpu_set(&[]);
    // SAFETY: `set` has the size given.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } < 0 {
        return Err(Error::failed(
            "cannot read the CPU affinity",
            std::io::Error::last_os_error(),
        ));
    }
    let refused = cpus.iter().find(|&&cpu| !may_run_on(cpu.into(), &set));
    match refused {
        Some(cpu) => Err(Error::user(format!(
            "--pin {cpu}: this process may not run on host CPU {cpu}"
        ))),
        None => Ok(()),
    }
}

/// Whether the calling thread, which runs on the CPUs of `set`, may be bound to `cpu`. Processes do
/// not run on isolated CPUs (`isolcpus=`) unless they are bound to one.
fn may_run_on(cpu: usize, set: &libc::cpu_set_t) -> bool {
    // SAFETY: CPU_ISSET only reads, and the number is checked; the sets have the sizes given.
    unsafe {
        if cpu >= 8 * size_of_val(set) {
            return false;
        }
        let only = cpu_set(&[cpu]);
        libc::CPU_ISSET(cpu, set)
            || libc::sched_setaffinity(0, size_of_val(&only), &only) == 0
                && libc::sched_setaffinity(0, size_of_val(set), set) == 0
    }
}
