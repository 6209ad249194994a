//! PCI devices with Linux' stock drivers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// A folder with this script.
fn folder(name: &str, script: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("it can be made");
    fs::write(folder.join("script"), script).expect("it can be written");
    folder
}

/// Boots a machine with these PCI devices; returns what it prints, and its ledger but for what is
/// of this computer.
fn boot(folder: &Path, machine: &str, name: &str, devices: &[&str]) -> (String, Value) {
    let mut command = trapless();
    command.args(["boot", "--machine", machine, "--harts", "2"]);
    command.args(["--script", "script", "--ledger", name]);
    for device in devices {
        command.args(["--pci", device]);
    }
    let output = command.current_dir(folder).output();
    let output = output.expect("the command starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{error}");
    let ledger = fs::read(folder.join(name)).expect("it is there");
    let mut ledger: Value = serde_json::from_slice(&ledger).expect("it is JSON");
    ledger.as_object_mut().expect("a ledger").remove("host");
    (text, ledger)
}

/// Promise: stock drivers find PCI devices and use them, by messages where there are IMSICs, else
/// by wires; the ledger counts which, and two runs are the same.
#[test]
fn stock_drivers_use_pci_devices() {
    let folder = folder("pci", SCRIPT);
    for (machine, interrupts) in [("aia", "PCI-MSIX"), ("trapless", "SiFive PLIC")] {
        let mut disk = vec![0; 1 << 20];
        disk[8 * 512..][..7].copy_from_slice(b"written");
        let run = |name: &str| {
            fs::write(folder.join("disk"), &disk).expect("it can be written");
            let devices = ["virtio-net", "virtio-rng", "virtio-blk,disk,rw"];
            boot(&folder, machine, name, &devices)
        };
        let (text, ledger) = run("one");
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
        assert!(ledger == run("two").1, "the ledgers differ");
    }
}

/// Lets virtual functions appear, gives each to a network of its own, and resets the second one.
const SHARED: &str = "\
    expect switches the host off\n\
    send modprobe virtio_net; ifconfig eth0 10.0.2.15 up; cd /sys/bus/pci/devices/0000:00:01.0\n\
    send echo 2 > sriov_numvfs; ls -d ../*/virtio*/net/*\n\
    send unshare -n sleep 9999 & A=$!; unshare -n sleep 9999 & B=$!; sleep 0.2\n\
    send ip link set eth1 netns $A; nsenter -t $A -n ifconfig eth1 10.0.2.21 up\n\
    send ip link set eth2 netns $B; nsenter -t $B -n ifconfig eth2 10.0.2.22 up\n\
    send ping -c 2 10.0.2.21; nsenter -t $A -n ping -c 3 10.0.2.22\n\
    send nsenter -t $B -n ping -c 4 10.0.2.2; echo 1 > ../0000:00:01.2/reset\n\
    send nsenter -t $A -n ping -c 5 10.0.2.15; nsenter -t $A -n ping -c 1 -W 1 10.0.2.22\n\
    send cd ../0000:00:01.2/driver; echo 0000:00:01.2 > unbind; echo 0000:00:01.2 > bind\n\
    send sleep 0.1; ip link set eth1 netns $B; nsenter -t $B -n ifconfig eth1 10.0.2.22 up\n\
    send nsenter -t $A -n ping -c 6 10.0.2.22; cd /sys/bus/pci/devices\n\
    send echo 0 > 0000:00:01.0/sriov_numvfs; ping -c 7 10.0.2.2; ls; exit\n";

