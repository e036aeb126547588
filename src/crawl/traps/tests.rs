use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn judge(traps: &mut Traps, text: &str, run: u16) -> Verdict {
    traps.judge(Candidate { url: &url(text), host: HostId(0), run }, |_| UrlId::NONE)
}

fn enters(traps: &mut Traps, text: &str, run: u16) -> bool {
    matches!(judge(traps, text, run), Verdict::Enters(_))
}

/// Follows links from page to page and gives how many entered, and the suspicion.
fn walk(traps: &mut Traps, pages: u32, page: impl Fn(u32) -> String) -> (u32, Option<Suspicion>) {
    let (mut entered, mut suspicion, mut run) = (0, None, 0);
    for number in 0..pages {
        match judge(traps, &page(number), run) {
            Verdict::Enters(now) => {
                entered += 1;
                run = now;
            }
            Verdict::Held(first) => suspicion = suspicion.or(first),
        }
    }
    (entered, suspicion)
}

#[test]
fn case_56_calendars_and_paths_that_grow_are_bounded() {
    // The first is new.
    let most = 1 + u32::from(RUN_FREE) + RUN_BUDGET;
    for (name, page) in [
        ("a year a page", (|n| format!("http://h/cal?year={n}")) as fn(u32) -> String),
        ("in the path", |n| format!("http://h/cal/{}/{}", 2000 + n / 12, n % 12)),
        ("a month a page", |n| format!("http://h/cal?y={}&m={}", n / 12, n % 12)),
    ] {
        let mut traps = Traps::default();
        let (entered, suspicion) = walk(&mut traps, 10_000, page);
        assert_eq!(entered, most, "{name}");
        let suspicion = suspicion.expect("it is told");
        let pattern = regex::Regex::new(&suspicion.pattern).expect("a regular expression");
        assert!(pattern.is_match(&page(5)) && !pattern.is_match("http://h/about"), "{suspicion:?}");
        assert_eq!((traps.parked(), traps.held(HostId(0))), (10_000 - most as usize, 10_000 - most), "{name}");
    }
    // In turns, as a month that leads to its days and a day that leads to the next month.
    let turns = |n: u32| format!("http://h/{}/{n}", ["month", "day", "week"][n as usize % 3]);
    assert_eq!(walk(&mut Traps::default(), 10_000, turns).0, 3 + u32::from(RUN_FREE) + 3 * RUN_BUDGET);
    let mut traps = Traps::default();
    let grows = |n: u32| format!("http://h/a/{}", "www.x.example/".repeat(n as usize));
    let (entered, suspicion) = walk(&mut traps, 200, grows);
    assert_eq!(entered, 1 + REPEATS_MAX as u32 + GROWTH_BUDGET);
    let pattern = regex::Regex::new(&suspicion.expect("told").pattern).expect("a regular expression");
    assert!(pattern.is_match(&grows(30)) && !pattern.is_match(&grows(2)));
    let turns = |n: u32| format!("http://h{}", "/a/b/c".repeat(n as usize));
    assert_eq!(walk(&mut Traps::default(), 200, turns).0, 1 + REPEATS_MAX as u32 + GROWTH_BUDGET);
}

/// A page that escapes its own address once more in each link, as `&amp;` becomes `&amp%3B`, then `&amp%253B`.
#[test]
fn case_56_addresses_that_are_escaped_again_and_again_are_bounded() {
    let most = 1 + u32::from(RUN_FREE) + RUN_BUDGET;
    for (name, page) in [
        ("in the query", (|n| format!("http://h/x?a=1&amp%{}3Bb=2", "25".repeat(n as usize))) as fn(u32) -> String),
        ("in the path", |n| format!("http://h/x/amp%{}3Bb/", "25".repeat(n as usize))),
        ("more and more of it", |n| format!("http://h/x?a=1{}", "&amp%253Bb=2".repeat(n as usize))),
    ] {
        let (entered, suspicion) = walk(&mut Traps::default(), 3_000, page);
        assert!(entered <= most, "{name}: {entered} entered");
        let pattern = regex::Regex::new(&suspicion.expect("it is told").pattern).expect("a regular expression");
        assert!(pattern.is_match(&page(2_000)) && !pattern.is_match("http://h/about"), "{name}");
    }
}

#[test]
fn sessions_are_bounded_and_every_page_is_had_once() {
    for (session, budget) in [
        ("?PHPSESSID=", SESSION_BUDGET),
        (";jsessionid=", SESSION_BUDGET),
        ("?q=1&sid=", SESSION_BUDGET),
        ("?tok=", ID_BUDGET),
    ] {
        let mut traps = Traps::default();
        let (mut entered, mut pages) = (0, HashSet::new());
        for number in 0_u32..5_000 {
            let page = number % 40;
            let id = format!("{:032x}", xxh3_128(&number.to_le_bytes()));
            if enters(&mut traps, &format!("http://h/page{page}{session}{id}"), 0) {
                entered += 1;
                pages.insert(page);
            }
        }
        assert_eq!(pages.len(), 40);
        assert_eq!(entered, 40 + budget, "{session}");
    }
}

