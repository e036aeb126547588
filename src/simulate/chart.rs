//! The picture of the README: the rate that was sent against the hidden limit, one panel a controller, as SVG.

use std::fmt::Write as _;

use crate::sim::Seen;

/// Width of the picture, and height of a panel, in SVG units.
const WIDTH: usize = 860;
const PANEL: usize = 150;
/// Room left of a panel, right of it, above it.
const LEFT: usize = 44;
const RIGHT: usize = 14;
const HEAD: usize = 26;
/// Room under the last panel: the axis of time.
const FOOT: usize = 26;
/// Seconds that a point stands for.
const BIN: usize = 60;
/// A panel reaches so far above the highest limit.
const HEADROOM: f64 = 1.35;

/// One panel: a name, and what was seen.
pub struct Panel<'a> {
    /// The controller's name.
    pub name: &'a str,
    /// What it did.
    pub seen: &'a Seen,
}

/// Draws the panels one under the other. `alt` says what is to be seen.
pub fn svg(panels: &[Panel<'_>], alt: &str) -> String {
    let height = panels.len() * (PANEL + HEAD) + FOOT;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         role=\"img\" aria-label=\"{alt}\">\n<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#1b1e24\"/>\n\
         <g font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"12\" fill=\"#d8dee9\">\n"
    );
    for (index, panel) in panels.iter().enumerate() {
        draw(&mut out, panel, index * (PANEL + HEAD) + HEAD);
    }
    let seconds = panels.iter().map(|panel| panel.seen.course.limit.len()).max().unwrap_or(0);
    for hour in 0..=seconds / 3_600 {
        let x = LEFT + hour * 3_600 * (WIDTH - LEFT - RIGHT) / seconds.max(1);
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{hour} h</text>", height - 9);
    }
    out.push_str("</g>\n</svg>\n");
    out
}

/// A panel whose upper edge is at `top`. Writing to a String cannot fail, here and below.
fn draw(out: &mut String, panel: &Panel<'_>, top: usize) {
    let (course, report) = (&panel.seen.course, &panel.seen.report);
    let bins = course.limit.len().div_ceil(BIN).max(1);
    let range = |bin: usize| bin * BIN..((bin + 1) * BIN).min(course.limit.len());
    let mean = |sum: f64, bin: usize| sum / range(bin).len().max(1) as f64;
    let sent = |bin: usize| mean(course.sent[range(bin)].iter().map(|one| f64::from(*one)).sum(), bin);
    let limit = |bin: usize| mean(course.limit[range(bin)].iter().map(|one| f64::from(*one)).sum(), bin);
    let refused = |bin: usize| course.refused[range(bin)].iter().map(|one| u64::from(*one)).sum::<u64>();
    let highest = (0..bins).map(limit).fold(0.0, f64::max) * HEADROOM;
    let bottom = top + PANEL - 14;
    let x = |bin: usize| LEFT + bin * (WIDTH - LEFT - RIGHT) / bins;
    let y = |rate: f64| bottom - ((rate / highest.max(1e-9)).min(1.0) * (bottom - top) as f64).round() as usize;
    let words = format!("goodput {:.2}, {:.0} refusals an hour", report.goodput, report.refused_per_hour);
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{}\"><tspan font-weight=\"bold\">{}</tspan>  {words}</text>",
        top - 8,
        panel.name
    );
    let (right, middle) = (WIDTH - RIGHT, (highest / HEADROOM).round());
    for rate in [0.0, middle] {
        let at = y(rate);
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" opacity=\"0.7\">{rate:.0}/s</text>",
            LEFT - 6,
            at + 4
        );
        let _ = writeln!(out, "<path d=\"M{LEFT} {at}H{right}\" stroke=\"#3b414d\"/>");
    }
    let mut area = format!("M{LEFT} {bottom}");
    let mut line = String::new();
    for bin in 0..bins {
        let _ = write!(area, "L{} {}", x(bin), y(sent(bin)));
        let _ = write!(line, "{}{} {}", if bin == 0 { 'M' } else { 'L' }, x(bin), y(limit(bin)));
    }
    let _ = writeln!(
        out,
        "<path d=\"{area}L{} {bottom}Z\" fill=\"#3f94d4\" fill-opacity=\"0.55\" stroke=\"#56b4e9\"/>",
        x(bins - 1)
    );
    let _ = writeln!(
        out,
        "<path d=\"{line}\" fill=\"none\" stroke=\"#e6c200\" stroke-width=\"1.6\" stroke-dasharray=\"5 3\"/>"
    );
    // A mark a minute in which it was refused, the fainter the fewer.
    for bin in (0..bins).filter(|bin| refused(*bin) > 0) {
        let strength = (refused(bin) as f64 / 4.0).clamp(0.35, 1.0);
        let _ = writeln!(
            out,
            "<path d=\"M{} {}v9\" stroke=\"#e06c5a\" stroke-width=\"2\" opacity=\"{strength:.2}\"/>",
            x(bin),
            bottom + 3
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{ControllerKind, Policy, Settings};
    use crate::sim::{Candidate, Peer, Scenario, SimServer, Supply, run_all};

    fn play(candidate: &Candidate) -> Seen {
        let server = SimServer::built_in().into_iter().find(|server| server.id == "d").expect("built in");
        run_all(&Scenario { hosts: vec![(server, Supply::Saturated)], crawlers: 1 }, candidate, 101).remove(0)
    }

    fn core(kind: ControllerKind) -> Seen {
        let policies = vec![Policy { kind, ..Policy::default() }];
        play(&Candidate::Core(Box::new(Settings { policies, ..Settings::default() })))
    }

    /// What a controller is worth on one server: goodput, less for refusals, less for a ban.
    fn score(seen: &Seen) -> f64 {
        let report = &seen.report;
        report.goodput.clamp(0.0, 1.0)
            - 0.1 * (1.0 + report.refused_per_hour).log10()
            - 0.25 * f64::from(u8::from(report.bans > 0))
    }

    /// The README's picture is drawn from runs of the simulator, and compared; set `CRAWLDECK_WRITE_PICTURES` to write
    /// it anew.
    #[test]
    fn the_picture_of_rates_against_the_hidden_limit_is_as_the_simulator_has_it() {
        let peers = [
            ("scrapy-autothrottle", Peer::ScrapyAutothrottle),
            ("zeno", Peer::Zeno),
            ("aws-cubic", Peer::AwsCubic),
            ("heritrix", Peer::Heritrix),
            ("crawlee", Peer::Crawlee),
        ];
        let peers = peers.map(|(name, peer)| (name, play(&Candidate::Peer(peer))));
        let best = peers.iter().max_by(|one, other| score(&one.1).total_cmp(&score(&other.1))).expect("some");
        let (adaptive, halving) = (core(ControllerKind::Adaptive), core(ControllerKind::Halving));
        assert!(score(&adaptive) > score(&halving).max(score(&best.1)), "{}", best.0);
        let name = format!("{}, the best peer", best.0);
        let panels = [
            Panel { name: "adaptive", seen: &adaptive },
            Panel { name: "halving", seen: &halving },
            Panel { name: &name, seen: &best.1 },
        ];
        let alt = "Requests a second against a hidden limit of 5/s that falls to a tenth for an hour: adaptive follows \
                   it, halving saws below it, the best peer runs into it all the time";
        let picture = svg(&panels, alt);
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/rates.svg");
        if std::env::var_os("CRAWLDECK_WRITE_PICTURES").is_some() {
            std::fs::write(&path, &picture).expect("written");
        }
        assert!(std::fs::read_to_string(&path).is_ok_and(|kept| kept == picture), "write it anew, and look at it");
    }
}
