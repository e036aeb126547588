//! How things look: styles by meaning, and the glyph sets. No other file names a colour or a glyph.
//!
//! A theme is a TOML file under `assets/themes`, embedded. `NO_COLOR` picks the theme `mono`: the terminal
//! library's own handling of it would erase bold and reverse as well, and the selection with them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;

use crate::config::{Glyphs as GlyphChoice, THEMES, is_theme_file, line_and_column};
use crate::text::Clean;

/// What a style stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the words are those of SCREENS and of the theme files")]
pub enum Meaning {
    Text,
    Dim,
    Title,
    Rule,
    Run,
    Wait,
    Back,
    Block,
    Paused,
    Override,
    Stuck,
    Angry,
    Tail,
    Forgotten,
    Done,
    Selected,
    Mark,
    Bar,
    Key,
    Notice,
    Trouble,
}

impl Meaning {
    /// Every meaning with its word in theme files.
    pub const ALL: [(Self, &'static str); 21] = [
        (Self::Text, "text"),
        (Self::Dim, "dim"),
        (Self::Title, "title"),
        (Self::Rule, "rule"),
        (Self::Run, "run"),
        (Self::Wait, "wait"),
        (Self::Back, "back"),
        (Self::Block, "block"),
        (Self::Paused, "paused"),
        (Self::Override, "override"),
        (Self::Stuck, "stuck"),
        (Self::Angry, "angry"),
        (Self::Tail, "tail"),
        (Self::Forgotten, "forgotten"),
        (Self::Done, "done"),
        (Self::Selected, "selected"),
        (Self::Mark, "mark"),
        (Self::Bar, "bar"),
        (Self::Key, "key"),
        (Self::Notice, "notice"),
        (Self::Trouble, "trouble"),
    ];
}

/// How many colours the terminal shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Depth {
    /// The 16 of old.
    #[default]
    Sixteen,
    /// The 256 of xterm.
    Indexed,
    /// 24 bits.
    True,
}

/// What the environment says about the terminal; read once, passed in, so that tests can choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Surroundings {
    /// `NO_COLOR` is set and not empty.
    pub no_color: bool,
    /// From `COLORTERM` and `TERM`.
    pub depth: Depth,
    /// The locale is UTF-8.
    pub utf8: bool,
}

impl Surroundings {
    /// What the process's environment says.
    pub fn read() -> Self {
        let set = |name: &str| std::env::var(name).unwrap_or_default();
        let depth = match (set("COLORTERM").as_str(), set("TERM")) {
            ("truecolor" | "24bit", _) => Depth::True,
            (_, term) if term.contains("256color") => Depth::Indexed,
            _ => Depth::Sixteen,
        };
        // The first of these that is set decides; that is POSIX.
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().map(set).find(|value| !value.is_empty());
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        Self { no_color: !set("NO_COLOR").is_empty(), depth, utf8: locale.contains("utf-8") || locale.contains("utf8") }
    }
}

/// Why a theme cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ThemeError {
    /// No such theme.
    #[error("unknown theme `{0}`; choose {list} or name a file.toml", list = THEMES.join(", "))]
    Unknown(String),
    /// The file cannot be read.
    #[error("theme file {file} cannot be read: {cause}")]
    File {
        /// Which.
        file: String,
        /// Why.
        cause: String,
    },
    /// A file of one's own says something that is no style.
    #[error("{file}:{line}:{column}: {cause}")]
    Own {
        /// Which.
        file: Clean,
        /// Line of the first error, from 1.
        line: usize,
        /// Its column, from 1, in characters.
        column: usize,
        /// What is wrong.
        cause: Clean,
    },
    /// The embedded file is broken.
    #[error("theme `{name}` cannot be read: {cause}")]
    Broken {
        /// Which.
        name: String,
        /// Why.
        cause: String,
    },
}

/// One style as typed in a theme file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a style, such as { fg = \"red\", bold = true }")]
struct RawStyle {
    fg: Option<String>,
    fg16: Option<String>,
    bold: bool,
    dim: bool,
    reverse: bool,
}

/// Styles by meaning, and the glyphs.
#[derive(Clone, Debug)]
pub struct Theme {
    styles: [Style; Meaning::ALL.len()],
    /// The glyph set.
    pub glyphs: &'static GlyphSet,
}

