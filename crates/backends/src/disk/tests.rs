//! Images as users have them.

use std::io::Write;
use std::sync::{Arc, Mutex};

use super::*;

fn quiet() -> Report {
    Arc::new(|_: &str| {})
}

fn image(folder: &Path, name: &str, bytes: &[u8], options: &str) -> Image {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    format!("{}{options}", path.display()).parse().unwrap()
}

fn message(image: &Image) -> String {
    let opened = open(image, 1 << 20, &quiet());
    opened
        .map(|_| ())
        .expect_err("the image is refused")
        .to_string()
}

#[test]
fn options_follow_the_name_which_may_have_commas() {
    let parse = |text: &str| text.parse::<Image>().unwrap();
    let plain = parse("a.img");
    assert_eq!(
        (plain.access, plain.format, plain.path),
        (Access::Forget, None, "a.img".into())
    );
    let full = parse("a,b.img,rw,format=raw");
    assert_eq!(
        (full.access, full.format, full.path),
        (Access::Write, Some(Format::Raw), "a,b.img".into())
    );
    assert_eq!(parse("x.qcow2,ro").access, Access::ReadOnly);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.img");
    std::fs::write(&path, "").unwrap();
    let wrong = format!("{},wr", path.display()).parse::<Image>();
    assert!(wrong.unwrap_err().contains("wr is unknown"));
}

#[test]
fn writes_reach_the_file_only_with_rw() {
    let folder = tempfile::tempdir().unwrap();
    for (options, expected) in [("", 7), (",rw", 9)] {
        let image = image(folder.path(), "a.img", &[7; 8192], options);
        let mut disk = open(&image, 1 << 20, &quiet()).unwrap();
        disk.write(4096, &[9; 512]).unwrap();
        let mut back = [0; 512];
        disk.read(4096, &mut back).unwrap();
        assert_eq!(back, [9; 512]);
        disk.flush().unwrap();
        assert_eq!(disk.obstacle().is_some(), options == ",rw");
        assert_eq!(std::fs::read(&image.path).unwrap()[4096], expected);
    }
    let image = image(folder.path(), "b.img", &[7; 8192], ",ro");
    assert!(open(&image, 0, &quiet()).unwrap().read_only());
}

#[test]
fn discarded_part_is_zero_and_takes_no_space() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path(), "a.img", &vec![7; 1 << 20], ",rw");
    let blocks = || std::fs::metadata(&image.path).unwrap().blocks();
    std::fs::File::open(&image.path)
        .unwrap()
        .sync_all()
        .unwrap();
    let before = blocks();
    let mut disk = open(&image, 0, &quiet()).unwrap();
    disk.write_zeroes(4096, (1 << 20) - 8192).unwrap();
    disk.flush().unwrap();
    let bytes = std::fs::read(&image.path).unwrap();
    assert_eq!(bytes.len(), 1 << 20);
    assert_eq!((bytes[4095], bytes[4096]), (7, 0));
    assert_eq!(bytes[(1 << 20) - 4096], 7);
    // File systems without holes keep the space.
    assert!(blocks() <= before);
}

#[test]
fn image_has_one_writer_or_many_readers() {
    let folder = tempfile::tempdir().unwrap();
    let shared = image(folder.path(), "a.img", &[7; 4096], "");
    let own = Image {
        access: Access::Write,
        ..shared.clone()
    };
    let writer = open(&own, 0, &quiet()).unwrap();
    for other in [&shared, &own] {
        assert!(message(other).contains("is in use"), "{}", message(other));
    }
    drop(writer);
    let _readers = [&shared, &shared].map(|image| open(image, 1 << 20, &quiet()).unwrap());
    assert!(message(&own).contains("leave out rw"));
}

#[test]
fn unusable_images_are_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no.img").display().to_string();
    assert!(message(&missing.parse().unwrap()).contains("that exists"));
    let short = image(folder.path(), "short.img", &[7; 511], "");
    assert!(message(&short).contains("less than one sector"));
    assert!(message(&image(folder.path(), "no.qcow2", &[7; 4096], "")).contains(".qcow2"));
    let mut bytes = vec![0; 65536];
    bytes[..4].copy_from_slice(MAGIC_QCOW2);
    assert!(message(&image(folder.path(), "damaged.qcow2", &bytes, "")).contains("qemu-img"));
    bytes[..4].copy_from_slice(MAGIC_VMDK);
    assert!(message(&image(folder.path(), "a.vmdk", &bytes, "")).contains("convert"));
}

/// Otherwise a guest could turn its raw disk into an image on top of any file of the host.
#[test]
fn what_a_guest_writes_does_not_make_a_raw_disk_a_qcow2_image() {
    let folder = tempfile::tempdir().unwrap();
    let raw = image(folder.path(), "a.img", &[0; 65536], ",rw");
    open(&raw, 0, &quiet())
        .unwrap()
        .write(0, &[MAGIC_QCOW2, &[0; 508]].concat())
        .unwrap();
    assert!(message(&raw).contains("format=raw"));
    let raw = Image {
        format: Some(Format::Raw),
        ..raw
    };
    let mut sector = [0; 512];
    open(&raw, 0, &quiet())
        .unwrap()
        .read(0, &mut sector)
        .unwrap();
    assert_eq!(sector[..4], *MAGIC_QCOW2);
}

