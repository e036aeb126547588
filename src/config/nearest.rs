//! The known word that a mistyped one probably meant.

/// How alike two words must be (Jaro-Winkler, 0 to 1) for a proposal.
const ALIKE_MIN: f64 = 0.8;

/// The word among `known` nearest to `typed`, if one is near enough to propose.
pub(super) fn nearest<'k>(typed: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Long input is no slip of the finger, and the comparison is quadratic.
    if typed.chars().count() > 64 {
        return None;
    }
    let typed = typed.to_lowercase().replace('-', "_");
    known
        .into_iter()
        .map(|word| (strsim::jaro_winkler(&typed, &word.replace('-', "_")), word))
        .filter(|(alike, _)| *alike >= ALIKE_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_word_and_strangers_do_not() {
        let keys = ["rate", "capacity", "connections", "shape", "respect_robots", "global_rate"];
        for (typed, meant) in [
            ("ratee", Some("rate")),
            ("Rate", Some("rate")),
            ("capcity", Some("capacity")),
            ("respect-robots", Some("respect_robots")),
            ("globalrate", Some("global_rate")),
            ("qqq", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, keys), meant, "{typed}");
        }
    }

    #[test]
    fn a_huge_word_is_not_compared() {
        let huge = "rate".repeat(100_000);
        assert_eq!(nearest(&huge, ["rate"]), None);
    }
}
