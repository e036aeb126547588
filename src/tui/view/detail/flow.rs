//! What may flow: the stack of rates with its chart, the bucket, the endpoints' buckets, robots.txt.

use super::super::Scene;
use super::{Pen, Plan};
use crate::control::{HostView, Mono, Trend};
use crate::tui::format::{age, count, countdown, middle_cut, rate, ratio, span};
use crate::tui::sentences;
use crate::tui::theme::Meaning;
use crate::tui::widget::{bars, dots};
use crate::watch::{Focus, HostRow};

/// Lines for the controller's own words, which say how the number came about: all of them, at 80 columns.
const WHY_LINES: usize = 3;

/// Original, adaptive, override, effective, the site's delay; the controller's own words; the chart.
pub(super) fn rates(scene: &Scene<'_>, pen: &mut Pen<'_, '_>, plan: &Plan, row: &HostRow, now: Mono) {
    let glyphs = pen.brush.theme().glyphs;
    let view = &row.view;
    let trend = match view.trend {
        Trend::Up => glyphs.up,
        Trend::Down => glyphs.down,
        Trend::Level => "",
    };
    let overriding = match view.overriding {
        None => String::from("none"),
        Some(one) => {
            let value = one.rate.map_or_else(String::new, rate);
            let capacity = one.capacity.map_or_else(String::new, |value| format!(" cap {}", rate(value)));
            let left = one.until.map_or_else(
                || format!(", {} ago", age(now.since(one.since))),
                |until| format!(", {} left", age(until.since(now))),
            );
            format!("{value}{capacity}{left}")
        }
    };
    let effective =
        format!("effective {}{}", rate(view.effective.rate), if view.overriding.is_some() { "*" } else { "" });
    pen.rule(plan, "rate (req/s)", &effective);
    let stack = format!(
        "original {}  adaptive {}{trend}  override {overriding}",
        rate(view.original.rate),
        rate(view.adaptive.rate)
    );
    if !plan.rules {
        pen.line(&format!("{effective}  {stack}"), Meaning::Text);
        return;
    }
    pen.line(&stack, Meaning::Text);
    // How the number came about is what the page is opened for: it stands above what may give way.
    if plan.advice {
        pen.sentence(&sentences::controller(view, now), plan.lines(WHY_LINES), Meaning::Dim);
    }
    if plan.chart > 0 {
        chart(scene, pen, plan, view, now);
    }
}

/// Effective rate over time, the original as a line.
fn chart(scene: &Scene<'_>, pen: &mut Pen<'_, '_>, plan: &Plan, view: &HostView, now: Mono) {
    let glyphs = pen.brush.theme().glyphs;
    let width = usize::from(pen.brush.width().saturating_sub(10 + 12));
    let columns = scene.model.history.columns(view.id, now, width);
    let top = columns.rates.iter().copied().filter(|rate| rate.is_finite()).fold(view.original.rate as f32, f32::max);
    let rows = dots::chart(&columns.rates, view.original.rate, f64::from(top), plan.chart, glyphs);
    let last = plan.chart.saturating_sub(1);
    for (index, row) in rows.iter().enumerate() {
        let label = match index {
            0 => rate(f64::from(top)),
            _ if index == last => String::from("0.00"),
            _ => String::new(),
        };
        let x = pen.brush.text(2, pen.y, &format!("{label:>6} "), Meaning::Dim);
        let x = pen.brush.text(x, pen.y, glyphs.divider, Meaning::Rule);
        let x = pen.brush.text(x, pen.y, row, Meaning::Bar);
        if index == last {
            pen.brush.text(x + 1, pen.y, &format!("last {}", age(columns.span)), Meaning::Dim);
        }
        pen.y = pen.y.saturating_add(1);
    }
}

/// The level, and what it means.
pub(super) fn bucket(pen: &mut Pen<'_, '_>, plan: &Plan, row: &HostRow, now: Mono) {
    let view = &row.view;
    let glyphs = pen.brush.theme().glyphs;
    let tokens = view.tokens_at(now);
    let level = format!("{tokens:.1} of {:.1} tokens", view.effective.capacity);
    let below = match row.endpoints.len() {
        0 => String::new(),
        1 => format!(" {} 1 endpoint", glyphs.dot),
        n => format!(" {} {n} endpoints", glyphs.dot),
    };
    pen.rule(plan, "token bucket", &format!("{level}{below}"));
    let sentence = sentences::bucket(view, now);
    if !plan.rules {
        pen.line(&format!("bucket {level}, {sentence}"), Meaning::Text);
        return;
    }
    let bar = bars::bar(ratio(tokens, view.effective.capacity), 24.min(pen.brush.width() / 3), glyphs);
    let x = pen.brush.text(2, pen.y, &bar, Meaning::Bar) + 1;
    let refill = format!("refill {}/s", rate(view.effective.rate));
    let wide = usize::from(pen.brush.width()) >= usize::from(x) + refill.len() + sentence.len() + 2;
    let x = pen.brush.text(x, pen.y, &refill, Meaning::Text) + 2;
    if wide {
        pen.brush.text(x, pen.y, &sentence, Meaning::Text);
        pen.y = pen.y.saturating_add(1);
    } else {
        pen.y = pen.y.saturating_add(1);
        pen.line(&sentence, Meaning::Text);
    }
}

