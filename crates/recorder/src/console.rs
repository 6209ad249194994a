//! Output of the machine's console: text for the user, marker lines for the ledger.
//!
//! Images print `@trapless …` lines (described in `images/init/trapless.sh`). They are read here,
//! at the virtual time at which the UART sent their last character.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use trapless_hart::Ram;
use trapless_ledger::Ledger;
use trapless_ledger::event::{Event, Sink, TimerSets};

use crate::threads::{Layout, ThreadNames};

/// Maximum length of a line that is kept; the guest controls the length of lines.
const MAX_LINE: usize = 4096;
/// Maximum number of lines kept of all dumps together.
const MAX_DUMP: usize = 20_000;
/// Maximum number of results kept.
const MAX_RESULTS: usize = 256;
/// Sides and workloads whose ends are kept, besides the measured one.
const MAX_ENDS: usize = 64;
/// Lines of output kept from before a side failed.
const MAX_COMPLAINT: usize = 8;
/// Prefix of Linux's panic message.
const PANIC: &str = "Kernel panic - not syncing";
/// Prefix of the last line that Linux prints after a panic, unless it reboots.
const LAST_WORDS: &str = "---[ end Kernel panic";
/// Virtual time in cycles after which a panicked kernel that prints nothing more is dead. It spins,
/// which is slow to emulate. A guest's panic does not count: its host keeps printing.
const SILENCE: u64 = 100_000_000;

/// What a run has printed so far.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Transcript {
    /// `KEY=VALUE` results.
    pub results: BTreeMap<String, String>,
    /// Lines of `dump` sections by label, for instance `host.kvm`.
    pub dumps: BTreeMap<String, Vec<String>>,
    /// Exit status of the side of the workload that ended last.
    pub status: BTreeMap<String, i32>,
    /// Last line that was no marker, for progress displays.
    pub last_line: String,
    /// The first line with a kernel panic, of the host or of a guest.
    pub panic: Option<String>,
    /// The last lines before the first side reported a failure.
    pub complaint: Vec<String>,
    recent: VecDeque<String>,
    dump: Option<String>,
    dump_lines: usize,
}

impl Transcript {
    /// The lines of a `dump` section that has ended.
    pub fn dumped(&self, label: &str) -> Option<&[String]> {
        let open = self.dump.as_deref() == Some(label);
        let lines = self.dumps.get(label).filter(|_| !open);
        lines.map(Vec::as_slice)
    }
}

/// Callback for each phase that begins: its name, and the virtual time in cycles.
pub type Follower = Box<dyn FnMut(&str, u64) + Send>;

/// The ledger with the console that marks its phases.
pub struct Recorder {
    /// The ledger.
    pub ledger: Ledger,
    /// What was printed.
    pub transcript: Transcript,
    /// Markers around the measured part.
    measured: String,
    follower: Option<Follower>,
    threads: Option<ThreadNames>,
    begun: bool,
    /// The ledger no longer counts.
    deaf: bool,
    now: u64,
    /// Virtual time of the last line, if it was the last of a kernel panic.
    died: Option<u64>,
    printed: u64,
    /// The incomplete last line.
    begun_line: Vec<u8>,
}

/// A [`Recorder`] in a checkpoint.
#[derive(Clone, Serialize, Deserialize)]
pub struct RecorderState {
    /// Its ledger, encoded by `postcard`: a ledger cannot be cloned. Empty if it no longer counts.
    ledger: Vec<u8>,
    transcript: Transcript,
    measured: String,
    begun: bool,
    now: u64,
    died: Option<u64>,
    printed: u64,
    begun_line: Vec<u8>,
    /// Where the kernel keeps the names of threads.
    threads: Option<Layout>,
}

impl Recorder {
    /// Counts into `ledger`; phase `workload` lies between the `begin` and `end` lines of
    /// `measured`.
    pub fn new(ledger: Ledger, measured: String) -> Self {
        Self {
            ledger,
            transcript: Transcript::default(),
            measured,
            follower: None,
            threads: None,
            begun: false,
            deaf: false,
            now: 0,
            died: None,
            printed: 0,
            begun_line: Vec::new(),
        }
    }

    /// Its complete state, except what is read from the machine's RAM.
    pub fn save(&self) -> RecorderState {
        RecorderState {
            ledger: match self.deaf {
                true => Vec::new(),
                false => postcard::to_stdvec(&self.ledger).expect("a vector takes everything"),
            },
            transcript: self.transcript.clone(),
            measured: self.measured.clone(),
            begun: self.begun,
            now: self.now,
            died: self.died,
            printed: self.printed,
            begun_line: self.begun_line.clone(),
            threads: self.threads.as_ref().map(ThreadNames::layout),
        }
    }

