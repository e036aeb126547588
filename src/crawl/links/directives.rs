//! What a page says about its own links and its place in an index: `X-Robots-Tag` and `<meta name="robots">`.
//!
//! Words as the large search engines document them: `nofollow`, `noindex`, `none` (both). A directive may be
//! for one crawler: `X-Robots-Tag: foobot: nofollow`, `<meta name="foobot">`. What is strictest holds.

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Directives {
    /// Do not follow the links of this page.
    pub nofollow: bool,
    /// Do not index this page. Nothing here indexes; its links are followed all the same.
    pub noindex: bool,
}

impl Directives {
    /// Adds what a list of words says, `noindex, nofollow`.
    pub fn read(&mut self, words: &str) {
        for word in words.split([',', ' ', '\t', '\n', '\r']) {
            let is = |name: &str| word.eq_ignore_ascii_case(name);
            self.nofollow |= is("nofollow") || is("none");
            self.noindex |= is("noindex") || is("none");
        }
    }

    /// Adds what one value of `X-Robots-Tag` says to the crawler named `agent`.
    pub fn read_header(&mut self, value: &str, agent: &str) {
        // `unavailable_after: 25 Jun 2010` has a colon, too: it names no crawler.
        match value.split_once(':') {
            Some((name, words)) if is_agent(name.trim()) => {
                if name.trim().eq_ignore_ascii_case(agent) {
                    self.read(words);
                }
            }
            _ => self.read(value),
        }
    }
}

/// Whether what stands before a colon names a crawler, and is no directive with a value.
fn is_agent(name: &str) -> bool {
    let valued = ["unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"];
    let is_token = !name.is_empty() && !name.contains([',', ' ', '\t']);
    is_token && !valued.iter().any(|word| name.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_whom_they_are_for() {
        for (value, nofollow, noindex) in [
            ("nofollow", true, false),
            ("NoIndex", false, true),
            ("noindex,nofollow", true, true),
            ("noarchive, none", true, true),
            ("follow, index", false, false),
            ("nofollowing", false, false),
            ("foobot: nofollow", true, false),
            ("FooBot:none", true, true),
            ("otherbot: none", false, false),
            ("unavailable_after: 25 Jun 2010 15:00:00 PST", false, false),
            ("noindex, max-snippet: 5, nofollow", true, true),
            ("max-snippet: 5, nofollow", true, false),
            ("", false, false),
            (":", false, false),
        ] {
            let mut directives = Directives::default();
            directives.read_header(value, "foobot");
            assert_eq!((directives.nofollow, directives.noindex), (nofollow, noindex), "{value}");
        }
    }
}
