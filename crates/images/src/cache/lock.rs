//! Locks of files and folders of the cache between processes.

use std::fs::File;
use std::io;

/// A lock of an open file or folder, released when dropped.
///
/// Closing the file would not do: a child that another thread starts holds it, and with it the
/// lock (`flock(2)`), until it runs its own program.
#[derive(Debug)]
pub(crate) struct Locked(File);

impl Locked {
    /// Waits until no other process holds the lock, and keeps others out.
    ///
    /// # Errors
    /// On a file system without locks.
    pub(crate) fn alone(file: File) -> io::Result<Self> {
        file.lock()?;
        Ok(Self(file))
    }

    /// Waits until no other process keeps others out, and shares the lock.
    ///
    /// # Errors
    /// On a file system without locks.
    pub(crate) fn shared(file: File) -> io::Result<Self> {
        file.lock_shared()?;
        Ok(Self(file))
    }

    /// Keeps others out unless another process holds the lock; `None` if one does, or the file
    /// system has no locks.
    pub(crate) fn alone_now(file: File) -> Option<Self> {
        file.try_lock().ok()?;
        Some(Self(file))
    }

    /// The file that is locked.
    pub(crate) fn file(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // It cannot fail for a lock that is held, and closing the file is what is left.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: who has finished lets the next one in, also while another thread starts a program.
    #[test]
    fn a_lock_ends_with_its_owner_though_a_child_holds_the_file() {
        let temp = tempfile::tempdir().unwrap();
        let open = || File::open(temp.path()).unwrap();
        for lock in [Locked::alone, Locked::shared] {
            let held = lock(open()).unwrap();
            // What a child has between fork(2) and execve(2).
            let _of_child = held.file().try_clone().unwrap();
            assert!(Locked::alone_now(open()).is_none(), "it is held");
            drop(held);
            assert!(
                Locked::alone_now(open()).is_some(),
                "its owner has dropped it"
            );
        }
    }
}