    /// The ledger as if the run ended at virtual time `now`, in cycles; this one continues to
    /// count.
    pub fn ledger_at(&self, now: u64) -> Option<Ledger> {
        let mut ledger: Ledger = postcard::from_bytes(&self.save().ledger).ok()?;
        ledger.finish(now);
        Some(ledger)
    }

    /// Restores the state of another recorder, for the machine with `ram`.
    ///
    /// # Errors
    /// What is wrong with the state, in words that follow "its ledger".
    pub fn restore(&mut self, state: RecorderState, ram: &Ram) -> Result<(), &'static str> {
        if !self.deaf {
            let ledger = postcard::from_bytes::<Ledger>(&state.ledger);
            let ledger = ledger.map_err(|_| "cannot be decoded")?;
            ledger.check(self.ledger.config())?;
            self.ledger = ledger;
        }
        self.transcript = state.transcript;
        self.measured = state.measured;
        self.begun = state.begun;
        self.now = state.now;
        self.died = state.died;
        self.printed = state.printed;
        self.begun_line = state.begun_line;
        self.threads = match state.threads {
            Some(layout) => {
                let names = ThreadNames::with(layout, ram);
                Some(names.ok_or("has names of threads where none can be")?)
            }
            None => None,
        };
        Ok(())
    }

    /// Handles bytes of console output.
    fn output(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.begun_line);
                self.line(&String::from_utf8_lossy(&line));
            } else if self.begun_line.len() < MAX_LINE {
                self.begun_line.push(byte);
            }
        }
    }

    /// Calls `follower` for each phase, too.
    pub fn follow(&mut self, follower: Follower) {
        self.follower = Some(follower);
    }

    /// Names the threads of the kernel that is in `ram`, from now on.
    pub fn name_threads(&mut self, ram: &Ram) {
        self.threads = ThreadNames::of_kernel(ram);
    }

    fn mark(&mut self, phase: &str) {
        self.ledger.mark(phase, self.now);
        if let Some(follower) = &mut self.follower {
            follower(phase, self.now);
        }
    }

    /// Whether the measured part has begun.
    pub fn measuring(&self) -> bool {
        self.begun
    }

    /// From now on only console output is recorded, and the ledger no longer counts. Dumped lines
    /// are dropped, so that less has to be saved.
    pub fn only_listen(&mut self) {
        self.deaf = true;
        self.transcript.dumps.clear();
    }

    /// Exit status of the measured part, once it has ended.
    pub fn measured_status(&self) -> Option<i32> {
        self.transcript.status.get(&self.measured).copied()
    }

    /// Whether the machine's own kernel has panicked and does nothing more, at virtual time `now`.
    pub fn dead(&self, now: u64) -> bool {
        self.died.is_some_and(|died| now > died + SILENCE)
    }

    /// Virtual time in cycles of the last event.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Virtual time in cycles at which the last line was complete.
    pub fn last_output(&self) -> u64 {
        self.printed
    }

    /// Notes kernel panics.
    fn panic(&mut self, line: &str) {
        if let Some(at) = line.find(PANIC) {
            let panic = &mut self.transcript.panic;
            panic.get_or_insert_with(|| line[at..].into());
        }
        if !line.is_empty() {
            self.died = line.contains(LAST_WORDS).then_some(self.now);
        }
    }

    fn line(&mut self, line: &str) {
        let line = line.trim_end();
        self.printed = self.now;
        self.panic(line);
        let measuring = self.begun && self.measured_status().is_none();
        let t = &mut self.transcript;
        // A prompt or a message without newline may precede a marker.
        let Some(start) = line.find("@trapless ") else {
            if let Some(label) = &t.dump {
                if t.dump_lines < MAX_DUMP {
                    t.dump_lines += 1;
                    t.dumps.entry(label.clone()).or_default().push(line.into());
                }
            } else if !line.is_empty() {
                t.last_line = line.into();
                t.recent.push_back(line.into());
                if t.recent.len() > MAX_COMPLAINT {
                    t.recent.pop_front();
                }
            }
            return;
        };
        let mut words = line[start..].split_whitespace().skip(1);
        let verb = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        if verb == "begin" {
            // Output of firmware and kernel before is not part of it.
            t.recent.clear();
        }
        match (verb, rest.as_slice()) {
            ("begin", [side, name]) if format!("{side} {name}") == self.measured => {
                self.begun = true;
                self.mark("workload");
            }
            // Only inside the measured part: the time before and after has phases of its own.
            ("phase", [name]) if measuring => self.mark(name),
            ("end", [side, name, status]) => {
                let status = status.strip_prefix("status=").and_then(|s| s.parse().ok());
                let status = status.unwrap_or(-1);
                if status != 0 && t.complaint.is_empty() {
                    t.complaint.extend(t.recent.drain(..));
                }
                let ended = format!("{side} {name}");
                let measured = ended == self.measured;
                if measured || t.status.len() < MAX_ENDS || t.status.contains_key(&ended) {
                    t.status.insert(ended, status);
                }
                if measured {
                    self.mark("after");
                }
            }
            ("result", [pair]) => {
                if let (Some((key, value)), true) =
                    (pair.split_once('='), t.results.len() < MAX_RESULTS)
                {
                    t.results.insert(key.into(), value.into());
                }
            }
            ("dump", [label]) => t.dump = Some((*label).into()),
            ("dump-end", _) => t.dump = None,
            _ => {}
        }
    }
}

