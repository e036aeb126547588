//! What the configuration accepts, what it refuses, and in which words.

use std::ffi::OsString;

use proptest::prelude::*;

use super::*;
use crate::control::{ControllerKind, Lane, Shape};

/// The errors of `text`, a line each; panics if there are none.
fn errors(text: &str) -> String {
    Config::parse(text, "c.toml").expect_err("must be refused").to_string()
}

fn parsed(text: &str) -> Config {
    Config::parse(text, "c.toml").expect("must be accepted")
}

/// The one error of `text`.
fn error(text: &str) -> String {
    let all = errors(text);
    assert_eq!(all.lines().count(), 1, "{all}");
    all
}

/// An environment with one canary in it.
fn environment(name: &str) -> Option<OsString> {
    match name {
        "API_KEY" => Some("canary-7f3a".into()),
        "WITH_NEWLINE" => Some("canary-7f3a\n".into()),
        _ => None,
    }
}

fn parse_in_environment(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse_with(text, "c.toml", Outside { environment: &environment, ..Outside::process() })
}

#[test]
fn the_documented_default_is_the_default() {
    let documented = format!("{:?}", parsed(DEFAULT_CONFIG));
    assert_eq!(documented, format!("{:?}", Config::default()));
    assert_eq!(format!("{:?}", parsed("")), documented);
}

#[test]
fn every_key_of_the_contract_is_documented() {
    let keys = "urls concurrency user_agent follow exclude allow sitemaps max_depth max_requests retries give_up_after \
        rate capacity connections shape respect_robots global_rate kind min_rate cold_start refusal_budget prior \
        memory group_by base max jitter retry_after_max allow_private resolve connect_timeout head_timeout \
        idle_timeout min_body_rate max_body proxy cookies extra_roots match controller headers path cost warc bodies \
        fps glyphs theme override_ttl remind_after on_hangup";
    for key in keys.split_whitespace() {
        let documents = |line: &str| line.trim_start_matches("# ").starts_with(&format!("{key} = "));
        assert!(DEFAULT_CONFIG.lines().any(documents), "{key}");
    }
    for title in "[crawl] [politeness] [controller] [backoff] [network] [[host]] [[host.endpoint]] [output] [ui] [keys]"
        .split_whitespace()
    {
        assert!(DEFAULT_CONFIG.lines().any(|line| line.trim_start_matches("# ").starts_with(title)), "{title}");
    }
}

#[test]
fn the_commented_example_of_a_host_is_accepted() {
    let commented = DEFAULT_CONFIG.split_once("# [[host]]").expect("there").1.split_once("[output]").expect("there").0;
    let example: String = commented.lines().map(|line| format!("{}\n", line.trim_start_matches("# "))).collect();
    let example = format!("[[host]]{}", example.replace("env:NAME\"", "env:API_KEY\""));
    let config = parse_in_environment(&example).expect("accepted");
    assert_eq!(config.hosts[0].pattern_text, "api.example.com");
    assert_eq!(config.settings.policies[1].endpoints[0].original.rate, 1.0);
}

