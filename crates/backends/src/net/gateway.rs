//! Dispatches the guest's frames to the protocols.

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::Instant;
use smoltcp::wire::{
    ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, IpCidr, IpProtocol,
    Ipv4Packet, Ipv4Repr, TcpPacket, UdpPacket,
};
use trapless_devices::virtio::net::{NetBackend, Peer};

use super::link::Link;
use super::tcp::{Call, Tcp};
use super::udp::{Datagram, Udp};
use super::{Forward, GATEWAY, MAC, NAMES, name_server};

/// Port of DHCP servers.
const DHCP: u16 = 67;

/// A gateway between a guest's network card and sockets of the host.
pub struct Gateway {
    link: Link,
    interface: Interface,
    sockets: SocketSet<'static>,
    tcp: Tcp,
    udp: Udp,
    dhcp: Peer,
}

impl Gateway {
    /// A gateway that listens on the host's ports of `forwards`.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn new(forwards: &[Forward]) -> Result<Self, String> {
        let names = std::fs::read_to_string("/etc/resolv.conf").ok();
        let names = names.as_deref().and_then(name_server);
        let mut link = Link::default();
        let config = Config::new(EthernetAddress(MAC).into());
        let mut interface = Interface::new(config, &mut link, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            for address in [GATEWAY, NAMES] {
                // There is room for two.
                let _ = addresses.push(IpCidr::new(address.into(), 24));
            }
        });
        // The stack accepts packets to every address to which a guest connects.
        interface.set_any_ip(true);
        // There is room for a first route.
        let _ = interface.routes_mut().add_default_ipv4_route(GATEWAY);
        Ok(Self {
            link,
            interface,
            sockets: SocketSet::new(Vec::new()),
            tcp: Tcp::new(forwards, names)?,
            udp: Udp::new(names),
            dhcp: Peer::new(MAC, GATEWAY).with_name_server(NAMES),
        })
    }

    /// Handles a frame of the guest, which is not trusted.
    pub fn receive(&mut self, frame: &[u8]) {
        // Malformed frames are dropped.
        let _ = self.sort(frame);
    }

    /// The next frame for the guest.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.link.take()
    }

    /// Moves data between the guest and the host's sockets. `now` is the guest's time in
    /// nanoseconds: that of its retransmissions.
    pub fn pump(&mut self, now: u64) {
        let now = Instant::from_micros((now / 1000) as i64);
        for call in self.tcp.connected(&mut self.sockets) {
            self.link.receive_frame(&call);
        }
        self.interface.poll(now, &mut self.link, &mut self.sockets);
        self.tcp.accept(&mut self.interface, &mut self.sockets);
        self.tcp.pump(&mut self.sockets);
        self.interface.poll(now, &mut self.link, &mut self.sockets);
        for frame in self.udp.answers() {
            self.link.send_frame(frame);
        }
    }

    fn sort(&mut self, frame: &[u8]) -> Option<()> {
        let ethernet = EthernetFrame::new_checked(frame).ok()?;
        match ethernet.ethertype() {
            EthernetProtocol::Arp => {
                let packet = ArpPacket::new_checked(ethernet.payload()).ok()?;
                let ArpRepr::EthernetIpv4 {
                    target_protocol_addr,
                    ..
                } = ArpRepr::parse(&packet).ok()?
                else {
                    return None;
                };
                // A guest also probes its own address, which must not be answered.
                if [GATEWAY, NAMES].contains(&target_protocol_addr) {
                    self.link.receive_frame(frame);
                }
            }
            EthernetProtocol::Ipv4 => self.sort_ipv4(frame, &ethernet)?,
            _ => {}
        }
        Some(())
    }

    fn sort_ipv4(&mut self, frame: &[u8], ethernet: &EthernetFrame<&[u8]>) -> Option<()> {
        let packet = Ipv4Packet::new_checked(ethernet.payload()).ok()?;
        let header = Ipv4Repr::parse(&packet, &ChecksumCapabilities::default()).ok()?;
        let to = header.dst_addr;
        match header.next_header {
            IpProtocol::Tcp => {
                let segment = TcpPacket::new_checked(packet.payload()).ok()?;
                if segment.syn() && !segment.ack() {
                    let call = Call {
                        from: (header.src_addr, segment.src_port()),
                        to: (to, segment.dst_port()),
                    };
                    self.tcp.call(call, frame)?;
                } else {
                    self.link.receive_frame(frame);
                }
            }
            IpProtocol::Udp => {
                let datagram = UdpPacket::new_checked(packet.payload()).ok()?;
                let (source, destination) = (header.src_addr.into(), to.into());
                if !datagram.verify_checksum(&source, &destination) {
                    return None;
                }
                if datagram.dst_port() == DHCP {
                    self.lease(frame);
                } else {
                    self.udp.send(&Datagram {
                        mac: ethernet.src_addr(),
                        from: (header.src_addr, datagram.src_port()),
                        to: (to, datagram.dst_port()),
                        data: datagram.payload(),
                    })?;
                }
            }
            IpProtocol::Icmp if [GATEWAY, NAMES].contains(&to) => self.link.receive_frame(frame),
            _ => {}
        }
        Some(())
    }

    /// Lets the DHCP server answer.
    fn lease(&mut self, frame: &[u8]) {
        self.dhcp.send(frame);
        let mut answer = Vec::new();
        while self.dhcp.receive(&mut answer) {
            self.link.send_frame(std::mem::take(&mut answer));
        }
    }
}
