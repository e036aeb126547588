//! A fault that a test of the whole program asks for; debug builds alone have it.

/// So many URLs are done when the screen's thread is to panic.
const SCREEN_PANICS_AT: &str = "CRAWLDECK_TEST_SCREEN_PANICS_AT";

/// Panics if the environment asks for it by now.
#[expect(clippy::panic, reason = "it is what the test asks for")]
pub(super) fn strike(urls_done: u64) {
    let asked = std::env::var(SCREEN_PANICS_AT).ok().and_then(|text| text.parse::<u64>().ok());
    if asked.is_some_and(|asked| urls_done >= asked) {
        std::panic::panic_any(format!("asked for by {SCREEN_PANICS_AT}"));
    }
}
