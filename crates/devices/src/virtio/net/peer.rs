//! A host on the other end of the cable that answers ARP, ICMP echo and UDP, and nothing else.
//!
//! It has no clock and no state besides the answers waiting for the guest, so the same frames always give the same
//! answers. It does not learn or resolve addresses: an answer goes to where the question came from.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use super::{HELD_FRAMES, MIN_FRAME, NetBackend, next_held};

const ETHERTYPE: std::ops::Range<usize> = 12..14;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const BROADCAST: [u8; 6] = [0xff; 6];
/// ARP for IPv4 over Ethernet (RFC 826): hardware and protocol type and address lengths.
const ARP_PREFIX: [u8; 6] = [0, 1, 8, 0, 6, 4];
const ARP_LEN: usize = 28;
const IPV4_HEADER: usize = 20;
const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_UDP: u8 = 17;
const UDP_HEADER: usize = 8;
const UDP_CHECKSUM: usize = 6;

/// The peer: one IPv4 address behind one Ethernet address. It echoes UDP datagrams on every port.
#[derive(Debug)]
pub struct Peer {
    mac: [u8; 6],
    ip: Ipv4Addr,
    answers: VecDeque<Vec<u8>>,
}

impl Peer {
    /// A host with the address `ip`, reachable at `mac`.
    pub fn new(mac: [u8; 6], ip: Ipv4Addr) -> Self {
        Self {
            mac,
            ip,
            answers: VecDeque::new(),
        }
    }

    fn answer(&self, frame: &[u8]) -> Option<Vec<u8>> {
        let (header, body) = frame.split_at_checked(MIN_FRAME)?;
        if header[..6] != self.mac && header[..6] != BROADCAST {
            return None;
        }
        let body = match [header[ETHERTYPE.start], header[ETHERTYPE.start + 1]] {
            ETHERTYPE_ARP => self.answer_arp(body)?,
            ETHERTYPE_IPV4 => self.answer_ipv4(body)?,
            _ => return None,
        };
        Some([&header[6..12], &self.mac, &header[ETHERTYPE], &body].concat())
    }

    /// RFC 826: "who has our address?" gets our Ethernet address.
    fn answer_arp(&self, request: &[u8]) -> Option<Vec<u8>> {
        let request = request.get(..ARP_LEN)?;
        if request[..6] != ARP_PREFIX
            || request[6..8] != [0, 1]
            || request[24..28] != self.ip.octets()
        {
            return None;
        }
        let (sender, own) = (&request[8..18], self.ip.octets());
        Some([&ARP_PREFIX, &[0, 2][..], &self.mac, &own, sender].concat())
    }

    /// Answers a whole, unfragmented packet to our address by the same packet sent back.
    fn answer_ipv4(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let first = *packet.first()?;
        let header_len = usize::from(first & 15) * 4;
        if first >> 4 != 4 || header_len < IPV4_HEADER {
            return None;
        }
        let total = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
        // Short frames are padded, so the packet may end before the frame.
        let (header, payload) = packet.get(..total)?.split_at_checked(header_len)?;
        let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        if fragment != 0 || header[16..20] != self.ip.octets() || checksum(&[header]) != 0 {
            return None;
        }
        let source = &header[12..16];
        let payload = match header[9] {
            PROTOCOL_ICMP => echo_icmp(payload)?,
            PROTOCOL_UDP => self.echo_udp(payload, source)?,
            _ => return None,
        };
        // Without the options of the question; identification 0 is right for a packet that is never fragmented.
        let total = (IPV4_HEADER + payload.len()) as u16;
        let mut answer = vec![0; IPV4_HEADER];
        answer[0] = 0x45;
        answer[2..4].copy_from_slice(&total.to_be_bytes());
        answer[6] = 0x40;
        answer[8] = 64;
        answer[9] = header[9];
        answer[12..16].copy_from_slice(&self.ip.octets());
        answer[16..20].copy_from_slice(source);
        let sum = checksum(&[&answer]);
        answer[10..12].copy_from_slice(&sum.to_be_bytes());
        answer.extend(payload);
        Some(answer)
    }

    /// RFC 862: the same data with the ports exchanged.
    fn echo_udp(&self, datagram: &[u8], source: &[u8]) -> Option<Vec<u8>> {
        let len = usize::from(u16::from_be_bytes([*datagram.get(4)?, *datagram.get(5)?]));
        if len < UDP_HEADER {
            return None;
        }
        let datagram = datagram.get(..len)?;
        let own = self.ip.octets();
        let pseudo = [&[0, PROTOCOL_UDP], &datagram[4..6]].concat();
        let sum = |datagram: &[u8]| checksum(&[source, &own, &pseudo, datagram]);
        if datagram[UDP_CHECKSUM..UDP_HEADER] != [0, 0] && sum(datagram) != 0 {
            return None;
        }
        let mut answer = [
            &datagram[2..4],
            &datagram[..2],
            &datagram[4..6],
            &[0, 0],
            &datagram[UDP_HEADER..],
        ]
        .concat();
        // The pseudo header is the same both ways. A sum of zero is sent as all ones (RFC 768).
        let sum = match sum(&answer) {
            0 => 0xffff,
            sum => sum,
        };
        answer[UDP_CHECKSUM..UDP_HEADER].copy_from_slice(&sum.to_be_bytes());
        Some(answer)
    }
}

/// RFC 792: an echo request (type 8) becomes an echo reply (type 0).
fn echo_icmp(message: &[u8]) -> Option<Vec<u8>> {
    if message.len() < 8 || message[..2] != [8, 0] || checksum(&[message]) != 0 {
        return None;
    }
    let mut answer = message.to_vec();
    answer[..4].fill(0);
    let sum = checksum(&[&answer]);
    answer[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(answer)
}

/// The Internet checksum (RFC 1071) over `parts`, all but the last of even length. Over data that contains its own
/// checksum it is 0.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for word in parts.iter().flat_map(|part| part.chunks(2)) {
        let low = word.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([word[0], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
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
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PEER_MAC: [u8; 6] = [0x52, 0x55, 10, 0, 2, 2];
    const GUEST_MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
    const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
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
    fn checksum_is_that_of_the_rfc() {
        // The example of RFC 1071, section 3: the sum is ddf2.
        assert_eq!(
            checksum(&[&[0x00, 0x01, 0xf2, 0x03], &[0xf4, 0xf5, 0xf6, 0xf7]]),
            !0xddf2
        );
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

    proptest! {
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
