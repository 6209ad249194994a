//! Connections, and running the machine between packets.
//!
//! ```text
//! wait for gdb ──> stopped <──> running in slices ──> ended, killed
//!      ^              │              │
//!      └── detached: running in slices, another gdb may connect
//! ```

use std::io;

use gdbstub::common::Signal;
use gdbstub::stub::state_machine::GdbStubStateMachine as State;
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason as StopReason};
use gdbstub::target::ext::base::reverse_exec::ReplayLogPosition;
use trapless_hart::Observer;
use trapless_machine::{History, Limits, Machine, Outcome};

use crate::breaks::{Both, Hit};
use crate::link::{Link, NAP, is_empty};
use crate::packet::PACKET;
use crate::position::run_to;
use crate::reverse::{Progress, towards_present};
use crate::target::{Debugger, tid};
use crate::{Ended, Error, Host, Server};

/// Maximum virtual time of a slice, in cycles, for machines that are mostly idle.
const SLICE_CYCLES: u64 = 50_000_000;
/// Instructions of a slice at full speed, and with every instruction observed: tens of milliseconds
/// either way.
const SLICE_FAST: u64 = 8_000_000;
const SLICE_OBSERVED: u64 = 1_000_000;

/// Runs `machine` under gdb's control until it ends, gdb kills it, or `host` ends the session. The
/// machine does not run before the first gdb has connected; after `detach` it keeps running and
/// another gdb may connect.
///
/// # Errors
/// [`Error::Accept`]. A connection that breaks counts as a `detach`.
pub fn serve(machine: &mut Machine, server: &Server, host: &mut dyn Host) -> Result<Ended, Error> {
    // While it runs to its start position.
    let mut history = None;
    if let Some(start) = server.start {
        let last = machine.harts().len() - 1;
        if let Some(hart) = start.hart.filter(|&hart| hart > last) {
            return Err(Error::Hart { hart, last });
        }
        let way = history.insert(History::new(server.history));
        if let Err(outcome) = run_to(start, machine, way, host) {
            return Ok(Ended::Machine(outcome));
        }
        host.notice(&format!(
            "Waiting for gdb at {} cycles: target remote {}",
            machine.now(),
            server.address()
        ));
    }
    let listener = server.listener()?;
    let mut started = false;
    loop {
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(e) if is_empty(&e) => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(e) => return Err(Error::Accept(e)),
            }
            if !host.poll(machine) {
                return Ok(Ended::Host);
            }
            if started {
                if machine.now() >= host.end() {
                    return Ok(Ended::Host);
                }
                let end = host.end();
                match slice(machine, host.observer(), SLICE_FAST, end) {
                    Outcome::Limit => {}
                    Outcome::Idle => std::thread::sleep(NAP),
                    outcome => return Ok(Ended::Machine(outcome)),
                }
            } else {
                std::thread::sleep(NAP);
            }
        };
        started = true;
        host.notice("gdb connected");
        let Ok(link) = Link::new(stream, machine.harts().len()) else {
            continue;
        };
        let known = history.take();
        let left = converse(machine, link, server, known, host);
        machine.recall();
        match left {
            Left::Ended(ended) => return Ok(ended),
            Left::Detached => host.notice("gdb detached, the machine keeps running"),
            Left::Broken(reason) => {
                host.notice(&format!(
                    "gdb is gone ({reason}), the machine keeps running"
                ));
            }
        }
    }
}

/// How a connection ended.
enum Left {
    Ended(Ended),
    Detached,
    Broken(String),
}

/// Runs for a short while, and not beyond the virtual time `end`.
fn slice(
    machine: &mut Machine,
    observer: Option<&mut dyn Observer>,
    instructions: u64,
    end: u64,
) -> Outcome {
    let limits = Limits {
        until: machine.now().saturating_add(SLICE_CYCLES).min(end),
        instret: machine.instret().saturating_add(instructions),
    };
    machine.run_observed(&limits, observer)
}

/// One gdb session.
fn converse(
    machine: &mut Machine,
    link: Link,
    server: &Server,
    known: Option<History>,
    host: &mut dyn Host,
) -> Left {
    let mut debugger = Debugger::new(machine, known, server.history);
    let left = talk(&mut debugger, link, host);
    // The next gdb starts at the present.
    debugger.return_to_present(host);
    left
}

