//! Keys of the review screen become changes of its model and effects. Pure: no I/O, no clock.

use tui_input::Input;

use super::export::Export;
use super::model::{Review, Tab};
use crate::clock::Wall;
use crate::control::Mono;
use crate::text::Clean;
use crate::tui::filter::Filter;
use crate::tui::key::{Key, KeyCode};
use crate::tui::update::edit;
use crate::tui::widget::timeline::cells;

/// What a key asks of the outside.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Leave.
    Leave,
    /// Draw everything again.
    Redraw,
    /// Read the run again, counting only these hosts over time.
    Read(Filter),
    /// Read the log around this moment.
    Log(Wall),
    /// Write a file.
    Export(Export),
}

/// The keys and their words: footer and help follow from it. The last ones are for the help alone.
pub const KEYS: [(&str, &str, Scope); 18] = [
    ("h l", "move", Scope::Timeline),
    ("+ - 0", "zoom", Scope::Timeline),
    ("/", "hosts", Scope::Both),
    ("Enter", "log", Scope::Timeline),
    ("m", "picture", Scope::Timeline),
    ("j k", "move", Scope::List),
    ("s S", "sort, reverse", Scope::List),
    ("Enter", "choose", Scope::List),
    ("5", "export", Scope::Both),
    ("q", "quit", Scope::Both),
    ("?", "help", Scope::Both),
    ("H L", "ten cells left, right", Scope::Help),
    ("g G", "first, last", Scope::Help),
    ("pgup pgdn", "a page", Scope::Help),
    ("1…6 tab", "another screen", Scope::Help),
    ("Esc", "back; drop the filter", Scope::Help),
    ("ctrl-l", "redraw", Scope::Help),
    ("ctrl-c", "quit", Scope::Help),
];

/// Where a key works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// On the timeline.
    Timeline,
    /// On lists.
    List,
    /// On both.
    Both,
    /// Everywhere; stands in the help only.
    Help,
}

/// A key was pressed.
pub fn key(model: &mut Review, key: Key, now: Mono) -> Vec<Effect> {
    if key == Key::ctrl('c') {
        return vec![Effect::Leave];
    }
    if key == Key::ctrl('l') {
        return vec![Effect::Redraw];
    }
    if let Some(input) = model.prompt.take() {
        return in_prompt(model, input, key);
    }
    if model.help {
        model.help = !matches!(key.code, KeyCode::Esc | KeyCode::Enter | KeyCode::Char('?' | 'q'));
        return Vec::new();
    }
    if key.ctrl || key.alt {
        return Vec::new();
    }
    match key.code {
        KeyCode::Char('?') | KeyCode::F(1) => model.help = true,
        KeyCode::Char('q') if model.log.is_some() => model.log = None,
        KeyCode::Char('q') => return vec![Effect::Leave],
        KeyCode::Esc if model.log.is_some() => model.log = None,
        KeyCode::Esc if !model.filter.is_empty() => return filter(model, Filter::default()),
        KeyCode::Esc if model.tab != Tab::Timeline => model.tab = Tab::Timeline,
        KeyCode::Esc => {}
        KeyCode::Char('/') => model.prompt = Some(Input::new(model.filter.text().as_str().to_owned())),
        KeyCode::Tab => turn(model, 1),
        KeyCode::BackTab => turn(model, -1),
        KeyCode::Char(digit @ '1'..='6') => {
            let at = digit.to_digit(10).unwrap_or(1) as usize - 1;
            let tab = Tab::ALL.get(at).map_or(Tab::Timeline, |(tab, _)| *tab);
            go(model, tab, now);
        }
        _ if model.log.is_some() => in_log(model, key),
        _ if model.tab == Tab::Timeline => return on_timeline(model, key, now),
        _ => return on_list(model, key),
    }
    Vec::new()
}

/// Shows a tab.
fn go(model: &mut Review, tab: Tab, now: Mono) {
    if tab == Tab::Compare && model.other.is_none() {
        model.complain("nothing to compare with: crawldeck review DIR OTHER-DIR", now);
        return;
    }
    model.log = None;
    let newest = matches!(tab, Tab::Decisions | Tab::Acts) && model.lists[tab as usize] == Default::default();
    model.tab = tab;
    if newest {
        // The last decision is the one that is asked for first.
        model.list().at = usize::MAX;
    }
}

/// The next tab, or the one before.
fn turn(model: &mut Review, by: isize) {
    let count = Tab::ALL.len() - usize::from(model.other.is_none());
    let at = (model.tab as isize + by).rem_euclid(count as isize);
    let tab = usize::try_from(at).ok().and_then(|at| Tab::ALL.get(at));
    go(model, tab.map_or(Tab::Timeline, |(tab, _)| *tab), Mono::ZERO);
}

