//! Actions by name, and the keys that call them: of the dashboard and of the review. Handling, footer, help,
//! rebinding and the README's table follow from one file, `assets/keymap.toml`.
//!
//! A key may mean one thing on one screen and another on the next; two actions of the same screen never share one.
//! `ctrl-c` always leaves: it can be taken from no one, so that there is a way out whatever was rebound.

mod table;

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::key::Key;
use crate::text::Clean;

/// What a key can ask for. The names are those of `[keys]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "assets/keymap.toml says in words what each does")]
pub enum Action {
    Pause,
    Override,
    Halve,
    Raise,
    Auto,
    Reset,
    Wake,
    Mark,
    MarkAll,
    Undo,
    Redo,
    Halt,
    Filter,
    Who,
    Command,
    Copy,
    Sort,
    Reverse,
    Freeze,
    Up,
    Down,
    PageUp,
    PageDown,
    HalfUp,
    HalfDown,
    Top,
    Bottom,
    Left,
    Right,
    FarLeft,
    FarRight,
    ZoomIn,
    ZoomOut,
    ZoomAll,
    Picture,
    NextAlert,
    PrevAlert,
    Open,
    PrevHost,
    NextHost,
    Focus,
    Hosts,
    LogScreen,
    Log,
    Timeline,
    ShowTimeline,
    ShowHosts,
    ShowDecisions,
    ShowActs,
    ShowExport,
    ShowCompare,
    NextTab,
    PrevTab,
    Legend,
    Mouse,
    Back,
    Help,
    Redraw,
    Suspend,
    Leave,
}

impl Action {
    /// How many rows down a list it moves, on a screen that shows `page` of them; `None` if it moves to no row.
    pub fn rows(self, page: usize) -> Option<isize> {
        let page = isize::try_from(page.max(1)).unwrap_or(isize::MAX);
        Some(match self {
            Self::Up => -1,
            Self::Down => 1,
            Self::PageUp => -page,
            Self::PageDown => page,
            Self::HalfUp => -(page / 2 + page % 2),
            Self::HalfDown => page / 2 + page % 2,
            Self::Top => isize::MIN,
            Self::Bottom => isize::MAX,
            _ => return None,
        })
    }
}

/// Where keys are pressed: a screen of the dashboard, or of the review.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// The table of hosts.
    Hosts,
    /// One host closely.
    Detail,
    /// The log of decisions.
    Log,
    /// The live timeline.
    Timeline,
    /// The review's timeline.
    Review,
    /// The review's other tabs.
    Lists,
}

impl Place {
    /// Every place, with its word in the file and its name in the help.
    pub const ALL: [(Self, &'static str, &'static str); 6] = [
        (Self::Hosts, "hosts", "hosts screen"),
        (Self::Detail, "detail", "host detail"),
        (Self::Log, "log", "log"),
        (Self::Timeline, "timeline", "timeline"),
        (Self::Review, "review", "review, timeline"),
        (Self::Lists, "lists", "review, lists"),
    ];

    /// Its name in the help.
    pub fn title(self) -> &'static str {
        Self::ALL.iter().find(|(place, ..)| *place == self).map_or("", |(.., title)| title)
    }
}

/// Where the help lists an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Moving the cursor.
    Move,
    /// Finding hosts.
    Find,
    /// Acting on hosts.
    Act,
    /// The rest.
    Other,
}

impl Group {
    /// All groups with their headings.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Move, "MOVE"),
        (Self::Act, "ACT ON MARKED, ELSE CURSOR HOST"),
        (Self::Find, "FIND"),
        (Self::Other, "OTHER"),
    ];
}

/// Words for one place.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    /// On the footer line; empty = its key stands beside the one before.
    pub footer: Option<String>,
    /// In the help.
    pub help: Option<String>,
}

/// One action with its keys and words.
#[derive(Clone, Debug)]
pub struct Binding {
    /// Its name in `[keys]`.
    pub name: String,
    /// The action.
    pub action: Action,
    /// Keys that call it; the first is shown.
    pub keys: Vec<Key>,
    /// Place in the help.
    pub group: Group,
    /// Where it works.
    pub on: Vec<Place>,
    /// Words on the footer line of hosts and detail, if it stands there.
    pub footer: Option<String>,
    /// Words in the help; empty = it stands with the action before it.
    pub help: String,
    /// Other words for single places.
    pub at: BTreeMap<Place, Words>,
    /// What its row in the README says; `None` = its keys stand in the row before.
    pub readme: Option<String>,
}

impl Binding {
    /// Words on the footer line of a place, if it stands there.
    pub fn footer_at(&self, place: Place) -> Option<&str> {
        let own = self.at.get(&place).and_then(|words| words.footer.as_deref());
        own.or(self.footer.as_deref().filter(|_| matches!(place, Place::Hosts | Place::Detail)))
            .filter(|_| self.on.contains(&place))
    }

    /// Words in the help of a place; empty = it stands with the action before it. `None` = it does not work there.
    pub fn help_at(&self, place: Place) -> Option<&str> {
        let own = self.at.get(&place).and_then(|words| words.help.as_deref());
        Some(own.unwrap_or(&self.help)).filter(|_| self.on.contains(&place))
    }
}

