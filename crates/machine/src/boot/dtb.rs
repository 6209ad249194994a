//! Flattened device trees: parses untrusted ones, and adds what booting needs to a tree of the
//! user's (Devicetree specification 0.4, chapter 5).

use vm_fdt::{FdtReserveEntry, FdtWriter};

use super::placement::Placement;

/// Maximum size of a device tree, in bytes.
pub const MAX_SIZE: usize = 2 << 20;
const MAX_DEPTH: usize = 64;
const MAX_NODES: usize = 100_000;

const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROP: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;

/// A node with its properties and children, in the order of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Node {
    /// Name with unit address; empty for the root.
    pub name: String,
    /// Properties.
    pub properties: Vec<(String, Vec<u8>)>,
    /// Children.
    pub children: Vec<Node>,
}

/// A device tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    /// The root node.
    pub root: Node,
    /// Reserved memory: address and size.
    pub reserved: Vec<(u64, u64)>,
    /// Hart that starts the system.
    pub boot_hart: u32,
}

impl Node {
    /// The child called `name`.
    #[must_use]
    pub fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|c| c.name == name)
    }

    /// The node at a path such as `"soc/serial@10000000"`.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&Node> {
        path.split('/')
            .filter(|part| !part.is_empty())
            .try_fold(self, |node, part| node.child(part))
    }

    /// The bytes of a property.
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&[u8]> {
        self.properties
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_slice())
    }

    /// A property of 32-bit cells.
    #[must_use]
    pub fn cells(&self, name: &str) -> Option<Vec<u32>> {
        let bytes = self.property(name)?;
        Some(
            bytes
                .chunks_exact(4)
                .map(|c| u32::from_be_bytes([c[0], c[1], c[2], c[3]]))
                .collect(),
        )
    }

    /// A property that holds one string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.property(name)?.strip_suffix(b"\0")?).ok()
    }

    fn set(&mut self, name: &str, value: Vec<u8>) {
        match self.properties.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = value,
            None => self.properties.push((name.into(), value)),
        }
    }

    fn write(&self, fdt: &mut FdtWriter) -> Result<(), vm_fdt::Error> {
        let node = fdt.begin_node(&self.name)?;
        for (name, value) in &self.properties {
            fdt.property(name, value)?;
        }
        for child in &self.children {
            child.write(fdt)?;
        }
        fdt.end_node(node)
    }
}

impl Tree {
    /// Reads a flattened device tree.
    ///
    /// # Errors
    /// If the device tree is malformed.
    pub fn parse(blob: &[u8]) -> Result<Self, String> {
        let damaged = || "the device tree is damaged or truncated".to_string();
        if blob.len() > MAX_SIZE {
            return Err(format!("the device tree is larger than {MAX_SIZE} bytes"));
        }
        let header = |index: usize| word(blob, 4 * index).ok_or_else(damaged);
        if header(0)? != MAGIC {
            return Err("it is not a flattened device tree; compile the source with dtc".into());
        }
        let total = header(1)? as usize;
        let blob = blob.get(..total).ok_or_else(damaged)?;
        if header(5)? < 16 || header(6)? > 17 {
            return Err("the device tree has a version other than 16 or 17".into());
        }
        let strings = blob.get(header(3)? as usize..).ok_or_else(damaged)?;
        let mut tree = Self {
            boot_hart: header(7)?,
            ..Self::default()
        };

        let mut at = header(4)? as usize;
        loop {
            let entry = blob.get(at..at.saturating_add(16)).ok_or_else(damaged)?;
            let half = |i: usize| {
                u64::from_be_bytes(entry[8 * i..8 * i + 8].try_into().unwrap_or_default())
            };
            if (half(0), half(1)) == (0, 0) {
                break;
            }
            tree.reserved.push((half(0), half(1)));
            at += 16;
        }

        let mut at = header(2)? as usize;
        // Open nodes, the root's parent first.
        let mut open = vec![Node::default()];
        let mut nodes = 0;
        loop {
            let token = word(blob, at).ok_or_else(damaged)?;
            at += 4;
            match token {
                NOP => {}
                BEGIN_NODE => {
                    let name = text(blob, at).ok_or_else(damaged)?;
                    at = (at + name.len() + 4) & !3;
                    nodes += 1;
                    if open.len() > MAX_DEPTH || nodes > MAX_NODES {
                        return Err("the device tree has too many nodes".into());
                    }
                    open.push(Node {
                        name: name.into(),
                        ..Node::default()
                    });
                }
                PROP => {
                    let len = word(blob, at).ok_or_else(damaged)? as usize;
                    let name = word(blob, at + 4).ok_or_else(damaged)? as usize;
                    let name = text(strings, name).ok_or_else(damaged)?;
                    let behind = (at + 8).checked_add(len).ok_or_else(damaged)?;
                    let value = blob.get(at + 8..behind).ok_or_else(damaged)?;
                    at = (behind + 3) & !3;
                    let node = open.last_mut().filter(|_| nodes > 0).ok_or_else(damaged)?;
                    node.properties.push((name.into(), value.into()));
                }
                END_NODE => {
                    let node = open.pop().ok_or_else(damaged)?;
                    open.last_mut().ok_or_else(damaged)?.children.push(node);
                }
                END => break,
                _ => return Err(damaged()),
            }
        }
        match open.pop().map(|top| (open.is_empty(), top.children)) {
            Some((true, mut roots)) if roots.len() == 1 => {
                tree.root = roots.remove(0);
                tree.root.name.clear();
                Ok(tree)
            }
            _ => Err(damaged()),
        }
    }

