//! The embedded file of keys; its test holds the README's table to it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Action, Binding, Group, KeymapError, Place, Words};
use crate::tui::key::Key;

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
    on: Option<Vec<String>>,
    footer: Option<String>,
    #[serde(default)]
    help: String,
    #[serde(default)]
    at: BTreeMap<String, Words>,
    readme: Option<String>,
}

/// Reads the embedded file.
pub(super) fn built_in() -> Result<Vec<Binding>, KeymapError> {
    let broken = |cause: String| KeymapError::Broken(cause);
    let raw: RawKeymap =
        toml::from_str(include_str!("../../../assets/keymap.toml")).map_err(|error| broken(error.to_string()))?;
    raw.action
        .into_iter()
        .map(|entry| {
            let action = Action::deserialize(toml::Value::String(entry.name.clone()));
            let keys: Option<Vec<Key>> = entry.keys.iter().map(|key| Key::parse(key)).collect();
            let mut on = Vec::new();
            for word in entry.on.as_deref().unwrap_or(&[String::from("hosts"), String::from("detail")]) {
                on.extend(places(word).ok_or_else(|| broken(format!("`{word}` of `{}`", entry.name)))?);
            }
            let mut at = BTreeMap::new();
            for (word, words) in entry.at {
                match places(&word).as_deref() {
                    Some([place]) => at.insert(*place, words),
                    _ => return Err(broken(format!("at.{word} of `{}`", entry.name))),
                };
            }
            Ok(Binding {
                action: action.map_err(|error| broken(error.to_string()))?,
                keys: keys.ok_or_else(|| broken(format!("a key of `{}`", entry.name)))?,
                name: entry.name,
                group: entry.group,
                on,
                footer: entry.footer,
                help: entry.help,
                at,
                readme: entry.readme,
            })
        })
        .collect()
}

/// The places that a word of the file means.
fn places(word: &str) -> Option<Vec<Place>> {
    let all = Place::ALL.iter().map(|(place, ..)| *place);
    match word {
        "everywhere" => Some(all.collect()),
        "dashboard" => Some(all.filter(|place| *place < Place::Review).collect()),
        _ => Place::ALL.iter().find(|(_, name, _)| *name == word).map(|(place, ..)| vec![*place]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::keymap::Keymap;

    /// What stands around the table in the README.
    const MARKS: [&str; 2] = ["<!-- keys: written by the tests from assets/keymap.toml -->\n", "<!-- end of keys -->"];

    /// The table of keys as the README has it, Markdown.
    fn readme_table(keymap: &Keymap) -> String {
        let mut rows: Vec<(Vec<String>, &str)> = Vec::new();
        for (group, _) in Group::ALL {
            for binding in keymap.bindings().iter().filter(|binding| binding.group == group) {
                let keys = binding.keys.iter().map(|key| format!("`{key}`"));
                match (rows.last_mut(), binding.readme.as_deref()) {
                    (Some((known, _)), None) => known.extend(keys),
                    (_, words) => rows.push((keys.collect(), words.unwrap_or_default())),
                }
            }
        }
        let mut table = String::from("| key | what it does |\n| --- | --- |\n");
        for (keys, words) in rows {
            table.push_str(&format!("| {} | {} |\n", keys.join(" ").replace('|', "\\|"), words.replace('|', "\\|")));
        }
        table
    }

    /// The README's table is the keymap's: one that differs makes this fail until it is written anew (set
    /// `CRAWLDECK_WRITE_PICTURES`, as for the pictures).
    #[test]
    fn the_readme_has_the_table_of_keys() {
        let keymap = Keymap::with_overrides(&BTreeMap::new()).expect("built in");
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let text = std::fs::read_to_string(&file).expect("there is a README");
        let (before, rest) = text.split_once(MARKS[0]).expect("a mark");
        let (kept, after) = rest.split_once(MARKS[1]).expect("a mark");
        let table = readme_table(&keymap);
        if std::env::var_os("CRAWLDECK_WRITE_PICTURES").is_some() && kept != table {
            std::fs::write(&file, format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1])).expect("written");
            return;
        }
        assert!(kept == table, "the README's table of keys is out of date");
    }

    #[test]
    fn no_action_is_missing_from_the_readme() {
        let keymap = Keymap::with_overrides(&BTreeMap::new()).expect("built in");
        let table = readme_table(&keymap);
        for binding in keymap.bindings() {
            let key = binding.keys.first().map(|key| format!("`{key}`").replace('|', "\\|")).expect("a key");
            assert!(table.contains(&key), "{}", binding.name);
        }
        assert!(table.lines().skip(2).all(|row| !row.ends_with("|  |")), "every row says something:\n{table}");
    }
}
