//! Keys of the review screen become changes of its model and effects. Pure: no I/O, no clock.

mod mouse;

use tui_input::Input;

use super::export::Export;
use super::model::{Review, Tab};
use crate::clock::Wall;
use crate::control::Mono;
use crate::text::Clean;
use crate::tui::filter::Filter;
use crate::tui::key::{Key, KeyCode};
use crate::tui::keymap::{Action, Keymap};
use crate::tui::update::edit;
use crate::tui::view::Help;
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
    /// Listen to the mouse, or do not.
    Mouse(bool),
}

/// A key was pressed.
pub fn key(model: &mut Review, key: Key, keymap: &Keymap, now: Mono) -> Vec<Effect> {
    if key == Key::ctrl('c') {
        return vec![Effect::Leave];
    }
    if matches!(key.code, KeyCode::Click(..) | KeyCode::WheelUp | KeyCode::WheelDown) {
        return mouse::act_on(model, key.code, keymap, now);
    }
    let action = keymap.action(key, model.place());
    let types = matches!(key.code, KeyCode::Char(_)) && !key.ctrl && !key.alt;
    if action == Some(Action::Redraw) && !types {
        return vec![Effect::Redraw];
    }
    if let Some(input) = model.prompt.take() {
        return in_prompt(model, input, key);
    }
    if let Some(help) = model.help.take() {
        let (place, size) = (model.place(), model.size);
        model.help = help.take(key, action, (keymap, place), size);
        return Vec::new();
    }
    action.map_or_else(Vec::new, |action| act(model, action, now))
}

/// Does what a key asks for.
fn act(model: &mut Review, action: Action, now: Mono) -> Vec<Effect> {
    match action {
        Action::Help => model.help = Some(Help::default()),
        Action::Redraw => return vec![Effect::Redraw],
        Action::Leave | Action::Back if model.log.is_some() => model.log = None,
        Action::Leave => return vec![Effect::Leave],
        Action::Back if !model.filter.is_empty() => return filter(model, Filter::default()),
        Action::Back => model.tab = Tab::Timeline,
        Action::Filter => model.prompt = Some(Input::new(model.filter.text().as_str().to_owned())),
        Action::Mouse => {
            model.mouse = !model.mouse;
            model.say(if model.mouse { "the mouse is on" } else { "the mouse is off" }, now);
            return vec![Effect::Mouse(model.mouse)];
        }
        Action::NextTab => turn(model, 1),
        Action::PrevTab => turn(model, -1),
        Action::ShowTimeline => go(model, Tab::Timeline, now),
        Action::ShowHosts => go(model, Tab::Hosts, now),
        Action::ShowDecisions => go(model, Tab::Decisions, now),
        Action::ShowActs => go(model, Tab::Acts, now),
        Action::ShowExport => go(model, Tab::Export, now),
        Action::ShowCompare => go(model, Tab::Compare, now),
        _ if model.log.is_some() => in_log(model, action),
        _ if model.tab == Tab::Timeline => return on_timeline(model, action, now),
        _ => return on_list(model, action),
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
    go(model, tab.map_or(Tab::Timeline, |(tab, ..)| *tab), Mono::ZERO);
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
        KeyCode::Enter => match Filter::parse_names(input.value()) {
            Ok(parsed) if parsed.text() == model.filter.text() => return Vec::new(),
            Ok(parsed) => return filter(model, parsed),
            Err(error) => model.prompt_error = Some(Clean::new(error.to_string())),
        },
        _ => {
            edit(&mut input, key);
            model.prompt_error = Filter::parse_names(input.value()).err().map(|error| Clean::new(error.to_string()));
        }
    }
    model.prompt = Some(input);
    Vec::new()
}

fn on_timeline(model: &mut Review, action: Action, now: Mono) -> Vec<Effect> {
    let cells = cells(model.size.0);
    let bins = model.timeline.bins();
    let plot = &mut model.plot;
    match action {
        Action::Left => plot.step(bins, cells, -1),
        Action::Right => plot.step(bins, cells, 1),
        Action::FarLeft | Action::PageUp => plot.step(bins, cells, -10),
        Action::FarRight | Action::PageDown => plot.step(bins, cells, 10),
        Action::Top => plot.step(bins, cells, i64::MIN / 2),
        Action::Bottom => plot.cursor = None,
        Action::ZoomIn if plot.zoom_in(bins, cells) => {}
        Action::ZoomIn => model.say("one column is one bin: there is nothing finer", now),
        Action::ZoomOut => plot.zoom_out(),
        Action::ZoomAll => plot.zoom = 0,
        Action::Picture => plot.kind = plot.kind.next(),
        Action::Open => {
            model.say("reading the log …", now);
            return vec![Effect::Log(model.cursor_span().0)];
        }
        _ => {}
    }
    Vec::new()
}

fn in_log(model: &mut Review, action: Action) {
    let page = model.page();
    if let Some(log) = &mut model.log {
        if let (Action::Open, Some(entry)) = (action, log.entries.get(log.list.at)) {
            // Back to the timeline, at the moment of this line.
            model.plot.cursor = Some(entry.time);
            (model.tab, model.log) = (Tab::Timeline, None);
            return;
        }
        log.list.at = log.list.at.saturating_add_signed(action.rows(page).unwrap_or(0));
        log.list.settle(log.entries.len(), page);
    }
}

fn on_list(model: &mut Review, action: Action) -> Vec<Effect> {
    let (page, count) = (model.page(), model.list_len());
    if let Some(rows) = action.rows(page) {
        model.list().at = model.list().at.saturating_add_signed(rows);
        model.list().settle(count, page);
        return Vec::new();
    }
    let at = model.list().at;
    match (model.tab, action) {
        (Tab::Hosts, Action::Sort) => model.sort = model.sort.next(),
        (Tab::Hosts, Action::Reverse) => model.reversed = !model.reversed,
        (Tab::Hosts, Action::Open) => {
            // The timeline of this host alone.
            let host = model.order.get(at).and_then(|host| model.timeline.hosts().get(*host as usize));
            if let Some(found) = host.map(|host| Filter::exact(&host.host)) {
                model.tab = Tab::Timeline;
                return filter(model, found);
            }
        }
        (Tab::Decisions | Tab::Acts, Action::Open) => {
            let kept = if model.tab == Tab::Acts { model.timeline.acts() } else { model.timeline.decisions() };
            if let Some(entry) = kept.get(at) {
                model.plot.cursor = Some(entry.time);
                model.tab = Tab::Timeline;
            }
        }
        (Tab::Export, Action::Open) => {
            if let Some((what, ..)) = Export::ALL.get(at) {
                return vec![Effect::Export(*what)];
            }
        }
        _ => {}
    }
    Vec::new()
}
