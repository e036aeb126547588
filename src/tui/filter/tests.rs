use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::tui::sample;

fn taken(filter: &str) -> Vec<String> {
    let filter = Filter::parse(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
    let rows = sample::hosts().into_iter().filter(|row| filter.takes(row, sample::NOW));
    rows.map(|row| row.name.to_string()).collect()
}

fn takes_name(filter: &str, name: &str) -> bool {
    Filter::parse(filter).expect(filter).takes(&sample::row(0, name), sample::NOW)
}

#[test]
fn parts_and_globs_take_hosts() {
    for (filter, name, takes) in [
        ("", "any.test", true),
        ("gaz", "api.gazet.test", true),
        ("GAZ", "api.gazet.test", true),
        ("gaz", "www.astr.test", false),
        ("*.test", "api.gazet.test", true),
        ("*.test", "a.tiles.example", false),
        ("api.* gazet", "api.gazet.test", true),
        ("api.* astr", "api.gazet.test", false),
        ("127.0.0.1:80", "127.0.0.1:8080", true),
        ("[::1]:80", "[::1]:8080", true),
        ("{a,b}.test", "b.test", true),
        ("!gaz", "api.gazet.test", false),
        ("!!gaz", "api.gazet.test", true),
        ("gaz | astr", "www.astr.test", true),
        ("gaz|astr", "wiki.br.test", false),
        ("api gaz | www !gaz", "www.astr.test", true),
        ("api gaz | www !gaz", "api.other.test", false),
    ] {
        assert_eq!(takes_name(filter, name), takes, "{filter} on {name}");
    }
}

#[test]
fn states_and_figures_take_hosts() {
    for (filter, names) in [
        ("is:stuck", &["forum.oldca.test"][..]),
        ("is:angry", &["api.gazet.test", "www.courtxx.test"]),
        ("is:angry !courtxx", &["api.gazet.test"]),
        ("is:tail | is:paused", &["slow.muse.test", "shop.lumb.test"]),
        ("is:override", &["img.atla.test"]),
        ("is:held state:back", &["api.gazet.test", "news.kan.test"]),
        ("is:done", &["feeds.dorf.test"]),
        ("is:forgotten", &[]),
        ("state:block", &["www.courtxx.test"]),
        ("hold>60", &["api.gazet.test", "www.courtxx.test"]),
        ("hold>2m", &["www.courtxx.test"]),
        ("queue>10k", &["www.astr.test", "www.courtxx.test"]),
        ("rate<0.5", &["api.gazet.test", "slow.muse.test"]),
        ("rate<=0.5 !hold>0", &["slow.muse.test", "img.atla.test", "a.tiles.example"]),
        ("err>0", &["forum.oldca.test"]),
        ("4xx>=16", &["api.gazet.test", "www.courtxx.test"]),
        ("5xx=2", &["news.kan.test"]),
        ("inflight>1", &["forum.oldca.test"]),
        ("orig<1", &["slow.muse.test"]),
        ("requests<10", &["a.tiles.example"]),
    ] {
        assert_eq!(taken(filter), names, "{filter}");
    }
}

#[test]
fn a_status_counts_the_last_five_minutes() {
    let mut row = sample::row(0, "a.test");
    let count = |code, recent, total| crate::control::CodeCount { code, recent, total };
    row.view.codes = vec![count(Code::Status(200), 40, 900), count(Code::Status(429), 0, 16)];
    let takes = |text| Filter::parse(text).expect(text).takes(&row, sample::NOW);
    assert!(takes("200>39") && takes("429=0") && !takes("429>0") && takes("404<1"));
}

#[test]
fn a_hold_ends_with_time() {
    let filter = Filter::parse("is:held").expect("valid");
    let rows = sample::hosts();
    let held = |now| rows.iter().filter(|row| filter.takes(row, now)).count();
    assert_eq!((held(sample::NOW), held(sample::NOW.after(Duration::from_secs(60)))), (3, 2));
    assert!(filter.is_timed() && !Filter::parse("is:paused rate<1").expect("valid").is_timed());
}

#[test]
fn errors_name_the_place_and_the_nearest_word() {
    for (text, words) in [
        ("is:stuk", "at 1: `is:stuk` is not known; did you mean `is:stuck`?"),
        ("gaz is:for", "at 5: `is:for` is not known; did you mean `is:forgotten`?"),
        ("a | stat:back", "at 5: `stat:back` is not known; did you mean `state:back`?"),
        ("state:bakc", "at 1: `state:bakc` is not known; did you mean `state:back`?"),
        ("qeue>10", "at 1: `qeue>10` is not known; did you mean `queue>10`?"),
        ("colour>10", "at 1: `colour>10` is not known"),
        ("queue>", "at 1: `queue>` needs a number, as in `queue>1000`"),
        ("hold>soon", "at 1: `hold>soon` needs a number, as in `hold>5m`"),
        ("rate<inf", "at 1: `rate<inf` needs a number, as in `queue>1000`"),
        ("a  !", "at 4: `!` needs a term on its right"),
        ("| a", "at 1: `|` needs a term on its left"),
        ("a |", "at 3: `|` needs a term on its right"),
        ("a || b", "at 4: `|` needs a term on its left"),
        ("ä [", "at 3: `[` is no glob: unclosed character class; missing ']'"),
        ("600>1", "at 1: `600>1` is not known"),
    ] {
        let said = Filter::parse(text).expect_err(text).to_string();
        assert_eq!(said, words, "{text}");
    }
    let many = "a ".repeat(TERMS_MAX + 1);
    assert_eq!(Filter::parse(&many).expect_err("too many"), FilterError::TooMany { at: 2 * TERMS_MAX + 1 });
}

#[test]
fn only_names_are_asked_for_where_nothing_else_is_known() {
    for (text, words) in [
        ("rate<1", "at 1: `rate<1` is no name"),
        ("gaz | !is:angry", "at 7: `!is:angry` is no name"),
        ("a|state:back", "at 3: `state:back` is no name"),
        ("gaz 429>0", "at 5: `429>0` is no name"),
        ("[x", "at 1: `[x` is no glob"),
    ] {
        let said = Filter::parse_names(text).expect_err(text).to_string();
        assert!(said.starts_with(words), "{said}");
    }
    let filter = Filter::parse_names("*.test !gaz | 127.0.0.1:80").expect("names");
    assert!(filter.takes_name("www.astr.test") && filter.takes_name("127.0.0.1:8080"));
    assert!(!filter.takes_name("api.gazet.test") && !filter.takes_name("a.example"));
}

/// A term that is right.
fn any_term() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,4}",
        Just(String::from("*.test")),
        proptest::sample::select(Property::ALL.to_vec()).prop_map(|(name, _)| format!("is:{name}")),
        (proptest::sample::select(Figure::ALL.to_vec()), "[<>=]|<=|>=", 0..5000_u32)
            .prop_map(|((name, _), sign, bound)| format!("{name}{sign}{bound}")),
        (100_u16..600, "[<>]", 0..20_u32).prop_map(|(status, sign, bound)| format!("{status}{sign}{bound}")),
    ]
}

