//! Which hosts answered in each bin, so that any span of bins tells how many different ones there were.
//!
//! A bit a host and bin. The first [`EXACT`] hosts have bits of their own: of them the count is exact. Further ones
//! share as many bits again, and how many they were is estimated from the share of those that are not set (Whang et
//! al. 1990, "A linear-time probabilistic counting algorithm"): a few per cent off, up to about 100,000 of them.
//!
//! Bound: twice [`EXACT`] bits a bin, 16 MiB with 4096 bins; with fewer hosts as many bits as hosts, about.

/// Hosts that are told apart.
pub const EXACT: u32 = 16_384;

/// How many different hosts there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Different {
    /// So many.
    pub hosts: u64,
    /// It is an estimate: some of them are not told apart.
    pub estimated: bool,
}

/// Bits of hosts, bin by bin. See the module's text.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    /// Words of one bin; a power of two.
    stride: usize,
    words: Vec<u64>,
}

impl Default for Crowd {
    fn default() -> Self {
        Self { stride: 1, words: Vec::new() }
    }
}

impl Crowd {
    /// A host answered in a bin that there is.
    pub(super) fn add(&mut self, bin: usize, host: u32) {
        let bit = if host < EXACT { host } else { EXACT + mixed(host) % EXACT } as usize;
        while bit / 64 >= self.stride {
            self.widen();
        }
        if let Some(word) = self.words.get_mut(bin * self.stride + bit / 64) {
            *word |= 1 << (bit % 64);
        }
    }

    /// Twice as many bits a bin.
    fn widen(&mut self) {
        let mut wider = vec![0; self.words.len() * 2];
        for (from, to) in self.words.chunks(self.stride).zip(wider.chunks_mut(self.stride * 2)) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
        (self.words, self.stride) = (wider, self.stride * 2);
    }

    /// There are so many bins.
    pub(super) fn resize(&mut self, bins: usize) {
        self.words.resize(bins * self.stride, 0);
    }

    /// So many bins come before the first.
    pub(super) fn put_before(&mut self, bins: usize) {
        self.words.splice(0..0, std::iter::repeat_n(0, bins * self.stride));
    }

    /// Bins become one where `place` gives the same number, of `len`.
    pub(super) fn merge(&mut self, len: usize, place: impl Fn(usize) -> usize) {
        let mut merged = vec![0; len * self.stride];
        for (bin, from) in self.words.chunks(self.stride).enumerate() {
            let to = merged.get_mut(place(bin) * self.stride..).unwrap_or_default();
            to.iter_mut().zip(from).for_each(|(to, from)| *to |= from);
        }
        self.words = merged;
    }

    /// The different hosts of a range of bins.
    pub(super) fn count(&self, bins: std::ops::Range<usize>) -> Different {
        let mut all = vec![0_u64; self.stride];
        let range = bins.start * self.stride..bins.end * self.stride;
        for bin in self.words.get(range).unwrap_or_default().chunks(self.stride) {
            all.iter_mut().zip(bin).for_each(|(all, one)| *all |= one);
        }
        let (own, shared) = all.split_at(all.len().min(EXACT as usize / 64));
        let set = |words: &[u64]| words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        let (own, shared) = (set(own), set(shared));
        if shared == 0 {
            return Different { hosts: own, estimated: false };
        }
        let bits = f64::from(EXACT);
        // With all bits set there is no telling: as many as would leave half a bit.
        let unset = (bits - shared as f64).max(0.5);
        Different { hosts: own + (bits * (bits / unset).ln()).round() as u64, estimated: true }
    }
}

/// Spreads neighbouring numbers as if by chance (the last step of MurmurHash3).
fn mixed(number: u32) -> u32 {
    let number = (number ^ (number >> 16)).wrapping_mul(0x85EB_CA6B);
    let number = (number ^ (number >> 13)).wrapping_mul(0xC2B2_AE35);
    number ^ (number >> 16)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_span_counts_no_host_twice() {
        let mut crowd = Crowd::default();
        crowd.resize(3);
        for (bin, host) in [(0, 1), (0, 70), (1, 1), (2, 16_000), (2, 16_000)] {
            crowd.add(bin, host);
        }
        let count = |crowd: &Crowd, bins| crowd.count(bins).hosts;
        assert_eq!([0..1, 0..2, 0..3, 1..1, 2..3].map(|bins| count(&crowd, bins)), [2, 2, 3, 0, 1]);
        crowd.put_before(1);
        assert_eq!([0..1, 1..2, 3..4].map(|bins| count(&crowd, bins)), [0, 2, 1]);
        crowd.merge(2, |bin| bin / 2);
        assert_eq!([0..1, 1..2].map(|bins| count(&crowd, bins)), [2, 2]);
    }

    #[test]
    fn more_hosts_than_are_told_apart_are_estimated() {
        let mut crowd = Crowd::default();
        crowd.resize(1);
        (0..50_000).for_each(|host| crowd.add(0, host));
        let all = crowd.count(0..1);
        assert!(all.estimated && (46_000..54_000).contains(&all.hosts), "{all:?}");
        assert!(crowd.words.len() * 64 <= 2 * EXACT as usize, "and its size is bounded");
    }

    proptest! {
        #[test]
        fn it_equals_a_set_up_to_its_bound(hosts in proptest::collection::vec((0_usize..8, 0..EXACT), 0..200), from in 0_usize..8, to in 0_usize..9) {
            let mut crowd = Crowd::default();
            crowd.resize(8);
            hosts.iter().for_each(|(bin, host)| crowd.add(*bin, *host));
            let span = from..to.max(from);
            let set: HashSet<u32> = hosts.iter().filter(|(bin, _)| span.contains(bin)).map(|(_, host)| *host).collect();
            prop_assert_eq!(crowd.count(span), Different { hosts: set.len() as u64, estimated: false });
        }
    }
}
