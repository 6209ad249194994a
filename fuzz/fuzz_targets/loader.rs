//! Files a user hands over: firmware, kernels, ELF programs, device trees. Each is loaded or
//! refused with a sentence; what was loaded lies in RAM, and a device tree survives being written
//! again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trapless_machine::boot::{dtb::Tree, elf::Elf, image};
use trapless_machine::{Content, Machine, MachineConfig, Payload, Peripherals};

const RAM: u64 = 4 << 20;

fn boot(payload: &Payload) {
    let mut config = MachineConfig::preset("sbi").unwrap();
    config.ram = RAM;
    match Machine::boot(config, payload, Peripherals::new(Box::new(std::io::sink()))) {
        Ok(machine) => {
            let place = machine.placement();
            assert!(
                place
                    .initrd
                    .is_none_or(|(start, end)| machine.ram().contains(start, end - start))
            );
            if let Ok(signature) = machine.signature() {
                assert!(signature.len() as u64 <= RAM);
            }
            assert!(Tree::parse(machine.device_tree()).is_ok());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&kind, file)) = data.split_first() else {
        return;
    };
    let firmware = Some(vec![0x13, 0, 0, 0]);
    match kind % 6 {
        0 => boot(&Payload {
            firmware: Some(file.into()),
            ..Payload::default()
        }),
        1 => boot(&Payload {
            kernel: Some(Content::Bytes(file.into())),
            ..Payload::default()
        }),
        2 => {
            let (kernel, initrd) = file.split_at(file.len() / 2);
            boot(&Payload {
                firmware,
                kernel: Some(Content::Bytes(kernel.into())),
                initrd: Some(Content::Bytes(initrd.into())),
                ..Payload::default()
            });
        }
        3 => boot(&Payload {
            firmware,
            dtb: Some(file.into()),
            append: "quiet".into(),
            ..Payload::default()
        }),
        4 => {
            let _ = Elf::parse(file);
            let _ = image::parse(file, RAM);
        }
        _ => {
            if let Ok(tree) = Tree::parse(file)
                && let Ok(blob) = tree.flatten()
            {
                assert_eq!(Tree::parse(&blob), Ok(tree), "rewriting changes the tree");
            }
        }
    }
});