/// Promise: a network card shares itself into functions that stock drivers use, each in a network
/// of its own; they reach each other and the outside, a reset of one leaves the others as they are,
/// the ledger has each by itself, and two runs are the same. Machines without IMSICs say why not.
#[test]
fn a_network_card_shares_itself() {
    let folder = folder("sriov", SHARED);
    let devices = ["virtio-net,vfs=3"];
    let (text, ledger) = boot(&folder, "aia", "one", &devices);
    for packets in [2, 3, 4, 5, 6, 7] {
        let all = format!("{packets} packets transmitted, {packets} packets received");
        assert!(text.contains(&all), "{all}: {text}");
    }
    assert!(
        text.contains("1 packets transmitted, 0 packets received"),
        "{text}"
    );
    for function in ["1/virtio2/net/eth1", "2/virtio3/net/eth2"] {
        assert!(text.contains(&format!("0000:00:01.{function}")), "{text}");
    }
    let functions = ledger["total"]["pci"]["functions"].as_object();
    let functions = functions.expect("messages by function");
    let names: Vec<&str> = functions.keys().map(String::as_str).collect();
    assert_eq!(names, ["00:01.0", "00:01.1", "00:01.2"]);
    let sum: u64 = functions
        .values()
        .map(|f| f["messages"].as_u64().expect("a number"))
        .sum();
    assert_eq!(ledger["total"]["pci"]["messages"], sum);
    assert!(
        ledger == boot(&folder, "aia", "two", &devices).1,
        "the ledgers differ"
    );
    let mut command = trapless();
    command.args([
        "boot",
        "--machine",
        "sstc",
        "--pci",
        "virtio-net,vfs=3",
        "--until",
        "x",
    ]);
    let output = command.output().expect("the command starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("interrupt by messages only"), "{error}");
}

/// Gives the platform port to a network of its own, and pings between all ends.
const PORT: &str = "\
    expect switches the host off\n\
    send modprobe virtio_mmio; modprobe virtio_net; ls -d /sys/bus/platform/devices/*/virtio*/net/*\n\
    send ifconfig eth0 10.0.2.15 up; unshare -n sleep 9999 & A=$!; sleep 0.2\n\
    send ip link set eth1 netns $A; nsenter -t $A -n ifconfig eth1 10.0.2.21 up\n\
    send nsenter -t $A -n ping -c 2 10.0.2.2; ping -c 3 10.0.2.21\n\
    send nsenter -t $A -n ping -c 4 10.0.2.15; grep virtio /proc/interrupts; exit\n";

/// Promise: the platform port of a network card is a device for the stock driver, reaches the card
/// and the outside, and interrupts by its wire on all machines; two runs are the same.
#[test]
fn a_network_card_has_a_platform_port() {
    let folder = folder("port", PORT);
    for machine in ["sstc", "aia"] {
        let run = |name| boot(&folder, machine, name, &["virtio-net,port"]);
        let (text, ledger) = run("one");
        for packets in [2, 3, 4] {
            let all = format!("{packets} packets transmitted, {packets} packets received");
            assert!(text.contains(&all), "{machine}: {all}: {text}");
        }
        assert!(text.contains("10009000.virtio_mmio/virtio"), "{text}");
        assert!(text.lines().any(|line| line.contains(" 40 ")), "{text}");
        assert!(ledger == run("two").1, "{machine}: the ledgers differ");
    }
}

/// Reads the whole disk, writes, clears and writes again, resets the controller, and reads again.
const NVME: &str = "\
    expect switches the host off\n\
    send grep nvme /proc/interrupts; cd /dev; md5sum nvme0n1\n\
    send yes Zebra | head -c 1048576 | dd of=nvme0n1 bs=1M conv=fsync seek=1\n\
    send blkdiscard -o 2097152 -l 65536 nvme0n1; echo 1 > /sys/class/nvme/nvme0/reset_controller\n\
    send sleep 0.1; echo 3 > /proc/sys/vm/drop_caches; md5sum nvme0n1\n\
    send dd if=nvme0n1 of=null bs=256k iflag=direct & taskset 1 dd if=nvme0n1 of=null bs=64k\n\
    send wait; exit\n";

/// MD5 of a file as `md5sum` of this computer tells it.
fn md5(path: &Path) -> String {
    let output = Command::new("md5sum").arg(path).output();
    let output = output.expect("md5sum is there").stdout;
    let text = String::from_utf8(output).expect("text");
    text.split(' ').next().expect("a sum").into()
}

/// Promise: the stock driver of NVM Express reads what is in the file, and what it writes is in the
/// file afterwards, also after the controller was reset: with a message for each queue where there
/// are IMSICs, else by a wire. Two runs are the same.
#[test]
fn stock_driver_uses_an_nvme_disk() {
    let folder = folder("nvme", NVME);
    let disk = folder.join("disk");
    let bytes: Vec<u8> = (0_u32..1 << 20).flat_map(u32::to_le_bytes).collect();
    for (machine, interrupts) in [("aia", "nvme0q2"), ("trapless", "nvme0q0, nvme0q1")] {
        let run = |name: &str| {
            fs::write(&disk, &bytes).expect("it can be written");
            let before = md5(&disk);
            let (text, ledger) = boot(&folder, machine, name, &["nvme,disk,rw"]);
            for sum in [before, md5(&disk)] {
                assert!(text.contains(&format!("{sum}  nvme0n1")), "{sum}: {text}");
            }
            assert!(text.contains(interrupts), "{text}");
            ledger
        };
        let ledger = run("one");
        let after = fs::read(&disk).expect("it is there");
        assert_eq!(after[..1 << 20], bytes[..1 << 20]);
        assert!(after[1 << 20..].starts_with(b"Zebra\nZebra\n"));
        assert_eq!(after[2 << 20..][..65536], [0; 65536]);
        assert_eq!(after[(2 << 20) + 65536..], bytes[(2 << 20) + 65536..]);
        let count = |name: &str| ledger["total"]["pci"][name].as_u64().expect(name);
        let by_messages = machine == "aia";
        assert_eq!(count("messages") > 0, by_messages);
        assert_eq!(count("intx") > 0, !by_messages);
        assert_eq!(count("lost"), 0);
        assert!(ledger == run("two"), "the ledgers differ");
    }
}