proptest! {
    #[test]
    fn no_text_panics_and_an_error_points_into_it(text in "[ -~äß|!<>:]{0,40}") {
        if let Err(error) = Filter::parse(&text) {
            let said = error.to_string();
            let at: usize = said.strip_prefix("at ").and_then(|rest| rest.split(':').next()).expect(&said).parse().expect(&said);
            prop_assert!((1..=text.chars().count()).contains(&at), "{}", said);
        }
    }

    #[test]
    fn not_turns_round_and_or_and_are_what_they_say(a in any_term(), b in any_term()) {
        let parse = |text: String| Filter::parse(&text).expect("right");
        let (left, right) = (parse(a.clone()), parse(b.clone()));
        let (not, both, either) = (parse(format!("!{a}")), parse(format!("{a} {b}")), parse(format!("{a}|{b}")));
        for row in sample::hosts() {
            let takes = |filter: &Filter| filter.takes(&row, sample::NOW);
            prop_assert_eq!(takes(&not), !takes(&left));
            prop_assert_eq!(takes(&both), takes(&left) && takes(&right));
            prop_assert_eq!(takes(&either), takes(&left) || takes(&right));
        }
    }
}

#[test]
fn a_group_takes_its_hosts() {
    let mut row = sample::row(0, "a.test");
    row.group = Some("192.0.2.7".into());
    let takes = |filter: &str| Filter::parse(filter).expect(filter).takes(&row, sample::NOW);
    assert!(takes("group:192.0.2.7") && takes("group:192.0") && !takes("group:example.com") && takes("!group:x"));
    assert!(!Filter::parse("group:192").expect("a filter").takes(&sample::row(0, "b.test"), sample::NOW));
}
