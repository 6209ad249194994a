//! The wire format of protocol buffers, as far as a trace needs it.

/// A message being built.
#[derive(Default, Debug)]
pub struct Message(Vec<u8>);

impl Message {
    /// An empty message.
    pub fn new() -> Self {
        Self::default()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    /// An unsigned integer or enumeration.
    pub fn uint(mut self, field: u32, value: u64) -> Self {
        self.tag(field, 0);
        self.varint(value);
        self
    }

    /// A `fixed64`.
    pub fn fixed64(mut self, field: u32, value: u64) -> Self {
        self.tag(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A string.
    pub fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    /// A message inside this one.
    pub fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// The encoded form.
    pub fn encoded(&self) -> &[u8] {
        &self.0
    }
}