/// An empty image with clusters of 64 KiB (QEMU, docs/interop/qcow2): header, refcount table and
/// block, L1 table.
fn empty_qcow2(size: u64) -> Vec<u8> {
    const CLUSTER: u64 = 1 << 16;
    let mut bytes = vec![0; 4 * CLUSTER as usize];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, MAGIC_QCOW2);
    put(4, &3_u32.to_be_bytes());
    put(20, &16_u32.to_be_bytes());
    put(24, &size.to_be_bytes());
    put(36, &1_u32.to_be_bytes());
    put(40, &(3 * CLUSTER).to_be_bytes());
    put(48, &CLUSTER.to_be_bytes());
    put(56, &1_u32.to_be_bytes());
    put(96, &4_u32.to_be_bytes());
    put(100, &104_u32.to_be_bytes());
    put(CLUSTER as usize, &(2 * CLUSTER).to_be_bytes());
    for cluster in 0..4 {
        put(2 * CLUSTER as usize + 2 * cluster, &1_u16.to_be_bytes());
    }
    bytes
}

/// Promise: an image whose backing file is itself, or one that waits for somebody, is refused.
#[test]
fn chains_of_images_without_an_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
    for (name, below, reason) in [
        (
            "self.qcow2",
            "self.qcow2",
            "more than 16 backing files in a chain",
        ),
        ("above.qcow2", "pipe", "is not a file"),
    ] {
        let mut bytes = empty_qcow2(1 << 20);
        bytes[8..16].copy_from_slice(&512_u64.to_be_bytes());
        bytes[16..20].copy_from_slice(&(below.len() as u32).to_be_bytes());
        bytes[512..512 + below.len()].copy_from_slice(below.as_bytes());
        let message = message(&image(folder.path(), name, &bytes, ""));
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn qcow2_image_keeps_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let size = 64 << 20;
    let image = image(folder.path(), "a.qcow2", &empty_qcow2(size), ",rw");
    let mut disk = open(&image, 0, &quiet()).unwrap();
    assert_eq!(disk.sectors(), size / SECTOR);
    disk.write(size - 512, &[9; 512]).unwrap();
    disk.write(4096, &[8; 4096]).unwrap();
    disk.write_zeroes(4096, 512).unwrap();
    disk.flush().unwrap();
    drop(disk);
    assert!(std::fs::metadata(&image.path).unwrap().len() < 1 << 20);
    let image = Image {
        access: Access::Forget,
        ..image
    };
    let mut disk = open(&image, 1 << 20, &quiet()).unwrap();
    let mut data = [1; 1024];
    disk.read(4096, &mut data).unwrap();
    assert_eq!((data[0], data[511], data[512]), (0, 0, 8));
    disk.read(size - 1024, &mut data).unwrap();
    assert_eq!((data[511], data[512]), (0, 9));
}

#[test]
fn failures_of_the_host_are_reported_once() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&reports);
    let report: Report = Arc::new(move |text: &str| to.lock().unwrap().push(text.to_owned()));
    let folder = tempfile::tempdir().unwrap();
    let image = image(folder.path(), "a.img", &[7; 8192], "");
    let mut disk = open(&image, 1 << 20, &report).unwrap();
    let file = OpenOptions::new().write(true).open(&image.path).unwrap();
    file.set_len(512).unwrap();
    (&file).flush().unwrap();
    for _ in 0..3 {
        assert!(disk.read(4096, &mut [0; 512]).is_err());
    }
    let reports = reports.lock().unwrap();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("a.img"));
}

/// Promise: an image that was cut off, or whose refcounts are gone, is refused with `rw`; without,
/// it is read as far as it goes. A write to one would destroy it, or not come to an end.
#[test]
fn qcow2_image_with_lost_refcounts_is_not_written_to() {
    const CLUSTER: usize = 1 << 16;
    let folder = tempfile::tempdir().unwrap();
    let whole = empty_qcow2(1 << 20);
    let cut = |len: usize| whole[..len].to_vec();
    let zeroed = |from: usize, len: usize| {
        let mut bytes = whole.clone();
        bytes[from..from + len].fill(0);
        bytes
    };
    for (at, damaged) in [
        cut(512),
        cut(2 * CLUSTER),
        zeroed(CLUSTER, CLUSTER),
        // The refcounts of the header, of the table, of the block, and of the L1 table.
        zeroed(2 * CLUSTER, 2),
        zeroed(2 * CLUSTER + 2, 2),
        zeroed(2 * CLUSTER + 4, 2),
        zeroed(2 * CLUSTER + 6, 2),
    ]
    .iter()
    .enumerate()
    {
        let image = image(folder.path(), "damaged.qcow2", damaged, ",rw");
        let opened = open(&image, 0, &quiet());
        let error = match opened {
            Ok(mut disk) => format!("{at}: {:?}", disk.write(4096, &[9; 4096])),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("a write would destroy it"), "{error}");
        assert_eq!(&std::fs::read(&image.path).unwrap(), damaged, "{at}");
    }
    let image = image(
        folder.path(),
        "damaged.qcow2",
        &zeroed(CLUSTER, CLUSTER),
        "",
    );
    let mut disk = open(&image, 1 << 20, &quiet()).unwrap();
    disk.write(4096, &[9; 4096]).unwrap();
}
