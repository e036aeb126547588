//! Actions by name, and the keys that call them. Handling, footer, help and rebinding follow from one file.
//!
//! `ctrl-c` always leaves: it can be taken from no one, so that there is a way out whatever was rebound.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;

use super::key::Key;
use crate::text::Clean;

/// What a key can ask for on the hosts screen. The names are those of `[keys]`.
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
    NextAlert,
    PrevAlert,
    Open,
    PrevHost,
    NextHost,
    Hosts,
    LogScreen,
    Log,
    Timeline,
    Legend,
    Back,
    Help,
    Redraw,
    Suspend,
    Leave,
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
    /// Words on the footer line, if it stands there.
    pub footer: Option<String>,
    /// Words in the help; empty = it stands with the action before it.
    pub help: String,
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
    by_key: HashMap<Key, Action>,
}

/// The embedded file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKeymap {
    action: Vec<RawBinding>,
}

/// One entry of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBinding {
    name: String,
    keys: Vec<String>,
    group: Group,
    footer: Option<String>,
    #[serde(default)]
    help: String,
}

impl Keymap {
    /// The default keys, with `overrides` (action name → keys separated by spaces) in their stead.
    pub fn with_overrides(overrides: &BTreeMap<String, String>) -> Result<Self, Vec<KeymapError>> {
        let mut bindings = built_in().map_err(|error| vec![error])?;
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
        let mut names: HashMap<Key, &str> = HashMap::new();
        for binding in &bindings {
            for key in &binding.keys {
                by_key.insert(*key, binding.action);
                if let Some(first) = names.insert(*key, &binding.name)
                    && first != binding.name
                    && *key != Key::ctrl('c')
                {
                    let second = binding.name.clone();
                    errors.push(KeymapError::Conflict { key: key.to_string(), first: first.to_owned(), second });
                }
            }
        }
        if errors.is_empty() { Ok(Self { bindings, by_key }) } else { Err(errors) }
    }

    /// The action of a key.
    pub fn action(&self, key: Key) -> Option<Action> {
        self.by_key.get(&key).copied()
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
}

/// Reads the embedded file.
fn built_in() -> Result<Vec<Binding>, KeymapError> {
    let broken = |cause: String| KeymapError::Broken(cause);
    let raw: RawKeymap =
        toml::from_str(include_str!("../../assets/keymap.toml")).map_err(|error| broken(error.to_string()))?;
    raw.action
        .into_iter()
        .map(|entry| {
            let action = Action::deserialize(toml::Value::String(entry.name.clone()));
            let keys: Option<Vec<Key>> = entry.keys.iter().map(|key| Key::parse(key)).collect();
            Ok(Binding {
                action: action.map_err(|error| broken(error.to_string()))?,
                keys: keys.ok_or_else(|| broken(format!("a key of `{}`", entry.name)))?,
                name: entry.name,
                group: entry.group,
                footer: entry.footer,
                help: entry.help,
            })
        })
        .collect()
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
            assert_eq!(keymap.action(Key::parse(key).expect(key)), Some(action), "{key}");
        }
    }

    #[test]
    fn an_action_can_be_rebound() {
        let keymap = bind(&[("pause", "P f5"), ("leave", "x")]).expect("no conflict");
        assert_eq!(keymap.action(Key::char('P')), Some(Action::Pause));
        assert_eq!(keymap.action(Key::char('p')), None);
        assert_eq!(keymap.action(Key::char('x')), Some(Action::Leave));
        assert_eq!(keymap.action(Key::ctrl('c')), Some(Action::Leave), "there is always a way out");
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
        assert_eq!(keymap.action(Key::char('o')), Some(Action::Pause));
    }
}
