//! A guest that is a stack of its own, on a cable to the gateway.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::socket::tcp;
use smoltcp::time::Instant as Time;
use smoltcp::wire::{EthernetAddress, IpCidr, UdpPacket, UdpRepr};

use super::link::Link;
use super::*;

const GUEST_MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];
const PATIENCE: Duration = Duration::from_secs(20);

struct Guest {
    gateway: Gateway,
    link: Link,
    interface: Interface,
    sockets: SocketSet<'static>,
    start: Instant,
}

impl Guest {
    fn new(forwards: &[Forward]) -> Self {
        let mut link = Link::default();
        let config = Config::new(EthernetAddress(GUEST_MAC).into());
        let mut interface = Interface::new(config, &mut link, Time::ZERO);
        interface.update_ip_addrs(|all| all.push(IpCidr::new(GUEST.into(), 24)).unwrap());
        interface
            .routes_mut()
            .add_default_ipv4_route(GATEWAY)
            .unwrap();
        Self {
            gateway: Gateway::new(forwards).unwrap(),
            link,
            interface,
            sockets: SocketSet::new(Vec::new()),
            start: Instant::now(),
        }
    }

    fn socket(&mut self) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; 4096]);
        self.sockets.add(tcp::Socket::new(buffer(), buffer()))
    }

    fn connect(&mut self, to: Ipv4Addr, port: u16) -> SocketHandle {
        let handle = self.socket();
        let socket = self.sockets.get_mut::<tcp::Socket>(handle);
        let context = self.interface.context();
        socket.connect(context, (to, port), 4000).unwrap();
        handle
    }

    /// Lets both ends work until `done` says so.
    fn until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        while !done(self) {
            assert!(self.start.elapsed() < PATIENCE, "it takes too long");
            let now = self.start.elapsed();
            let at = Time::from_micros(now.as_micros() as i64);
            self.interface.poll(at, &mut self.link, &mut self.sockets);
            while let Some(frame) = self.link.take() {
                self.gateway.receive(&frame);
            }
            self.gateway.pump(now.as_nanos() as u64);
            while let Some(frame) = self.gateway.take() {
                self.link.receive_frame(&frame);
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    fn tcp(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }
}

#[test]
fn options_are_those_of_qemu() {
    assert_eq!("peer".parse(), Ok(Network::Peer));
    assert_eq!("none".parse(), Ok(Network::None));
    assert_eq!("user".parse(), Ok(Network::User(Vec::new())));
    let forward = Forward {
        host: "127.0.0.1:2222".parse().unwrap(),
        guest: 22,
    };
    let parsed = "user,hostfwd=tcp::2222-:22,hostfwd=tcp:0.0.0.0:80-10.0.2.15:8080".parse();
    let other = Forward {
        host: "0.0.0.0:80".parse().unwrap(),
        guest: 8080,
    };
    assert_eq!(parsed, Ok(Network::User(vec![forward, other])));
    for wrong in [
        "tap",
        "user,x",
        "user,hostfwd=udp::1-:2",
        "user,hostfwd=tcp::x-:2",
    ] {
        assert!(wrong.parse::<Network>().is_err(), "{wrong}");
    }
}

#[test]
fn name_server_is_the_hosts_first() {
    let text = "# a comment\nsearch x\nnameserver 10.1.2.3\nnameserver 10.1.2.4\n";
    assert_eq!(name_server(text), Some(Ipv4Addr::new(10, 1, 2, 3).into()));
    assert_eq!(name_server("options edns0"), None);
    assert_eq!(on_host(NAMES, 53, None), None);
    assert_eq!(on_host(GUEST, 80, None), None);
    assert_eq!(
        on_host(GATEWAY, 80, None),
        Some("127.0.0.1:80".parse().unwrap())
    );
}

#[test]
fn connection_carries_bytes_both_ways_and_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sent: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
    let answer = sent.clone();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut question = Vec::new();
        stream.read_to_end(&mut question).unwrap();
        stream.write_all(&answer).unwrap();
        question
    });
    let mut guest = Guest::new(&[]);
    let handle = guest.connect(GATEWAY, port);
    guest.until(|guest| guest.tcp(handle).may_send());
    guest.tcp(handle).send_slice(b"question").unwrap();
    guest.tcp(handle).close();
    let mut received = Vec::new();
    guest.until(|guest| {
        let socket = guest.tcp(handle);
        while socket.can_recv() {
            let taken = socket.recv(|data| (data.len(), data.to_vec()));
            received.extend(taken.unwrap());
        }
        received.len() == sent.len()
    });
    assert_eq!(received, sent);
    assert_eq!(server.join().unwrap(), b"question");
    guest.until(|guest| !guest.tcp(handle).may_recv());
}

