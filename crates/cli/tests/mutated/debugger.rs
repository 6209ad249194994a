//! Packets of a debugger: each is answered or ignored, and the session continues.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::Rng;
use trapless_gdb::{Host, Server};
use trapless_machine::Machine;

use super::{Kind, mutate, small_machine};

/// Most memory for going back, in bytes.
const HISTORY: u64 = 16 << 20;
/// Ctrl-C.
const INTERRUPT: u8 = 3;
/// Asks for what nothing changes, and the answer to that.
const SENTINEL: &str = "qXfer:features:read:target.xml:3,9";
/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
const SOUND: &[&str] = &[
    "?",
    "g",
    "m80000000,40",
    "M80001000,4:01020304",
    "X80001000,2:ab",
    "p20",
    "P5=0011223344556677",
    "Hg1",
    "Hgp1.1",
    "Hc-1",
    "T1",
    "c",
    "s",
    "bc",
    "bs",
    "vCont?",
    "vCont;s:1;c",
    "vCont;C05:p1.-1",
    "vCont;r80000000,80000010:1",
    "Z0,80000004,4",
    "z0,80000004,4",
    "Z1,80000008,2",
    "Z2,80001000,8",
    "z4,80001000,8",
    "qSupported:multiprocess+;swbreak+;xmlRegisters=i386",
    "qXfer:features:read:target.xml:0,ffb",
    "qThreadExtraInfo,1",
    "qfThreadInfo",
    "qsThreadInfo",
    "qAttached:1",
    "qRcmd,6861727473",
    "qRcmd,696e7465727275707473",
    "QStartNoAckMode",
    "vFile:setfs:0",
    "vFile:open:6b65726e656c,0,1c0",
    "vFile:pread:5,1000,0",
    "vFile:fstat:5",
    "vFile:close:5",
    "vFile:readlink:6b",
    "vMustReplyEmpty",
];

struct Open;

impl Host for Open {
    fn poll(&mut self, _: &mut Machine) -> bool {
        true
    }
}

/// Serves for ever, each debugger that kills the machine with a new one.
fn serve() -> SocketAddr {
    let server = Server::bind("127.0.0.1:0").expect("a free port");
    let server = server.with_history(HISTORY);
    let address = server.address();
    std::thread::spawn(move || {
        loop {
            let ended = trapless_gdb::serve(&mut small_machine(), &server, &mut Open);
            ended.expect("it can be connected to");
        }
    });
    address
}

fn packet(text: &[u8]) -> Vec<u8> {
    let sum = text.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    [b"$", text, format!("#{sum:02x}").as_bytes()].concat()
}

struct Client {
    address: SocketAddr,
    stream: RefCell<TcpStream>,
    /// How the machine answers [`SENTINEL`].
    known: Vec<u8>,
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("it is a socket");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("it is a socket");
    stream
}

/// Reads until `known` comes; `false` if the connection ends.
fn await_answer(stream: &mut TcpStream, known: &[u8]) -> bool {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while !text.ends_with(known) {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => text.extend(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return false,
            Err(error) => panic!("no answer: {error}"),
        }
    }
    true
}

impl Client {
    fn new() -> Self {
        let address = serve();
        let mut stream = connect(address);
        stream
            .write_all(&packet(SENTINEL.as_bytes()))
            .expect("it reads");
        // Without its acknowledgement, which may be switched off.
        let mut known = vec![0; 1 + 1 + 10 + 3];
        stream.read_exact(&mut known).expect("it answers");
        known.remove(0);
        let stream = RefCell::new(stream);
        Self {
            address,
            stream,
            known,
        }
    }

    /// Sends a packet, Ctrl-C and another packet, whose answer has to come.
    fn send(&self, packet: &[u8]) -> Result<(), String> {
        let ends = [&b"$k#"[..], b"$D", b"$vKill;"];
        let may_end = ends
            .iter()
            .any(|end| packet.windows(end.len()).any(|w| w == *end));
        let mut stream = self.stream.borrow_mut();
        let all = [packet, &[INTERRUPT], &self::packet(SENTINEL.as_bytes())].concat();
        let sent = stream.write_all(&all).is_ok();
        if sent && await_answer(&mut stream, &self.known) {
            return Ok(());
        }
        assert!(may_end, "it ends the session");
        *stream = connect(self.address);
        Err("the session is over".into())
    }
}

/// The text of a packet, damaged, most often with the right checksum.
fn damage(text: &mut Vec<u8>, random: &mut SplitMix64) {
    mutate(text, random);
    let sealed = packet(text);
    *text = sealed;
    if random.next_u64() % 8 == 0 {
        mutate(text, random);
        // Terminates the packet, or the next one would become part of it.
        text.extend(b"#00");
    }
}

pub fn kind() -> Kind {
    let client = Client::new();
    let sound = SOUND.iter().map(|text| packet(text.as_bytes())).collect();
    Kind {
        mutate: |file, random| {
            let text = file[1..file.len() - 3].to_vec();
            *file = text;
            damage(file, random);
        },
        ..Kind::new("gdb packet", sound, move |file| client.send(file))
    }
}
