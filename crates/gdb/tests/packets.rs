//! What a debugger sends that is not gdb, or is broken.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use trapless_gdb::{Ended, Host, Server};
use trapless_machine::{Machine, MachineConfig, Payload, Peripherals};

/// `j .`
const FOREVER: u32 = 0x6f;
/// On a busy computer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ends the session when the client has, or after [`PATIENCE`].
struct Until(std::thread::JoinHandle<()>, Instant);

impl Host for Until {
    fn poll(&mut self, _: &mut Machine) -> bool {
        !self.0.is_finished() && self.1.elapsed() < PATIENCE
    }
}

/// Two harts that loop.
fn machine() -> Machine {
    let mut config = MachineConfig::preset("sstc").unwrap();
    config.harts = 2;
    config.ram = 16 << 20;
    let payload = Payload {
        firmware: Some(FOREVER.to_le_bytes().repeat(64)),
        ..Payload::default()
    };
    let silent = Peripherals::new(Box::new(std::io::sink()));
    Machine::boot(config, &payload, silent).unwrap()
}

/// Lets `client` talk to a machine; how the session ended.
fn talk(client: impl FnOnce(TcpStream) + Send + 'static) -> Ended {
    let server = Server::bind(":0").unwrap();
    let address = server.address();
    let client = std::thread::spawn(move || client(TcpStream::connect(address).unwrap()));
    let mut host = Until(client, Instant::now());
    let ended = trapless_gdb::serve(&mut machine(), &server, &mut host).unwrap();
    assert!(host.1.elapsed() < PATIENCE, "the session hangs");
    host.0.join().unwrap();
    ended
}

fn packet(text: &str) -> String {
    let sum = text.bytes().fold(0_u8, u8::wrapping_add);
    format!("${text}#{sum:02x}")
}

/// The text of the next packet from the machine.
fn answer(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(PATIENCE / 2)).unwrap();
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"#") {
        stream.read_exact(&mut byte).unwrap();
        match byte[0] {
            b'$' => text.clear(),
            byte => text.push(byte),
        }
    }
    stream.read_exact(&mut [0; 2]).unwrap();
    text.pop();
    String::from_utf8(text).unwrap()
}

/// Promise: what a debugger gets wrong is answered with an error, and the session continues.
#[test]
fn malformed_packets_are_answered() {
    let ended = talk(|mut stream| {
        for text in [
            "mzz,4",
            "m80000000",
            "m80000000,4,4",
            "m11111111111111111,4",
            "m80000000,7fffffffffffffff",
            "M80000000,1:0g",
            "pxyz",
            "Hgzz",
            "Hg-1",
            "Hg3",
            "G00",
            "Z0,80000000",
            "vCont",
            "vCont;",
            "vCont;t",
            "vCont;t:1",
            "vCont;r",
            "vCont;r80000000,80000004",
            "vCont;r80000000:1",
            "vCont;s",
            "vCont;s:3",
            "vCont;Czz:1",
            "vFile:pread:1,2",
            "vKill;0",
            "kill",
            "qSupported",
            "qXfer:features:read",
            "bsx",
        ] {
            stream.write_all(packet(text).as_bytes()).unwrap();
            assert_eq!(answer(&mut stream), "E01", "{text}");
        }
        // Too long; with a wrong checksum; no packet.
        let long = packet(&format!("M80000000,0:{}", "00".repeat(1 << 20)));
        stream.write_all(long.as_bytes()).unwrap();
        assert_eq!(answer(&mut stream), "E01");
        stream.write_all(b"$g#00 nonsense -").unwrap();
        stream.write_all(packet("m80000000,2").as_bytes()).unwrap();
        let mut words = answer(&mut stream);
        if words == "E01" {
            // Asked for again.
            words = answer(&mut stream);
        }
        assert_eq!(words, "6f00");
        stream.write_all(packet("k").as_bytes()).unwrap();
    });
    assert_eq!(ended, Ended::Killed);
}

/// Promise: a debugger that does not read its answers takes no memory, and does not keep the user
/// from ending the session.
#[test]
fn a_debugger_that_does_not_read_is_waited_for_with_an_open_ear() {
    let ended = talk(|mut stream| {
        stream.set_nonblocking(true).unwrap();
        let question = packet("m80000000,2000");
        let begun = Instant::now();
        let mut sent = 0_usize;
        while begun.elapsed() < Duration::from_secs(2) {
            match stream.write(question.as_bytes()) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => panic!("{error}"),
            }
        }
        // The rest is in the sockets' buffers, or was refused.
        assert!(sent < 64 << 20, "{sent}");
    });
    assert_eq!(ended, Ended::Host);
}
