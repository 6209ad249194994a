//! A network for a guest without privileges on the host: its connections become sockets of this
//! process.
//!
//! ```text
//!   guest 10.0.2.15 --- frames --- Gateway 10.0.2.2, name server 10.0.2.3
//!                                    |  Tcp    connections, by smoltcp     (tcp.rs)
//!                                    |  Udp    datagrams                   (udp.rs)
//!                                    v  DHCP   the devices' network peer
//!                                  sockets of the host; 10.0.2.2 is the host itself
//! ```
//!
//! Nothing here is deterministic, which is not required: the guest receives frames, and a record of
//! them with their virtual times replays the run without a network.

mod gateway;
mod link;
mod tcp;
mod udp;

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use gateway::Gateway;

/// The gateway, which is also the host itself.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// The name server.
pub const NAMES: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
/// The guest's address by DHCP.
pub const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
/// Ethernet address of the gateway.
const MAC: [u8; 6] = [0x52, 0x54, 0, 0, 0, 2];

/// An address and a port.
type Endpoint = (Ipv4Addr, u16);
/// The host's name server, if it has one.
type Names = Option<IpAddr>;

/// A port of the host that is forwarded to the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Forward {
    /// Address and port on the host.
    pub host: SocketAddrV4,
    /// Port of the guest.
    pub guest: u16,
}

/// What a guest's network card is connected to.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// A peer in the machine that answers echo requests, and nothing else.
    #[default]
    Peer,
    /// Nothing: there is no card.
    None,
    /// The host's network.
    User(Vec<Forward>),
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(',');
        match (words.next(), text) {
            (_, "peer") => Ok(Self::Peer),
            (_, "none") => Ok(Self::None),
            (Some("user"), _) => words.map(forward).collect::<Result<_, _>>().map(Self::User),
            _ => Err(format!(
                "{text} is unknown; give user (the network of this computer), peer (a machine \
                 that answers pings) or none"
            )),
        }
    }
}

/// `hostfwd=tcp:[ADDRESS]:PORT-[ADDRESS]:PORT`, as for QEMU.
fn forward(text: &str) -> Result<Forward, String> {
    let wrong =
        || format!("{text} is not hostfwd=tcp:[ADDRESS]:PORT-:PORT, as in hostfwd=tcp::2222-:22");
    let rest = text.strip_prefix("hostfwd=tcp:").ok_or_else(wrong)?;
    let (host, guest) = rest.split_once('-').ok_or_else(wrong)?;
    let (address, port) = host.rsplit_once(':').ok_or_else(wrong)?;
    // Without an address only this computer can connect.
    let address = match address {
        "" => Ipv4Addr::LOCALHOST,
        _ => address.parse().map_err(|_| wrong())?,
    };
    let (to, guest) = guest.rsplit_once(':').ok_or_else(wrong)?;
    if !to.is_empty() && to.parse() != Ok(GUEST) {
        return Err(format!("the guest's address is {GUEST}, not {to}"));
    }
    Ok(Forward {
        host: SocketAddrV4::new(address, port.parse().map_err(|_| wrong())?),
        guest: guest.parse().map_err(|_| wrong())?,
    })
}

/// Target on the host of a guest's packets to `to`; `None`: they are dropped.
fn on_host(to: Ipv4Addr, port: u16, names: Option<IpAddr>) -> Option<SocketAddr> {
    let address = match to {
        GATEWAY => IpAddr::V4(Ipv4Addr::LOCALHOST),
        NAMES if port == 53 => names?,
        _ if to.octets()[..3] == GATEWAY.octets()[..3] => return None,
        _ if to.is_loopback() || to.is_unspecified() || to.is_multicast() || to.is_broadcast() => {
            return None;
        }
        _ => IpAddr::V4(to),
    };
    Some(SocketAddr::new(address, port))
}

/// The first name server of the host, from the text of `resolv.conf`.
fn name_server(text: &str) -> Option<IpAddr> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let first = words.next().filter(|word| *word == "nameserver");
        first.and(words.next())?.parse().ok()
    })
}

#[cfg(test)]
mod tests;