#[test]
fn values_arrive_where_they_belong() {
    let config = parsed(
        r#"
        [crawl]
        urls = ["a.txt", "-"]
        concurrency = 8
        exclude = ['\.pdf$']
        max_requests = 7
        retries = 0
        give_up_after = "1h 30m"
        [politeness]
        rate = 3
        capacity = 1.5
        connections = 2
        shape = "sliding-window"
        respect_robots = false
        global_rate = 12.5
        [controller]
        kind = "static"
        min_rate = 0.25
        cold_start = false
        refusal_budget = 0
        prior = "random-forest"
        memory = "learned/memory"
        [backoff]
        base = "250ms"
        max = "5m"
        jitter = "0s"
        retry_after_max = "12h"
        [network]
        allow_private = true
        resolve = { "A.test." = "127.0.0.1:8080", "b.test" = "[::1]:81", "c.test" = "::1", "d.test" = "[::1]" }
        connect_timeout = "1s"
        min_body_rate = "0B"
        max_body = "1GiB"
        proxy = "socks5://me:canary-7f3a@127.0.0.1:1080"
        cookies = true
        extra_roots = ["root.pem"]
        [ui]
        fps = 10
        glyphs = "ascii"
        theme = "mono"
        override_ttl = "3h"
        remind_after = "20m"
        on_hangup = "drain"
        [keys]
        pause = "x"
        "#,
    );
    assert_eq!(config.crawl.urls, [PathBuf::from("a.txt"), PathBuf::from("-")]);
    assert!(config.crawl.exclude[0].is_match("http://h/a.pdf"));
    assert_eq!((config.crawl.max_requests, config.crawl.retries, config.crawl.respect_robots), (7, 0, false));
    let settings = &config.settings;
    assert_eq!((settings.concurrency, settings.global_rate, settings.min_rate), (8, Some(12.5), 0.25));
    assert_eq!((settings.cold_start, settings.give_up_after), (false, Duration::from_secs(5400)));
    let policy = &settings.policies[0];
    assert_eq!((policy.original.rate, policy.original.capacity, policy.connections), (3.0, 1.5, 2));
    assert_eq!((policy.shape, policy.kind, policy.refusal_budget), (Shape::SlidingWindow, ControllerKind::Static, 0));
    assert_eq!((settings.backoff.base, settings.backoff.jitter), (Duration::from_millis(250), Duration::ZERO));
    let network = &config.network;
    assert_eq!(network.resolve["a.test"], Resolved { ip: "127.0.0.1".parse().expect("ip"), port: Some(8080) });
    assert_eq!(network.resolve["b.test"], Resolved { ip: "::1".parse().expect("ip"), port: Some(81) });
    assert_eq!(network.resolve["c.test"], network.resolve["d.test"]);
    assert_eq!((network.min_body_rate, network.max_body, network.cookies), (0, 1 << 30, true));
    assert_eq!(network.proxy.as_ref().and_then(|proxy| proxy.port()), Some(1080));
    assert_eq!(network.extra_roots, [PathBuf::from("root.pem")]);
    assert_eq!((config.ui.fps, config.ui.glyphs, config.ui.on_hangup), (10, Glyphs::Ascii, OnHangup::Drain));
    assert_eq!((settings.override_ttl, settings.remind_after), (Duration::from_secs(10800), Duration::from_secs(1200)));
    assert_eq!(config.keys["pause"], "x");
}

#[test]
fn case_130_secrets_are_in_no_debug_output_and_no_error() {
    let text = r#"
        [network]
        proxy = "http://canary-7f3a:canary-7f3a@proxy.test:3128"
        [[host]]
        match = "a.test"
        headers = { "X-Api-Key" = "env:API_KEY", "X-Other" = "canary-7f3a" }
    "#;
    let config = parse_in_environment(text).expect("accepted");
    assert_eq!(config.hosts[0].headers[1].1.0, "canary-7f3a");
    assert!(!format!("{config:?}").contains("canary"));
    let wrong = [
        "[network]\nproxy = \"ftp://canary:canary@h:1\"",
        "[network]\nproxy = \"http://canary:canary@h:1/canary\"",
        "[network]\nproxy = \"canary@h\"",
        "[[host]]\nmatch = \"a\"\nheaders = { \"X-Key\" = \" canary\" }",
        "[[host]]\nmatch = \"a\"\nheaders = { \"X-Key\" = \"env:WITH_NEWLINE\" }",
    ];
    for text in wrong {
        let shown = parse_in_environment(text).expect_err("refused").to_string();
        assert!(!shown.contains("canary"), "{shown}");
    }
}

#[test]
fn a_missing_variable_is_named() {
    let text = "[[host]]\nmatch = \"a.test\"\nheaders = { \"X-Key\" = \"env:NOT_THERE\" }";
    let shown = parse_in_environment(text).expect_err("refused").to_string();
    assert!(shown.starts_with("c.toml:3:23: `headers` in [[host]]: `X-Key`"), "{shown}");
    assert!(shown.contains("`NOT_THERE` is not set"), "{shown}");
}

#[test]
fn every_error_is_told_with_its_place_in_order() {
    let shown = errors(
        "[politeness]\nratee = 1\nrate = 0\ncapacity = \"x\"\n[ui]\nfps = 0\n[crwl]\n[crawl]\nexclude = [\"a\", \"(\"]\n",
    );
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 6, "{shown}");
    assert_eq!(lines[0], "c.toml:2:1: unknown key `ratee` in [politeness]; did you mean `rate`?");
    assert_eq!(lines[1], "c.toml:3:8: `rate` in [politeness]: 0 is out of range; write a number from 0.001 to 1000000");
    assert_eq!(lines[2], "c.toml:4:12: `capacity` in [politeness]: this is a text; write a number from 1 to 1000000");
    assert!(lines[3].starts_with("c.toml:6:7: `fps` in [ui]: 0 is out of range"), "{shown}");
    assert!(lines[4].starts_with("c.toml:7:2: unknown key `crwl`; did you mean `crawl`?"), "{shown}");
    assert!(lines[5].starts_with("c.toml:9:17: `exclude` in [crawl]: \"(\" is no regular expression"), "{shown}");
}

