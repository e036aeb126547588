//! Reads the filter language; what cannot be read is said with its place and the nearest known word.

use globset::{GlobBuilder, GlobMatcher};

use super::{Comparison, Figure, Property, TERMS_MAX, Term, Test};
use crate::control::HostState;
use crate::text::Clean;

/// Why a text is no filter. Positions count characters from 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FilterError {
    /// The glob is broken.
    #[error("at {at}: `{term}` is no glob: {cause}")]
    Glob {
        /// Where the term begins.
        at: usize,
        /// As typed.
        term: Clean,
        /// Why.
        cause: Clean,
    },
    /// A word that is not known in its place.
    #[error("at {at}: `{word}` is not known{}", near(.nearest))]
    Word {
        /// Where the term begins.
        at: usize,
        /// As typed.
        word: Clean,
        /// What it may have meant.
        nearest: Option<String>,
    },
    /// A comparison without a usable number.
    #[error("at {at}: `{term}` needs a number, as in `{example}`")]
    Number {
        /// Where the term begins.
        at: usize,
        /// As typed.
        term: Clean,
        /// How it could be.
        example: String,
    },
    /// `!` or `|` with nothing to work on.
    #[error("at {at}: `{sign}` needs a term on its {side}")]
    Lonely {
        /// Where it stands.
        at: usize,
        /// Which.
        sign: char,
        /// Left or right.
        side: &'static str,
    },
    /// A figure or a state where only names are known.
    #[error("at {at}: `{term}` is no name: hosts are chosen by name here (part, *.glob, ! not, | or)")]
    Unnamed {
        /// Where the term begins.
        at: usize,
        /// As typed.
        term: Clean,
    },
    /// Too long.
    #[error("at {at}: a filter has at most {TERMS_MAX} terms")]
    TooMany {
        /// Where the first too many begins.
        at: usize,
    },
}

/// The end of an error that knows better.
fn near(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// Reads the alternatives of a filter; none if it is empty.
pub(super) fn alternatives(text: &str) -> Result<Vec<Vec<Term>>, FilterError> {
    let mut all = vec![Vec::new()];
    let mut count = 0;
    let mut bar = None;
    for (at, word) in words(text) {
        if word == "|" {
            if all.last().is_none_or(Vec::is_empty) {
                return Err(FilterError::Lonely { at, sign: '|', side: "left" });
            }
            bar = Some(at);
            all.push(Vec::new());
            continue;
        }
        count += 1;
        if count > TERMS_MAX {
            return Err(FilterError::TooMany { at });
        }
        let term = term(at, word)?;
        if let Some(last) = all.last_mut() {
            last.push(term);
        }
    }
    match (all.last().is_some_and(Vec::is_empty), bar) {
        (true, Some(at)) => Err(FilterError::Lonely { at, sign: '|', side: "right" }),
        (true, None) => Ok(Vec::new()),
        (false, _) => Ok(all),
    }
}

/// The same, where only names are known: a term about a figure or a state is refused.
pub(super) fn names(text: &str) -> Result<Vec<Vec<Term>>, FilterError> {
    let all = alternatives(text)?;
    let terms = words(text).into_iter().filter(|(_, word)| *word != "|");
    let unnamed = |term: &Term| !matches!(term.test, Test::Part(_) | Test::Glob(_));
    match terms.zip(all.iter().flatten()).find(|(_, term)| unnamed(term)) {
        Some(((at, word), _)) => Err(FilterError::Unnamed { at, term: Clean::new(word) }),
        None => Ok(all),
    }
}

/// The words with the position where each begins; `|` is a word of its own wherever it stands.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut begin: Option<(usize, usize)> = None;
    for (position, (byte, c)) in text.char_indices().enumerate() {
        if c.is_whitespace() || c == '|' {
            if let Some((at, from)) = begin.take() {
                words.push((at, text.get(from..byte).unwrap_or_default()));
            }
            if c == '|' {
                words.push((position + 1, "|"));
            }
        } else if begin.is_none() {
            begin = Some((position + 1, byte));
        }
    }
    if let Some((at, from)) = begin {
        words.push((at, text.get(from..).unwrap_or_default()));
    }
    words
}

/// Reads one word.
fn term(at: usize, word: &str) -> Result<Term, FilterError> {
    let bare = word.trim_start_matches('!');
    if bare.is_empty() {
        return Err(FilterError::Lonely { at, sign: '!', side: "right" });
    }
    let not = (word.len() - bare.len()) % 2 == 1;
    Ok(Term { not, test: test(at, &bare.to_lowercase())? })
}

