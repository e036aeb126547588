//! A value that most hosts never have: a pointer until it differs from its blank.
//!
//! A host that was asked is one of up to millions, and most of what the core could know of it never comes to pass:
//! no refusal, no operator, no header that tells of a limit. All of that reads as blank, and takes memory with the
//! first write.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A type with a value that says "nothing yet"; the same as its default.
pub(super) trait Blank: PartialEq + Sized + 'static {
    /// That value.
    const BLANK: &'static Self;
}

/// Reads as [`Blank::BLANK`] and takes no memory until it is written to. Who only looks must not ask for it mutably.
pub(super) struct Sparse<T>(Option<Box<T>>);

impl<T: Blank> Sparse<T> {
    /// Nothing yet.
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// Whether it takes no memory of its own.
    pub(super) fn is_blank(&self) -> bool {
        self.0.is_none()
    }
}

impl<T: Blank> Default for Sparse<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Blank> From<T> for Sparse<T> {
    fn from(value: T) -> Self {
        Self((value != *T::BLANK).then(|| Box::new(value)))
    }
}

impl<T: Blank> Deref for Sparse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::BLANK)
    }
}

impl<T: Blank + Default> DerefMut for Sparse<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Clone> Clone for Sparse<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Blank> PartialEq for Sparse<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Blank + fmt::Debug> fmt::Debug for Sparse<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}

impl<T: Blank + Serialize> Serialize for Sparse<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(to)
    }
}

impl<'de, T: Blank + Deserialize<'de>> Deserialize<'de> for Sparse<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::deserialize(from).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Blank for u32 {
        const BLANK: &'static Self = &0;
    }

    #[test]
    fn it_takes_memory_with_the_first_write_and_a_blank_that_is_read_back_takes_none() {
        let mut sparse = Sparse::<u32>::new();
        assert_eq!((*sparse, sparse.is_blank()), (0, true));
        assert_eq!(size_of_val(&sparse), size_of::<usize>());
        *sparse = 7;
        assert_eq!((*sparse, sparse.is_blank()), (7, false));
        for value in [0, 7] {
            let text = serde_json::to_string(&Sparse::from(value)).expect("JSON");
            assert_eq!(text, value.to_string());
            let back: Sparse<u32> = serde_json::from_str(&text).expect("what was written");
            assert_eq!((*back, back.is_blank()), (value, value == 0));
        }
        *sparse = 0;
        assert_eq!(sparse, Sparse::new(), "boxed or not");
    }
}
