//! Keys that move while they are not for the table: they scroll the detail, or the log below the table.

use crate::control::Mono;
use crate::tui::keymap::Action;
use crate::tui::model::{Model, Part, Screen};
use crate::tui::view::{BESIDE_WIDTH, Layout};
use crate::watch::Request;

/// What a key means here; `None` = what it means on the table.
pub(super) fn act(model: &mut Model, action: Action) -> Option<Vec<Request>> {
    // One row of the page before stays in sight.
    let step = action.rows(model.page.saturating_sub(1))?;
    match (model.screen, model.part) {
        (Screen::Host, _) | (Screen::Hosts, Part::Side) => {
            // The first step down unfolds, the last one up folds again.
            model.unfolded = match model.unfolded {
                None if step > 0 => Some(0),
                None | Some(0) if step < 0 => None,
                at => at.map(|at| at.saturating_add_signed(step)),
            };
        }
        (Screen::Hosts, Part::Log) => {
            let last = model.log.len().saturating_sub(1);
            model.log_top = model.log_top.saturating_add_signed(step).min(last);
        }
        _ => return None,
    }
    Some(Vec::new())
}

/// The next part of the hosts screen, among those that are on the screen.
pub(super) fn next_part(model: &mut Model, now: Mono) {
    let beside = model.size.0 >= BESIDE_WIDTH;
    let layout = Layout::of(model.size, model.log_open);
    let next = match model.part {
        Part::Table if beside => Part::Side,
        Part::Table | Part::Side if !layout.tiny && layout.log > 0 => Part::Log,
        _ => Part::Table,
    };
    (model.part, model.unfolded, model.log_top) = (next, None, 0);
    let words = match next {
        Part::Table => "the keys that move are for the table again",
        Part::Side => "the keys that move are for the host beside the table; tab goes on, esc goes back",
        Part::Log => "the keys that move are for the log; tab or esc goes back",
    };
    model.say(words, now);
}