impl Sink for Recorder {
    fn record(&mut self, event: &Event) {
        if self.deaf {
            if let Event::DeviceAccess(access) = event {
                self.now = access.time;
            }
            return;
        }
        match event {
            Event::DeviceAccess(access) => self.now = access.time,
            Event::Switch(switch) => {
                if let Some(threads) = &mut self.threads {
                    threads.name(&mut self.ledger, switch);
                }
            }
            _ => {}
        }
        self.ledger.record(event);
    }

    fn sums_timer_sets(&self) -> bool {
        true
    }

    fn timer_sets(&mut self, sets: &TimerSets) {
        if self.deaf {
            return;
        }
        Sink::timer_sets(&mut self.ledger, sets);
    }
}

/// A [`Recorder`] shared between the machine and the command.
#[derive(Clone)]
pub struct SharedRecorder(Arc<Mutex<Recorder>>);

impl SharedRecorder {
    /// Shares `recorder`.
    pub fn new(recorder: Recorder) -> Self {
        Self(Arc::new(Mutex::new(recorder)))
    }

    /// Locks it.
    pub fn lock(&self) -> MutexGuard<'_, Recorder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for SharedRecorder {
    fn record(&mut self, event: &Event) {
        self.lock().record(event);
    }

    fn sums_timer_sets(&self) -> bool {
        self.lock().sums_timer_sets()
    }

    fn timer_sets(&mut self, sets: &TimerSets) {
        self.lock().timer_sets(sets);
    }
}

/// Receives the output of the UART.
pub struct ConsoleTap {
    recorder: SharedRecorder,
    copy: Option<Box<dyn Write + Send>>,
}

impl ConsoleTap {
    /// Feeds lines to `recorder` and all bytes to `copy`, which may buffer incomplete lines: a UART
    /// sends single bytes.
    pub fn new(recorder: SharedRecorder, copy: Option<Box<dyn Write + Send>>) -> Self {
        Self { recorder, copy }
    }
}

