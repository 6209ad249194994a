//! The switch inside a network card with several ends, functions or others: each has a fixed
//! address.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{HELD_FRAMES, MAX_FRAME, MIN_FRAME, NetBackend, next_held};
use crate::state::{StateError, StateReader, StateWriter};

type Address = [u8; 6];

/// What the functions share.
struct Switch {
    /// The card's cable.
    cable: Box<dyn NetBackend>,
    ports: Vec<Port>,
}

/// The place of a function.
struct Port {
    address: Address,
    /// Its driver takes frames.
    up: bool,
    /// Frames for it.
    held: VecDeque<Vec<u8>>,
}

/// One end of the switch, of a function or of another device.
///
/// A frame goes to the function with its destination address, else to the cable; one to a group
/// address (IEEE 802.3, section 3.2.3) to all. What arrives by the cable for none of them goes to
/// the first function, whose driver is that of the whole card and may have a bridge behind it. The
/// others send with their own address only, and the first one not with theirs: further frames are
/// dropped, so that nobody receives in the name of another. Frames for a function whose driver is
/// not ready are dropped as well.
pub struct SwitchPort {
    switch: Arc<Mutex<Switch>>,
    number: usize,
}

/// Ports for functions with these addresses, which share `cable`.
pub fn switch(cable: Box<dyn NetBackend>, addresses: &[Address]) -> Vec<SwitchPort> {
    let ports = addresses.iter().map(|address| Port {
        address: *address,
        up: false,
        held: VecDeque::new(),
    });
    let ports = ports.collect();
    let switch = Arc::new(Mutex::new(Switch { cable, ports }));
    let port = |number| SwitchPort {
        switch: switch.clone(),
        number,
    };
    (0..addresses.len()).map(port).collect()
}

impl Switch {
    fn owner(&self, address: &[u8]) -> Option<usize> {
        self.ports.iter().position(|port| port.address == address)
    }

    /// Passes on a frame of a function, or of the cable.
    fn pass(&mut self, from: Option<usize>, frame: &[u8]) {
        if frame.len() < MIN_FRAME {
            return;
        }
        let (to, source) = (&frame[..6], &frame[6..12]);
        let owner = self.owner(source);
        let foreign = match from {
            Some(0) => owner.is_some_and(|owner| owner != 0),
            Some(_) => owner != from,
            // Who is outside is not known.
            None => false,
        };
        if foreign {
            return;
        }
        let group = to[0] & 1 != 0;
        let receiver = self.owner(to);
        if from.is_some() && (group || receiver.is_none()) {
            self.cable.send(frame);
        }
        if group {
            for number in 0..self.ports.len() {
                self.hold(number, from, frame);
            }
        } else if let Some(number) = receiver.or(from.is_none().then_some(0)) {
            self.hold(number, from, frame);
        }
    }

    fn hold(&mut self, number: usize, from: Option<usize>, frame: &[u8]) {
        let port = &mut self.ports[number];
        if port.up && Some(number) != from && port.held.len() < HELD_FRAMES {
            port.held.push_back(frame.to_vec());
        }
    }
}

impl SwitchPort {
    fn lock(&self) -> MutexGuard<'_, Switch> {
        self.switch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is the one that keeps what all share.
    fn is_first(&self) -> bool {
        self.number == 0
    }
}

impl NetBackend for SwitchPort {
    fn send(&mut self, frame: &[u8]) {
        self.lock().pass(Some(self.number), frame);
    }

    fn receive(&mut self, frame: &mut Vec<u8>) -> bool {
        let mut switch = self.lock();
        loop {
            if next_held(&mut switch.ports[self.number].held, frame) {
                return true;
            }
            // The cable is asked only if somebody waits for it: then none of its frames is lost
            // while this one has no buffers.
            if !switch.cable.receive(frame) {
                return false;
            }
            switch.pass(None, frame);
        }
    }

    fn waits(&self) -> bool {
        !self.lock().ports[self.number].held.is_empty()
    }

    fn driver_ready(&mut self, ready: bool) {
        let port = &mut self.lock().ports[self.number];
        port.up = ready;
        if !ready {
            port.held.clear();
        }
    }