/// Why keys cannot be bound as asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeymapError {
    /// No such action.
    #[error("[keys] has no action `{name}`{}", nearest.as_ref().map(|near| format!("; did you mean `{near}`?")).unwrap_or_default())]
    UnknownAction {
        /// As typed.
        name: Clean,
        /// The known name most like it.
        nearest: Option<String>,
    },
    /// No such key.
    #[error(
        "[keys] {action} = \"{key}\" names no key; write a character, ctrl-x, alt-x, space, enter, esc, tab, pgup, f1 …"
    )]
    BadKey {
        /// The action.
        action: String,
        /// As typed.
        key: Clean,
    },
    /// Two actions want the same key.
    #[error("key `{key}` is bound to both `{first}` and `{second}`; rebind one of them under [keys]")]
    Conflict {
        /// The key.
        key: String,
        /// One action.
        first: String,
        /// The other.
        second: String,
    },
    /// `ctrl-c` is not to be had.
    #[error("[keys] {action}: ctrl-c always leaves and cannot be rebound")]
    Reserved {
        /// The action.
        action: String,
    },
    /// The embedded file is broken.
    #[error("the built-in keymap cannot be read: {0}")]
    Broken(String),
}

/// All bindings.
#[derive(Clone, Debug)]
pub struct Keymap {
    bindings: Vec<Binding>,
    by_key: HashMap<(Place, Key), Action>,
}

impl Keymap {
    /// The default keys, with `overrides` (action name → keys separated by spaces) in their stead.
    pub fn with_overrides(overrides: &BTreeMap<String, String>) -> Result<Self, Vec<KeymapError>> {
        let mut bindings = table::built_in().map_err(|error| vec![error])?;
        let mut errors = Vec::new();
        for (name, keys) in overrides {
            let Some(binding) = bindings.iter().position(|binding| binding.name == *name) else {
                errors.push(unknown(name, &bindings));
                continue;
            };
            let mut parsed = Vec::new();
            for key in keys.split_whitespace() {
                match Key::parse(key) {
                    Some(key) => parsed.push(key),
                    None => errors.push(KeymapError::BadKey { action: name.clone(), key: Clean::new(key) }),
                }
            }
            if keys.trim().is_empty() {
                errors.push(KeymapError::BadKey { action: name.clone(), key: Clean::new(keys) });
            }
            if let Some(binding) = bindings.get_mut(binding) {
                if binding.action != Action::Leave && parsed.contains(&Key::ctrl('c')) {
                    errors.push(KeymapError::Reserved { action: name.clone() });
                }
                binding.keys = parsed;
                if binding.action == Action::Leave && !binding.keys.contains(&Key::ctrl('c')) {
                    binding.keys.push(Key::ctrl('c'));
                }
            }
        }
        let mut by_key = HashMap::new();
        let mut names: HashMap<(Place, Key), &str> = HashMap::new();
        for binding in &bindings {
            for (place, key) in binding.on.iter().flat_map(|place| binding.keys.iter().map(move |key| (*place, *key))) {
                by_key.insert((place, key), binding.action);
                if let Some(first) = names.insert((place, key), &binding.name)
                    && first != binding.name
                    && key != Key::ctrl('c')
                {
                    let second = binding.name.clone();
                    let conflict = KeymapError::Conflict { key: key.to_string(), first: first.to_owned(), second };
                    // Two screens on which they meet are one mistake.
                    if !errors.contains(&conflict) {
                        errors.push(conflict);
                    }
                }
            }
        }
        if errors.is_empty() { Ok(Self { bindings, by_key }) } else { Err(errors) }
    }

    /// The action of a key at a place.
    pub fn action(&self, key: Key, place: Place) -> Option<Action> {
        self.by_key.get(&(place, key)).copied()
    }

    /// All bindings, in the order of the file.
    pub fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    /// The key shown for an action.
    pub fn key_of(&self, action: Action) -> String {
        let binding = self.bindings.iter().find(|binding| binding.action == action);
        binding.and_then(|binding| binding.keys.first()).map(Key::to_string).unwrap_or_default()
    }

    /// The footer of a place: keys and words, in the order of the file.
    pub fn footer(&self, place: Place) -> Vec<(String, String)> {
        let mut items: Vec<(String, String)> = Vec::new();
        for binding in &self.bindings {
            let Some(words) = binding.footer_at(place) else { continue };
            let key = binding.keys.first().map(Key::to_string).unwrap_or_default();
            match items.last_mut() {
                Some((keys, _)) if words.is_empty() => {
                    keys.push(' ');
                    keys.push_str(&key);
                }
                _ => items.push((key, words.to_owned())),
            }
        }
        items
    }
}