/// What the host shares with others: the group, its bucket, its hold.
pub(super) fn group(pen: &mut Pen<'_, '_>, plan: &Plan, row: &HostRow, now: Mono) {
    let (Some(name), Some(view)) = (&row.group, &row.view.group) else { return };
    let glyphs = pen.brush.theme().glyphs;
    let hosts = count(u64::from(view.members), glyphs.thousands);
    let level = format!("{:.1} of {:.1} tokens", view.tokens_at(now), view.effective.capacity);
    let room = usize::from(pen.brush.width()).saturating_sub(level.len() + hosts.len() + 24).max(8);
    let name = middle_cut(name.as_str(), room, glyphs.ellipsis);
    let title = format!("group {name}: {hosts} hosts share a bucket");
    let mut facts = vec![format!("{} of {}/s", rate(view.effective.rate), rate(view.original.rate))];
    if let Some(hold) = view.hold.filter(|hold| hold.until > now) {
        facts.push(format!(
            "all held {} because {}",
            countdown(hold.until.since(now)),
            sentences::because(hold.reason)
        ));
    }
    facts.push(format!("in-flight {}/{}", view.in_flight, view.connections));
    facts.push(format!("{} queued", count(view.queued, glyphs.thousands)));
    facts.push(format!("{} refusals in 10 min", view.refusals));
    let facts = facts.join(&format!(" {} ", glyphs.dot));
    if plan.rules {
        pen.rule(plan, &title, &level);
        pen.sentence(&facts, plan.lines(1), Meaning::Text);
    } else {
        pen.line(&format!("group {name} {} {level} {} {facts}", glyphs.dot, glyphs.dot), Meaning::Text);
    }
}

/// The robots.txt in force, what it forbade, and its delay.
pub(super) fn robots(pen: &mut Pen<'_, '_>, plan: &Plan, row: &HostRow, focus: Option<&Focus>, now: Mono) {
    let glyphs = pen.brush.theme().glyphs;
    if !plan.rules {
        return;
    }
    let delay = row.view.crawl_delay.map_or_else(
        || glyphs.none.to_owned(),
        |(delay, capped)| format!("{}{}", span(delay), if capped { " capped" } else { "" }),
    );
    let mut facts = vec![format!("delay {delay}")];
    facts.extend(focus.filter(|focus| focus.denied > 0).map(|focus| {
        let urls = if focus.denied == 1 { "URL" } else { "URLs" };
        format!("{} {urls} denied", count(focus.denied, glyphs.thousands))
    }));
    let known = focus.map(|focus| focus.robots.as_deref());
    let told = match known {
        None => None,
        Some(None) => Some(String::from("not asked for, as configured")),
        Some(Some([])) => Some(String::from("not asked for yet")),
        Some(Some(all)) if !plan.whole => {
            all.iter().min_by_key(|one| sentences::urgency(one)).map(|one| sentences::robots(one, now))
        }
        Some(Some(_)) => None,
    };
    if !plan.whole {
        facts.extend(told);
        pen.line(&format!("robots {}", facts.join(&format!(" {} ", glyphs.dot))), Meaning::Text);
        return;
    }
    pen.rule(plan, "robots.txt", &facts.join(&format!(" {} ", glyphs.dot)));
    if let Some(told) = told {
        pen.line(&told, Meaning::Text);
    }
    for one in known.flatten().unwrap_or_default() {
        pen.sentence(&format!("{}: {}", one.authority, sentences::robots(one, now)), plan.lines(1), Meaning::Text);
    }
}

/// The buckets of single paths under the host's.
pub(super) fn endpoints(pen: &mut Pen<'_, '_>, plan: &Plan, row: &HostRow, focus: Option<&Focus>, now: Mono) {
    let glyphs = pen.brush.theme().glyphs;
    if row.endpoints.is_empty() || plan.endpoints == 0 {
        return;
    }
    let all = focus.map(|focus| focus.endpoints.as_slice()).unwrap_or_default();
    if plan.chart > 2 {
        pen.rule(plan, "endpoints: buckets of their own under the host's", "");
    }
    if all.is_empty() {
        pen.line("its endpoints were not asked for yet", Meaning::Dim);
    }
    let width = usize::from(pen.brush.width());
    let wide = width >= 70;
    let (path_width, bar_width) = if wide { (22, 12) } else { (13, 6) };
    for (path, one) in row.endpoints.iter().zip(all).take(plan.endpoints) {
        let x = pen.brush.text(2, pen.y, &middle_cut(path.as_str(), path_width, glyphs.ellipsis), Meaning::Title);
        let x = x.max(3 + u16::try_from(path_width).unwrap_or(u16::MAX));
        let tokens = one.tokens_at(now);
        let x =
            pen.brush.text(x, pen.y, &bars::bar(ratio(tokens, one.adaptive.capacity), bar_width, glyphs), Meaning::Bar);
        let capacity = one.adaptive.capacity;
        let (now, first) = (rate(one.adaptive.rate), rate(one.original.rate));
        let queued = count(one.queued, glyphs.thousands);
        let words = match wide {
            true => format!(" {tokens:.1} of {capacity:.1}  {now} of {first}/s  {queued} queued"),
            false => format!(" {tokens:.1}/{capacity:.1} {now}/s {queued} queued"),
        };
        pen.brush.text(x, pen.y, &words, Meaning::Text);
        pen.y = pen.y.saturating_add(1);
    }
    let hidden = row.endpoints.len().saturating_sub(plan.endpoints);
    if hidden > 0 && !all.is_empty() && plan.chart > 2 {
        pen.line(&format!("and {hidden} more"), Meaning::Dim);
    }
}
