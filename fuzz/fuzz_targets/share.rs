//! Requests of any content to the server of a shared folder: answers fit, and what lies beside the
//! folder is neither read nor changed.

#![no_main]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use trapless_backends::share::Share;
use trapless_devices::Clock;
use trapless_devices::virtio::fs::FileServer;

/// Length of the header of requests.
const HEADER: usize = 40;

struct Still;

impl Clock for Still {
    fn now_ns(&self) -> u64 {
        0
    }
}

/// A folder that every run finds as the last one left it, with a secret beside it.
fn folder() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let name = format!("trapless-fuzz-share-{}", std::process::id());
        let world = std::env::temp_dir().join(name);
        let shared = world.join("shared");
        fs::create_dir_all(shared.join("sub")).unwrap();
        fs::write(world.join("secret"), "hidden").unwrap();
        symlink("../secret", shared.join("link")).unwrap();
        symlink("..", shared.join("up")).unwrap();
        shared
    })
    .clone()
}

/// A request with a right length and mostly known opcodes and numbers.
fn request(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let body = input.arbitrary_len::<u8>()?.min(400);
    let body = input.bytes(body)?;
    let mut request = Vec::new();
    request.extend(((HEADER + body.len()) as u32).to_le_bytes());
    request.extend(u32::from(input.arbitrary::<u8>()? % 52).to_le_bytes());
    request.extend(1_u64.to_le_bytes());
    request.extend(u64::from(input.arbitrary::<u8>()? % 8).to_le_bytes());
    request.resize(HEADER, 0);
    request.extend(body);
    Ok(request)
}

fn run(input: &mut Unstructured<'_>) -> Result<()> {
    let shared = folder();
    let secret = shared.with_file_name("secret");
    let share: Share = shared.display().to_string().parse().unwrap();
    let mut server = share.open().unwrap().with_clock(Box::new(Still));
    for node in ["file", "sub", "link", "up"] {
        let mut request = Vec::new();
        request.extend(((HEADER + node.len() + 1) as u32).to_le_bytes());
        request.extend(1_u32.to_le_bytes());
        request.extend(1_u64.to_le_bytes());
        request.extend(1_u64.to_le_bytes());
        request.resize(HEADER, 0);
        request.extend(node.as_bytes());
        request.push(0);
        server.answer(&request, 4096, &mut Vec::new());
    }
    while !input.is_empty() {
        let request = request(input)?;
        let mut answer = Vec::new();
        server.answer(&request, 4096, &mut answer);
        assert!(answer.len() <= 4096);
        assert!(!answer.windows(6).any(|part| part == b"hidden"));
    }
    assert_eq!(fs::read(secret).unwrap(), b"hidden");
    assert_eq!(fs::read_dir(shared.parent().unwrap()).unwrap().count(), 2);
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
