//! Panics that tests of the whole program ask for: each thread and task has a place where it comes by. Debug builds
//! alone can be asked; in others nothing is left of it.

/// Where a panic is to be: the part of the program, and the how-manieth time that it comes by, from 1: `engine:50`.
pub const PANIC_IN: &str = "CRAWLDECK_TEST_PANIC_IN";

/// The part comes by; panics if the environment asks for it.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "it is what the test asks for")]
pub fn pass(part: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static ASKED: OnceLock<Option<(String, u64)>> = OnceLock::new();
    // One part is asked for in a process, so one count is enough.
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let asked = ASKED.get_or_init(|| {
        let asked = std::env::var(PANIC_IN).ok()?;
        let (part, at) = asked.split_once(':')?;
        Some((part.to_owned(), at.parse().ok()?))
    });
    if let Some((asked, at)) = asked
        && asked == part
        && PASSED.fetch_add(1, Ordering::Relaxed) + 1 == *at
    {
        std::panic::panic_any(format!("asked for by {PANIC_IN}"));
    }
}

/// Nothing.
#[cfg(not(debug_assertions))]
pub const fn pass(_: &str) {}
