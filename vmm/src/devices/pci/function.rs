//! What the root complex asks of a function.

/// Function 0 of a device. Called from vCPU threads concurrently.
pub trait Function: Send + Sync {
    /// Guest load from the configuration space. Every byte of `data` is written; those beyond its
    /// end are all ones.
    fn read_config(&self, offset: usize, data: &mut [u8]);

    /// Guest store to the configuration space.
    fn write_config(&self, offset: usize, data: &[u8]);

    /// Guest load at a bus address of memory; `false` if no region of the function has all these
    /// bytes. Else every byte of `data` is written.
    fn read_memory(&self, address: u64, data: &mut [u8]) -> bool {
        let _ = (address, data);
        false
    }

    /// Guest store at a bus address of memory; `false` as above.
    fn write_memory(&self, address: u64, data: &[u8]) -> bool {
        let _ = (address, data);
        false
    }
}
