//! PCI devices with Linux' stock drivers.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::runs::trapless;

/// What the guest does: finds its devices, and moves data through each.
const SCRIPT: &str = "\
    expect switches the host off\n\
    send modprobe virtio_net; modprobe virtio_rng; ifconfig eth0 10.0.2.15 up\n\
    send ping -c 3 10.0.2.2; head -c 16 /dev/hwrng | wc -c\n\
    send dd if=/dev/vda bs=512 skip=8 count=1 | tr w W\n\
    send echo from the guest | dd of=/dev/vda bs=512 seek=9 conv=sync,fsync\n\
    send ls -l /sys/bus/virtio/devices; grep virtio /proc/interrupts; exit\n";

/// Promise: stock drivers find PCI devices and use them, by messages where there are IMSICs, else
/// by wires; the ledger counts which, and two runs are the same.
#[test]
fn stock_drivers_use_pci_devices() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pci");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("it can be made");
    fs::write(folder.join("script"), SCRIPT).expect("it can be written");
    for (machine, interrupts) in [("aia", "PCI-MSIX"), ("trapless", "SiFive PLIC")] {
        let mut disk = vec![0; 1 << 20];
        disk[8 * 512..][..7].copy_from_slice(b"written");
        let boot = |name: &str| {
            fs::write(folder.join("disk"), &disk).expect("it can be written");
            let mut command = trapless();
            command.args(["boot", "--machine", machine, "--harts", "2"]);
            command.args(["--script", "script", "--ledger", name]);
            command.args(["--pci", "virtio-net", "--pci", "virtio-rng"]);
            command.args(["--pci", "virtio-blk,disk,rw"]);
            let output = command.current_dir(&folder).output();
            let output = output.expect("the command starts");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{text}\n{error}");
            let ledger = fs::read(folder.join(name)).expect("it is there");
            let mut ledger: Value = serde_json::from_slice(&ledger).expect("it is JSON");
            ledger.as_object_mut().expect("a ledger").remove("host");
            (text, ledger)
        };
        let (text, ledger) = boot("one");
        for part in ["3 packets received", "\r\n16", "Written", interrupts] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("pci0000:00/0000:00:0").count(), 3, "{text}");
        let disk = fs::read(folder.join("disk")).expect("it is there");
        assert!(disk[9 * 512..].starts_with(b"from the guest\n"));
        let count = |name: &str| ledger["total"]["pci"][name].as_u64().expect(name);
        let by_messages = machine == "aia";
        assert_eq!(count("messages") > 0, by_messages);
        assert_eq!(count("intx") > 0, !by_messages);
        assert_eq!(count("lost"), 0);
        assert!(ledger == boot("two").1, "the ledgers differ");
    }
}
