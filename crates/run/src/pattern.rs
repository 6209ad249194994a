//! Patterns that are looked for in output while it grows.
//!
//! A regular expression by itself would look through all output again for each character that the
//! guest prints. An automaton that has read the output so far needs one step for each.

use std::fmt;

use regex::bytes::Regex;
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson;
use regex_automata::{Input, util::syntax};

/// A regular expression, and how far it has read.
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    /// `None`: there is no automaton for this expression or this output.
    automaton: Option<Box<Automaton>>,
    /// Bytes that the automaton has read.
    read: usize,
}

#[derive(Debug)]
struct Automaton {
    dfa: DFA,
    cache: Cache,
    state: LazyStateID,
}

impl Pattern {
    /// The pattern `text`.
    ///
    /// # Errors
    /// If it is empty or not a regular expression; the message says why.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("there is no pattern to wait for".into());
        }
        let regex = Regex::new(text).map_err(|error| {
            // The last line of the message is the reason; those before it point at the place.
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default();
            let reason = reason.strip_prefix("error: ").unwrap_or(reason);
            format!("`{text}` is not a regular expression: {reason}")
        })?;
        Ok(Self {
            automaton: Automaton::new(text),
            regex,
            read: 0,
        })
    }

    /// Where the first match in `output` ends. Between two calls output is only added at its end,
    /// unless [`restart`](Self::restart) is called.
    pub fn find(&mut self, output: &[u8]) -> Option<usize> {
        if let Some(automaton) = &mut self.automaton {
            let matches = automaton.read(&output[self.read..]);
            self.read = output.len();
            match matches {
                Some(false) => return None,
                Some(true) => {}
                None => self.automaton = None,
            }
        }
        Some(self.regex.find(output)?.end())
    }

    /// The output begins elsewhere now.
    pub fn restart(&mut self) {
        self.read = 0;
        self.automaton = Automaton::new(self.regex.as_str());
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.regex.fmt(f)
    }
}

impl Automaton {
    /// At the start of output. `None`: an expression for which this kind of automaton cannot be
    /// made, as one with `\b`.
    fn new(text: &str) -> Option<Box<Self>> {
        let dfa = DFA::builder()
            .syntax(syntax::Config::new().utf8(false))
            .thompson(thompson::Config::new().utf8(false))
            .build(text)
            .ok()?;
        let mut cache = dfa.create_cache();
        let state = dfa.start_state_forward(&mut cache, &Input::new("")).ok()?;
        Some(Box::new(Self { dfa, cache, state }))
    }

    /// Whether there is a match once `bytes` have been read, too. `None`: that is not known.
    fn read(&mut self, bytes: &[u8]) -> Option<bool> {
        let mut matches = false;
        for &byte in bytes {
            self.state = self
                .dfa
                .next_state(&mut self.cache, self.state, byte)
                .ok()?;
            if self.state.is_quit() {
                return None;
            }
            matches |= self.state.is_match();
        }
        // What is asked at the end of output must not make room by dropping the present state.
        let cleared = self.cache.clear_count();
        let end = self.dfa.next_eoi_state(&mut self.cache, self.state).ok()?;
        let kept = self.cache.clear_count() == cleared;
        kept.then_some(matches || end.is_match())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a pattern matches as soon as all output so far would, whatever it looks like.
    #[test]
    fn a_pattern_matches_at_the_same_character_as_the_whole_output() {
        let output = b"[    0.5] a \xff\xc3\xa4 login:\r\n# ls\r\nfoo bar\r\n# \xe2\x82\xac10\n";
        for text in [
            "login:",
            "# $",
            "^.*# ",
            "(?m)^foo.*$",
            "never",
            r"\bbar\b",
            "ä",
            "[0-9]+$",
            "(?-u)\\xff",
            "(?s)ls.*#",
            "^\\[ ",
            "^x",
            "a|ä l",
            "",
            "€1?",
        ] {
            let Ok(mut pattern) = Pattern::new(text) else {
                assert!(text.is_empty());
                continue;
            };
            let regex = Regex::new(text).unwrap();
            for end in 0..=output.len() {
                let whole = regex.find(&output[..end]).map(|found| found.end());
                assert_eq!(pattern.find(&output[..end]), whole, "{text}, {end}");
                if whole.is_some() {
                    break;
                }
            }
        }
    }

    /// Promise: a pattern matches as well when its automaton has had more states than there is
    /// memory for.
    #[test]
    fn a_pattern_with_many_states_matches_in_long_output() {
        let mut pattern = Pattern::new("a[ab]{100}c").unwrap();
        let (mut output, mut bits) = (Vec::new(), 1_u32);
        for at in 0..40_000 {
            bits = bits >> 1 ^ if bits & 1 == 1 { 0xA300_0000 } else { 0 };
            output.push(if bits & 1 == 1 { b'a' } else { b'b' });
            assert_eq!(pattern.find(&output), None, "{at}");
        }
        let automaton = pattern.automaton.as_ref().expect("no quit, no failure");
        assert!(automaton.cache.clear_count() > 0);
        let end = output.len();
        output[end - 101] = b'a';
        output.push(b'c');
        assert_eq!(pattern.find(&output), Some(end + 1));
    }

    /// Promise: after a match, or when old output is dropped, a pattern looks at the rest only.
    #[test]
    fn a_pattern_starts_again_where_it_is_told() {
        let mut pattern = Pattern::new("^ab").unwrap();
        assert_eq!(pattern.find(b"xab"), None);
        pattern.restart();
        assert_eq!(pattern.find(b"a"), None);
        assert_eq!(pattern.find(b"abc"), Some(2));
    }
}
