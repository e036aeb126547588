//! A fuzzed session of the review: any keys, mouse, sizes and passing time, on every tab, with foreign names.

use super::*;
use crate::tui::key::Decoder;

#[test]
fn an_hour_of_any_keys_goes_everywhere_and_breaks_no_frame() {
    let names = "up down left right enter enter esc esc tab backtab space pgup pgdn home end backspace f1 ctrl-u ctrl-l \
                 1 2 3 4 5 6 ? / + = - 0 m s S h l H L j k g G q a i : ! * | . M w";
    let keys: Vec<Key> = names.split_whitespace().map(|name| Key::parse(name).expect(name)).collect();
    let (keymap, mut random, mut decoder) = (keymap(), fastrand::Rng::with_seed(11), Decoder::default());
    let looks = [theme("default", Glyphs::Unicode), theme("mono", Glyphs::Ascii), theme("light", Glyphs::Unicode)];
    let mut model = model((80, 24));
    for name in
        ["日本語のとても長い名前のホスト.テスト", "a\u{1b}[2J.test", "\u{202e}tset.live", "e\u{301}\u{301}.test", ""]
    {
        let host = model.timeline.host_number(&Clean::new(name));
        let ended = Ended { time: Wall(BEGAN), status: Some(429), outcome: None, latency_ms: 1e9, rate: f64::NAN };
        (0..99).for_each(|_| model.timeline.request(host, ended));
    }
    let (mut now, mut seen) = (Mono::ZERO, std::collections::BTreeSet::new());
    for turn in 0..2_000_usize {
        let mut pressed = Vec::new();
        match random.u32(0..20) {
            0 => model.size = (random.u16(1..200), random.u16(1..60)),
            1 => now = now.after(std::time::Duration::from_secs(random.u64(0..120))),
            2 | 3 => {
                let (button, x, y) = (random.u8(0..70), random.u16(1..200), random.u16(1..60));
                pressed = decoder.push(format!("\u{1b}[<{button};{x};{y}M").as_bytes());
            }
            4 => model.progress.at_end = !model.progress.at_end,
            _ => pressed.extend(random.choice(&keys).copied()),
        }
        for key in pressed {
            for effect in update::key(&mut model, key, &keymap, now) {
                if let Effect::Log(_) = effect {
                    let kept = model.timeline.decisions();
                    let entries = (0..kept.len()).filter_map(|at| kept.get(at).cloned()).collect();
                    model.log = Some(LogView { entries, ..LogView::default() });
                }
            }
        }
        model.tick(now);
        model.refresh();
        assert_eq!(
            broken(&buffer(&model, &looks[turn % looks.len()])),
            Vec::<String>::new(),
            "{turn}: {:?}",
            model.size
        );
        let over = (model.help.is_some(), model.prompt.is_some(), model.log.is_some());
        seen.insert(format!("{:?} {over:?}", model.tab));
    }
    assert!(now >= Mono::from_secs_f64(3_600.0), "{now:?}");
    for tab in ["Timeline", "Hosts", "Decisions", "Acts", "Export", "Compare"] {
        assert!(seen.contains(&format!("{tab} (false, false, false)")), "never on {tab}: {seen:?}");
    }
    for over in ["(true, false, false)", "(false, true, false)", "(false, false, true)"] {
        assert!(seen.iter().any(|seen| seen.ends_with(over)), "never {over}: {seen:?}");
    }
}