/// Reads a word without its `!`, in small letters.
fn test(at: usize, word: &str) -> Result<Test, FilterError> {
    if let Some(sign) = word.find(['<', '>', '=']) {
        let (figure, rest) = word.split_at(sign);
        return comparison(at, word, figure, rest);
    }
    // An address in brackets is a name, not a glob.
    let address = word.starts_with('[') && word.contains("::");
    if word.contains(['*', '?', '[', '{']) && !address {
        return Ok(Test::Glob(glob(word).map_err(|cause| FilterError::Glob { at, term: Clean::new(word), cause })?));
    }
    match word.split_once(':') {
        Some(("group", value)) => Ok(Test::Group(value.to_lowercase())),
        Some(("is", value)) => {
            let found = Property::ALL.iter().find(|(name, _)| *name == value);
            let names = Property::ALL.iter().map(|(name, _)| *name);
            found.map(|(_, one)| Test::Is(*one)).ok_or_else(|| unknown(at, word, "is:", value, names))
        }
        Some(("state", value)) => {
            let found = STATES.iter().find(|state| state.as_str() == value);
            let names = STATES.iter().map(|state| state.as_str());
            found.map(|state| Test::State(*state)).ok_or_else(|| unknown(at, word, "state:", value, names))
        }
        // A port makes a name of it; anything else after a colon was meant as a word of this language.
        Some((key, value)) if !address && !value.bytes().all(|byte| byte.is_ascii_digit()) => {
            let keys = ["is:", "state:", "group:"];
            let nearest = nearest(&format!("{key}:"), keys.into_iter()).map(|near| format!("{near}{value}"));
            Err(FilterError::Word { at, word: Clean::new(word), nearest })
        }
        _ => Ok(Test::Part(word.to_owned())),
    }
}

/// Every state, by its word.
const STATES: [HostState; 7] = [
    HostState::Run,
    HostState::Wait,
    HostState::Back,
    HostState::Block,
    HostState::Paused,
    HostState::Done,
    HostState::Idle,
];

/// A glob over whole names.
fn glob(word: &str) -> Result<GlobMatcher, Clean> {
    let built = GlobBuilder::new(word).literal_separator(false).build();
    built.map(|glob| glob.compile_matcher()).map_err(|error| Clean::new(error.kind().to_string()))
}

/// Reads `rest`, a sign and a number, about `figure`.
fn comparison(at: usize, word: &str, figure: &str, rest: &str) -> Result<Test, FilterError> {
    let figure = named_figure(figure).ok_or_else(|| {
        let names = Figure::ALL.iter().map(|(name, _)| *name);
        unknown(at, word, "", figure, names)
    })?;
    let signs = [
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("==", Comparison::Equal),
        ("<", Comparison::Less),
        (">", Comparison::More),
        ("=", Comparison::Equal),
    ];
    let found = signs.into_iter().find_map(|(sign, how)| rest.strip_prefix(sign).map(|number| (how, number)));
    let number = found.and_then(|(how, number)| Some((how, bound(figure, number)?)));
    number.map(|(how, bound)| Test::Figure(figure, how, bound)).ok_or_else(|| FilterError::Number {
        at,
        term: Clean::new(word),
        example: if figure == Figure::Hold { String::from("hold>5m") } else { String::from("queue>1000") },
    })
}

/// A status, a class or one of the words.
fn named_figure(name: &str) -> Option<Figure> {
    let status = name.parse().ok().filter(|status| (100..600).contains(status) && name.len() == 3);
    let word = Figure::ALL.iter().find(|(known, _)| *known == name).map(|(_, figure)| *figure);
    status.map(Figure::Status).or(word)
}

/// The number compared with: plain digits; `k` and `M` for thousands; a hold may be a duration.
fn bound(figure: Figure, number: &str) -> Option<f64> {
    if !number.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let finite = |text: &str| text.parse::<f64>().ok().filter(|value| value.is_finite());
    if let Some(value) = finite(number) {
        return Some(value);
    }
    if figure == Figure::Hold {
        return humantime::parse_duration(number).ok().map(|length| length.as_secs_f64());
    }
    let (digits, factor) = number.strip_suffix('k').map(|digits| (digits, 1e3)).or_else(|| {
        // The word is in small letters already.
        number.strip_suffix('m').map(|digits| (digits, 1e6))
    })?;
    finite(digits).map(|value| value * factor)
}

/// The error for a word not known after `prefix`.
fn unknown<'a>(at: usize, term: &str, prefix: &str, word: &str, known: impl Iterator<Item = &'a str>) -> FilterError {
    let nearest = nearest(word, known).map(|near| {
        let rest = term.get(prefix.len() + word.len()..).unwrap_or_default();
        format!("{prefix}{near}{rest}")
    });
    FilterError::Word { at, word: Clean::new(term), nearest }
}

/// The known word most like `word`, if one is like it at all: in a short word one letter may be wrong.
pub(in crate::tui) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.map(|name| {
        // What was begun rightly is near, however much is missing.
        let begun = !word.is_empty() && name.starts_with(word);
        (if begun { 0 } else { strsim::damerau_levenshtein(word, name) }, name)
    });
    let most = if word.chars().count() > 4 { 2 } else { 1 };
    scored.min().filter(|(distance, _)| *distance <= most).map(|(_, name)| name)
}
