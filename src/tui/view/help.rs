//! The help, made from the keymap, and the lines about simulated hosts.

use tui_input::Input;
use unicode_width::UnicodeWidthStr;

use super::Scene;
use super::prompt::with_caret;
use crate::tui::format::end_cut;
use crate::tui::key::{Key, KeyCode};
use crate::tui::keymap::{Action, Binding, Group, Keymap, Place};
use crate::tui::paint::Brush;
use crate::tui::theme::{GlyphSet, Meaning};
use crate::tui::update::edit;

/// One line of the help.
struct Line {
    keys: String,
    words: String,
}

/// Columns of the keys.
const KEYS: u16 = 14;

impl Line {
    /// Adds an action's keys, as far as there is room.
    fn add(&mut self, binding: &Binding) {
        for key in binding.keys.iter().map(ToString::to_string) {
            // A blank before the key, and one after the last.
            if self.keys.width() + usize::from(!self.keys.is_empty()) + key.width() < usize::from(KEYS) {
                self.keys.push_str(if self.keys.is_empty() { "" } else { " " });
                self.keys.push_str(&key);
            }
        }
    }
}

/// The help, while it is open.
#[derive(Clone, Debug, Default)]
pub struct Help {
    /// What was typed.
    pub search: Input,
    /// Rows that are scrolled away.
    pub top: usize,
}

impl Help {
    /// Takes a key, which `action` would be elsewhere; `None` closes. Typing searches, Esc drops the search, then
    /// closes; arrows and pages scroll if not all rows fit a screen of this size.
    pub(in crate::tui) fn take(
        mut self,
        key: Key,
        action: Option<Action>,
        (keymap, place): (&Keymap, Place),
        (width, height): (u16, u16),
    ) -> Option<Self> {
        let empty = self.search.value().is_empty();
        // Header, footer, two edges, and a banner if there is one.
        let page = usize::from(height.saturating_sub(5)).max(1);
        let moved = match key.code {
            KeyCode::Esc if !empty => {
                return Some(Self::default());
            }
            KeyCode::Esc | KeyCode::Enter => return None,
            _ if empty && (action == Some(Action::Help) || key == Key::char('q')) => return None,
            KeyCode::Up => self.top.saturating_sub(1),
            KeyCode::Down => self.top.saturating_add(1),
            KeyCode::PageUp => self.top.saturating_sub(page),
            KeyCode::PageDown => self.top.saturating_add(page),
            _ => {
                edit(&mut self.search, key);
                0
            }
        };
        // As the box will be: four columns go to its sides and blanks.
        let inside = width.min(BOX).saturating_sub(4);
        let columns = columns(keymap, place, &self.search.value().to_lowercase(), inside);
        let rows = columns.iter().map(Vec::len).max().unwrap_or(0);
        self.top = moved.min(rows.saturating_sub(page));
        Some(self)
    }
}

/// Columns of the box.
const BOX: u16 = 76;
/// Columns inside from which two lists stand beside one another without cutting words.
const TWO: u16 = 72;

/// Draws the keys of a place; typing searches them.
pub(in crate::tui) fn draw(keymap: &Keymap, place: Place, brush: &mut Brush<'_>, help: &Help) {
    let (glyphs, search) = (brush.theme().glyphs, &help.search);
    let wanted = search.value().to_lowercase();
    let title = if wanted.is_empty() {
        format!("help: {}", place.title())
    } else {
        format!("help: {}", with_caret(search, 30, glyphs))
    };
    let columns = columns(keymap, place, &wanted, brush.width().min(BOX).saturating_sub(4));
    let tallest = columns.iter().map(Vec::len).max().unwrap_or(0);
    let height = u16::try_from(tallest).unwrap_or(u16::MAX).saturating_add(5);
    let fits = tallest + 2 <= usize::from(brush.height());
    let below = if fits { "type to search   Esc close" } else { "type to search   up, down: more   Esc close" };
    let mut inside = brush.boxed(BOX, height, &title, below);
    let states = match place {
        Place::Hosts | Place::Detail | Place::Log => states(glyphs),
        Place::Timeline | Place::Review | Place::Lists => axis(),
    };
    // On low screens the meaning of the glyphs gives way to the keys.
    let under = u16::try_from(tallest).unwrap_or(u16::MAX).saturating_add(2);
    let rows = if inside.height() >= under { inside.height().saturating_sub(2) } else { inside.height() };
    let first = help.top.min(tallest.saturating_sub(usize::from(rows)));
    let width = inside.width() / u16::try_from(columns.len()).unwrap_or(1).max(1);
    for (x, lines) in (0..).map(|column| column * width).zip(&columns) {
        for (y, line) in (0..rows).zip(lines.iter().skip(first)) {
            let mut part = inside.part(x, y, width.saturating_sub(1), 1);
            if line.keys.is_empty() {
                part.text(0, 0, &line.words, Meaning::Title);
            } else {
                part.text(0, 0, &line.keys, Meaning::Key);
                part.text(KEYS, 0, &glyphs.spell(&line.words), Meaning::Text);
            }
        }
    }
    if rows < inside.height() {
        for (y, line) in (rows..inside.height()).zip(&states) {
            inside.text(0, y, line, Meaning::Dim);
        }
    }
}

