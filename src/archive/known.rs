//! What was written before, so that it need not be written again: payloads by digest, answers by URL.
//!
//! Each holds [`KNOWN_MAX`] entries; one more makes it forget the oldest, whose payload is then written in full when
//! it comes again. About 20 MB when both are full of long URLs' records. It lasts as long as the process: after a
//! restart every payload is written once more.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use super::records::Id;
use crate::clock::Wall;

/// Entries of each memory at most.
pub const KNOWN_MAX: usize = 65_536;
/// URLs longer than this, in bytes, are not remembered.
const URL_MAX: usize = 2_048;

/// A record that another can refer to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Earlier {
    /// Its id.
    pub id: Id,
    /// Its date.
    pub date: Wall,
    /// Its target.
    pub url: Arc<str>,
}

/// The memory of one writer.
#[derive(Debug)]
pub struct Known {
    payloads: Recent<[u8; 32]>,
    answers: Recent<u128>,
}

impl Default for Known {
    fn default() -> Self {
        Self::with_bound(KNOWN_MAX)
    }
}

impl Known {
    /// A memory of another size.
    pub fn with_bound(bound: usize) -> Self {
        Self { payloads: Recent::new(bound), answers: Recent::new(bound) }
    }

    /// The record that holds a payload with this SHA-256.
    pub fn payload(&self, digest: &[u8; 32]) -> Option<&Earlier> {
        self.payloads.entries.get(digest)
    }

    /// The last record of a 200 from this URL, by its fingerprint.
    pub fn answer(&self, url: u128) -> Option<&Earlier> {
        self.answers.entries.get(&url)
    }

    /// A payload was written in full.
    pub fn add_payload(&mut self, digest: [u8; 32], record: Earlier) {
        if record.url.len() <= URL_MAX {
            self.payloads.add(digest, record);
        }
    }

    /// A 200 from a URL was written.
    pub fn add_answer(&mut self, url: u128, record: Earlier) {
        if record.url.len() <= URL_MAX {
            self.answers.add(url, record);
        }
    }
}

/// The last entries that were added.
#[derive(Debug)]
struct Recent<K> {
    bound: usize,
    entries: HashMap<K, Earlier>,
    order: VecDeque<K>,
}

impl<K: Copy + Eq + Hash> Recent<K> {
    fn new(bound: usize) -> Self {
        Self { bound, entries: HashMap::new(), order: VecDeque::new() }
    }

    fn add(&mut self, key: K, record: Earlier) {
        if self.entries.insert(key, record).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > self.bound
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_at_the_bound_and_long_urls_are_not_remembered() {
        let mut known = Known::with_bound(2);
        let record = |url: &str| Earlier { id: Id::random(), date: Wall(0), url: url.into() };
        for number in [1_u8, 2, 1, 3] {
            known.add_payload([number; 32], record("http://h.example/"));
            known.add_answer(number.into(), record("http://h.example/"));
        }
        assert!(known.payload(&[1; 32]).is_none() && known.answer(1).is_none());
        assert!(known.payload(&[2; 32]).is_some() && known.answer(3).is_some());
        known.add_payload([4; 32], record(&"x".repeat(URL_MAX + 1)));
        assert!(known.payload(&[4; 32]).is_none());
    }
}