impl Theme {
    /// The theme `name` (one of [`THEMES`], or a file) with the glyphs chosen. What a file does not name looks
    /// as in the default theme.
    pub fn load(name: &str, glyphs: GlyphChoice, around: Surroundings) -> Result<Self, ThemeError> {
        let name = if around.no_color { "mono" } else { name };
        let default = include_str!("../../assets/themes/default.toml");
        let own = match is_theme_file(name) {
            true => Some(read_own(name)?),
            false => None,
        };
        let text = match name {
            _ if own.is_some() => default,
            "auto" | "default" => default,
            "high-contrast" => include_str!("../../assets/themes/high-contrast.toml"),
            "colour-blind" => include_str!("../../assets/themes/colour-blind.toml"),
            "light" => include_str!("../../assets/themes/light.toml"),
            "mono" => include_str!("../../assets/themes/mono.toml"),
            other => return Err(ThemeError::Unknown(other.to_owned())),
        };
        let broken = |cause: String| ThemeError::Broken { name: name.to_owned(), cause };
        let mut raw: BTreeMap<String, RawStyle> = toml::from_str(text).map_err(|error| broken(error.to_string()))?;
        if let Some(own) = own {
            let own_styles: BTreeMap<String, RawStyle> = toml::from_str(&own)
                .map_err(|error| own_error(name, &own, error.span().map_or(0, |span| span.start), error.message()))?;
            for (word, style) in own_styles {
                let wrong = |cause: &str| own_error(name, &own, place_of(&own, &word), cause);
                if !raw.contains_key(&word) {
                    return Err(wrong(&format!("`{word}` is nothing that is styled")));
                }
                resolve(&style, around.depth).map_err(|cause| wrong(&cause))?;
                raw.insert(word, style);
            }
        }
        let mut styles = [Style::new(); Meaning::ALL.len()];
        for (slot, (_, word)) in styles.iter_mut().zip(Meaning::ALL) {
            let style = raw.get(word).ok_or_else(|| broken(format!("no style for `{word}`")))?;
            *slot = resolve(style, around.depth).map_err(broken)?;
        }
        let unicode = match glyphs {
            GlyphChoice::Unicode => true,
            GlyphChoice::Ascii => false,
            GlyphChoice::Auto => around.utf8,
        };
        Ok(Self { styles, glyphs: if unicode { &UNICODE } else { &ASCII } })
    }

    /// The theme without colour, which needs no file.
    pub fn plain(glyphs: &'static GlyphSet) -> Self {
        let mut styles = [Style::new(); Meaning::ALL.len()];
        for (slot, (meaning, _)) in styles.iter_mut().zip(Meaning::ALL) {
            if matches!(meaning, Meaning::Selected | Meaning::Stuck | Meaning::Trouble) {
                *slot = Style::new().add_modifier(Modifier::REVERSED);
            }
        }
        Self { styles, glyphs }
    }

    /// The style of `meaning`.
    pub fn style(&self, meaning: Meaning) -> Style {
        self.styles.get(meaning as usize).copied().unwrap_or_default()
    }
}

/// The largest theme file, in bytes.
const OWN_MAX: u64 = 64 * 1024;

/// Reads a theme file of one's own.
fn read_own(file: &str) -> Result<String, ThemeError> {
    let failed = |cause: String| ThemeError::File { file: file.to_owned(), cause };
    let found = std::fs::metadata(file).map_err(|error| failed(error.to_string()))?;
    if !found.is_file() || found.len() > OWN_MAX {
        return Err(failed(format!("it is no plain file of at most {OWN_MAX} bytes")));
    }
    std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))
}

/// An error at byte `offset` of a file of one's own.
fn own_error(file: &str, text: &str, offset: usize, cause: &str) -> ThemeError {
    let (line, column) = line_and_column(text, offset);
    ThemeError::Own { file: Clean::new(file), line, column, cause: Clean::new(cause.replace('\n', " ")) }
}

/// Where the style of `word` stands.
fn place_of(text: &str, word: &str) -> usize {
    let document = toml::de::DeTable::parse(text).ok();
    let key = document.as_ref().and_then(|table| table.get_ref().keys().find(|key| key.get_ref() == word));
    key.map_or(0, |key| key.span().start)
}

