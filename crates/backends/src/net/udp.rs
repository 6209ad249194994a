//! UDP: each pair of a guest's and a remote endpoint is a socket of the host.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, Ipv4Packet,
    Ipv4Repr, UdpPacket, UdpRepr,
};

use super::link::MAX_FRAME;
use super::{Endpoint, MAC, Names, on_host};

/// Most sockets at a time; the one that has been silent longest makes room.
const MAX_FLOWS: usize = 128;
/// How long a socket waits for answers.
const PATIENCE: Duration = Duration::from_secs(120);
/// Length of the headers before data.
const HEADERS: usize = 14 + 20 + 8;

/// A datagram of the guest.
pub struct Datagram<'a> {
    /// The guest's Ethernet address.
    pub mac: EthernetAddress,
    /// The guest's end.
    pub from: Endpoint,
    /// The other end.
    pub to: Endpoint,
    /// What it holds.
    pub data: &'a [u8],
}

struct Flow {
    mac: EthernetAddress,
    from: Endpoint,
    to: Endpoint,
    socket: UdpSocket,
    used: Instant,
}

/// All sockets.
pub struct Udp {
    names: Names,
    flows: Vec<Flow>,
}

impl Udp {
    /// Sends questions for the name server to `names`.
    pub fn new(names: Names) -> Self {
        Self {
            names,
            flows: Vec::new(),
        }
    }

    /// Sends a datagram on; what cannot be sent is lost, as in every network.
    pub fn send(&mut self, datagram: &Datagram<'_>) -> Option<()> {
        let same = |flow: &Flow| flow.from == datagram.from && flow.to == datagram.to;
        let index = match self.flows.iter().position(same) {
            Some(index) => index,
            None => self.open(datagram)?,
        };
        let flow = &mut self.flows[index];
        flow.used = Instant::now();
        flow.socket.send(datagram.data).ok().map(drop)
    }

    fn open(&mut self, datagram: &Datagram<'_>) -> Option<usize> {
        let to = on_host(datagram.to.0, datagram.to.1, self.names)?;
        let any = match to {
            SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
            SocketAddr::V6(_) => SocketAddr::from(([0_u16; 8], 0)),
        };
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(to).ok()?;
        socket.set_nonblocking(true).ok()?;
        if self.flows.len() >= MAX_FLOWS {
            let oldest = self
                .flows
                .iter()
                .enumerate()
                .min_by_key(|(_, flow)| flow.used);
            let oldest = oldest.map(|(index, _)| index)?;
            self.flows.swap_remove(oldest);
        }
        self.flows.push(Flow {
            mac: datagram.mac,
            from: datagram.from,
            to: datagram.to,
            socket,
            used: Instant::now(),
        });
        Some(self.flows.len() - 1)
    }

    /// Frames for the guest with datagrams that have arrived.
    pub fn answers(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut data = [0; MAX_FRAME - HEADERS + 1];
        for flow in &mut self.flows {
            while let Ok(len) = flow.socket.recv(&mut data) {
                flow.used = Instant::now();
                // A longer one would have to be fragmented.
                if len < data.len() {
                    frames.push(frame(flow, &data[..len]));
                }
            }
        }
        self.flows.retain(|flow| flow.used.elapsed() < PATIENCE);
        frames
    }
}

/// A datagram of the other end of `flow` as a frame.
fn frame(flow: &Flow, data: &[u8]) -> Vec<u8> {
    let ((from, from_port), (to, to_port)): ((Ipv4Addr, u16), _) = (flow.to, flow.from);
    let checksums = ChecksumCapabilities::default();
    let ports = UdpRepr {
        src_port: from_port,
        dst_port: to_port,
    };
    let header = Ipv4Repr {
        src_addr: from,
        dst_addr: to,
        next_header: IpProtocol::Udp,
        payload_len: ports.header_len() + data.len(),
        hop_limit: 64,
    };
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress(MAC),
        dst_addr: flow.mac,
        ethertype: EthernetProtocol::Ipv4,
    };
    let mut bytes = vec![0; ethernet.buffer_len() + header.buffer_len() + header.payload_len];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    ethernet.emit(&mut frame);
    let mut packet = Ipv4Packet::new_unchecked(frame.payload_mut());
    header.emit(&mut packet, &checksums);
    ports.emit(
        &mut UdpPacket::new_unchecked(packet.payload_mut()),
        &from.into(),
        &to.into(),
        data.len(),
        |payload| payload.copy_from_slice(data),
        &checksums,
    );
    bytes
}
