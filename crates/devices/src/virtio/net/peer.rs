//! A host on the other end of the link that answers only ARP, ICMP echo, UDP and DHCP.
//!
//! It has no clock and no state besides the answers waiting for the guest, so the same frames
//! always give the same answers. It does not learn or resolve addresses: a reply goes to the source
//! of the request.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, DHCP_SERVER_PORT, DhcpMessageType, DhcpPacket, DhcpRepr,
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, Icmpv4Packet, Icmpv4Repr,
    IpProtocol, Ipv4Packet, Ipv4Repr, UdpPacket, UdpRepr,
};

use super::{HELD_FRAMES, MAX_FRAME, NetBackend, next_held};
use crate::state::{StateError, StateReader, StateWriter};

const IPV4_HEADER: u8 = 20;
const TTL: u8 = 64;
/// Seconds of a DHCP lease; the address never changes, so any length will do.
const LEASE: u32 = 86_400;
const NETMASK: Ipv4Addr = Ipv4Addr::new(255, 255, 255, 0);

/// The peer: one IPv4 address behind one Ethernet address. It echoes UDP datagrams on every port
/// but that of the DHCP server, where it gives the only client its address.
#[derive(Debug)]
pub struct Peer {
    mac: EthernetAddress,
    ip: Ipv4Addr,
    name_server: Option<Ipv4Addr>,
    answers: VecDeque<Vec<u8>>,
}

/// A packet as it goes back, behind its Ethernet header.
type Answer = (EthernetProtocol, Vec<u8>);

impl Peer {
    /// A host with the address `ip`, reachable at `mac`. By DHCP it gives its client the address of
    /// the same network that ends in 15.
    pub fn new(mac: [u8; 6], ip: Ipv4Addr) -> Self {
        Self {
            mac: EthernetAddress(mac),
            ip,
            name_server: None,
            answers: VecDeque::new(),
        }
    }

    /// Announces a name server at `address` to clients by DHCP.
    #[must_use]
    pub fn with_name_server(mut self, address: Ipv4Addr) -> Self {
        self.name_server = Some(address);
        self
    }

    fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let frame = EthernetFrame::new_checked(frame).ok()?;
        if frame.dst_addr() != self.mac && !frame.dst_addr().is_broadcast() {
            return None;
        }
        let (ethertype, payload) = match frame.ethertype() {
            EthernetProtocol::Arp => self.answer_arp(frame.payload())?,
            EthernetProtocol::Ipv4 => self.answer_ipv4(frame.payload())?,
            _ => return None,
        };
        let header = EthernetRepr {
            src_addr: self.mac,
            dst_addr: frame.src_addr(),
            ethertype,
        };
        let mut answer = vec![0; header.buffer_len() + payload.len()];
        let mut frame = EthernetFrame::new_unchecked(&mut answer);
        header.emit(&mut frame);
        frame.payload_mut().copy_from_slice(&payload);
        Some(answer)
    }

    /// RFC 826: "who has our address?" gets our Ethernet address.
    fn answer_arp(&self, request: &[u8]) -> Option<Answer> {
        let request = ArpRepr::parse(&ArpPacket::new_checked(request).ok()?).ok()?;
        let ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Request,
            source_hardware_addr,
            source_protocol_addr,
            target_protocol_addr,
            ..
        } = request
        else {
            return None;
        };
        if target_protocol_addr != self.ip {
            return None;
        }
        let reply = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Reply,
            source_hardware_addr: self.mac,
            source_protocol_addr: self.ip,
            target_hardware_addr: source_hardware_addr,
            target_protocol_addr: source_protocol_addr,
        };
        let mut bytes = vec![0; reply.buffer_len()];
        reply.emit(&mut ArpPacket::new_unchecked(&mut bytes));
        Some((EthernetProtocol::Arp, bytes))
    }

    /// Answers a whole, unfragmented packet to our address, or to the DHCP server on all.
    fn answer_ipv4(&self, packet: &[u8]) -> Option<Answer> {
        let packet = Ipv4Packet::new_checked(packet).ok()?;
        if packet.header_len() < IPV4_HEADER {
            return None;
        }
        let question = Ipv4Repr::parse(&packet, &checked()).ok()?;
        let broadcast = question.dst_addr == Ipv4Addr::BROADCAST;
        if question.dst_addr != self.ip && !broadcast {
            return None;
        }
        let (payload, to) = match question.next_header {
            IpProtocol::Udp => self.answer_udp(packet.payload(), &question)?,
            IpProtocol::Icmp if !broadcast => (echo_icmp(packet.payload())?, question.src_addr),
            _ => return None,
        };
        let header = Ipv4Repr {
            src_addr: self.ip,
            dst_addr: to,
            next_header: question.next_header,
            payload_len: payload.len(),
            hop_limit: TTL,
        };
        let mut bytes = vec![0; header.buffer_len() + payload.len()];
        let mut packet = Ipv4Packet::new_unchecked(&mut bytes);
        header.emit(&mut packet, &checked());
        packet.payload_mut().copy_from_slice(&payload);
        Some((EthernetProtocol::Ipv4, bytes))
    }

    /// The reply and its destination: RFC 862's echo, or a reply of the DHCP server.
    fn answer_udp(&self, datagram: &[u8], question: &Ipv4Repr) -> Option<(Vec<u8>, Ipv4Addr)> {
        let datagram = UdpPacket::new_checked(datagram).ok()?;
        let (from, to) = (question.src_addr.into(), question.dst_addr.into());
        let ports = UdpRepr::parse(&datagram, &from, &to, &checked()).ok()?;
        let (data, to) = match ports.dst_port {
            DHCP_SERVER_PORT => self.answer_dhcp(datagram.payload())?,
            _ if question.dst_addr == self.ip => (datagram.payload().to_vec(), question.src_addr),
            _ => return None,
        };
        let header = UdpRepr {
            src_port: ports.dst_port,
            dst_port: ports.src_port,
        };
        let mut bytes = vec![0; header.header_len() + data.len()];
        header.emit(
            &mut UdpPacket::new_unchecked(&mut bytes),
            &self.ip.into(),
            &to.into(),
            data.len(),
            |payload| payload.copy_from_slice(&data),
            &checked(),
        );
        Some((bytes, to))
    }

    /// RFC 2131: the only client gets the only address, with the peer as router.
    fn answer_dhcp(&self, message: &[u8]) -> Option<(Vec<u8>, Ipv4Addr)> {
        let message = DhcpPacket::new_checked(message).ok()?;
        let question = DhcpRepr::parse(&message).ok()?;
        let address = self.client_address();
        let message_type = match question.message_type {
            DhcpMessageType::Discover => DhcpMessageType::Offer,
            DhcpMessageType::Request if self.grants(&question) => DhcpMessageType::Ack,
            DhcpMessageType::Request => DhcpMessageType::Nak,
            _ => return None,
        };
        let granted = message_type != DhcpMessageType::Nak;
        let answer = DhcpRepr {
            message_type,
            secs: 0,
            client_ip: Ipv4Addr::UNSPECIFIED,
            your_ip: if granted {
                address
            } else {
                Ipv4Addr::UNSPECIFIED
            },
            server_ip: self.ip,
            router: granted.then_some(self.ip),
            subnet_mask: granted.then_some(NETMASK),
            requested_ip: None,
            client_identifier: None,
            server_identifier: Some(self.ip),
            parameter_request_list: None,
            dns_servers: self
                .name_server
                .filter(|_| granted)
                .map(|server| std::iter::once(server).collect()),
            max_size: None,
            lease_duration: granted.then_some(LEASE),
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[],
            ..question
        };
        let mut bytes = vec![0; answer.buffer_len()];
        answer
            .emit(&mut DhcpPacket::new_unchecked(&mut bytes[..]))
            .ok()?;
        // The client has no address yet and may not receive packets to the one it gets.
        let to = if granted && !question.broadcast {
            address
        } else {
            Ipv4Addr::BROADCAST
        };
        Some((bytes, to))
    }

    /// Whether a request is for this server, and for the address that it gives.
    fn grants(&self, request: &DhcpRepr<'_>) -> bool {
        let wanted = request.requested_ip.unwrap_or(request.client_ip);
        request
            .server_identifier
            .is_none_or(|server| server == self.ip)
            && wanted == self.client_address()
    }

    fn client_address(&self) -> Ipv4Addr {
        let [a, b, c, _] = self.ip.octets();
        Ipv4Addr::new(a, b, c, 15)
    }
}

/// All checksums are checked and made.
fn checked() -> ChecksumCapabilities {
    ChecksumCapabilities::default()
}

/// RFC 792: an echo request becomes an echo reply.
fn echo_icmp(message: &[u8]) -> Option<Vec<u8>> {
    let message = Icmpv4Packet::new_checked(message).ok()?;
    let Icmpv4Repr::EchoRequest {
        ident,
        seq_no,
        data,
    } = Icmpv4Repr::parse(&message, &checked()).ok()?
    else {
        return None;
    };
    let reply = Icmpv4Repr::EchoReply {
        ident,
        seq_no,
        data,
    };
    let mut bytes = vec![0; reply.buffer_len()];
    reply.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes), &checked());
    Some(bytes)
}

impl NetBackend for Peer {
    fn send(&mut self, frame: &[u8]) {
        if self.answers.len() < HELD_FRAMES {
            self.answers.extend(self.answer(frame));
        }
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        next_held(&mut self.answers, frame)
    }

