//! What stands on every screen until it is mended.

use super::*;

#[test]
fn what_is_wrong_with_the_configuration_stands_above_the_footer_of_every_screen() {
    let mut snapshot = sample::snapshot();
    snapshot.totals.config_trouble = Some(Clean::new("c.toml:3:8: \u{1b}[31m `rate` in [politeness]: write a number"));
    for size in [(60, 12), (80, 24), (160, 50)] {
        for screen in [Screen::Hosts, Screen::Host, Screen::Log] {
            let mut model = of_snapshot(snapshot.clone(), size);
            (model.size, model.screen) = (size, screen);
            let shown = text(&model, size);
            let lines: Vec<&str> = shown.lines().collect();
            let banner = lines[usize::from(size.1) - 2];
            assert!(banner.starts_with("  ! c.toml:3:8: \\x1b[31m `rate` in"), "{screen:?} {size:?}: {shown}");
            assert_eq!(lines.iter().filter(|line| line.contains("c.toml")).count(), 1);
            assert!(shown.contains("PAUSED"), "the header is as ever");
            model.totals.config_trouble = None;
            let calm = text(&model, size);
            assert_eq!(calm.lines().last(), shown.lines().last(), "the footer is as ever");
            let header = |of: &str| of.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(header(&calm), header(&shown));
        }
    }
    for width in 1..90 {
        for height in 1..30 {
            let size = (width, height);
            text(&of_snapshot(snapshot.clone(), size), size);
        }
    }
}

#[test]
fn case_91_an_alarm_stands_above_the_footer_of_every_screen_below_what_is_wrong_with_the_configuration() {
    let mut snapshot = sample::snapshot();
    snapshot.totals.alarms = vec![Clean::new("state/hosts-0001.log cannot \u{1b}[31m be written anew")];
    for size in [(20, 8), (60, 12), (80, 24), (160, 50)] {
        for screen in [Screen::Hosts, Screen::Host, Screen::Log] {
            let mut model = of_snapshot(snapshot.clone(), size);
            (model.size, model.screen) = (size, screen);
            let shown = text(&model, size);
            assert!(shown.contains("! state/hosts-0001"), "{screen:?} {size:?}: {shown}");
            if size.0 < LEAST_WIDTH {
                continue;
            }
            model.totals.config_trouble = Some(Clean::new("c.toml:3:8: write a number"));
            let both = text(&model, size);
            let lines: Vec<&str> = both.lines().collect();
            let (first, second) = (lines[usize::from(size.1) - 3], lines[usize::from(size.1) - 2]);
            assert!(first.starts_with("  ! c.toml:3:8"), "{both}");
            assert!(second.starts_with("  ! state/hosts-0001.log cannot \\x1b[31m be"), "{both}");
            assert_eq!(lines.last(), shown.lines().last().as_ref(), "the footer is as ever");
            model.totals.alarms.clear();
            assert!(!text(&model, size).contains("state/hosts"), "gone with its cause");
        }
    }
    snapshot.totals.config_trouble = Some(Clean::new("c.toml:3:8: write a number"));
    for width in 1..90 {
        for height in 1..30 {
            let size = (width, height);
            text(&of_snapshot(snapshot.clone(), size), size);
        }
    }
}