#[test]
fn row_35_duplicate_keys_are_named_and_do_not_hide_other_errors() {
    let shown = errors("[politeness]\nrate = 1\nrate = 2\n[ui]\nfps = 0\n");
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    assert_eq!(lines[0], "c.toml:3:1: `rate` stands here a second time; write it once");
    assert!(lines[1].starts_with("c.toml:5:7:"), "{shown}");
}

#[test]
fn links_are_followed_as_far_as_it_says() {
    let follow = |text: &str| parsed(&format!("[crawl]\nfollow = {text}")).crawl.follow;
    assert!(matches!(follow("\"none\""), Follow::None) && matches!(follow("\"host\""), Follow::Host));
    assert!(matches!(follow("\"domain\""), Follow::Domain));
    let Follow::Globs(globs) = follow("[\"*.Example.com\", \"b.test:8080\"]") else { panic!("a list is globs") };
    assert!(
        globs[0].is_match("a.b.example.com") && !globs[0].is_match("example.com") && globs[1].is_match("b.test:8080")
    );
    let crawl = parsed("[crawl]\nsitemaps = true\nmax_depth = 3").crawl;
    assert_eq!((crawl.sitemaps, crawl.max_depth), (true, 3));
    for (text, words) in [
        ("follow = \"hosts\"", "did you mean \"host\"?"),
        ("follow = true", "write \"none\", \"host\", \"domain\", or a list of host globs"),
        ("follow = [\"http://a.test/\"]", "is no host; write its name alone"),
        ("sitemaps = 1", "true or false"),
        ("max_depth = -1", "a whole number from 0 to 1000000"),
    ] {
        let error = Config::parse(&format!("[crawl]\n{text}"), "c.toml").expect_err(text).to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn a_bare_word_is_answered_with_what_to_write() {
    for text in ["[politeness]\nrate = fast", "[crawl]\nsitemaps = ture"] {
        let shown = error(text);
        assert!(shown.contains("write true or false, a number, or a text in quotes"), "{shown}");
        assert!(!shown.contains("invalid boolean"), "{shown}");
    }
    let shown = error("[politeness]\nrate = slow");
    assert!(shown.contains("quote"), "{shown}");
}

#[test]
fn what_cannot_be_honoured_yet_is_refused_with_the_reason() {
    for (text, place, reason) in [
        ("[controller]\nprior = \"hours\"", "2:9", "\"hour-of-week\""),
        ("[controller]\nmemory = 1", "2:10", "a file's name"),
        ("[controller]\ngroup_by = \"ip\"\n[network]\nproxy = \"http://p.test:1\"", "2:12", "a proxy stands between"),
        ("[output]\nbodies = \"all\"", "2:10", "\"none\" or \"ok\""),
        ("[ui]\ntheme = \"lihgt\"", "2:9", "did you mean \"light\"?"),
    ] {
        let shown = error(text);
        assert!(shown.starts_with(&format!("c.toml:{place}: ")), "{shown}");
        assert!(shown.contains(reason), "{shown}");
    }
}

#[test]
fn wrong_values_are_refused_one_by_one() {
    for text in [
        "[politeness]\nrate = nan",
        "[politeness]\nrate = inf",
        "[politeness]\nrate = -1",
        "[politeness]\nrate = 1e400",
        "[politeness]\nrate = 0.0009",
        "[politeness]\nrate = 1000001",
        "[politeness]\nrate = 99999999999999999999999999999999999999999999",
        "[politeness]\ncapacity = 0.5",
        "[politeness]\nconnections = 0",
        "[politeness]\nconnections = 1025",
        "[politeness]\nconnections = 1.5",
        "[politeness]\nglobal_rate = -0.1",
        "[politeness]\nglobal_rate = 0.0001",
        "[politeness]\nshape = \"bucket\"",
        "[politeness]\nrespect_robots = \"yes\"",
        "[crawl]\nconcurrency = 0",
        "[crawl]\nconcurrency = 65537",
        "[crawl]\nurls = \"a.txt\"",
        "[crawl]\nurls = [\"\"]",
        "[crawl]\nurls = [1]",
        "[crawl]\nuser_agent = \"\"",
        "[crawl]\nuser_agent = \"a\\nb\"",
        "[crawl]\nuser_agent = \"(bot)\"",
        "[crawl]\nretries = -1",
        "[crawl]\ngive_up_after = \"0s\"",
        "[crawl]\ngive_up_after = 30",
        "[crawl]\ngive_up_after = \"30\"",
        "[backoff]\nbase = \"2m\"",
        "[backoff]\nmax = \"100000000000h\"",
        "[network]\nmax_body = \"0B\"",
        "[network]\nmax_body = 64",
        "[network]\nmax_body = \"64\"",
        "[network]\nproxy = \"ftp://h:1\"",
        "[network]\nproxy = \"socks4://h:1\"",
        "[network]\nproxy = \"h:1\"",
        "[network]\nproxy = \"http://h:1/path\"",
        "[network]\nresolve = { \"a.test\" = \"b.test\" }",
        "[network]\nresolve = { \"a.test\" = \"127.0.0.1:0\" }",
        "[network]\nresolve = { \"a.test\" = \"127.0.0.1:99999\" }",
        "[network]\nresolve = { \"a.test\" = \"[127.0.0.1]\" }",
        "[network]\nresolve = { \"http://a.test\" = \"127.0.0.1\" }",
        "[network]\nresolve = { \"\" = \"127.0.0.1\" }",
        "[network]\nresolve = { \"*.test\" = \"127.0.0.1\" }",
        "[network]\nresolve = { \"a.test\" = \"127.0.0.1\", \"A.test\" = \"127.0.0.2\" }",
        "[network]\nresolve = \"a\"",
        "[network]\nextra_roots = [\"\"]",
        "[ui]\nfps = 61",
        "[ui]\nglyphs = \"emoji\"",
        "[ui]\non_hangup = \"stop\"",
        "[keys]\npause = \"\"",
        "[keys]\npause = 1",
        "crawl = 1",
        "[host]\nmatch = \"a\"",
        "host = [1]",
        "[[host]]\nrate = 1",
        "[[host]]\nmatch = \"\"",
        "[[host]]\nmatch = \"http://a.test\"",
        "[[host]]\nmatch = \"a.test/x\"",
        "[[host]]\nmatch = \"a.test:0\"",
        "[[host]]\nmatch = \"a.test:443\"",
        "[[host]]\nmatch = \"a.test:x\"",
        "[[host]]\nmatch = \"::1\"",
        "[[host]]\nmatch = \"a[\"",
        "[[host]]\nmatch = \"{a\"",
        "[[host]]\nmatch = \"a\"\n[[host]]\nmatch = \"A.\"",
        "[[host]]\nmatch = \"a\"\nheaders = { \"Host\" = \"b\" }",
        "[[host]]\nmatch = \"a\"\nheaders = { \"X Y\" = \"b\" }",
        "[[host]]\nmatch = \"a\"\nheaders = { \"X\" = \"\" }",
        "[[host]]\nmatch = \"a\"\nheaders = { \"X\" = \"a\\r\\nY: b\" }",
        "[[host]]\nmatch = \"a\"\nheaders = { \"X\" = \"a\", \"x\" = \"b\" }",
        "[[host]]\nmatch = \"a\"\nheaders = { \"X\" = \"env:\" }",
        "[[host]]\nmatch = \"a\"\nheaders = { \"X\" = 1 }",
        "[[host]]\nmatch = \"a\"\n[[host.endpoint]]\nrate = 1",
        "[[host]]\nmatch = \"a\"\n[[host.endpoint]]\npath = \"api\"",
        "[[host]]\nmatch = \"a\"\n[[host.endpoint]]\npath = \"/a?b=c\"",
        "[[host]]\nmatch = \"a\"\n[[host.endpoint]]\npath = \"/a[\"",
        "[[host]]\nmatch = \"a\"\n[[host.endpoint]]\npath = \"/a\"\ncost = 0",
        "[[host]]\nmatch = \"a\"\n[[host.endpoint]]\npath = \"/a\"\n[[host.endpoint]]\npath = \"/a\"",
        "[[host]]\nmatch = \"a\"\n[[host.endpoint]]\npath = \"/a\"\nshape = \"token-bucket\"",
    ] {
        let shown = error(text);
        assert!(shown.starts_with("c.toml:"), "{text}: {shown}");
        let advises =
            ["write ", "did you mean", "known here", "leave it out"].iter().any(|advice| shown.contains(advice));
        assert!(advises, "{shown}");
    }
}

#[test]
fn keys_are_checked_by_who_knows_the_actions() {
    let keys = |action: &str, _: &str| match action {
        "pause" => Ok(()),
        other => Err(format!("there is no action `{other}`; did you mean `pause`?")),
    };
    let text = "[keys]\npause = \"x\"\npasue = \"y\"\n";
    let shown = Config::parse_with(text, "c.toml", Outside { keys: &keys, ..Outside::process() })
        .expect_err("refused")
        .to_string();
    assert_eq!(shown, "c.toml:3:9: `keys`: there is no action `pasue`; did you mean `pause`?");
}

#[test]
fn wanted_10_the_first_entry_that_matches_wins_and_inherits_what_it_leaves_out() {
    let config = parsed(
        r#"
        [politeness]
        rate = 3.0
        shape = "leaky-bucket"
        [[host]]
        match = "API.example.com."
        rate = 5.0
        [[host]]
        match = "*.example.com"
        capacity = 9
        controller = "static"
        max_requests = 10
        [[host]]
        match = "münchen.example"
        [[host]]
        match = "*.bücher.example"
        [[host]]
        match = "[::1]:8080"
        [[host]]
        match = "127.0.0.1:*"
        "#,
    );
    for (host, rule) in [
        ("api.example.com", Some(0)),
        ("www.example.com", Some(1)),
        ("a.b.example.com", Some(1)),
        ("example.com", None),
        ("api.example.com:8080", None),
        ("xn--mnchen-3ya.example", Some(2)),
        ("www.xn--bcher-kva.example", Some(3)),
        ("[::1]:8080", Some(4)),
        (":", None),
        ("127.0.0.1:5000", Some(5)),
    ] {
        assert_eq!(config.rule_for(host), rule, "{host}");
    }
    let [base, first, second, ..] = config.settings.policies.as_slice() else { panic!("seven policies") };
    assert_eq!(config.settings.policies.len(), 7);
    assert_eq!((first.original.rate, first.original.capacity, first.shape), (5.0, 4.0, Shape::LeakyBucket));
    assert_eq!((second.original.rate, second.original.capacity), (3.0, 9.0));
    assert_eq!((second.kind, second.max_requests, base.max_requests), (ControllerKind::Static, 10, 0));
}

#[test]
fn the_endpoint_with_most_literal_characters_wins() {
    let config = parsed(
        r#"
        [[host]]
        match = "a.test"
        rate = 7.0
        [[host.endpoint]]
        path = "/api"
        [[host.endpoint]]
        path = "/api/data"
        rate = 1.0
        cost = 2
        [[host.endpoint]]
        path = "/*/search"
        [[host.endpoint]]
        path = "/api/**"
        [[host.endpoint]]
        path = "/ü/"
        "#,
    );
    for (path, lane) in [
        ("/", 0),
        ("/api", 1),
        ("/apis", 1),
        ("/api/data", 2),
        ("/api/database?x=/de/search", 2),
        ("/de/search", 3),
        ("/de/at/search", 0),
        ("/api/search", 3),
        ("/api/x", 4),
        ("/%C3%BC/x", 5),
        ("", 0),
    ] {
        assert_eq!(config.endpoint_for(0, path), Lane(lane), "{path}");
    }
    assert_eq!(config.endpoint_for(9, "/api"), Lane(0), "an entry that does not exist has no endpoints");
    let endpoints = &config.settings.policies[1].endpoints;
    assert_eq!((endpoints[0].original.rate, endpoints[0].cost), (7.0, 1.0));
    assert_eq!((endpoints[1].original.rate, endpoints[1].cost), (1.0, 2.0));
}

#[test]
fn flags_replace_only_what_no_entry_states() {
    let mut config = parsed(
        r#"
        [[host]]
        match = "a.test"
        rate = 5.0
        [[host]]
        match = "b.test"
        [[host.endpoint]]
        path = "/x"
        capacity = 2
        "#,
    );
    let overrides = Overrides { rate: Some(0.5), capacity: Some(8.0), concurrency: Some(3) };
    config.apply(overrides).expect("valid");
    let originals: Vec<(f64, f64)> =
        config.settings.policies.iter().map(|policy| (policy.original.rate, policy.original.capacity)).collect();
    assert_eq!(originals, [(0.5, 8.0), (5.0, 8.0), (0.5, 8.0)]);
    let endpoint = config.settings.policies[2].endpoints[0].original;
    assert_eq!((endpoint.rate, endpoint.capacity), (0.5, 2.0));
    assert_eq!(config.settings.concurrency, 3);
}

#[test]
fn flags_out_of_range_are_refused_and_change_nothing() {
    let mut config = Config::default();
    let before = format!("{config:?}");
    let wrong = Overrides { rate: Some(f64::NAN), capacity: Some(0.0), concurrency: Some(0) };
    let shown = config.apply(wrong).expect_err("refused").to_string();
    assert_eq!(shown.lines().count(), 3, "{shown}");
    assert!(shown.starts_with("--rate: NaN is out of range"), "{shown}");
    assert_eq!(format!("{config:?}"), before);
}

#[test]
fn row_35_a_file_that_is_too_long_is_not_read_to_its_end() {
    let folder = tempfile::tempdir().expect("folder");
    let huge = folder.path().join("huge.toml");
    std::fs::write(&huge, vec![b'#'; FILE_MAX as usize + 1]).expect("written");
    let shown = Config::load(&huge).expect_err("refused").to_string();
    assert!(shown.contains("huge.toml: is longer than 16 MiB"), "{shown}");
}

#[test]
fn row_35_a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().expect("folder");
    let missing = folder.path().join("missing.toml");
    let shown = Config::load(&missing).expect_err("refused").to_string();
    assert!(shown.contains("missing.toml: cannot be read: "), "{shown}");
    let broken = folder.path().join("broken.toml");
    std::fs::write(&broken, b"[ui]\nfps = 4\n# \xff\n").expect("written");
    let shown = Config::load(&broken).expect_err("refused").to_string();
    assert!(shown.ends_with("broken.toml:3:3: this is not UTF-8; save the file as UTF-8"), "{shown}");
    let good = folder.path().join("good.toml");
    std::fs::write(&good, "\u{feff}[ui]\r\nfps = 7\r\n").expect("written");
    assert_eq!(Config::load(&good).expect("accepted").ui.fps, 7);
}

#[test]
fn a_flood_of_errors_is_cut() {
    let text: String = (0..1000).map(|line| format!("k{line} = 1\n")).collect();
    let shown = errors(&text);
    assert_eq!(shown.lines().count(), ERRORS_MAX + 1);
    assert!(shown.ends_with("and 900 more errors"), "{shown}");
}

#[test]
fn deep_nesting_is_an_error_not_a_crash() {
    let deep = format!("[crawl]\nurls = {}{}", "[".repeat(50_000), "]".repeat(50_000));
    assert!(errors(&deep).starts_with("c.toml:2:"));
    let dotted = format!("{}x = 1", "a.".repeat(20_000));
    assert!(errors(&dotted).starts_with("c.toml:1:"));
}

/// Either accepted, or refused with places that lie in the file.
fn is_judged(text: &str) {
    if let Err(found) = Config::parse(text, "c.toml") {
        let lines = text.split('\n').count();
        for one in found.iter() {
            let (line, column) = one.position().expect("an error of the text has a place");
            assert!((1..=lines).contains(&line) && column >= 1, "{one}");
            assert!(!one.message().is_empty());
        }
        assert_eq!(found.to_string().lines().count().min(ERRORS_MAX), found.iter().count().min(ERRORS_MAX));
    }
}

#[test]
fn case_100_a_file_cut_at_any_byte_is_judged() {
    let text = DEFAULT_CONFIG.replace("# [[host", "[[host").replace("# match", "match").replace("# path", "path");
    for (end, _) in text.char_indices() {
        is_judged(&text[..end]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn case_100_a_garbled_file_is_judged(
        edits in proptest::collection::vec((any::<proptest::sample::Index>(), any::<char>()), 1..4),
        delete in any::<bool>(),
    ) {
        let mut chars: Vec<char> = DEFAULT_CONFIG.chars().collect();
        for (at, replacement) in edits {
            let at = at.index(chars.len());
            if delete {
                chars.remove(at);
            } else {
                chars[at] = replacement;
            }
        }
        is_judged(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn case_100_any_text_is_judged(text in any::<String>()) {
        is_judged(&text);
    }

    #[test]
    fn case_100_any_value_of_any_key_is_judged(
        section in "(crawl|politeness|controller|backoff|network|output|ui|keys|\\[host\\])",
        key in "[a-z_]{1,16}",
        value in "(nan|-?[0-9]{1,30}|-?[0-9]\\.[0-9]{1,3}e[0-9]{1,3}|true|\"[ -!#-\\[\\]-~]{0,20}\"|\\[\"a*\"\\]|\\{ a = 1 \\}|1979-05-27)",
    ) {
        is_judged(&format!("[{section}]\n{key} = {value}\n"));
    }
}