    fn save(&self, to: &mut StateWriter) {
        to.number(self.answers.len() as u64);
        self.answers.iter().for_each(|answer| to.bytes(answer));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let count = from.number::<usize>()?;
        if count > HELD_FRAMES {
            return Err(StateError("holds more frames than such a device can"));
        }
        let frames = (0..count).map(|_| from.bytes(MAX_FRAME).map(<[u8]>::to_vec));
        self.answers = frames.collect::<Result<_, _>>()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PEER_MAC: [u8; 6] = [0x52, 0x55, 10, 0, 2, 2];
    const GUEST_MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
    const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
    const BROADCAST: [u8; 6] = [0xff; 6];
    const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
    const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
    /// ARP for IPv4 over Ethernet (RFC 826): hardware and protocol type and address lengths.
    const ARP_PREFIX: [u8; 6] = [0, 1, 8, 0, 6, 4];
    const PROTOCOL_ICMP: u8 = 1;
    const PROTOCOL_UDP: u8 = 17;

    /// The Internet checksum (RFC 1071) over `parts`, all but the last of even length. Over data
    /// that contains its own checksum it is 0.
    fn checksum(parts: &[&[u8]]) -> u16 {
        let mut sum = 0_u32;
        for word in parts.iter().flat_map(|part| part.chunks(2)) {
            let low = word.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([word[0], low]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
    const GUEST_IP: [u8; 4] = [10, 0, 2, 15];

    fn ask(frame: &[u8]) -> Option<Vec<u8>> {
        let mut peer = Peer::new(PEER_MAC, IP);
        peer.send(frame);
        let mut answer = Vec::new();
        peer.receive(&mut answer).then_some(answer)
    }

    fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut header = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, protocol, 0, 0];
        header.extend(GUEST_IP.iter().chain(&IP.octets()));
        header[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        let sum = checksum(&[&header]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        [&PEER_MAC[..], &GUEST_MAC, &ETHERTYPE_IPV4, &header, payload].concat()
    }

    #[test]
    fn arp_request_for_our_address_is_answered() {
        let request = [
            &BROADCAST[..],
            &GUEST_MAC,
            &ETHERTYPE_ARP,
            &ARP_PREFIX,
            &[0, 1],
            &GUEST_MAC,
            &GUEST_IP,
            &[0; 6],
            &IP.octets(),
            &[0; 18], // padding to 60 bytes
        ]
        .concat();
        let expected = [
            &GUEST_MAC[..],
            &PEER_MAC,
            &ETHERTYPE_ARP,
            &ARP_PREFIX,
            &[0, 2],
            &PEER_MAC,
            &IP.octets(),
            &GUEST_MAC,
            &GUEST_IP,
        ]
        .concat();
        assert_eq!(ask(&request), Some(expected));
        let mut other = request;
        other[41] = 3;
        assert_eq!(ask(&other), None, "not our address");
    }

    #[test]
    fn ping_is_answered_and_a_damaged_one_is_not() {
        let mut message = vec![8, 0, 0, 0, 0x11, 0x22, 0, 1, b'd', b'a', b't'];
        let sum = checksum(&[&message]);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let answer = ask(&ipv4(PROTOCOL_ICMP, &message)).unwrap();
        assert_eq!(
            answer[..14],
            [&GUEST_MAC[..], &PEER_MAC, &ETHERTYPE_IPV4].concat()
        );
        assert_eq!(answer[26..34], [IP.octets(), GUEST_IP].concat());
        assert_eq!(checksum(&[&answer[14..34]]), 0);
        assert_eq!(checksum(&[&answer[34..]]), 0);
        assert_eq!((answer[34], &answer[38..]), (0, &message[4..]));
        message[10] ^= 1;
        assert_eq!(ask(&ipv4(PROTOCOL_ICMP, &message)), None);
    }

    #[test]
    fn udp_is_echoed_with_ports_exchanged() {
        let datagram = [&[0x30, 0x39, 0, 7, 0, 11, 0, 0], &b"abc"[..]].concat();
        let answer = ask(&ipv4(PROTOCOL_UDP, &datagram)).unwrap();
        assert_eq!(answer[34..40], [0, 7, 0x30, 0x39, 0, 11]);
        assert_eq!(&answer[42..], b"abc");
        let pseudo = [&answer[26..34], &[0, PROTOCOL_UDP, 0, 11]].concat();
        assert_eq!(checksum(&[&pseudo, &answer[34..]]), 0);
        // A fragment is left alone.
        let mut fragment = ipv4(PROTOCOL_UDP, &datagram);
        fragment[20] = 0x20;
        fragment[24..26].fill(0);
        let sum = checksum(&[&fragment[14..34]]);
        fragment[24..26].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(ask(&fragment), None);
    }

    /// Asks with a DHCP message from a client without an address; the answer's Ethernet and IP
    /// destinations and the message.
    fn ask_dhcp(message: &DhcpRepr<'_>) -> Option<([u8; 6], [u8; 4], Vec<u8>)> {
        let mut body = vec![0; message.buffer_len()];
        message
            .emit(&mut DhcpPacket::new_unchecked(&mut body[..]))
            .unwrap();
        let len = (8 + body.len() as u16).to_be_bytes();
        let datagram = [&[0, 68, 0, 67], &len[..], &[0, 0], &body].concat();
        let mut frame = ipv4(PROTOCOL_UDP, &datagram);
        frame[..6].copy_from_slice(&BROADCAST);
        frame[26..30].fill(0);
        frame[30..34].fill(0xff);
        frame[24..26].fill(0);
        let sum = checksum(&[&frame[14..34]]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        let answer = ask(&frame)?;
        assert_eq!(answer[34..38], [0, 67, 0, 68]);
        let ip = answer[30..34].try_into().unwrap();
        Some((answer[..6].try_into().unwrap(), ip, answer[42..].to_vec()))
    }

    #[test]
    fn dhcp_client_gets_the_address_that_qemus_gets() {
        let discover = DhcpRepr {
            message_type: DhcpMessageType::Discover,
            transaction_id: 7,
            secs: 3,
            client_hardware_address: EthernetAddress(GUEST_MAC),
            client_ip: Ipv4Addr::UNSPECIFIED,
            your_ip: Ipv4Addr::UNSPECIFIED,
            server_ip: Ipv4Addr::UNSPECIFIED,
            router: None,
            subnet_mask: None,
            relay_agent_ip: Ipv4Addr::UNSPECIFIED,
            broadcast: false,
            requested_ip: None,
            client_identifier: None,
            server_identifier: None,
            parameter_request_list: Some(&[1, 3]),
            dns_servers: None,
            max_size: None,
            lease_duration: None,
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[],
        };
        let (mac, ip, offer) = ask_dhcp(&discover).unwrap();
        assert_eq!((mac, ip), (GUEST_MAC, GUEST_IP));
        let offer = DhcpPacket::new_checked(&offer[..]).unwrap();
        let offer = DhcpRepr::parse(&offer).unwrap();
        assert_eq!(offer.message_type, DhcpMessageType::Offer);
        assert_eq!((offer.transaction_id, offer.router), (7, Some(IP)));
        assert_eq!(offer.your_ip.octets(), GUEST_IP);
        let mut request = DhcpRepr {
            message_type: DhcpMessageType::Request,
            requested_ip: Some(offer.your_ip),
            server_identifier: Some(IP),
            broadcast: true,
            ..discover
        };
        let kind = |answer: &[u8]| {
            let packet = DhcpPacket::new_checked(answer).unwrap();
            DhcpRepr::parse(&packet).unwrap().message_type
        };
        let (_, ip, ack) = ask_dhcp(&request).unwrap();
        assert_eq!((ip, kind(&ack)), ([0xff; 4], DhcpMessageType::Ack));
        request.requested_ip = Some(Ipv4Addr::new(10, 0, 2, 99));
        let (_, ip, nak) = ask_dhcp(&request).unwrap();
        assert_eq!((ip, kind(&nak)), ([0xff; 4], DhcpMessageType::Nak));
    }

    proptest! {
        /// Options that almost make sense.
        #[test]
        fn any_dhcp_message_is_survived(mut bytes in prop::collection::vec(any::<u8>(), 240..400)) {
            // An Ethernet client's message with the magic number, so that the options are looked
            // at.
            bytes[..3].copy_from_slice(&[1, 1, 6]);
            bytes[236..240].copy_from_slice(&[0x63, 0x82, 0x53, 0x63]);
            let len = (8 + bytes.len() as u16).to_be_bytes();
            let datagram = [&[0, 68, 0, 67], &len[..], &[0, 0], &bytes].concat();
            ask(&ipv4(PROTOCOL_UDP, &datagram));
        }

        /// Frames that almost make sense: a valid beginning, then anything.
        #[test]
        fn any_frame_is_survived(kind in 0..2_usize, bytes in prop::collection::vec(any::<u8>(), 0..80), sum in any::<bool>()) {
            let ethertype = [ETHERTYPE_IPV4, ETHERTYPE_ARP][kind];
            let mut frame = [&PEER_MAC[..], &GUEST_MAC, &ethertype, &bytes].concat();
            if kind == 0 && bytes.len() >= 20 && sum {
                frame[14] = 0x45;
                frame[30..34].copy_from_slice(&IP.octets());
                frame[24..26].fill(0);
                let sum = checksum(&[&frame[14..34]]);
                frame[24..26].copy_from_slice(&sum.to_be_bytes());
            }
            ask(&frame);
        }
    }
}