impl Write for ConsoleTap {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(copy) = &mut self.copy {
            // A closed pipe must not end the machine; the ledger still needs the lines.
            if copy.write_all(bytes).is_err() {
                self.copy = None;
            }
        }
        self.recorder.lock().output(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Forwards complete lines, with a label before each.
pub struct Lines<W: Write> {
    label: String,
    line: Vec<u8>,
    to: W,
}

impl<W: Write> Lines<W> {
    /// Lines for `to`, which begin with `label`.
    pub fn new(label: String, to: W) -> Self {
        Self {
            line: label.clone().into(),
            label,
            to,
        }
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let line = std::mem::replace(&mut self.line, self.label.clone().into());
        self.to.write_all(&line)
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for &byte in bytes {
            self.line.push(byte);
            // The guest controls the length of lines.
            if byte == b'\n' || self.line.len() >= MAX_LINE {
                self.pass_on()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<W: Write> Drop for Lines<W> {
    fn drop(&mut self) {
        if self.line.len() > self.label.len() {
            // Errors cannot be reported any more.
            let _ = self.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trapless_ledger::Config;

    fn feed(text: &str) -> SharedRecorder {
        let recorder = Recorder::new(Ledger::new(Config::new(1)), "guest timer".into());
        let shared = SharedRecorder::new(recorder);
        let mut tap = ConsoleTap::new(shared.clone(), None);
        tap.write_all(text.as_bytes()).unwrap();
        shared
    }

    #[test]
    fn markers_become_results_dumps_and_status() {
        let shared = feed(
            "boot\r\n@trapless begin guest timer\r\nnoise@trapless result wakeups=7\r\n\
             @trapless dump host.kvm\r\nexits 12\r\n@trapless dump-end host.kvm\r\n\
             @trapless end guest timer status=3\r\nlast\r\n",
        );
        let recorder = shared.lock();
        let t = &recorder.transcript;
        assert_eq!(t.results["wakeups"], "7");
        assert_eq!(t.dumps["host.kvm"], ["exits 12"]);
        assert_eq!(t.status["guest timer"], 3);
        assert_eq!(t.last_line, "last");
    }

    /// Promise: a guest that prints without end takes no memory for it, and the workload's end is
    /// still seen.
    #[test]
    fn ends_are_bounded() {
        let ends: String = (0..1000)
            .map(|n| format!("@trapless end guest t{n} status=0\n"))
            .collect();
        let shared = feed(&format!("{ends}@trapless end guest timer status=3\n"));
        let status = &shared.lock().transcript.status;
        assert_eq!(status.len(), MAX_ENDS + 1);
        assert_eq!(status["guest timer"], 3);
    }

    #[test]
    fn a_side_that_fails_has_said_why() {
        let recorder =
            feed("OpenSBI\n@trapless begin host t\nno disk\n@trapless end host t status=2\nbye\n");
        let recorder = recorder.lock();
        assert_eq!(recorder.transcript.complaint, ["no disk"]);
    }

    #[test]
    fn phases_are_marked_between_begin_and_end() {
        let shared = feed(
            "@trapless phase early\n@trapless begin guest timer\n@trapless phase level\n\
             @trapless phase workload\n@trapless end guest timer status=0\n@trapless phase late\n",
        );
        let ledger = shared.lock().ledger.to_file(Default::default(), None);
        let names: Vec<&str> = ledger.phases.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["start", "workload", "level", "after"]);
    }

    #[test]
    fn a_follower_gets_phases() {
        let shared = feed("");
        let (sender, phases) = std::sync::mpsc::channel();
        let follower = move |name: &str, time| sender.send((name.to_string(), time)).unwrap();
        shared.lock().follow(Box::new(follower));
        shared.lock().now = 7;
        let mut tap = ConsoleTap::new(shared.clone(), None);
        let text = b"@trapless begin guest timer\n@trapless end guest timer status=0\n";
        tap.write_all(text).unwrap();
        let phases: Vec<_> = phases.try_iter().collect();
        assert_eq!(
            phases,
            [("workload".to_string(), 7), ("after".to_string(), 7)]
        );
    }

    /// Promise: a kernel that has panicked is noticed, and not taken for its host's.
    #[test]
    fn only_a_panic_that_nothing_follows_is_the_end() {
        let panic = "[ 1.5] Kernel panic - not syncing: Out of memory\n\
                     [ 1.5] ---[ end Kernel panic - not syncing: Out of memory ]---\n\n";
        let host = feed(panic);
        assert!(host.lock().dead(SILENCE + 1) && !host.lock().dead(SILENCE));
        let text = host.lock().transcript.panic.clone();
        assert_eq!(
            text.as_deref(),
            Some("Kernel panic - not syncing: Out of memory")
        );
        let guest = feed(&format!("{panic}the guest has ended\n"));
        assert!(!guest.lock().dead(u64::MAX) && guest.lock().transcript.panic.is_some());
    }

    /// Promise: consoles of runs side by side can be told apart, and no text is lost.
    #[test]
    fn lines_are_passed_on_whole_with_their_label() {
        let mut text = Vec::new();
        let mut lines = Lines::new("sbi: ".into(), &mut text);
        for part in ["a", "b\r\n", "\nc", "d"] {
            lines.write_all(part.as_bytes()).unwrap();
        }
        drop(lines);
        assert_eq!(text, b"sbi: ab\r\nsbi: \nsbi: cd");
    }

    #[test]
    fn endless_output_is_bounded() {
        let shared = feed(&format!("@trapless dump x\n{}", "y\n".repeat(3 * MAX_DUMP)));
        assert_eq!(shared.lock().transcript.dumps["x"].len(), MAX_DUMP);
        let shared = feed(&format!("{}\n", "z".repeat(10 * MAX_LINE)));
        assert_eq!(shared.lock().transcript.last_line.len(), MAX_LINE);
    }
}