/// Moving and finding, acting and the rest: two columns, or one below the other if `width` is too little for both.
fn columns(keymap: &Keymap, place: Place, wanted: &str, width: u16) -> Vec<Vec<Line>> {
    let mut columns = [Vec::new(), Vec::new()];
    for (group, heading) in Group::ALL {
        let mut lines: Vec<Line> = Vec::new();
        for binding in keymap.bindings().iter().filter(|binding| binding.group == group) {
            let Some(words) = binding.help_at(place) else { continue };
            match lines.last_mut() {
                Some(line) if words.is_empty() => line.add(binding),
                _ => {
                    let mut line = Line { keys: String::new(), words: words.to_owned() };
                    line.add(binding);
                    lines.push(line);
                }
            }
        }
        lines.retain(|line| line.words.to_lowercase().contains(wanted) || line.keys.contains(wanted));
        let [left, right] = &mut columns;
        let column = if matches!(group, Group::Move | Group::Find) { left } else { right };
        // Only where there are hosts do acts have one to be for.
        let heading = match (group, place) {
            (Group::Act, Place::Hosts | Place::Detail) => heading,
            (Group::Act, _) => "ACT",
            _ => heading,
        };
        if !lines.is_empty() {
            column.push(Line { keys: String::new(), words: heading.to_owned() });
            column.extend(lines);
        }
    }
    if width >= TWO { columns.into() } else { vec![columns.into_iter().flatten().collect()] }
}

/// What the letters on the axis mean.
fn axis() -> [String; 2] {
    [
        String::from("axis: o override  p pause  u undo  a another act  H halt  ! concern"),
        String::from("height of dots: the logarithm of the count"),
    ]
}

/// What the glyphs mean.
fn states(g: &GlyphSet) -> [String; 2] {
    [
        format!(
            "{} run {} wait {} back {} paused {} override {} stuck {} angry {} tail {} done",
            g.run, g.wait, g.back, g.paused, g.overridden, g.stuck, g.angry, g.tail, g.done
        ),
        String::from("2345E: share of 2xx 3xx 4xx 5xx and errors in the last 5 min"),
    ]
}

/// Draws the lines about simulated hosts.
pub(super) fn legend(scene: &Scene<'_>, brush: &mut Brush<'_>) {
    let dot = brush.theme().glyphs.dot;
    let lines = scene.model.legend.iter().map(|line| super::hosts::told(scene.model, line.as_str(), dot));
    let lines: Vec<String> = lines.collect();
    let longest = lines.iter().map(|line| line.width()).max().unwrap_or(0);
    let width = u16::try_from(longest).unwrap_or(u16::MAX).saturating_add(4).clamp(40, 120);
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let mut inside = brush.boxed(width, height, "about these hosts", "Esc close");
    let (room, ellipsis) = (usize::from(inside.width()), inside.theme().glyphs.ellipsis);
    let found = format!(" {dot} ");
    for (y, line) in (0..inside.height()).zip(&lines) {
        // What was found is what somebody looks for: what the host hides gives way to it.
        let (hides, found) = line.split_at(line.rfind(&found).unwrap_or(line.len()));
        let hides = end_cut(hides, room.saturating_sub(found.width()), ellipsis);
        inside.text(0, y, &end_cut(&format!("{hides}{found}"), room, ellipsis), Meaning::Text);
    }
}
