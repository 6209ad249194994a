//! TCP: a connection of the guest is terminated in the stack, and continued by a connection of the
//! host.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::wire::IpListenEndpoint;

use super::{Endpoint, Forward, GATEWAY, GUEST, Names, on_host};

/// Size of the buffer for one direction of a connection, in bytes.
const BUFFER: usize = 256 << 10;
/// Maximum number of connections at a time; further ones are refused.
const MAX_FLOWS: usize = 256;
/// How long the host tries to connect.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time of the guest after which a connection ends whose guest does not answer.
const SILENCE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(120);
/// Keep-alive interval, in time of the guest.
const KEEP_ALIVE: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(30);
/// First port from which the gateway connects to the guest.
const FIRST_PORT: u16 = 49152;

/// A guest's connection request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The guest's end.
    pub from: Endpoint,
    /// The other end.
    pub to: Endpoint,
}

/// A connection that the host is establishing.
struct Calling {
    call: Call,
    /// The guest's SYN frame.
    frame: Vec<u8>,
    result: Receiver<io::Result<TcpStream>>,
}

/// A connection.
struct Flow {
    call: Option<Call>,
    socket: SocketHandle,
    stream: TcpStream,
    /// Time since which the guest has not accepted it.
    since: Option<Instant>,
    guest_ended: bool,
    host_ended: bool,
}

/// All connections.
pub struct Tcp {
    names: Names,
    listeners: Vec<(TcpListener, u16)>,
    calling: Vec<Calling>,
    flows: Vec<Flow>,
    port: u16,
}

impl Tcp {
    /// Listens on the ports of `forwards`.
    pub fn new(forwards: &[Forward], names: Names) -> Result<Self, String> {
        let listen = |forward: &Forward| {
            let listener = TcpListener::bind(forward.host).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(listener)
            });
            let listener = listener.map_err(|error| {
                format!(
                    "cannot listen on {} for the guest: {error}; take another port in hostfwd",
                    forward.host
                )
            })?;
            Ok((listener, forward.guest))
        };
        Ok(Self {
            names,
            listeners: forwards.iter().map(listen).collect::<Result<_, String>>()?,
            calling: Vec::new(),
            flows: Vec::new(),
            port: FIRST_PORT,
        })
    }

    /// The guest requests a connection by `frame`: the host connects first.
    pub fn call(&mut self, call: Call, frame: &[u8]) -> Option<()> {
        // Guests retransmit when there is no reply.
        let known = self.calling.iter().any(|calling| calling.call == call);
        if known || self.flows.iter().any(|flow| flow.call == Some(call)) {
            return None;
        }
        if self.calling.len() + self.flows.len() >= MAX_FLOWS {
            return None;
        }
        let (result, received) = channel();
        match on_host(call.to.0, call.to.1, self.names) {
            Some(to) => {
                // The thread ends by itself, even if its result is not needed any more. If it
                // cannot be created, the connection is refused.
                let _ = std::thread::Builder::new().spawn(move || {
                    let _ = result.send(TcpStream::connect_timeout(&to, PATIENCE));
                });
            }
            None => drop(result),
        }
        self.calling.push(Calling {
            call,
            frame: frame.to_vec(),
            result: received,
        });
        Some(())
    }

    /// Opens a socket of the stack for each connection that the host has established; returns their
    /// SYN frames, and those of failed connections, which the stack refuses.
    pub fn connected(&mut self, sockets: &mut SocketSet<'static>) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for calling in std::mem::take(&mut self.calling) {
            match calling.result.try_recv() {
                Err(TryRecvError::Empty) => self.calling.push(calling),
                Ok(Ok(stream)) => {
                    let mut socket = socket();
                    let (address, port) = calling.call.to;
                    let at = IpListenEndpoint {
                        addr: Some(address.into()),
                        port,
                    };
                    if socket.listen(at).is_ok() {
                        self.keep(Some(calling.call), sockets.add(socket), stream, sockets);
                    }
                    frames.push(calling.frame);
                }
                Ok(Err(_)) | Err(TryRecvError::Disconnected) => frames.push(calling.frame),
            }
        }
        frames
    }

    /// Accepts connections from the host for the guest.
    pub fn accept(&mut self, interface: &mut Interface, sockets: &mut SocketSet<'static>) {
        let mut accepted = Vec::new();
        for (listener, port) in &self.listeners {
            while let Ok((stream, _)) = listener.accept() {
                accepted.push((stream, *port));
            }
        }
        for (stream, port) in accepted {
            if self.flows.len() >= MAX_FLOWS {
                continue;
            }
            let mut socket = socket();
            self.port = self.port.checked_add(1).unwrap_or(FIRST_PORT);
            let from = (smoltcp::wire::IpAddress::from(GATEWAY), self.port);
            if socket
                .connect(interface.context(), (GUEST, port), from)
                .is_ok()
            {
                self.keep(None, sockets.add(socket), stream, sockets);
            }
        }
    }

    fn keep(
        &mut self,
        call: Option<Call>,
        socket: SocketHandle,
        stream: TcpStream,
        sockets: &mut SocketSet<'static>,
    ) {
        let ready = stream.set_nonblocking(true);
        // Bytes wait in the guest's stack, not in the host's.
        if ready.and_then(|()| stream.set_nodelay(true)).is_err() {
            sockets.remove(socket);
            return;
        }
        self.flows.push(Flow {
            call,
            socket,
            stream,
            since: Some(Instant::now()),
            guest_ended: false,
            host_ended: false,
        });
    }

    /// Moves bytes in both directions.
    pub fn pump(&mut self, sockets: &mut SocketSet<'static>) {
        self.flows.retain_mut(|flow| {
            let continues = flow.pump(sockets.get_mut(flow.socket));
            if !continues {
                sockets.remove(flow.socket);
            }
            continues
        });
    }
}

