//! How the number came about, in words.