/// Exchange of packets between gdb and its session.
fn talk(debugger: &mut Debugger<'_>, link: Link, host: &mut dyn Host) -> Left {
    let mut packet = vec![0; PACKET];
    let stub = match GdbStub::builder(link)
        .with_packet_buffer(&mut packet)
        .build()
    {
        Ok(stub) => stub,
        Err(e) => return Left::Broken(e.to_string()),
    };
    let mut state = match stub.run_state_machine(debugger) {
        Ok(state) => state,
        Err(e) => return Left::Broken(e.to_string()),
    };
    // Set when the machine ended: its own outcome is more exact than gdb's.
    let mut outcome = None;
    loop {
        let next = match state {
            State::Idle(mut stub) => match stub.borrow_conn().byte(true) {
                Ok(Some(byte)) => stub.incoming_data(debugger, byte),
                Ok(None) => {
                    if !host.poll(debugger.machine) {
                        return Left::Ended(Ended::Host);
                    }
                    Ok(stub.into())
                }
                Err(e) => return Left::Broken(e.to_string()),
            },
            State::Running(mut stub) => match stub.borrow_conn().byte(false) {
                Ok(Some(byte)) => stub.incoming_data(debugger, byte),
                Ok(None) => {
                    if !host.poll(debugger.machine) {
                        return Left::Ended(Ended::Host);
                    }
                    match run(debugger, host) {
                        Ran::On => Ok(stub.into()),
                        Ran::Idle => {
                            stub.borrow_conn().wait();
                            Ok(stub.into())
                        }
                        Ran::Stop(reason) => stub.report_stop(debugger, reason),
                        Ran::End(how) => {
                            outcome = Some(how);
                            stub.report_stop(debugger, exit(how))
                        }
                    }
                }
                Err(e) => return Left::Broken(e.to_string()),
            },
            State::CtrlCInterrupt(stub) => {
                // A hart that is not waiting is of more interest.
                debugger.stop_travel();
                let harts = debugger.machine.harts();
                let busy = harts.iter().position(|hart| !hart.waiting());
                let reason = StopReason::SignalWithThread {
                    tid: tid(busy.unwrap_or(0)),
                    signal: Signal::SIGINT,
                };
                stub.interrupt_handled(debugger, Some(reason))
            }
            State::Disconnected(stub) => {
                return match (outcome, stub.get_reason()) {
                    (Some(outcome), _) => Left::Ended(Ended::Machine(outcome)),
                    (None, DisconnectReason::Kill) => Left::Ended(Ended::Killed),
                    (None, _) => Left::Detached,
                };
            }
        };
        state = match next {
            Ok(state) => state,
            // gdb may close the connection without reading the last reply.
            Err(e) => match outcome {
                Some(outcome) => return Left::Ended(Ended::Machine(outcome)),
                None => return Left::Broken(e.to_string()),
            },
        };
    }
}

/// Result of a slice.
enum Ran {
    On,
    Idle,
    Stop(StopReason<u64>),
    End(Outcome),
}

fn run(debugger: &mut Debugger<'_>, host: &mut dyn Host) -> Ran {
    if debugger.travel.is_some() {
        return travel(debugger);
    }
    let end = host.end();
    if debugger.history.present().is_none() {
        if debugger.machine.now() >= end {
            return Ran::Stop(StopReason::ReplayLog {
                tid: Some(tid(0)),
                pos: ReplayLogPosition::End,
            });
        }
        debugger.history.follow(debugger.machine);
    }
    let other = host.observer();
    let breaks = &mut debugger.breaks;
    let machine = &mut *debugger.machine;
    breaks.past = debugger.history.present().is_some();
    let outcome = if breaks.past {
        towards_present(machine, &mut debugger.history, breaks, &mut debugger.passed)
    } else if breaks.active() {
        // A step may end in a wait, which is known at the end of a round.
        let len = match (
            breaks.steps.is_empty(),
            breaks.observes_all() || other.is_some(),
        ) {
            (false, _) => 1,
            (true, true) => SLICE_OBSERVED,
            (true, false) => SLICE_FAST,
        };
        slice(
            machine,
            Some(&mut Both {
                first: breaks,
                other,
            }),
            len,
            end,
        )
    } else {
        slice(machine, other, SLICE_FAST, end)
    };
    let breaks = &debugger.breaks;
    let hart = match outcome {
        Outcome::Observer(hart) if breaks.hit == Some(Hit::Held) => {
            machine.postpone(hart);
            debugger.diverge();
            return Ran::On;
        }
        Outcome::Observer(hart) => hart,
        Outcome::Limit | Outcome::Idle => match breaks.asleep(machine.harts()) {
            Some(hart) => return Ran::Stop(trap(hart)),
            None if outcome == Outcome::Idle => return Ran::Idle,
            None => return Ran::On,
        },
        outcome => return Ran::End(outcome),
    };
    Ran::Stop(reason(debugger.breaks.hit, hart))
}

/// Continues backwards.
fn travel(debugger: &mut Debugger<'_>) -> Ran {
    let Some(mut travel) = debugger.travel.take() else {
        return Ran::On;
    };
    let way = travel.go_on(debugger.machine, &mut debugger.history, &debugger.breaks);
    match way {
        Progress::Ongoing => {
            debugger.travel = Some(travel);
            Ran::On
        }
        Progress::Stopped(hart, hit) => Ran::Stop(reason(Some(hit), hart)),
        Progress::Beginning => Ran::Stop(StopReason::ReplayLog {
            tid: Some(tid(0)),
            pos: ReplayLogPosition::Begin,
        }),
    }
}

/// Reason of a stop of `hart` for gdb.
fn reason(hit: Option<Hit>, hart: usize) -> StopReason<u64> {
    let tid = tid(hart);
    match hit {
        Some(Hit::Software) => StopReason::SwBreak(tid),
        Some(Hit::Hardware) => StopReason::HwBreak(tid),
        Some(Hit::Watch(watch)) => StopReason::Watch {
            tid,
            kind: watch.kind,
            addr: watch.addr,
        },
        // Also if the host's observer stopped it.
        _ => trap(hart),
    }
}

/// Stop of a hart without a reason of its own.
fn trap(hart: usize) -> StopReason<u64> {
    StopReason::SignalWithThread {
        tid: tid(hart),
        signal: Signal::SIGTRAP,
    }
}

/// Stop reply for the end of the machine.
fn exit(outcome: Outcome) -> StopReason<u64> {
    match outcome {
        Outcome::Exit(code) => StopReason::Exited(code as u8),
        Outcome::Stopped => StopReason::Terminated(Signal::SIGTERM),
        _ => StopReason::Exited(0),
    }
}