/// Counts other hosts.
fn filter(model: &mut Review, filter: Filter) -> Vec<Effect> {
    model.filter = filter.clone();
    vec![Effect::Read(filter)]
}

/// The filter prompt. The run is read again on Enter, not with every letter.
fn in_prompt(model: &mut Review, mut input: Input, key: Key) -> Vec<Effect> {
    match key.code {
        KeyCode::Esc => {
            model.prompt_error = None;
            return Vec::new();
        }
        KeyCode::Enter => match Filter::parse(input.value()) {
            Ok(parsed) if parsed.text() == model.filter.text() => return Vec::new(),
            Ok(parsed) => return filter(model, parsed),
            Err(error) => model.prompt_error = Some(Clean::new(error.to_string())),
        },
        _ => {
            edit(&mut input, key);
            model.prompt_error = Filter::parse(input.value()).err().map(|error| Clean::new(error.to_string()));
        }
    }
    model.prompt = Some(input);
    Vec::new()
}

fn on_timeline(model: &mut Review, key: Key, now: Mono) -> Vec<Effect> {
    let cells = cells(model.size.0);
    let bins = model.timeline.bins();
    let plot = &mut model.plot;
    match key.code {
        KeyCode::Left | KeyCode::Char('h') => plot.step(bins, cells, -1),
        KeyCode::Right | KeyCode::Char('l') => plot.step(bins, cells, 1),
        KeyCode::Char('H') | KeyCode::PageUp => plot.step(bins, cells, -10),
        KeyCode::Char('L') | KeyCode::PageDown => plot.step(bins, cells, 10),
        KeyCode::Home | KeyCode::Char('g') => plot.step(bins, cells, i64::MIN / 2),
        KeyCode::End | KeyCode::Char('G') => plot.cursor = None,
        KeyCode::Char('+' | '=') if plot.zoom_in(bins, cells) => {}
        KeyCode::Char('+' | '=') => model.say("one column is one bin: there is nothing finer", now),
        KeyCode::Char('-') => plot.zoom_out(),
        KeyCode::Char('0') => plot.zoom = 0,
        KeyCode::Char('m') => plot.kind = plot.kind.next(),
        KeyCode::Enter => {
            model.say("reading the log …", now);
            return vec![Effect::Log(model.cursor_span().0)];
        }
        _ => {}
    }
    Vec::new()
}

/// The row that a key moves to.
fn moved(at: usize, page: usize, key: Key) -> Option<usize> {
    Some(match key.code {
        KeyCode::Up | KeyCode::Char('k') => at.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => at.saturating_add(1),
        KeyCode::PageUp => at.saturating_sub(page),
        KeyCode::PageDown => at.saturating_add(page),
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => usize::MAX,
        _ => return None,
    })
}

fn in_log(model: &mut Review, key: Key) {
    let page = model.page();
    if let Some(log) = &mut model.log {
        log.list.at = moved(log.list.at, page, key).unwrap_or(log.list.at);
        log.list.settle(log.entries.len(), page);
    }
}

fn on_list(model: &mut Review, key: Key) -> Vec<Effect> {
    let (page, count) = (model.page(), model.list_len());
    if let Some(to) = moved(model.list().at, page, key) {
        model.list().at = to;
        model.list().settle(count, page);
        return Vec::new();
    }
    let at = model.list().at;
    match (model.tab, key.code) {
        (Tab::Hosts, KeyCode::Char('s')) => model.sort = model.sort.next(),
        (Tab::Hosts, KeyCode::Char('S')) => model.reversed = !model.reversed,
        (Tab::Hosts, KeyCode::Enter) => {
            // The timeline of this host alone.
            let host = model.order.get(at).and_then(|host| model.timeline.hosts().get(*host as usize));
            if let Some(found) = host.map(|host| Filter::exact(&host.host)) {
                model.tab = Tab::Timeline;
                return filter(model, found);
            }
        }
        (Tab::Decisions | Tab::Acts, KeyCode::Enter) => {
            let kept = if model.tab == Tab::Acts { model.timeline.acts() } else { model.timeline.decisions() };
            if let Some(entry) = kept.get(at) {
                model.plot.cursor = Some(entry.time);
                model.tab = Tab::Timeline;
            }
        }
        (Tab::Export, KeyCode::Enter) => {
            if let Some((what, ..)) = Export::ALL.get(at) {
                return vec![Effect::Export(*what)];
            }
        }
        _ => {}
    }
    Vec::new()
}
