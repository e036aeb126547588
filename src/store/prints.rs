//! The set of fingerprints: every URL that is known, 10 to 12.5 bytes each.
//!
//! A table of the standard library doubles: it holds twice what it needs half of the time, three times while it grows,
//! and stands still for a second then. This one is cut into `SHARDS` by the fingerprint's first bits, and each shard
//! grows by a quarter, by itself. A fingerprint stands near the place in its shard that it has in its range, so growing
//! is one walk from front to back, and a look-up touches one line of memory, rarely two.
//!
//! Fingerprints are taken times a secret: whoever chooses URLs cannot choose where they stand. Zero is no fingerprint.

use std::hash::{BuildHasher as _, RandomState};

/// Parts that grow by themselves.
const SHARDS: usize = 256;
/// A shard begins with so many places.
const FIRST: usize = 16;
/// Places behind the last one, for what does not fit where it belongs.
const SPARE: usize = 16;

/// Fingerprints that are known.
#[derive(Clone, Debug)]
pub struct Prints {
    shards: Vec<Shard>,
    secret: u64,
    len: usize,
}

#[derive(Clone, Debug, Default)]
struct Shard {
    /// 0 = free.
    places: Box<[u64]>,
    len: usize,
}

impl Default for Prints {
    fn default() -> Self {
        Self::with_secret(RandomState::new().hash_one("prints"))
    }
}

impl Prints {
    fn with_secret(secret: u64) -> Self {
        Self { shards: vec![Shard::default(); SHARDS], secret: secret | 1, len: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether `print` is known.
    pub fn contains(&self, print: u64) -> bool {
        let mixed = self.mix(print);
        self.shard(mixed).find(mixed).is_ok()
    }

    /// Makes `print` known; false if it was.
    pub fn insert(&mut self, print: u64) -> bool {
        let mixed = self.mix(print);
        let shard = &mut self.shards[shard_of(mixed)];
        let new = shard.insert(mixed);
        self.len += usize::from(new);
        new
    }

    /// Reads where `prints` stand, or would, and nothing else: loads of which none decides about the next wait for
    /// memory together, so whoever is about to insert many does this first. What it returns means nothing.
    pub fn look_at(&self, prints: impl Iterator<Item = u64>) -> u64 {
        let at_home = |print| {
            let mixed = self.mix(print);
            let shard = self.shard(mixed);
            shard.places.get(shard.home(mixed)).copied().unwrap_or(0)
        };
        prints.fold(0, |all, print| all ^ at_home(print))
    }

    fn mix(&self, print: u64) -> u64 {
        // Odd, so that different fingerprints stay different. The halves are swapped first: the low bits of a product
        // depend on the low bits alone.
        print.rotate_left(32).wrapping_mul(self.secret).max(1)
    }

    fn shard(&self, mixed: u64) -> &Shard {
        &self.shards[shard_of(mixed)]
    }
}

fn shard_of(mixed: u64) -> usize {
    (mixed >> (u64::BITS - SHARDS.ilog2())) as usize
}

impl Shard {
    /// Where `mixed` stands if nothing else stands there.
    fn home(&self, mixed: u64) -> usize {
        let room = self.places.len().saturating_sub(SPARE);
        let share = mixed << SHARDS.ilog2();
        ((u128::from(share) * room as u128) >> u64::BITS) as usize
    }

    /// Where `mixed` stands, or could stand; [`Option::None`] = it does not fit.
    fn find(&self, mixed: u64) -> Result<usize, Option<usize>> {
        let home = self.home(mixed);
        for (place, found) in (home..).zip(self.places.get(home..).unwrap_or_default()) {
            if *found == mixed {
                return Ok(place);
            }
            if *found == 0 {
                return Err(Some(place));
            }
        }
        Err(None)
    }

    fn insert(&mut self, mixed: u64) -> bool {
        let free = match self.find(mixed) {
            Ok(_) => return false,
            Err(free) => free,
        };
        // At most four of five places are taken.
        let free = free.filter(|_| (self.len + 1) * 5 <= self.places.len().saturating_sub(SPARE) * 4);
        match free {
            Some(free) => self.places[free] = mixed,
            None => {
                self.grow();
                return self.insert(mixed);
            }
        }
        self.len += 1;
        true
    }

    fn grow(&mut self) {
        let room = self.places.len().saturating_sub(SPARE);
        let room = (room + room / 4).max(FIRST);
        let old = std::mem::replace(&mut self.places, vec![0; room + SPARE].into());
        self.len = 0;
        for mixed in old.iter().filter(|mixed| **mixed != 0) {
            // What does not even fit now makes it grow once more.
            self.insert(*mixed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The same as a set of the standard library, whatever the secret, also for numbers that crowd together.
        #[test]
        fn it_is_a_set(
            secret in any::<u64>(),
            numbers in proptest::collection::vec(prop_oneof![0_u64..200, any::<u64>(), Just(u64::MAX)], 0..600),
        ) {
            let (mut prints, mut set) = (Prints::with_secret(secret), HashSet::new());
            for number in numbers.into_iter().map(|number| number.saturating_add(1)) {
                prop_assert_eq!(prints.contains(number), set.contains(&number));
                prop_assert_eq!(prints.insert(number), set.insert(number));
                prop_assert!(prints.contains(number));
            }
            prop_assert_eq!(prints.len(), set.len());
        }
    }

    #[test]
    fn it_grows_with_what_it_holds() {
        let mut prints = Prints::default();
        let mut state = 1_u64;
        for number in 1..=400_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(number);
            prints.insert(state ^ state >> 29);
        }
        let places: usize = prints.shards.iter().map(|shard| shard.places.len()).sum();
        let each = places as f64 * 8.0 / prints.len() as f64;
        assert!((9.9..13.0).contains(&each), "{each:.1} bytes each");
    }
}