fn socket() -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; BUFFER]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_timeout(Some(SILENCE));
    // Polled then, even for silent connections.
    socket.set_keep_alive(Some(KEEP_ALIVE));
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket
}

impl Flow {
    /// `false`: the connection has ended.
    fn pump(&mut self, socket: &mut Socket<'static>) -> bool {
        match socket.state() {
            State::Listen | State::SynReceived | State::SynSent => {
                return self.since.is_none_or(|since| since.elapsed() < PATIENCE);
            }
            State::Closed | State::TimeWait => return false,
            _ => self.since = None,
        }
        if self.send_out(socket).is_err() || self.bring_in(socket).is_err() {
            socket.abort();
        }
        true
    }

    fn send_out(&mut self, socket: &mut Socket<'static>) -> io::Result<()> {
        while socket.can_recv() {
            let stream = &mut self.stream;
            let moved = socket.recv(|data| match stream.write(data) {
                Ok(count) => (count, Ok(count)),
                Err(error) => (0, Err(error)),
            });
            match moved {
                Ok(Err(error)) if waits(&error) => return Ok(()),
                Ok(Err(error)) => return Err(error),
                Ok(Ok(0)) | Err(_) => break,
                Ok(Ok(_)) => {}
            }
        }
        if !socket.may_recv() && !self.guest_ended {
            self.guest_ended = true;
            // The other side may have gone already.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    fn bring_in(&mut self, socket: &mut Socket<'static>) -> io::Result<()> {
        while socket.can_send() && !self.host_ended {
            let stream = &mut self.stream;
            let moved = socket.send(|room| match stream.read(room) {
                Ok(count) => (count, Ok(count)),
                Err(error) => (0, Err(error)),
            });
            match moved {
                Ok(Err(error)) if waits(&error) => return Ok(()),
                Ok(Err(error)) => return Err(error),
                Ok(Ok(0)) | Err(_) => {
                    self.host_ended = true;
                }
                Ok(Ok(_)) => {}
            }
        }
        // Once it is closing, smoltcp 0.14 does not go on after a full window of the guest.
        if self.host_ended && socket.send_queue() == 0 {
            socket.close();
        }
        Ok(())
    }
}

fn waits(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