/// A style for this depth of colour.
fn resolve(raw: &RawStyle, depth: Depth) -> Result<Style, String> {
    let mut style = Style::new();
    let word = match depth {
        Depth::Sixteen => raw.fg16.as_ref().or(raw.fg.as_ref()),
        Depth::Indexed | Depth::True => raw.fg.as_ref(),
    };
    if let Some(word) = word {
        let color: Color = word.parse().map_err(|_| format!("`{word}` is no colour"))?;
        style = style.fg(match (color, depth) {
            (Color::Rgb(r, g, b), Depth::Indexed) => Color::Indexed(nearest(r, g, b)),
            (other, _) => other,
        });
    }
    for (wanted, modifier) in [(raw.bold, Modifier::BOLD), (raw.dim, Modifier::DIM), (raw.reverse, Modifier::REVERSED)]
    {
        if wanted {
            style = style.add_modifier(modifier);
        }
    }
    Ok(style)
}

/// The cell of xterm's 6×6×6 cube that is nearest to a colour.
fn nearest(r: u8, g: u8, b: u8) -> u8 {
    let step = |v: u8| match v {
        ..48 => 0,
        48..115 => 1,
        _ => (v - 35) / 40,
    };
    16 + 36 * step(r) + 6 * step(g) + step(b)
}

/// The shapes a screen is drawn with.
#[derive(Debug)]
#[expect(missing_docs, reason = "each field is the glyph that its name says")]
pub struct GlyphSet {
    pub cursor: &'static str,
    pub mark: &'static str,
    pub live: &'static str,
    pub run: &'static str,
    pub wait: &'static str,
    pub back: &'static str,
    pub paused: &'static str,
    pub overridden: &'static str,
    pub stuck: &'static str,
    pub angry: &'static str,
    pub trap: &'static str,
    /// It seems to share a limit.
    pub shared: &'static str,
    pub tail: &'static str,
    pub forgotten: &'static str,
    pub done: &'static str,
    pub idle: &'static str,
    pub up: &'static str,
    pub down: &'static str,
    pub sorted: &'static str,
    pub none: &'static str,
    pub rule: &'static str,
    pub divider: &'static str,
    pub bar_left: &'static str,
    pub bar_right: &'static str,
    /// Eight rising fills of one cell from the left; the last is full.
    pub bar_steps: &'static [&'static str],
    /// Rising columns, the lowest that is not nothing first.
    pub column_steps: &'static [&'static str],
    /// No answers of a class.
    pub column_none: &'static str,
    pub bar_empty: &'static str,
    pub dot: &'static str,
    pub times: &'static str,
    pub arrow: &'static str,
    pub ellipsis: char,
    pub thousands: char,
    pub caret: &'static str,
    pub keys_up_down: &'static str,
    /// There are braille cells; without them density is told by [`GlyphSet::density`].
    pub braille: bool,
    /// Five rising densities of a cell, the first is nothing.
    pub density: [&'static str; 5],
    /// Five rising heights of one cell; `None` = braille, two steps of time a cell.
    pub dots: Option<[char; 5]>,
    /// Corners: top left, top right, bottom left, bottom right; then the side.
    pub frame: [&'static str; 5],
}

impl GlyphSet {
    /// Words of our own that hold signs beyond ASCII, spelled in this set.
    pub fn spell<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let ascii = self.ellipsis.is_ascii();
        if !ascii || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        let signs = [("→", self.arrow), ("×", self.times), ("·", self.dot), ("…", "...")];
        Cow::Owned(signs.iter().fold(text.to_owned(), |text, (sign, spelled)| text.replace(sign, spelled)))
    }
}

