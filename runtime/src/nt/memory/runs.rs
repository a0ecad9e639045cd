// SPDX-License-Identifier: GPL-3.0-or-later
//! The state of each page of a region, kept as runs: a terabyte of reserved space costs one entry.

use std::collections::BTreeMap;

/// Start of a run → what its pages are. The first run starts at the region's start; a run ends where the next begins.
#[derive(Debug, Clone)]
pub(super) struct Runs {
    starts: BTreeMap<u64, u32>,
    end: u64,
}

impl Runs {
    /// One run over `start..end`.
    pub(super) fn new(start: u64, end: u64, state: u32) -> Self {
        Self {
            starts: BTreeMap::from([(start, state)]),
            end,
        }
    }

    /// The state at `address` and where its run ends.
    pub(super) fn at(&self, address: u64) -> (u32, u64) {
        let state = self.starts.range(..=address).next_back().map_or(0, |(_, state)| *state);
        let end = self
            .starts
            .range(address + 1..)
            .next()
            .map_or(self.end, |(start, _)| *start);
        (state, end)
    }

    /// Whether every page of `start..end` satisfies `test`.
    pub(super) fn all(&self, start: u64, end: u64, test: impl Fn(u32) -> bool) -> bool {
        let mut at = start;
        while at < end {
            let (state, next) = self.at(at);
            if !test(state) {
                return false;
            }
            at = next;
        }
        true
    }

    /// Sets `start..end`.
    pub(super) fn set(&mut self, start: u64, end: u64, state: u32) {
        if start >= end {
            return;
        }
        let (after, _) = self.at(end);
        let had_end = end < self.end;
        self.starts = {
            let mut starts = std::mem::take(&mut self.starts);
            let inside: Vec<u64> = starts.range(start..end).map(|(at, _)| *at).collect();
            for at in inside {
                starts.remove(&at);
            }
            if had_end {
                starts.insert(end, after);
            }
            starts.insert(start, state);
            starts
        };
        self.join(start);
        if had_end {
            self.join(end);
        }
    }

    /// Drops the border at `at` when both sides are the same.
    fn join(&mut self, at: u64) {
        let before = self.starts.range(..at).next_back().map(|(_, state)| *state);
        if before.is_some() && before == self.starts.get(&at).copied() {
            self.starts.remove(&at);
        }
    }

    /// The runs of `start..end` alone.
    pub(super) fn part(&self, start: u64, end: u64) -> Self {
        let mut part = Self::new(start, end, self.at(start).0);
        part.starts
            .extend(self.starts.range(start + 1..end).map(|(at, state)| (*at, *state)));
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_answer_like_a_plain_array(changes in prop::collection::vec((0u64..64, 1u64..64, 0u32..4), 0..40)) {
            let mut plain = vec![9u32; 64];
            let mut runs = Runs::new(0, 64, 9);
            for (start, length, state) in changes {
                let end = (start + length).min(64);
                plain[usize::try_from(start).expect("small")..usize::try_from(end).expect("small")].fill(state);
                runs.set(start, end, state);
                let mut previous = None;
                for (at, state) in &runs.starts {
                    prop_assert_ne!(previous, Some(*state), "runs at {} were not joined", at);
                    previous = Some(*state);
                }
            }
            for (at, state) in plain.iter().enumerate() {
                prop_assert_eq!(runs.at(at as u64).0, *state);
            }
        }
    }
}