#[test]
fn large_sites_are_no_traps() {
    let mut traps = Traps::default();
    for number in 0_u32..20_000 {
        let id = format!("{:024x}", xxh3_64(&number.to_le_bytes()));
        for text in [
            format!("http://h/p/{number}"),
            format!("http://h/wiki/Title_{number}"),
            format!("http://h/article?id={id}"),
            format!("http://h/article/{id}"),
            format!("http://h/2026/12/{number}/index.html"),
            format!("http://h/shop?item={number}&color=red"),
        ] {
            assert!(enters(&mut traps, &text, RUN_FREE - 1), "{text}");
        }
    }
    assert_eq!(traps.parked(), 0);
}

#[test]
fn what_is_held_is_taken_out_judged_and_put_back() {
    let page = |n: u32| format!("http://h/cal?year={n}");
    let mut traps = Traps::default();
    let (entered, suspicion) = walk(&mut traps, 400, page);
    let held = 400 - entered as usize;
    assert_eq!(traps.parked(), held);
    let [trap] = traps.shut()[..] else { panic!("one trap") };
    let (host, ids) = traps.take_shut(trap).expect("it is shut");
    assert_eq!((host, ids.len(), traps.parked()), (HostId(0), held, held), "parked until something is said of them");
    traps.let_out(host);
    for id in &ids[1..] {
        traps.put_back(trap, host, UrlId(*id));
    }
    assert_eq!((traps.parked(), traps.held(host) as usize), (held - 1, held - 1));
    assert_eq!((traps.lead_too_far(host), traps.lead_too_far(host), traps.beyond(host)), (1, 2, 2));
    traps.settle(host);
    assert_eq!((traps.held(host) as usize, traps.beyond(host)), (held - 1, 0));
    traps.allow(regex::Regex::new(&suspicion.expect("told").pattern).expect("a regular expression"));
    assert!(enters(&mut traps, &page(1_000), 900));
}

/// As over a restart: what one process had saved, another goes on with.
#[test]
fn case_56_budgets_that_are_used_up_stay_so_when_they_are_saved_and_taken_up() {
    type Page = fn(u32) -> String;
    let session = |n: u32| format!("http://h/page{}?PHPSESSID=a{n}", n % 40);
    for (name, page) in [
        ("a run", (|n| format!("http://h/cal?year={n}")) as Page),
        ("a path that grows", |n| format!("http://h/a/{}", "x/".repeat(n as usize % 90))),
        ("sessions", session),
    ] {
        let mut whole = Traps::default();
        let (mut run, mut entered) = (0, Vec::new());
        for number in 0..2_000 {
            if let Verdict::Enters(now) = judge(&mut whole, &page(number), run) {
                (run, entered) = (now, [entered, vec![number]].concat());
            }
        }
        // The same with a restart after each hundred.
        let (mut traps, mut saved, mut run, mut again) = (Traps::default(), Vec::new(), 0, Vec::new());
        for number in 0..2_000 {
            if number % 100 == 0 {
                saved.extend(traps.take_unsaved());
                assert!(traps.take_unsaved().is_empty());
                let mut signs = Signs::default();
                saved.iter().for_each(|sign| signs.take(*sign));
                traps = Traps::default();
                traps.restore_signs(signs);
            }
            if let Verdict::Enters(now) = judge(&mut traps, &page(number), run) {
                (run, again) = (now, [again, vec![number]].concat());
            }
        }
        assert!(entered.len() < 2_000, "{name} is a trap");
        assert_eq!(again, entered, "{name}");
    }
}

#[test]
fn a_pattern_is_short_whatever_it_is_about() {
    for page in [
        (|n| format!("http://h/{}/{n}", "long-".repeat(400))) as fn(u32) -> String,
        |n| format!("http://h/{}{n}", (0..50).map(|part| format!("{}-{part}x/", "a".repeat(30))).collect::<String>()),
        |n| format!("http://h{}", format!("/{}", "é".repeat(70)).repeat(n as usize + 1)),
    ] {
        let (_, suspicion) = walk(&mut Traps::default(), 400, page);
        let suspicion = suspicion.expect("it is told");
        assert!(suspicion.pattern.len() < 5 * 1_024 && suspicion.why.chars().count() < 200, "{suspicion:?}");
        let pattern = regex::Regex::new(&suspicion.pattern).expect("a regular expression");
        assert!(pattern.is_match(url(&page(30)).as_str()), "{suspicion:?}");
    }
}

#[test]
fn shapes_and_parameters() {
    let shown = |text: &str| shape(&url(text)).replace(ONE_NUMBER, "N").replace(ONE_ID, "ID");
    for (text, expected) in [
        ("http://h/", ""),
        ("http://h/a/b", "/a/b"),
        ("http://h/a/a/b/a", "/a/b"),
        ("http://h/cal/2026/12", "/cal/N/N"),
        ("http://h/page-12.html?x=1", "/page-N.html"),
        ("http://h/x/0123456789abcdef01", "/x/ID"),
        ("http://h/x;jsessionid=1", "/x"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
    let url = url("http://h/a;s=1/b?x=2&y&z=;=3");
    let found: Vec<_> = parameters(&url).map(|(name, value, at)| (name, value, &url.as_str()[at..])).collect();
    assert_eq!(found, [("s", "1", "1/b?x=2&y&z=;=3"), ("x", "2", "2&y&z=;=3"), ("z", "", ";=3"), ("", "3", "3")]);
}