/// The error for a name that is no action.
fn unknown(name: &str, bindings: &[Binding]) -> KeymapError {
    let nearest = bindings
        .iter()
        .map(|binding| (strsim::damerau_levenshtein(name, &binding.name), &binding.name))
        .min()
        .filter(|(distance, _)| *distance <= 3)
        .map(|(_, near)| near.clone());
    KeymapError::UnknownAction { name: Clean::new(name), nearest }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(pairs: &[(&str, &str)]) -> Result<Keymap, Vec<KeymapError>> {
        Keymap::with_overrides(&pairs.iter().map(|(a, k)| ((*a).to_owned(), (*k).to_owned())).collect())
    }

    /// What a key does on the hosts screen.
    fn at(keymap: &Keymap, key: &str) -> Option<Action> {
        keymap.action(Key::parse(key).expect(key), Place::Hosts)
    }

    #[test]
    fn the_defaults_are_those_of_the_contract() {
        let keymap = bind(&[]).expect("built in");
        for (key, action) in [
            ("p", Action::Pause),
            ("o", Action::Override),
            ("[", Action::Halve),
            ("]", Action::Raise),
            ("a", Action::Auto),
            ("R", Action::Reset),
            ("w", Action::Wake),
            ("u", Action::Undo),
            ("U", Action::Redo),
            ("!", Action::Halt),
            ("/", Action::Filter),
            ("s", Action::Sort),
            ("f", Action::Freeze),
            ("e", Action::NextAlert),
            ("3", Action::Timeline),
            ("t", Action::Timeline),
            ("?", Action::Help),
            ("q", Action::Leave),
            ("ctrl-c", Action::Leave),
            ("ctrl-z", Action::Suspend),
            ("j", Action::Down),
        ] {
            assert_eq!(at(&keymap, key), Some(action), "{key}");
        }
    }

    #[test]
    fn an_action_can_be_rebound() {
        let keymap = bind(&[("pause", "P f5"), ("leave", "x")]).expect("no conflict");
        assert_eq!(at(&keymap, "P"), Some(Action::Pause));
        assert_eq!(at(&keymap, "p"), None);
        assert_eq!(at(&keymap, "x"), Some(Action::Leave));
        assert_eq!(at(&keymap, "ctrl-c"), Some(Action::Leave), "there is always a way out");
        assert_eq!(keymap.key_of(Action::Pause), "P");
    }

    #[test]
    fn errors_say_what_to_write() {
        let words = |pairs: &[(&str, &str)]| {
            bind(pairs).expect_err("refused").iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(words(&[("puase", "x")]), ["[keys] has no action `puase`; did you mean `pause`?"]);
        assert!(words(&[("pause", "hyper-x")])[0].contains("names no key"));
        assert!(words(&[("pause", "")])[0].contains("names no key"));
        assert_eq!(
            words(&[("pause", "o")]),
            ["key `o` is bound to both `pause` and `override`; rebind one of them under [keys]"]
        );
        assert!(words(&[("pause", "ctrl-c")])[0].contains("always leaves"));
    }

    #[test]
    fn two_actions_can_change_places() {
        let keymap = bind(&[("pause", "o"), ("override", "p")]).expect("no conflict");
        assert_eq!(at(&keymap, "o"), Some(Action::Pause));
    }

    #[test]
    fn a_key_means_one_thing_on_each_screen() {
        let keymap = bind(&[]).expect("built in");
        let w = Key::char('w');
        assert_eq!(keymap.action(w, Place::Detail), Some(Action::Wake));
        assert_eq!(keymap.action(w, Place::Log), Some(Action::Who));
        assert_eq!(keymap.action(w, Place::Review), None);
        assert!(bind(&[("who", "p"), ("mouse", "t")]).is_ok(), "they never meet");
        let errors = bind(&[("left", "t")]).expect_err("they meet on the timeline");
        assert_eq!(errors.len(), 1, "{errors:?}");
    }

    #[test]
    fn the_review_is_rebound_by_the_same_table() {
        let keymap = bind(&[("picture", "v"), ("show_hosts", "f2")]).expect("no conflict");
        assert_eq!(keymap.action(Key::char('v'), Place::Review), Some(Action::Picture));
        assert_eq!(keymap.action(Key::char('m'), Place::Review), None);
        assert_eq!(keymap.action(Key::parse("f2").expect("a key"), Place::Lists), Some(Action::ShowHosts));
        assert!(keymap.footer(Place::Review).contains(&(String::from("v"), String::from("picture"))));
    }

    #[test]
    fn every_action_has_words_wherever_it_works() {
        let keymap = bind(&[]).expect("built in");
        for (place, word, _) in Place::ALL {
            for (group, _) in Group::ALL {
                let mut shown = keymap.bindings().iter().filter(|one| one.group == group && one.on.contains(&place));
                // Only the first of a line needs words, so the first of a group does.
                let first = shown.next().and_then(|binding| binding.help_at(place));
                assert_ne!(first, Some(""), "{word} {group:?}");
            }
            let footer = keymap.footer(place);
            assert!(footer.last().is_some_and(|(key, _)| key == "?" || place > Place::Log), "{word}: {footer:?}");
            assert!(footer.iter().any(|(_, words)| words == "help"), "{word} says how to get help");
        }
    }
}
