//! The control socket: commands for a running guest, one a line, each answered by one line.
//!
//! ```text
//! pause           ok              the guest is stopped; its devices may collect input
//! resume          ok
//! status          ok running      or: ok paused
//! save FILE       ok              pauses the guest, which stays paused: resume or quit
//! stats           ok {...}        the present statistics of --stats
//! move N US CPU,..  ok            moves vCPU 0 to these host CPUs in turn, N times, every US us
//! moved           ok N            how often it was moved by the last `move`
//! quit            ok              ends the VMM
//! anything else   error: ...
//! ```
//! Threads read the commands; the event loop, which has the guest, executes them.

use crate::error::{Error, Result};
use crate::run::mover::Moves;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use vmm_sys_util::eventfd::EventFd;

/// A command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Stop the guest's vCPUs.
    Pause,
    /// Let them continue.
    Resume,
    /// Report whether they run.
    Status,
    /// Pause and write the guest to a file.
    Save(PathBuf),
    /// Report the statistics.
    Stats,
    /// Move vCPU 0 between host CPUs.
    Move(Moves),
    /// Report how often that was done.
    Moved,
    /// End.
    Quit,
}

impl Command {
    /// Parses a line.
    ///
    /// # Errors
    /// If the command is malformed.
    pub fn parse(line: &str) -> std::result::Result<Self, String> {
        let line = line.trim();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match (word, rest) {
            ("save", "") => Err("save needs a file name".into()),
            ("save", path) => Ok(Self::Save(path.into())),
            ("pause", "") => Ok(Self::Pause),
            ("resume", "") => Ok(Self::Resume),
            ("status", "") => Ok(Self::Status),
            ("stats", "") => Ok(Self::Stats),
            ("quit", "") => Ok(Self::Quit),
            ("move", what) => Moves::parse(what)
                .map(Self::Move)
                .ok_or_else(|| "move needs a number, microseconds and CPU,...".into()),
            ("moved", "") => Ok(Self::Moved),
            _ => Err(
                "the commands are pause, resume, status, save FILE, stats, move, moved and quit"
                    .into(),
            ),
        }
    }
}

/// The reply to a command, without `ok` or `error:`.
pub type Answer = std::result::Result<String, String>;

struct Request {
    command: Command,
    answer: mpsc::Sender<Answer>,
}

#[derive(Default)]
struct Requests(Mutex<VecDeque<Request>>);

/// The socket. It disappears with this value.
pub struct Control {
    path: PathBuf,
    requests: Arc<Requests>,
    arrived: Arc<EventFd>,
}

/// Maximum length of a command in bytes.
const LINE: u64 = 4096;
/// Maximum number of clients at a time.
const CLIENTS: usize = 16;

impl Control {
    /// Listens at `path`, replacing an abandoned socket.
    ///
    /// # Errors
    /// [`Error::User`] if that is not possible.
    pub fn listen(path: &Path) -> Result<Self> {
        let fails = |what: &str| Error::user(format!("control socket {}: {what}", path.display()));
        let is_socket = |path: &Path| {
            use std::os::unix::fs::FileTypeExt;
            std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
        };
        if is_socket(path) {
            if UnixStream::connect(path).is_ok() {
                return Err(fails("another program listens there; choose another path"));
            }
            let _ = std::fs::remove_file(path);
        }
        let listener = UnixListener::bind(path).map_err(|e| fails(&e.to_string()))?;
        let arrived = EventFd::new(libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)
            .map_err(|e| Error::failed("eventfd", e))?;
        let control = Self {
            path: path.into(),
            requests: Arc::default(),
            arrived: Arc::new(arrived),
        };
        let (requests, arrived) = (Arc::clone(&control.requests), Arc::clone(&control.arrived));
        std::thread::Builder::new()
            .name("control".into())
            .spawn(move || accept(&listener, &requests, &arrived))
            .map_err(|e| Error::failed("cannot start the control thread", e))?;
        Ok(control)
    }

    /// Becomes readable when there are commands.
    pub fn fd(&self) -> RawFd {
        self.arrived.as_raw_fd()
    }

    /// Executes the commands that have arrived.
    pub fn serve(&self, mut execute: impl FnMut(Command) -> Answer) {
        let _ = self.arrived.read();
        loop {
            let next = self
                .requests
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            let Some(request) = next else { return };
            // The client may have disconnected.
            let _ = request.answer.send(execute(request.command));
        }
    }
}