    /// Adds command line and initrd to `/chosen`, as a boot loader does.
    pub fn set_boot(&mut self, append: &str, place: &Placement) {
        let index = match self.root.children.iter().position(|c| c.name == "chosen") {
            Some(index) => index,
            None => {
                self.root.children.push(Node {
                    name: "chosen".into(),
                    ..Node::default()
                });
                self.root.children.len() - 1
            }
        };
        let chosen = &mut self.root.children[index];
        if !append.is_empty() {
            chosen.set("bootargs", [append.as_bytes(), b"\0"].concat());
        }
        if let Some((start, end)) = place.initrd {
            chosen.set("linux,initrd-start", start.to_be_bytes().into());
            chosen.set("linux,initrd-end", end.to_be_bytes().into());
        }
    }

    /// Flattens the tree.
    ///
    /// # Errors
    /// Why it cannot be represented.
    pub fn flatten(&self) -> Result<Vec<u8>, String> {
        let fail = |e: vm_fdt::Error| format!("the device tree cannot be rewritten ({e})");
        let reserved = self
            .reserved
            .iter()
            .map(|&(address, size)| FdtReserveEntry::new(address, size))
            .collect::<Result<Vec<_>, _>>()
            .map_err(fail)?;
        let mut fdt = FdtWriter::new_with_mem_reserv(&reserved).map_err(fail)?;
        fdt.set_boot_cpuid_phys(self.boot_hart);
        self.root.write(&mut fdt).map_err(fail)?;
        fdt.finish().map_err(fail)
    }
}

fn word(blob: &[u8], at: usize) -> Option<u32> {
    let bytes = blob.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn text(blob: &[u8], at: usize) -> Option<&str> {
    let rest = blob.get(at..)?;
    let end = rest.iter().position(|&b| b == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Tree {
        let leaf = Node {
            name: "uart@0".into(),
            properties: vec![("reg".into(), vec![0, 0, 0, 1])],
            ..Node::default()
        };
        let root = Node {
            properties: vec![("model".into(), b"x\0".to_vec()), ("empty".into(), vec![])],
            children: vec![leaf],
            ..Node::default()
        };
        Tree {
            root,
            reserved: vec![(0x1000, 0x2000)],
            boot_hart: 1,
        }
    }

    #[test]
    fn parse_reads_what_flatten_wrote() {
        let tree = sample();
        assert_eq!(Tree::parse(&tree.flatten().unwrap()), Ok(tree));
    }

    #[test]
    fn chosen_gets_boot_arguments() {
        let mut tree = sample();
        let place = Placement {
            initrd: Some((1, 2)),
            ..Placement::default()
        };
        tree.set_boot("quiet", &place);
        tree.set_boot("quiet splash", &place);
        let chosen = tree.root.at("chosen").unwrap();
        assert_eq!(chosen.text("bootargs"), Some("quiet splash"));
        assert_eq!(chosen.cells("linux,initrd-end"), Some(vec![0, 2]));
    }

    #[test]
    fn every_truncation_and_corruption_is_survived() {
        let blob = sample().flatten().unwrap();
        for len in 0..blob.len() {
            assert!(Tree::parse(&blob[..len]).is_err(), "length {len}");
        }
        for at in 0..blob.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut bad = blob.clone();
                bad[at] = value;
                if let Ok(tree) = Tree::parse(&bad) {
                    let _ = tree.flatten();
                }
            }
        }
    }
}
