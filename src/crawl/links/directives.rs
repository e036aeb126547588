//! What a page says about its own links: `X-Robots-Tag` and `<meta name="robots">`.
//!
//! Words as the large search engines document them: `nofollow`, and `none`, which says that, too. A directive may be
//! for one crawler: `X-Robots-Tag: foobot: nofollow`, `<meta name="foobot">`. What is strictest holds. Not here:
//! `noindex`. Nothing is indexed, and whoever indexes what is kept reads it there.

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Directives {
    /// Do not follow the links of this page.
    pub nofollow: bool,
}

impl Directives {
    /// Adds what a list of words says, `noindex, nofollow`.
    pub fn read(&mut self, words: &str) {
        words.split(',').for_each(|element| self.read_element(element));
    }

    /// Adds what one value of `X-Robots-Tag` says to the crawler named `agent`.
    ///
    /// A name holds for what follows it, until the next one: whoever forwards a message may join its lines by commas
    /// (RFC 9110 5.3). What stands before the first name is for all.
    pub fn read_header(&mut self, value: &str, agent: &str) {
        let (mut is_ours, mut in_date) = (true, false);
        for element in value.split(',') {
            let mut rest = element;
            while let Some((name, words)) = rest.split_once(':') {
                let name = name.trim();
                // The time of day in a date that has commas: `Wed, 25 Jun 2010, 15:00:00`.
                if !is_agent(name) || (in_date && name.starts_with(|c: char| c.is_ascii_digit())) {
                    break;
                }
                (is_ours, in_date) = (name.eq_ignore_ascii_case(agent), false);
                rest = words;
            }
            in_date |=
                rest.split_once(':').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case(UNAVAILABLE_AFTER));
            if is_ours {
                self.read_element(rest);
            }
        }
    }

    /// Words between two commas. A directive's value is none: `max-image-preview: none` forbids nothing else.
    fn read_element(&mut self, element: &str) {
        let mut rest = element;
        while let Some((before, after)) = rest.split_once(':') {
            self.read_words(before);
            rest = match before.split_ascii_whitespace().next_back() {
                Some(name) if is_valued(name) => {
                    after.trim_ascii_start().split_once(|c: char| c.is_ascii_whitespace()).map_or("", |(_, rest)| rest)
                }
                _ => after,
            };
        }
        self.read_words(rest);
    }

    fn read_words(&mut self, words: &str) {
        for word in words.split_ascii_whitespace() {
            let is = |name: &str| word.eq_ignore_ascii_case(name);
            self.nofollow |= is("nofollow") || is("none");
        }
    }
}

const UNAVAILABLE_AFTER: &str = "unavailable_after";

/// Whether a directive of this name has a value.
fn is_valued(name: &str) -> bool {
    let valued = [UNAVAILABLE_AFTER, "max-snippet", "max-image-preview", "max-video-preview"];
    valued.iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// Whether what stands before a colon names a crawler, and is no directive with a value.
fn is_agent(name: &str) -> bool {
    let is_token = !name.is_empty() && !name.contains(|c: char| c.is_ascii_whitespace());
    is_token && !is_valued(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_whom_they_are_for() {
        for (value, nofollow) in [
            ("nofollow", true),
            ("NoIndex", false),
            ("noindex,nofollow", true),
            ("noarchive, none", true),
            ("follow, index", false),
            ("nofollowing", false),
            ("foobot: nofollow", true),
            ("FooBot:none", true),
            ("otherbot: none", false),
            ("unavailable_after: 25 Jun 2010 15:00:00 PST", false),
            ("noindex, max-snippet: 5, nofollow", true),
            ("max-snippet: 5, nofollow", true),
            ("", false),
            (":", false),
            // Lines that a proxy joined (RFC 9110 5.3): a name holds until the next one.
            ("otherbot: noindex, foobot: nofollow", true),
            ("foobot: index, otherbot: nofollow", false),
            ("otherbot: noindex, nofollow", false),
            ("nofollow, otherbot: noindex", true),
            ("otherbot: none, foobot: noarchive, noindex, third-bot: nofollow", false),
            ("otherbot: none,, FooBot :nofollow,", true),
            ("360Spider: none, foobot: noindex", false),
            // Values are no names, nor are dates with commas in them.
            ("foobot: max-snippet: 5, nofollow", true),
            ("otherbot: max-snippet: 5, nofollow", false),
            ("max-image-preview: none, max-video-preview:-1, noindex", false),
            ("max-image-preview : none", false),
            ("unavailable_after: Wed, 25 Jun 2010 15:00:00 PST, nofollow", true),
            ("unavailable_after: 25-Jun-2010, 15:00:00 PST, nofollow", true),
            ("foobot: unavailable_after: Wednesday, 25-Jun-10 15:00:00 PST, nofollow, otherbot: noindex", true),
            ("otherbot: unavailable_after: 2010-06-25T15:00:00Z, none, foobot: nofollow", true),
        ] {
            let mut directives = Directives::default();
            directives.read_header(value, "foobot");
            assert_eq!(directives.nofollow, nofollow, "{value}");
        }
    }

    #[test]
    fn words_of_a_page_have_values_and_no_names() {
        for (content, nofollow) in [
            ("noindex nofollow", true),
            ("max-image-preview: none", false),
            ("max-snippet:-1, max-image-preview:none, max-video-preview: 0", false),
            ("max-snippet: 5 nofollow", true),
            ("unavailable_after: 25 Jun 2010 15:00:00 PST, NOFOLLOW", true),
            ("max-snippet none", true),
        ] {
            let mut directives = Directives::default();
            directives.read(content);
            assert_eq!(directives.nofollow, nofollow, "{content}");
        }
    }
}