/// Blocks, arrows and circles.
pub static UNICODE: GlyphSet = GlyphSet {
    cursor: "▌",
    mark: "✚",
    live: "●",
    run: "●",
    wait: "○",
    back: "◔",
    paused: "‖",
    overridden: "*",
    stuck: "!",
    angry: "✗",
    trap: "∞",
    shared: "≡",
    tail: "»",
    forgotten: "?",
    done: "✓",
    idle: "·",
    up: "↑",
    down: "↓",
    sorted: "▾",
    none: "–",
    rule: "─",
    divider: "│",
    bar_left: "▕",
    bar_right: "▏",
    bar_steps: &["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"],
    column_steps: &["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    column_none: " ",
    bar_empty: " ",
    dot: "·",
    times: "×",
    arrow: "→",
    ellipsis: '…',
    thousands: ' ',
    caret: "▏",
    keys_up_down: "↑↓",
    braille: true,
    density: [" ", "░", "▒", "▓", "█"],
    dots: None,
    frame: ["╭", "╮", "╰", "╯", "│"],
};

/// Nothing beyond ASCII. The class histogram counts in tenths: 9 is 90 % or more.
pub static ASCII: GlyphSet = GlyphSet {
    cursor: ">",
    mark: "+",
    live: "o",
    run: "o",
    wait: ".",
    back: "~",
    paused: "=",
    overridden: "*",
    stuck: "!",
    angry: "x",
    trap: "%",
    shared: "=",
    tail: "t",
    forgotten: "?",
    done: "+",
    idle: "-",
    up: "^",
    down: "v",
    sorted: "v",
    none: "-",
    rule: "-",
    divider: "|",
    bar_left: "[",
    bar_right: "]",
    bar_steps: &["#"],
    column_steps: &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
    column_none: ".",
    bar_empty: ".",
    dot: "-",
    times: "x",
    arrow: "->",
    ellipsis: '~',
    thousands: ',',
    caret: "_",
    keys_up_down: "up/dn",
    braille: false,
    density: [" ", ".", ":", "+", "#"],
    dots: Some([' ', '.', ':', '+', '#']),
    frame: ["+", "+", "+", "+", "|"],
};

#[cfg(test)]
mod tests {
    use super::*;

    const UTF8: Surroundings = Surroundings { no_color: false, depth: Depth::True, utf8: true };

    #[test]
    fn every_theme_has_every_meaning_at_every_depth() {
        for name in THEMES {
            for depth in [Depth::Sixteen, Depth::Indexed, Depth::True] {
                Theme::load(name, GlyphChoice::Auto, Surroundings { depth, ..UTF8 }).expect(name);
            }
        }
        assert!(matches!(Theme::load("pink", GlyphChoice::Auto, UTF8), Err(ThemeError::Unknown(_))));
    }

    #[test]
    fn no_color_means_no_colour_and_still_a_selection() {
        let theme = Theme::load("default", GlyphChoice::Auto, Surroundings { no_color: true, ..UTF8 }).expect("loads");
        for (meaning, word) in Meaning::ALL {
            assert_eq!(theme.style(meaning).fg, None, "{word}");
        }
        assert!(theme.style(Meaning::Selected).add_modifier.contains(Modifier::REVERSED));
    }

    #[test]
    fn a_theme_can_be_a_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("mine.toml");
        let load = |text: &str| {
            std::fs::write(&file, text).expect("written");
            Theme::load(&file.to_string_lossy(), GlyphChoice::Auto, UTF8)
        };
        let theme = load("angry = { fg = \"#ff00ff\", bold = true }").expect("loads");
        assert_eq!(theme.style(Meaning::Angry).fg, Some(Color::Rgb(255, 0, 255)));
        let default = Theme::load("default", GlyphChoice::Auto, UTF8).expect("loads");
        assert_eq!(theme.style(Meaning::Back), default.style(Meaning::Back), "what it does not name is as ever");
        for (text, words) in [
            ("angri = {}", "mine.toml:1:1: `angri` is nothing that is styled"),
            ("dim = {}\nangry = { fg = \"pinkish\" }", "mine.toml:2:1: `pinkish` is no colour"),
            ("angry = {", "mine.toml:1:10: "),
            ("angry = \"red\"", "expected a style, such as { fg = \"red\", bold = true }"),
        ] {
            let error = load(text).expect_err(text).to_string();
            assert!(error.contains(words), "{error}");
        }
        let missing = Theme::load("no-such.toml", GlyphChoice::Auto, UTF8).expect_err("missing").to_string();
        assert!(missing.starts_with("theme file no-such.toml cannot be read"), "{missing}");
    }

    #[test]
    fn meanings_stand_in_their_order() {
        for (index, (meaning, word)) in Meaning::ALL.into_iter().enumerate() {
            assert_eq!(meaning as usize, index, "{word}");
        }
    }

    #[test]
    fn ascii_glyphs_are_ascii() {
        assert!(format!("{ASCII:?}").is_ascii());
    }
}