    fn obstacle(&self) -> Option<&'static str> {
        let switch = self.lock();
        self.is_first().then(|| switch.cable.obstacle())?
    }

    fn save(&self, to: &mut StateWriter) {
        let switch = self.lock();
        let port = &switch.ports[self.number];
        to.number(port.up);
        to.number(port.held.len() as u64);
        for frame in &port.held {
            to.bytes(frame);
        }
        if self.is_first() {
            switch.cable.save(to);
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let mut switch = self.lock();
        let port = &mut switch.ports[self.number];
        port.up = from.flag()?;
        port.held.clear();
        let held: usize = from.number()?;
        if held > HELD_FRAMES {
            return Err(StateError("holds more than such a device can"));
        }
        for _ in 0..held {
            port.held.push_back(from.bytes(MAX_FRAME)?.into());
        }
        if self.is_first() {
            switch.cable.restore(from)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Loopback;
    use super::*;

    const PHYSICAL: Address = [2, 0, 0, 0, 0, 1];
    const FIRST: Address = [2, 0, 0, 0, 0, 2];
    const SECOND: Address = [2, 0, 0, 0, 0, 3];
    const OUTSIDE: Address = [2, 0, 0, 0, 0, 9];
    const ALL: Address = [0xff; 6];

    fn frame(to: Address, source: Address, data: u8) -> Vec<u8> {
        [&to[..], &source, &[8, 0, data]].concat()
    }

    fn ports() -> Vec<SwitchPort> {
        let mut ports = switch(Box::<Loopback>::default(), &[PHYSICAL, FIRST, SECOND]);
        ports.iter_mut().for_each(|port| port.driver_ready(true));
        ports
    }

    fn received(port: &mut SwitchPort) -> Vec<u8> {
        let (mut frame, mut all) = (Vec::new(), Vec::new());
        while port.receive(&mut frame) {
            all.push(frame[14]);
        }
        all
    }

    /// Promise: a frame reaches the function with its address and no other; one to all reaches all
    /// others and the cable, one to a stranger the cable only.
    #[test]
    fn frames_reach_whom_they_are_for() {
        let mut ports = ports();
        ports[0].send(&frame(FIRST, PHYSICAL, 1));
        ports[1].send(&frame(SECOND, FIRST, 2));
        ports[2].send(&frame(PHYSICAL, SECOND, 3));
        ports[1].send(&frame(FIRST, FIRST, 4));
        let all: Vec<_> = ports.iter_mut().map(received).collect();
        assert_eq!(all, [vec![3], vec![1], vec![2]]);
        ports[1].send(&frame(ALL, FIRST, 5));
        // The cable of the test sends everything back.
        let all: Vec<_> = ports.iter_mut().map(received).collect();
        assert_eq!(all, [vec![5, 5], vec![5], vec![5, 5]]);
        ports[2].send(&frame(OUTSIDE, SECOND, 6));
        let all: Vec<_> = ports.iter_mut().rev().map(received).collect();
        assert_eq!(all, [vec![], vec![], vec![6]], "from outside, to nobody");
    }

    /// Promise: no function sends in the name of another, or receives what is for another.
    #[test]
    fn addresses_cannot_be_taken() {
        let mut ports = ports();
        ports[1].send(&frame(PHYSICAL, SECOND, 1));
        ports[1].send(&frame(PHYSICAL, OUTSIDE, 2));
        ports[0].send(&frame(FIRST, SECOND, 3));
        assert!(ports.iter_mut().all(|port| received(port).is_empty()));
        ports[0].send(&frame(FIRST, OUTSIDE, 4));
        assert_eq!(received(&mut ports[1]), [4], "from behind the first one");
        ports[2].send(&[0; 3]);
    }

    /// Promise: a function without a driver gets nothing, later neither, and one that takes nothing
    /// does not fill memory.
    #[test]
    fn who_does_not_listen_misses_frames() {
        let mut ports = ports();
        ports[2].driver_ready(false);
        ports[0].send(&frame(SECOND, PHYSICAL, 1));
        ports[2].driver_ready(true);
        assert!(received(&mut ports[2]).is_empty());
        for _ in 0..2 * HELD_FRAMES {
            ports[0].send(&frame(FIRST, PHYSICAL, 1));
        }
        let mut state = StateWriter::default();
        ports[1].save(&mut state);
        let state = state.into_bytes();
        let mut others = self::ports();
        others[1].restore(&mut StateReader::new(&state)).unwrap();
        assert_eq!(received(&mut others[1]).len(), HELD_FRAMES);
        assert_eq!(received(&mut ports[1]).len(), HELD_FRAMES);
    }
}
