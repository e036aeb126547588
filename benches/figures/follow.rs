//! A site of 100,000 pages on loopback, crawled from its first page: follow, extract, deduplicate. Pages a second
//! as the server saw them, and the peak memory of the crawl's process.
//!
//! Each page is 6 KB of HTML with 32 links: ten to pages of its own below it, ten to others all over the site, the
//! rest the navigation that every page has, in several spellings, and links out of the site. The peers' programs of
//! `README.md` are run by hand against `cargo bench --bench figures -- child site`, which serves the same site.

use std::time::Duration;

use bytes::Bytes;

use crate::crawl::Job;
use crate::server::{Answer, Server};
use crate::table::{Table, thousands};

const PAGES: u32 = 100_000;
const TURNS: u32 = 3;
/// Links of a page to pages below it, and to others.
const BRANCHES: u32 = 10;

const CONFIG: &str = "
[crawl]
concurrency = 64
follow = \"host\"
[politeness]
rate = 1000000
capacity = 1000000
connections = 64
[controller]
cold_start = false
[network]
allow_private = true
";

pub(crate) fn measure(table: &mut Table) {
    let server = site();
    let mut job = Job::new(CONFIG, &format!("http://{}/p/0\n", server.addr()));
    let (mut best, mut peak) = (0.0_f64, 0);
    for _ in 0..TURNS {
        server.clear();
        peak = peak.max(job.headless_weighed());
        let arrivals = server.arrivals();
        let pages: Vec<_> = arrivals.iter().filter(|arrival| arrival.page.is_some()).collect();
        let mut seen = vec![false; PAGES as usize];
        for page in pages.iter().filter_map(|arrival| arrival.page) {
            assert!(!std::mem::replace(&mut seen[page as usize], true), "page {page} came twice");
        }
        assert_eq!(pages.len(), PAGES as usize, "every page");
        let took = pages[pages.len() - 1].at - pages[0].at;
        let rate = (pages.len() - 1) as f64 / took.as_secs_f64();
        eprintln!("  {} pages/s", thousands(rate));
        best = best.max(rate);
    }
    table.add(
        "a site of 100,000 pages on loopback, followed from its first page, headless",
        format!("{} pages/s, peak {} MB", thousands(best), peak / 1024),
        "ahead of the peers",
    );
}

/// Serves the site until somebody kills it; says where.
pub(crate) fn child() {
    println!("http://{}/p/0", site().addr());
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

fn site() -> Server {
    let filler =
        "<p>The quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs.</p>\n".repeat(40);
    let mut served = 0_u32;
    Server::start(Box::new(move |_, path| {
        if path == "/served" {
            // For whoever measures others: how many pages since the last time.
            return Answer::ok(std::mem::take(&mut served).to_string().into());
        }
        let Some(number) = path.strip_prefix("/p/").and_then(|number| number.parse().ok()) else {
            return Answer { status: 404, ..Answer::ok(Bytes::new()) };
        };
        served += 1;
        Answer { html: true, ..Answer::ok(page(number, &filler)) }
    }))
}

fn page(number: u32, filler: &str) -> Bytes {
    use std::fmt::Write as _;
    let mut html = String::with_capacity(filler.len() + 3 * 1024);
    let _ = write!(html, "<!doctype html><html><head><meta charset=\"utf-8\"><title>Page {number}</title>");
    html += "<link rel=\"stylesheet\" href=\"/s.css\"></head><body><nav>";
    for place in 0..6 {
        let _ = writeln!(html, "<a class=\"nav\" href=\"/p/{place}#top\">place</a> <a href='../p/%3{place}'>again</a>");
    }
    html += "</nav><script>var a = \"<a href='/no'>\";</script>";
    for branch in 1..=BRANCHES {
        let below = u64::from(number) * u64::from(BRANCHES) + u64::from(branch);
        if below < u64::from(PAGES) {
            let _ = writeln!(html, "<p><a href=\"/p/{below}\" title=\"a &amp; b\">below</a></p>");
        }
        let other = number.wrapping_mul(2_654_435_761).wrapping_add(branch * 7_919) % PAGES;
        let _ = writeln!(html, "<p><a href=\"{other}\">elsewhere</a></p>");
    }
    html += "<a href=\"https://out.example/\">out</a><a href=\"mailto:a@b.example\">mail</a>";
    html += filler;
    html += "</body></html>";
    html.into()
}
