//! Sites that lead on without end, beside sites that do not: judged by what the servers saw.

use std::collections::BTreeSet;

use crawldeck::config::{Config, Follow};
use crawldeck::control::{ConcernKind, What};
use crawldeck::crawl::resume::resume;
use crawldeck::crawl::scope::HOSTS_PER_DOMAIN;
use crawldeck::crawl::traps::spread::SPREAD_PAGES;
use crawldeck::crawl::traps::{GROWTH_BUDGET, REPEATS_MAX, RUN_BUDGET, RUN_FREE, SESSION_BUDGET};
use crawldeck::sim::SimResponse;
use crawldeck::store::StoreError;
use crawldeck::store::list::each_url;
use crawldeck::watch::{Change, Request};

use crate::support::answers::{pages_asked, status, text};
use crate::support::engine::{Crawl, Running};
use crate::support::lab::LabServer;

/// URLs of a calendar that are fetched before it counts as a trap: the input, the first link, then the steps.
const CALENDAR: usize = 2 + RUN_FREE as usize + RUN_BUDGET as usize;

/// Years of a calendar that ends after it counts as a trap.
const YEARS: u32 = CALENDAR as u32 + 200;

/// A server without robots.txt.
fn site(mut answer: impl FnMut(&str, &str) -> SimResponse + Send + 'static) -> LabServer {
    LabServer::start(Box::new(move |_, request, _| match request.path {
        "/robots.txt" => status(404),
        path => answer(request.host, path),
    }))
}