/// Sends a command to the VMM that listens at `path`, waits for its answer and returns that.
///
/// # Errors
/// [`Error::User`] if no VMM listens, or with the error of the reply.
pub fn send(path: &Path, command: &str) -> Result<String> {
    Command::parse(command).map_err(Error::User)?;
    let talk = || {
        let mut stream = UnixStream::connect(path)?;
        stream.write_all(format!("{}\n", command.trim()).as_bytes())?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        Ok::<_, io::Error>(answer)
    };
    let answer =
        talk().map_err(|e| Error::user(format!("no VMM answers at {}: {e}", path.display())))?;
    match answer.trim_end().strip_prefix("ok") {
        Some(text) => Ok(text.trim_start().into()),
        // An empty reply: the VMM ended, as `quit` requests.
        None if answer.is_empty() && Command::parse(command) == Ok(Command::Quit) => {
            Ok(String::new())
        }
        None if answer.is_empty() => Err(Error::user("the VMM ended before it answered")),
        None => Err(Error::user(
            answer.trim_end().trim_start_matches("error: ").to_owned(),
        )),
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn accept(listener: &UnixListener, requests: &Arc<Requests>, arrived: &Arc<EventFd>) {
    let clients = Arc::new(AtomicUsize::new(0));
    for client in listener.incoming() {
        let Ok(mut client) = client else { continue };
        if clients.fetch_add(1, Ordering::SeqCst) >= CLIENTS {
            clients.fetch_sub(1, Ordering::SeqCst);
            let _ = client.write_all(b"error: too many clients\n");
            continue;
        }
        let (requests, arrived) = (Arc::clone(requests), Arc::clone(arrived));
        let count = Arc::clone(&clients);
        let thread = std::thread::Builder::new()
            .name("control-client".into())
            .spawn(move || {
                let _ = serve_client(&client, &requests, &arrived);
                count.fetch_sub(1, Ordering::SeqCst);
            });
        if thread.is_err() {
            clients.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn serve_client(mut client: &UnixStream, requests: &Requests, arrived: &EventFd) -> io::Result<()> {
    let mut reader = BufReader::new(client);
    loop {
        let mut line = String::new();
        if (&mut reader).take(LINE).read_line(&mut line)? == 0 {
            return Ok(());
        }
        if !line.ends_with('\n') && line.len() as u64 == LINE {
            return client.write_all(b"error: the line is too long\n");
        }
        let answer = Command::parse(&line).and_then(|command| {
            let (answer, wait) = mpsc::channel();
            let queue = &requests.0;
            queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push_back(Request { command, answer });
            let _ = arrived.write(1);
            wait.recv()
                .unwrap_or_else(|_| Err("the guest has ended".into()))
        });
        let text = match answer {
            Ok(text) => format!("ok {text}").trim_end().to_owned() + "\n",
            Err(text) => format!("error: {text}\n"),
        };
        client.write_all(text.as_bytes())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("trapless-vmm-{name}-{}", std::process::id()))
    }

    #[test]
    fn commands_are_executed_in_order_and_answered() {
        let path = path("control");
        let control = Control::listen(&path).unwrap();
        assert!(Control::listen(&path).is_err(), "in use");
        let client = path.clone();
        let client = std::thread::spawn(move || {
            let mut stream = UnixStream::connect(client).unwrap();
            stream
                .write_all(b"pause\nsave /a b\nsave\nfly\nstatus\n")
                .unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        });
        let mut seen = Vec::new();
        while seen.len() < 3 {
            control.serve(|command| {
                seen.push(command.clone());
                match command {
                    Command::Save(path) => Err(format!("cannot write {}", path.display())),
                    Command::Status => Ok("paused".into()),
                    _ => Ok(String::new()),
                }
            });
            std::thread::yield_now();
        }
        let expected = [
            Command::Pause,
            Command::Save("/a b".into()),
            Command::Status,
        ];
        assert_eq!(seen, expected);
        let text = client.join().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            (lines[0], lines[1], lines[4]),
            ("ok", "error: cannot write /a b", "ok paused")
        );
        assert!(lines[2].contains("file name") && lines[3].contains("resume"));
        drop(control);
        assert!(!path.exists());
    }

    #[test]
    fn the_client_prints_answers_and_knows_errors() {
        let path = path("client");
        assert!(send(&path, "status").is_err(), "nobody listens");
        let control = Control::listen(&path).unwrap();
        let client = path.clone();
        let client = std::thread::spawn(move || {
            assert_eq!(send(&client, "status").unwrap(), "paused");
            let error = send(&client, "save x").unwrap_err();
            assert_eq!(error.to_string(), "disk full");
            assert!(send(&client, "fly").is_err());
        });
        while !client.is_finished() {
            control.serve(|command| match command {
                Command::Status => Ok("paused".into()),
                _ => Err("disk full".into()),
            });
            std::thread::yield_now();
        }
        client.join().unwrap();
    }

    #[test]
    fn a_stale_socket_is_replaced_but_no_other_file() {
        let path = path("stale");
        drop(UnixListener::bind(&path).unwrap());
        drop(Control::listen(&path).unwrap());
        std::fs::write(&path, "precious").unwrap();
        assert!(Control::listen(&path).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_file(&path).unwrap();
    }
}
