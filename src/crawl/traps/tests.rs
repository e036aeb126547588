use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn judge(traps: &mut Traps, text: &str, run: u16) -> Verdict {
    traps.judge(Candidate { url: &url(text), host: HostId(0), run, on: None, alike: false }, |_| UrlId::NONE)
}

fn enters(traps: &mut Traps, text: &str, run: u16) -> bool {
    matches!(judge(traps, text, run), Verdict::Enters(_))
}

/// The link from a page to the next one.
fn step(traps: &mut Traps, number: u32, run: u16, page: impl Fn(u32) -> String) -> Verdict {
    let host = HostId(0);
    let on = number.checked_sub(1).map(|before| pattern_key(host, &url(&page(before))));
    traps.judge(Candidate { url: &url(&page(number)), host, run, on, alike: false }, |_| UrlId::NONE)
}

/// Longer than a chain may be.
const LONG: u32 = RUN_FREE as u32 + RUN_BUDGET + 200;

/// Follows links from page to page and gives how many entered, and the suspicion.
fn walk(traps: &mut Traps, pages: u32, page: impl Fn(u32) -> String) -> (u32, Option<Suspicion>) {
    let (mut entered, mut suspicion, mut run) = (0, None, 0);
    for number in 0..pages {
        match step(traps, number, run, &page) {
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
    let (entered, suspicion) = walk(&mut traps, LONG, page);
    let held = (LONG - entered) as usize;
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
    assert!(enters(&mut traps, &page(10_000), 900));
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
        ("facets", |n| format!("http://h/shop?a&b&f{n}")),
    ] {
        let mut whole = Traps::default();
        let (mut run, mut entered) = (0, Vec::new());
        for number in 0..LONG {
            if let Verdict::Enters(now) = step(&mut whole, number, run, page) {
                (run, entered) = (now, [entered, vec![number]].concat());
            }
        }
        // The same with a restart after each hundred.
        let (mut traps, mut saved, mut run, mut again) = (Traps::default(), Vec::new(), 0, Vec::new());
        for number in 0..LONG {
            if number % 100 == 0 {
                saved.extend(traps.take_unsaved());
                assert!(traps.take_unsaved().is_empty());
                let mut signs = Signs::default();
                saved.iter().for_each(|sign| signs.take(*sign));
                traps = Traps::default();
                traps.restore_signs(signs);
            }
            if let Verdict::Enters(now) = step(&mut traps, number, run, page) {
                (run, again) = (now, [again, vec![number]].concat());
            }
        }
        assert!(entered.len() < LONG as usize, "{name} is a trap");
        assert_eq!(again, entered, "{name}");
    }
}

#[test]
fn a_pattern_is_short_whatever_it_is_about() {
    type Page = fn(u32) -> String;
    for (pages, page) in [
        (LONG, (|n| format!("http://h/{}/{n}", "long-".repeat(400))) as Page),
        (LONG, |n| {
            format!("http://h/{}{n}", (0..50).map(|part| format!("{}-{part}x/", "a".repeat(30))).collect::<String>())
        }),
        (100, |n| format!("http://h{}", format!("/{}", "é".repeat(70)).repeat(n as usize + 1))),
    ] {
        let (_, suspicion) = walk(&mut Traps::default(), pages, page);
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

/// Crawls a site breadth first, as the engine does, up to `most` pages: how many were sent, and what was told.
fn follow(most: usize, start: &str, links: impl Fn(&Url) -> Vec<String>) -> (usize, Option<Suspicion>) {
    let (mut traps, host) = (Traps::default(), HostId(0));
    let (mut known, mut told, mut sent) = (HashSet::from([url(start)]), None, 0);
    let mut queue = std::collections::VecDeque::from([(url(start), 0)]);
    while sent < most
        && let Some((page, run)) = queue.pop_front()
    {
        sent += 1;
        let on = (run >= RUN_FREE).then(|| pattern_key(host, &page));
        let mut led = Led::by(Some(page.clone()), on.is_some());
        for link in links(&page) {
            let link = page.join(&link).expect("a URL");
            if !known.insert(link.clone()) {
                led.meets_known(&link);
                continue;
            }
            let alike = led.is_alike(&link);
            match traps.judge(Candidate { url: &link, host, run, on, alike }, |_| UrlId::NONE) {
                Verdict::Enters(run) => {
                    queue.push_back((link, run));
                    if alike {
                        led.meets_new();
                    }
                }
                Verdict::Held(first) => told = told.or(first),
            }
        }
        traps.note(host, &led, on);
    }
    assert_eq!(told.is_some(), traps.parked() > 0);
    (sent, told)
}

fn random(page: &Url, number: u32) -> u64 {
    xxh3_64(format!("{page} {number}").as_bytes())
}

/// A word that no dictionary has.
fn word(seed: u64) -> String {
    (0..6).map(|place| char::from(b'a' + (seed >> (8 * place)) as u8 % 26)).collect()
}

#[test]
fn row_21_pages_that_lead_to_random_ones_and_never_back_are_bounded() {
    type Links = fn(&Url) -> Vec<String>;
    let query: Links = |page| (0..5).map(|n| format!("/q?f={}", random(page, n))).collect();
    let words: Links = |page| {
        (0..5).map(|n| format!("/word/{}", word(random(page, n)))).chain(["/".into(), "/about".into()]).collect()
    };
    let maze: Links = |page| {
        let path = |n: u32| (0..1 + n % 3).map(|part| word(random(page, 10 * n + part))).collect::<Vec<_>>().join("/");
        (0..5).map(|n| format!("/maze/{}", path(n))).collect()
    };
    let top: Links = |page| (0..5).map(|n| format!("/{}", word(random(page, n)))).collect();
    let deeper: Links = |page| (0..5).map(|n| format!("{}/{}", page.path(), random(page, n) % 9_999)).collect();
    for (name, start, links, inside) in [
        ("query", "http://h/", query, "http://h/q?f=1"),
        ("words", "http://h/", words, "http://h/word/x"),
        ("maze", "http://h/", maze, "http://h/maze/x/y"),
        ("top", "http://h/x", top, "http://h/y"),
        ("deeper", "http://h/deep/0", deeper, "http://h/deep/0/1"),
    ] {
        let (sent, told) = follow(20_000, start, links);
        // What was queued when the last page counted is sent, and what the pages beside them led to.
        let most = 5 * SPREAD_PAGES as usize + 20;
        assert!((5 * SPREAD_PAGES as usize..=most).contains(&sent), "{name}: {sent}");
        let pattern = told.expect("it is told").pattern;
        let pattern = regex::Regex::new(&pattern).expect("a regular expression");
        assert!(pattern.is_match(inside) && !pattern.is_match("http://h/about/us?x=1"), "{name}: {pattern}");
    }
}

/// A shop whose every page offers one more filter: no two sets of filters are one page.
#[test]
fn row_21_facets_without_end_are_bounded_and_plain_queries_are_not() {
    let facets = |page: &Url| -> Vec<String> {
        let query = page.query().map_or(String::new(), |query| format!("{query}&"));
        (0..5).map(|n| format!("/shop?{query}f{}=1", random(page, n) % 1_000)).collect()
    };
    let (sent, told) = follow(20_000, "http://h/shop", facets);
    // The pages of one filter and of two, and what entered by then.
    assert!((FACET_BUDGET as usize..FACET_BUDGET as usize + 40).contains(&sent), "{sent}");
    let pattern = regex::Regex::new(&told.expect("it is told").pattern).expect("a regular expression");
    assert!(pattern.is_match("http://h/shop?a=1&b=2&c=3") && !pattern.is_match("http://h/shop?a=1&b=2"), "{pattern}");
    let mut traps = Traps::default();
    for number in 0..5_000 {
        assert!(enters(&mut traps, &format!("http://h/find?q={number}&sort=a&page={}&lang=de", number % 7), 0));
    }
}

#[test]
fn large_sites_that_end_are_no_traps_however_they_branch() {
    type Links = fn(&Url) -> Vec<String>;
    fn last(page: &Url) -> u32 {
        page.path_segments().and_then(|mut parts| parts.next_back()?.parse().ok()).unwrap_or_default()
    }
    // No navigation, nothing but five links to any of so many pages.
    let scattered: Links = |page| (0..5).map(|n| format!("/p/{}", random(page, n) % 200_000)).collect();
    // As the benchmark's site: pages below, and others all over.
    let tree: Links = |page| {
        let other = |n| format!("/p/{}", random(page, n) % 100_000);
        (1..=10).map(|n| format!("/p/{}", last(page) * 10 + n)).chain((0..10).map(other)).collect()
    };
    // An archive of 5,000 articles, twenty a list.
    let archive: Links = |page| match (page.path().starts_with("/list/"), last(page)) {
        (true, at) => {
            let lists = (at.saturating_sub(5)..=(at + 5).min(249)).chain([0, 249]).map(|list| format!("/list/{list}"));
            lists.chain((0..20).map(|n| format!("/article/{}", at * 20 + n))).collect()
        }
        (false, at) => vec![format!("/list/{}", at / 20), String::from("/")],
    };
    // Nothing but the two pages below, as generators of sites make them.
    let pure: Links =
        |page| (1..=2).map(|n| last(page) * 2 + n).filter(|n| *n < 12_000).map(|n| format!("/p/{n}")).collect();
    // Lists of ten posts, from the newest, each with nothing but the list of older ones; posts name their neighbours.
    let blog: Links = |page| match (page.path().starts_with("/list/"), last(page)) {
        (true, at) => {
            let posts = (0..10).map(|n| format!("/post/{}", (at - 1) * 10 + n));
            posts.chain((at < 400).then(|| format!("/list/{}", at + 1))).chain([String::from("/")]).collect()
        }
        (false, at) => vec![
            format!("/post/{}", at.saturating_sub(1)),
            format!("/post/{}", (at + 1).min(3_999)),
            String::from("/list/1"),
        ],
    };
    let lists: Links = |page| match page.path().starts_with("/list/") {
        true => {
            let articles = (0..100).map(|n| format!("/article/{}", last(page) * 100 + n));
            articles.chain((last(page) < 199).then(|| format!("/list/{}", last(page) + 1))).collect()
        }
        false => Vec::new(),
    };
    let ring: Links = |page| (1..6).map(|n| format!("/p/{}", (last(page) + n) % 10_000)).collect();
    // Categories in categories, each with the one above it.
    let categories: Links = |page| {
        let below = (0..10).map(|n| format!("{}{n}/", page.path())).filter(|path| path.len() < 15);
        below.chain([String::from("..")]).collect()
    };
    // Directories that nothing leads back from, with a thousand files each.
    let files: Links = |page| match page.path().matches('/').count() {
        2 => (0..10).map(|n| format!("/files/{n}/")).collect(),
        3 if page.path().ends_with('/') => (0..1_000).map(|n| format!("{}{n}", page.path())).collect(),
        _ => Vec::new(),
    };
    for (name, start, links, pages) in [
        ("pure", "http://h/p/0", pure, 12_000),
        ("blog", "http://h/list/1", blog, 400 + 4_000 + 1),
        ("chained lists", "http://h/list/0", lists, 200 + 20_000),
        ("next of next", "http://h/p/0", ring, 10_000),
        ("scattered", "http://h/p/0", scattered, 15_000),
        ("tree", "http://h/p/0", tree, 8_000),
        ("archive", "http://h/list/0", archive, 250 + 5_000 + 1),
        ("categories", "http://h/c/", categories, 8_000),
        ("files", "http://h/files/", files, 1 + 10 + 10_000),
    ] {
        let (sent, told) = follow(pages, start, links);
        assert_eq!((sent, told), (pages, None), "{name}");
    }
}

#[test]
fn row_21_a_spread_goes_on_being_counted_over_a_restart_and_is_told_once() {
    let (page, host) = (url("http://h/word/x"), HostId(0));
    let leads_on = |traps: &mut Traps| {
        let mut led = Led::by(Some(page.clone()), false);
        led.meets_new();
        traps.note(host, &led, None);
    };
    let restart = |mut traps: Traps| {
        let mut signs = Signs::default();
        traps.take_unsaved().into_iter().for_each(|sign| signs.take(sign));
        let mut traps = Traps::default();
        traps.restore_signs(signs);
        traps
    };
    let judge = |traps: &mut Traps, text: &str, alike| {
        traps.judge(Candidate { url: &url(text), host, run: 0, on: None, alike }, |_| UrlId::NONE)
    };
    let mut traps = Traps::default();
    (1..SPREAD_PAGES).for_each(|_| leads_on(&mut traps));
    let mut traps = restart(traps);
    assert_eq!(judge(&mut traps, "http://h/word/a", true), Verdict::Enters(0));
    leads_on(&mut traps);
    assert!(matches!(judge(&mut traps, "http://h/word/b", true), Verdict::Held(Some(_))));
    let mut traps = restart(traps);
    assert_eq!(judge(&mut traps, "http://h/word/c", true), Verdict::Held(None), "told by the process before");
    assert!(matches!(judge(&mut traps, "http://h/word/d", false), Verdict::Enters(_)), "found elsewhere, in a sitemap");
    // What leads back comes too late.
    let mut back = Led::by(Some(page.clone()), false);
    back.meets_known(&page);
    traps.note(host, &back, None);
    assert_eq!(judge(&mut traps, "http://h/word/e", true), Verdict::Held(None));
}