fn number_in(path: &str) -> u32 {
    path.rsplit(['=', '/']).next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// A calendar of so many years, a year a page.
fn calendar(years: u32) -> LabServer {
    site(move |_, path| {
        let next = number_in(path) + 1;
        if next < years { text(&format!("<a href='/cal?year={next}'>next</a>")) } else { text("the end") }
    })
}

/// Keeps a crawl from ending: a host whose second page waits for its token.
fn keep_open(crawl: &mut Crawl, server: &LabServer) {
    crawl.host("slow.test", server);
    let policy = crawl.policy("slow.test");
    (policy.original.rate, policy.original.capacity) = (0.001, 1.0);
    crawl.url("http://slow.test/1");
}

/// Waits until the log names a pattern to allow, and gives it.
async fn pattern_told(running: &Running) -> String {
    let line = running.logged("TRAP? ").await;
    let pattern = line.split(":allow ").nth(1).expect("it says what to type");
    pattern.split('`').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn case_56_a_calendar_is_held_back_shown_and_let_go_while_the_crawl_runs() {
    let (trap, slow) = (calendar(YEARS), site(|_, _| text("page")));
    let mut crawl = Crawl::new();
    crawl.config.crawl.follow = Follow::Host;
    crawl.host("trap.test", &trap);
    crawl.url("http://trap.test/cal?year=0");
    keep_open(&mut crawl, &slow);
    let mut running = crawl.start();
    let is_trap = |kind| kind == Some(ConcernKind::Trap);
    running.host_is("trap.test", |view| is_trap(view.concern.map(|concern| concern.kind))).await;
    assert_eq!(pages_asked(&trap).len(), CALENDAR);
    running.totals_are("it is counted", |totals| totals.counts.trapped == 1 && totals.urls_pending == 2).await;

    let pattern = pattern_told(&running).await;
    let answer = running.change(Change::Allow(pattern)).await;
    assert!(answer.changed == 1 && answer.text.as_str().contains("1 URLs let go"), "{answer:?}");
    trap.wait_for("the rest of the calendar", |arrivals| arrivals.len() == YEARS as usize + 1).await;
    running.host_is("trap.test", |view| view.concern.is_none()).await;
    running.totals_are("it is over", |totals| totals.counts.trapped == 0).await;
    running.ask(Request::Drain).await;
    let ended = running.end().await;
    assert_eq!(pages_asked(&trap).len(), YEARS as usize);
    assert_eq!((ended.events_of(What::Allow).len(), ended.fates()), (1, (YEARS.into(), 0, 0, 1)));
}

#[tokio::test]
async fn case_56_a_calendar_is_excluded_while_the_crawl_runs() {
    let (trap, slow) = (calendar(u32::MAX), site(|_, _| text("page")));
    let mut crawl = Crawl::new();
    crawl.config.crawl.follow = Follow::Host;
    crawl.host("trap.test", &trap);
    crawl.url("http://trap.test/cal?year=0");
    keep_open(&mut crawl, &slow);
    let mut running = crawl.start();
    let pattern = pattern_told(&running).await;
    let answer = running.change(Change::Exclude(pattern)).await;
    assert!(answer.text.as_str().contains(": 1 queued URLs removed"), "{answer:?}");
    running.totals_are("nothing is held back", |totals| totals.urls_pending == 1).await;
    running.ask(Request::Drain).await;
    let ended = running.end().await;
    assert_eq!(ended.fates(), (CALENDAR as u64, 0, 1, 1));
}

#[tokio::test]
async fn what_nobody_allowed_is_skipped_at_the_end_and_said() {
    let trap = calendar(u32::MAX);
    let mut crawl = Crawl::new();
    crawl.config.crawl.follow = Follow::Host;
    crawl.host("trap.test", &trap);
    crawl.url("http://trap.test/cal?year=0");
    crawl.headless();
    let ended = crawl.run().await;
    assert_eq!(ended.fates(), (CALENDAR as u64, 0, 1, 0));
    assert_eq!(ended.whys(What::UrlSkipped, "trap.test"), ["held back as a trap, and not allowed until the end"]);
}

/// Who knows the site says so in advance: then nobody has to look.
#[tokio::test]
async fn what_the_configuration_allows_is_no_trap() {
    let trap = calendar(YEARS);
    let mut crawl = Crawl::new();
    crawl.config.crawl.follow = Follow::Host;
    crawl.config.crawl.allow = vec![regex::Regex::new("^http://trap\\.test/cal").expect("a regular expression")];
    crawl.host("trap.test", &trap);
    crawl.url("http://trap.test/cal?year=0");
    crawl.headless();
    let ended = crawl.run().await;
    assert_eq!((pages_asked(&trap).len(), ended.fates()), (YEARS as usize, (YEARS.into(), 0, 0, 0)));
}

#[tokio::test]
async fn whoever_looks_is_waited_for_when_nothing_but_a_trap_is_left() {
    let trap = calendar(YEARS);
    let mut crawl = Crawl::new();
    crawl.config.crawl.follow = Follow::Host;
    crawl.host("trap.test", &trap);
    crawl.url("http://trap.test/cal?year=0");
    let mut running = crawl.start();
    let pattern = pattern_told(&running).await;
    running.totals_are("only the trap is left", |totals| totals.urls_pending == 1 && totals.in_flight == 0).await;
    let answer = running.change(Change::Allow(pattern)).await;
    assert!(answer.text.as_str().contains("1 URLs let go"), "{answer:?}");
    // Then nothing is left, and the run ends by itself.
    let ended = running.end().await;
    assert_eq!((pages_asked(&trap).len(), ended.fates()), (YEARS as usize, (YEARS.into(), 0, 0, 0)));
}

#[tokio::test]
async fn row_21_paths_that_grow_and_sessions_are_bounded() {
    let grows = site(|_, path| text(&format!("<a href='{}www.x.example/'>x</a>", path.trim_start_matches("http:"))));
    let mut session = 0;
    // Every answer makes a session of its own for each of ten pages.
    let sessions = site(move |_, _| {
        session += 1;
        let links = (0..10).map(|page| format!("<a href='/p{page}?PHPSESSID=a{session}'>x</a>"));
        text(&links.collect::<String>())
    });
    let mut crawl = Crawl::new();
    crawl.config.crawl.follow = Follow::Host;
    crawl.host("grows.test", &grows);
    crawl.host("sessions.test", &sessions);
    crawl.url("http://grows.test/a/");
    crawl.url("http://sessions.test/");
    crawl.headless();
    let ended = crawl.run().await;
    assert_eq!(pages_asked(&grows).len(), 1 + REPEATS_MAX + GROWTH_BUDGET as usize, "the input, then what grows");
    let asked = pages_asked(&sessions);
    assert_eq!(asked.len(), 1 + 10 + SESSION_BUDGET as usize);
    let pages: BTreeSet<&str> = asked.iter().filter_map(|path| path.split('?').next()).collect();
    assert_eq!(pages.len(), 11, "every page was had");
    assert_eq!(ended.fates().1, 0);
}

/// Words without end, five new ones a page beside the navigation: nothing leads back.
#[tokio::test]
async fn row_21_pages_of_random_words_are_bounded_and_other_kinds_go_on() {
    let mut words = 0_u64;
    let maze = site(move |_, path| {
        let mut links: String = (0..5)
            .map(|_| {
                words += 1;
                let word: String = words.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect();
                format!("<a href='/word/{word}'>x</a>")
            })
            .collect();
        links += "<a href='/'>home</a><a href='/about'>about</a>";
        if path == "/about" { text("<a href='/people'>x</a>") } else { text(&links) }
    });
    let mut crawl = Crawl::new();
    crawl.config.crawl.follow = Follow::Host;
    crawl.host("maze.test", &maze);
    crawl.url("http://maze.test/");
    crawl.headless();
    let ended = crawl.run().await;
    let asked = pages_asked(&maze);
    assert!(asked.iter().any(|path| path == "/people"));
    let words = asked.iter().filter(|path| path.starts_with("/word/")).count();
    let most = 5 * SPREAD_PAGES as usize;
    // Some are in flight when the last page counts.
    assert!((most..most + 400).contains(&words), "{words}");
    let told: Vec<_> = ended.events_of(What::Anomaly).iter().map(|event| event.why.as_str().to_owned()).collect();
    assert!(told.len() == 1 && told[0].contains(":allow ^https?://maze\\.test/word/[^?]*$`"), "{told:?}");
    assert_eq!(ended.whys(What::UrlSkipped, "maze.test")[0], "held back as a trap, and not allowed until the end");
}

#[tokio::test]
async fn case_56_other_hosts_keep_their_rate_beside_a_trap() {
    let trap = calendar(u32::MAX);
    let tree = |_: &str, path: &str| {
        let number = number_in(path);
        text(&format!("<a href='/{}'>x</a><a href='/{}'>y</a>", (2 * number + 1) % 2_000, (2 * number + 2) % 2_000))
    };
    let goods: Vec<LabServer> = (0..3).map(|_| site(tree)).collect();
    let mut crawl = Crawl::new();
    crawl.config.crawl.follow = Follow::Host;
    crawl.rate(200.0, 5.0);
    crawl.host("trap.test", &trap);
    crawl.url("http://trap.test/cal?year=0");
    for (number, server) in goods.iter().enumerate() {
        let name = format!("good{number}.test");
        crawl.host(&name, server);
        crawl.url(format!("http://{name}/0"));
    }
    let running = crawl.start();
    // A chain has one request in flight at most; whoever has many is as fast as its bucket lets it.
    trap.wait_for("the trap to be held back", |arrivals| arrivals.len() > CALENDAR).await;
    let trapped = trap.arrivals().last().map(|arrival| arrival.at).unwrap_or_default();
    for server in &goods {
        let arrivals = server.wait_for("as much as its bucket allows", |arrivals| {
            arrivals.len() as f64 >= 0.95 * 200.0 * trapped.as_secs_f64().min(3.0)
        });
        let count = arrivals.await.iter().filter(|arrival| arrival.at <= trapped + server.jitter()).count();
        assert!(count >= CALENDAR * 95 / 100, "{count} of {CALENDAR}");
        server.assert_envelope(200.0, 5.0);
    }
    running.ask(Request::Stop).await;
    let ended = running.end().await;
    assert_eq!(pages_asked(&trap).len(), CALENDAR, "nothing more went there");
    assert_eq!(ended.fates().1, 0);
}

#[tokio::test]
async fn case_16_names_without_end_are_bounded_and_other_domains_go_on() {
    let names = HOSTS_PER_DOMAIN + 200;
    // A page of names that nobody could ever finish, and one more beyond them.
    let server = site(move |host, path| match (host, path) {
        ("trap.test", _) => text(&(0..names).map(|n| format!("<a href='//n{n}.trap.test/'>x</a>")).collect::<String>()),
        ("other.test", "/") => text("<a href='//www.other.test/'>x</a>"),
        // Every one of them knows more.
        (host, _) if host.ends_with(".trap.test") => text(&format!("<a href='//more.{host}/'>x</a>")),
        _ => text("page"),
    });
    let mut crawl = Crawl::new();
    crawl.config.crawl.follow = Follow::Domain;
    crawl.config.crawl.respect_robots = false;
    for host in ["trap.test", "other.test", "www.other.test"] {
        crawl.host(host, &server);
    }
    for number in 0..names {
        crawl.host(&format!("n{number}.trap.test"), &server);
    }
    crawl.url("http://trap.test/");
    crawl.url("http://other.test/");
    keep_open(&mut crawl, &server);
    crawl.url("http://slow.test/2");
    let mut running = crawl.start();
    let is_trap = |kind| kind == Some(ConcernKind::Trap);
    running.host_is("trap.test", |view| is_trap(view.concern.map(|concern| concern.kind))).await;
    assert_eq!(pattern_told(&running).await, "trap.test");
    running.totals_are("all but one are done", |totals| totals.urls_pending == 1).await;
    let answer = running.change(Change::Allow(String::from("trap.test"))).await;
    assert!(answer.text.as_str().contains("1 domains may have more hosts"), "{answer:?}");
    running.host_is("trap.test", |view| view.concern.is_none()).await;
    running.ask(Request::Drain).await;
    let ended = running.end().await;
    let hosts: BTreeSet<String> = server.arrivals().into_iter().map(|arrival| arrival.host).collect();
    assert_eq!(hosts.len(), HOSTS_PER_DOMAIN as usize + 4);
    assert!(hosts.contains("www.other.test"));
    assert_eq!(ended.end.totals.counts.hosts, HOSTS_PER_DOMAIN + 4);
    let told: Vec<_> = ended.events_of(What::Anomaly).iter().map(|event| event.why.as_str().to_owned()).collect();
    assert_eq!(told.iter().filter(|why| why.contains("1000 hosts of trap.test")).count(), 1, "{told:?}");
    // A concern a domain, not one a host that leads on.
    let concerns: Vec<_> = ended.events_of(What::Concern).iter().map(|event| event.why.as_str().to_owned()).collect();
    let raised: Vec<_> = concerns.iter().filter(|why| why.contains("hosts of")).collect();
    assert!(raised.len() == 1 && raised[0].contains("links to hosts of trap.test: "), "{concerns:?}");
    assert_eq!(concerns.iter().filter(|why| why.starts_with("TRAP ")).count(), 2, "raised and cleared: {concerns:?}");
}

/// What was held back is there again after a restart, its trap stays shut, and it is let go as ever.
#[tokio::test]
async fn case_56_89_what_is_held_back_is_so_after_a_restart() {
    let (trap, slow) = (calendar(YEARS), site(|_, _| text("page")));
    let crawl = || {
        let mut crawl = Crawl::new();
        crawl.config.crawl.follow = Follow::Host;
        crawl.host("trap.test", &trap);
        crawl.url("http://trap.test/cal?year=0");
        keep_open(&mut crawl, &slow);
        crawl
    };
    let running = crawl().start();
    let pattern = pattern_told(&running).await;
    running.totals_are("all else is done", |totals| totals.urls_pending == 2 && totals.in_flight == 0).await;
    running.ask(Request::Stop).await;
    let (first, folder) = running.end_keeping().await;
    assert_eq!(first.fates(), (CALENDAR as u64, 0, 0, 2));
    let held = resume(folder.path(), &Config::default()).expect("whole").expect("there").held;
    let mut urls = Vec::new();
    each_url::<StoreError>(folder.path(), |listed| {
        urls.extend(held.contains_key(&listed.id.0).then(|| listed.url.to_owned()));
        Ok(())
    })
    .expect("the store is whole");
    assert_eq!(urls, [format!("http://trap.test/cal?year={CALENDAR}")]);

    let mut again = crawl();
    again.resume_in(folder);
    let mut running = again.start();
    let is_trap = |kind| kind == Some(ConcernKind::Trap);
    running.host_is("trap.test", |view| is_trap(view.concern.map(|concern| concern.kind))).await;
    running.totals_are("it is counted", |totals| totals.inputs_read && totals.urls_pending == 2).await;
    assert_eq!(pages_asked(&trap).len(), CALENDAR, "it was not asked for");
    let answer = running.change(Change::Allow(pattern)).await;
    assert!(answer.text.as_str().contains("1 URLs let go"), "{answer:?}");
    trap.wait_for("some more of the calendar", |arrivals| arrivals.len() > CALENDAR + 20).await;
    running.ask(Request::Stop).await;
    let (_, folder) = running.end_keeping().await;

    // What the operator allowed is so, too.
    let mut last = crawl();
    last.resume_in(folder);
    let running = last.start();
    trap.wait_for("the rest of the calendar", |arrivals| {
        arrivals.iter().any(|arrival| number_in(&arrival.path) == YEARS - 1)
    })
    .await;
    running.totals_are("it is over", |totals| totals.urls_pending == 1 && totals.in_flight == 0).await;
    running.ask(Request::Drain).await;
    assert_eq!(running.end().await.fates(), (YEARS.into(), 0, 0, 1));
}

/// A run that is killed, resumed and left alone says what became of what was held back.
#[tokio::test]
async fn case_56_what_is_held_back_over_a_restart_is_skipped_at_the_end() {
    let (trap, slow) = (calendar(u32::MAX), site(|_, _| text("page")));
    let crawl = |rate: f64| {
        let mut crawl = Crawl::new();
        crawl.config.crawl.follow = Follow::Host;
        crawl.host("trap.test", &trap);
        crawl.url("http://trap.test/cal?year=0");
        crawl.host("slow.test", &slow);
        let policy = crawl.policy("slow.test");
        (policy.original.rate, policy.original.capacity) = (rate, 1.0);
        crawl.url("http://slow.test/1");
        crawl
    };
    let running = crawl(0.001).start();
    running.totals_are("held back", |totals| totals.counts.trapped == 1 && totals.urls_pending == 2).await;
    running.ask(Request::Stop).await;
    let (_, folder) = running.end_keeping().await;
    let mut again = crawl(1_000.0);
    again.resume_in(folder);
    again.headless();
    let ended = again.run().await;
    assert_eq!(ended.fates(), (CALENDAR as u64 + 1, 0, 1, 0));
    assert_eq!(ended.whys(What::UrlSkipped, "trap.test"), ["held back as a trap, and not allowed until the end"]);
    assert_eq!(pages_asked(&trap).len(), CALENDAR);
}