#[test]
fn connection_that_the_host_cannot_make_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let mut guest = Guest::new(&[]);
    for to in [GATEWAY, Ipv4Addr::new(10, 0, 2, 77)] {
        let handle = guest.connect(to, port);
        if to == GATEWAY {
            guest.until(|guest| guest.tcp(handle).state() == tcp::State::Closed);
        }
        guest.sockets.remove(handle);
    }
}

#[test]
fn forwarded_port_leads_into_the_guest() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = match free.local_addr().unwrap() {
        std::net::SocketAddr::V4(host) => host,
        other => panic!("{other}"),
    };
    let refused = Gateway::new(&[Forward { host, guest: 7 }]).map(|_| ());
    assert!(refused.unwrap_err().contains("take another port"));
    drop(free);
    let mut guest = Guest::new(&[Forward { host, guest: 7 }]);
    let handle = guest.socket();
    guest.tcp(handle).listen(7).unwrap();
    let mut client = TcpStream::connect(host).unwrap();
    client.write_all(b"knock").unwrap();
    guest.until(|guest| guest.tcp(handle).recv_queue() == 5);
    guest.tcp(handle).send_slice(b"come in").unwrap();
    guest.tcp(handle).close();
    let reader = std::thread::spawn(move || {
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    });
    guest.until(|_| reader.is_finished());
    assert_eq!(reader.join().unwrap(), "come in");
}

#[test]
fn datagram_is_answered_from_where_it_went() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let mut gateway = Gateway::new(&[]).unwrap();
    let mut datagram = vec![0; 8 + 4];
    UdpRepr {
        src_port: 5000,
        dst_port: port,
    }
    .emit(
        &mut UdpPacket::new_unchecked(&mut datagram),
        &GUEST.into(),
        &GATEWAY.into(),
        4,
        |data| data.copy_from_slice(b"ping"),
        &ChecksumCapabilities::default(),
    );
    gateway.receive(&ipv4(17, &datagram));
    let mut data = [0; 16];
    let (len, from) = server.recv_from(&mut data).unwrap();
    assert_eq!(&data[..len], b"ping");
    server.send_to(b"pong", from).unwrap();
    let start = Instant::now();
    let frame = loop {
        gateway.pump(0);
        if let Some(frame) = gateway.take() {
            break frame;
        }
        assert!(start.elapsed() < PATIENCE);
    };
    assert_eq!(frame[..6], GUEST_MAC);
    assert_eq!(frame[26..34], [GATEWAY.octets(), GUEST.octets()].concat());
    assert_eq!(&frame[42..], b"pong");
}

/// A frame of the guest to the gateway.
fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = 20 + payload.len() as u16;
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    header[2..4].copy_from_slice(&len.to_be_bytes());
    header.extend([GUEST.octets(), GATEWAY.octets()].concat());
    let words = header
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [&MAC[..], &GUEST_MAC, &[8, 0], &header, payload].concat()
}

proptest::proptest! {
    /// A hostile guest's frames do no harm.
    #[test]
    fn any_frame_is_taken(
        bytes in proptest::collection::vec(proptest::arbitrary::any::<u8>(), 0..120),
        protocol in proptest::sample::select(vec![1_u8, 6, 17, 2]),
        bare: bool,
    ) {
        let mut gateway = Gateway::new(&[]).unwrap();
        let frame = if bare { bytes } else { ipv4(protocol, &bytes) };
        gateway.receive(&frame);
        gateway.pump(1_000_000);
        while gateway.take().is_some() {}
    }
}
