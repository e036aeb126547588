//! What RFC 9309 says, and what a large search engine's published parser expects, restated as rows of our own:
//! a file, a crawler, and which paths it may fetch (`+`) or not (`-`).

use super::parse::{Extent, product_token};
use super::{Access, Rules, Target};

/// Files with what follows from them.
type Row = (&'static str, &'static str, &'static [&'static str]);

fn allows(file: &[u8], agent: &str, path: &str) -> bool {
    Rules::parse(file, Extent::Whole, agent).access(&Target::new(path)) == Access::Allow
}

#[track_caller]
fn assert_rows(rows: &[Row]) -> usize {
    let mut expectations = 0;
    for (file, agent, paths) in rows {
        for marked in *paths {
            let (mark, path) = marked.split_at(1);
            assert_eq!(allows(file.as_bytes(), agent, path), mark == "+", "{agent} and {path} in {file:?}");
            expectations += 1;
        }
    }
    expectations
}

/// RFC 9309, section by section.
#[test]
fn row_07_the_rfc() {
    let example = "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n\
                   User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\nAllow:/example/allowed.gif\n\n\
                   User-Agent: barbot\nUser-Agent: bazbot\nDisallow: /example/page.html\n\nUser-Agent: quxbot\n\nEOF";
    let expectations = assert_rows(&[
        // 2.1: groups are one or more agents and their rules; comments, blank lines and line ends do not matter.
        ("", "FooBot", &["+/", "+/x"]),
        ("# nothing\n\n", "FooBot", &["+/"]),
        ("user-agent: FooBot # me\ndisallow: /x # not there\n", "FooBot", &["-/x", "-/x/y", "+/y"]),
        ("user-agent: FooBot\n\n\ndisallow: /x", "FooBot", &["-/x"]),
        ("user-agent: FooBot\r\ndisallow: /x\r\n", "FooBot", &["-/x", "+/"]),
        ("disallow: /x\nuser-agent: FooBot\ndisallow: /y", "FooBot", &["+/x", "-/y"]),
        // 2.2.1: the product token in any case, the whole of it; several groups of one crawler are one.
        ("user-agent: FOOBOT\ndisallow: /", "foobot", &["-/"]),
        ("user-agent: foobot\ndisallow: /", "FooBot/1.2 (+https://foo.example/)", &["-/"]),
        ("user-agent: foo\ndisallow: /", "foobot", &["+/"]),
        ("user-agent: foobot-news\ndisallow: /", "foobot", &["+/"]),
        (
            "user-agent: a\ndisallow: /c\n\nuser-agent: b\ndisallow: /b\n\nuser-agent: A\ndisallow: /e",
            "a",
            &["-/c", "-/e", "+/b"],
        ),
        ("user-agent: a\ndisallow: /c\n\nuser-agent: *\ndisallow: /e", "other", &["+/c", "-/e"]),
        ("user-agent: a\ndisallow: /c", "other", &["+/c", "+/"]),
        ("user-agent: a\nuser-agent: b\ndisallow: /c", "b", &["-/c"]),
        // 2.2.2: most octets, a tie allows; encoded as octets, reserved ones stay apart; robots.txt is always allowed.
        ("user-agent: *\nallow: /x/\ndisallow: /x/y", "a", &["+/x/", "+/x/z", "-/x/y", "-/x/yz"]),
        ("user-agent: *\ndisallow: /x\nallow: /x", "a", &["+/x"]),
        ("user-agent: *\ndisallow: /", "a", &["+/robots.txt", "-/robots.txt/", "-/Robots.txt"]),
        ("user-agent: *\ndisallow:", "a", &["+/", "+/x"]),
        ("user-agent: *\ndisallow: /foo/bar?baz=quz", "a", &["-/foo/bar?baz=quz", "+/foo/bar", "+/foo/bar?baz=qu"]),
        (
            "user-agent: *\ndisallow: /foo/bar?baz=https://foo.bar",
            "a",
            &["-/foo/bar?baz=https%3A%2F%2Ffoo.bar", "-/foo/bar?baz=https://foo.bar"],
        ),
        ("user-agent: *\ndisallow: /foo/bar/\u{30c4}", "a", &["-/foo/bar/%E3%83%84", "+/foo/bar/%E3%83%85"]),
        ("user-agent: *\ndisallow: /foo/bar/%E3%83%84", "a", &["-/foo/bar/%e3%83%84"]),
        ("user-agent: *\ndisallow: /foo/bar/%62%61%7A", "a", &["-/foo/bar/baz"]),
        ("user-agent: *\ndisallow: /a%2Fb", "a", &["-/a%2fb", "+/a/b"]),
        // 2.2.3: # ends a line, $ the match, * is any octets; each literal when it is encoded.
        (
            "user-agent: *\ndisallow: /path/file-with-a-%2A.html",
            "a",
            &["-/path/file-with-a-*.html", "+/path/file-with-a-b.html"],
        ),
        ("user-agent: *\ndisallow: /path/foo-%24", "a", &["-/path/foo-$", "-/path/foo-$x", "+/path/foo-"]),
        (
            "user-agent: *\nallow: /this/path/exactly$\ndisallow: /",
            "a",
            &["+/this/path/exactly", "-/this/path/exactly/"],
        ),
        (
            "user-agent: *\ndisallow: /this/*/exactly",
            "a",
            &["-/this/path/exactly", "-/this//exactly", "+/this/exactly"],
        ),
        // 2.2.4: other lines end neither a group nor a list of agents.
        ("user-agent: a\ndisallow: /c\nsitemap: https://h/s.xml\ndisallow: /e", "a", &["-/c", "-/e"]),
        ("user-agent: a\nsitemap: https://h/s.xml\nuser-agent: b\ndisallow: /c", "a", &["-/c"]),
        // 5.1.
        (example, "foobot", &["+/example/page.html", "+/example/allowed.gif", "-/", "-/publications/", "-/example/x"]),
        (example, "barbot", &["-/example/page.html", "+/", "+/example/disallowed.gif"]),
        (example, "bazbot", &["-/example/page.html", "+/x.gif"]),
        (example, "quxbot", &["+/", "+/example/page.html", "+/x.gif"]),
        (example, "other", &["-/x.gif", "+/x.gif?", "-/example/", "+/publications/", "+/publications/x.gif"]),
        // 5.2.
        (
            "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif",
            "foobot",
            &["-/example/page/disallowed.gif", "+/example/page/"],
        ),
    ]);
    assert!(expectations >= 77, "{expectations}");
}

/// The expectations of the published parser, by its tests' subjects.
#[test]
fn row_07_the_published_parser() {
    let groups = "allow: /foo/bar/\n\nuser-agent: FooBot\ndisallow: /\nallow: /x/\nuser-agent: BarBot\ndisallow: /\nallow: /y/\n\n\n\
                  allow: /w/\nuser-agent: BazBot\n\nuser-agent: FooBot\nallow: /z/\ndisallow: /\n";
    let only = "user-agent: FooBot\nallow: /\nuser-agent: BarBot\ndisallow: /\nuser-agent: BazBot\ndisallow: /\n";
    let global = "user-agent: *\nallow: /\nuser-agent: FooBot\ndisallow: /\n";
    let others = [
        "User-agent: BarBot\nSitemap: https://foo.bar/sitemap\nUser-agent: *\nDisallow: /\n",
        "User-agent: FooBot\nInvalid-Unknown-Line: unknown\nUser-agent: *\nDisallow: /\n",
    ];
    let space = "User-Agent: *\nDisallow: /\nUser-Agent: Foo Bar\nAllow: /x/\nDisallow: /\n";
    let expectations = assert_rows(&[
        // Lines.
        ("", "FooBot", &["+/"]),
        ("", "", &["+/"]),
        ("user-agent: FooBot\ndisallow: /\n", "FooBot", &["-/x/y", "-/"]),
        ("user-agent: FooBot\ndisallow: /\n", "", &["+/x/y", "+/"]),
        ("foo: FooBot\nbar: /\n", "FooBot", &["+/x/y"]),
        // Groups.
        (groups, "FooBot", &["+/x/b", "+/z/d", "-/y/c", "-/foo/bar/"]),
        (groups, "BarBot", &["+/y/c", "+/w/a", "-/z/d", "-/foo/bar/"]),
        (groups, "BazBot", &["+/z/d", "-/foo/bar/"]),
        // Lines of others end no list of agents, so that both of these have the rule.
        (others[0], "FooBot", &["-/"]),
        (others[0], "BarBot", &["-/"]),
        (others[1], "FooBot", &["-/"]),
        (others[1], "BarBot", &["-/"]),
        // Names of lines, and agents, in any case.
        ("USER-AGENT: FooBot\nALLOW: /x/\nDISALLOW: /\n", "FooBot", &["+/x/y", "-/a/b"]),
        ("user-agent: FooBot\nallow: /x/\ndisallow: /\n", "FooBot", &["+/x/y", "-/a/b"]),
        ("uSeR-aGeNt: FooBot\nAlLoW: /x/\ndIsAlLoW: /\n", "FooBot", &["+/x/y", "-/a/b"]),
        ("User-Agent: FOO BAR\nAllow: /x/\nDisallow: /\n", "Foo", &["+/x/y", "-/a/b"]),
        ("User-Agent: FOO BAR\nAllow: /x/\nDisallow: /\n", "foo", &["+/x/y", "-/a/b"]),
        ("User-Agent: foo bar\nAllow: /x/\nDisallow: /\n", "Foo", &["+/x/y", "-/a/b"]),
        ("User-Agent: foo bar\nAllow: /x/\nDisallow: /\n", "foo", &["+/x/y", "-/a/b"]),
        ("User-Agent: FoO bAr\nAllow: /x/\nDisallow: /\n", "Foo", &["+/x/y", "-/a/b"]),
        ("User-Agent: FoO bAr\nAllow: /x/\nDisallow: /\n", "foo", &["+/x/y", "-/a/b"]),
        (space, "Foo", &["+/x/y"]),
        (space, "Other", &["-/x/y"]),
        // The group for all comes second.
        (global, "FooBot", &["-/x/y"]),
        (global, "BarBot", &["+/x/y"]),
        (only, "QuxBot", &["+/x/y"]),
        // Paths have their case.
        ("user-agent: FooBot\ndisallow: /x/\n", "FooBot", &["-/x/y"]),
        ("user-agent: FooBot\ndisallow: /X/\n", "FooBot", &["+/x/y"]),
        // The longest match.
        ("user-agent: FooBot\ndisallow: /x/page.html\nallow: /x/\n", "FooBot", &["-/x/page.html"]),
        ("user-agent: FooBot\nallow: /x/page.html\ndisallow: /x/\n", "FooBot", &["+/x/page.html", "-/x/"]),
        ("user-agent: FooBot\ndisallow: \nallow: \n", "FooBot", &["+/x/page.html"]),
        ("user-agent: FooBot\ndisallow: /\nallow: /\n", "FooBot", &["+/x/page.html"]),
        ("user-agent: FooBot\ndisallow: /x\nallow: /x/\n", "FooBot", &["-/x", "+/x/"]),
        ("user-agent: FooBot\ndisallow: /x/page.html\nallow: /x/page.html\n", "FooBot", &["+/x/page.html"]),
        ("user-agent: FooBot\nallow: /page\ndisallow: /*.html\n", "FooBot", &["-/page.html", "+/page"]),
        ("user-agent: FooBot\nallow: /x/page.\ndisallow: /*.html\n", "FooBot", &["+/x/page.html", "-/x/y.html"]),
        ("User-agent: *\nDisallow: /x/\nUser-agent: FooBot\nDisallow: /y/\n", "FooBot", &["+/x/page", "-/y/page"]),
        // Octets.
        (
            "User-agent: FooBot\nDisallow: /\nAllow: /foo/bar?qux=taz&baz=http://foo.bar?tar&par\n",
            "FooBot",
            &["+/foo/bar?qux=taz&baz=http://foo.bar?tar&par"],
        ),
        ("User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/\u{30c4}\n", "FooBot", &["+/foo/bar/%E3%83%84"]),
        ("User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%E3%83%84\n", "FooBot", &["+/foo/bar/%E3%83%84"]),
        ("User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%62%61%7A\n", "FooBot", &["+/foo/bar/%62%61%7A"]),
        // Special characters.
        (
            "User-agent: FooBot\nDisallow: /foo/bar/quz\nAllow: /foo/*/qux\n",
            "FooBot",
            &["-/foo/bar/quz", "+/foo/quz", "+/foo//quz", "+/foo/bax/quz"],
        ),
        (
            "User-agent: FooBot\nDisallow: /foo/bar$\nAllow: /foo/bar/qux\n",
            "FooBot",
            &["-/foo/bar", "+/foo/bar/qux", "+/foo/bar/", "+/foo/bar/baz"],
        ),
        (
            "User-agent: FooBot\n# Disallow: /\nDisallow: /foo/quz#qux\nAllow: /\n",
            "FooBot",
            &["+/foo/bar", "-/foo/quz"],
        ),
        // Its documentation's examples of paths.
        (
            "user-agent: FooBot\ndisallow: /\nallow: /fish\n",
            "FooBot",
            &[
                "-/bar",
                "+/fish",
                "+/fish.html",
                "+/fish/salmon.html",
                "+/fishheads",
                "+/fishheads/yummy.html",
                "+/fish.html?id=anything",
                "-/Fish.asp",
                "-/catfish",
                "-/?id=fish",
            ],
        ),
        (
            "user-agent: FooBot\ndisallow: /\nallow: /fish*\n",
            "FooBot",
            &[
                "-/bar",
                "+/fish",
                "+/fish.html",
                "+/fish/salmon.html",
                "+/fishheads",
                "+/fishheads/yummy.html",
                "+/fish.html?id=anything",
                "-/Fish.bar",
                "-/catfish",
                "-/?id=fish",
            ],
        ),
        (
            "user-agent: FooBot\ndisallow: /\nallow: /fish/\n",
            "FooBot",
            &[
                "-/bar",
                "+/fish/",
                "+/fish/salmon",
                "+/fish/?salmon",
                "+/fish/salmon.html",
                "+/fish/?id=anything",
                "-/fish",
                "-/fish.html",
                "-/Fish/Salmon.html",
            ],
        ),
        (
            "user-agent: FooBot\ndisallow: /\nallow: /*.php\n",
            "FooBot",
            &[
                "-/bar",
                "+/filename.php",
                "+/folder/filename.php",
                "+/folder/filename.php?parameters",
                "+//folder/any.php.file.html",
                "+/filename.php/",
                "+/index?f=filename.php/",
                "-/php/",
                "-/index?php",
                "-/windows.PHP",
            ],
        ),
        (
            "user-agent: FooBot\ndisallow: /\nallow: /*.php$\n",
            "FooBot",
            &[
                "-/bar",
                "+/filename.php",
                "+/folder/filename.php",
                "-/filename.php?parameters",
                "-/filename.php/",
                "-/filename.php5",
                "-/php/",
                "-/filename?php",
                "-/aaaphpaaa",
                "-//windows.PHP",
            ],
        ),
        (
            "user-agent: FooBot\ndisallow: /\nallow: /fish*.php\n",
            "FooBot",
            &["-/bar", "+/fish.php", "+/fishheads/catfish.php?parameters", "-/Fish.PHP"],
        ),
        // Its documentation's order of precedence.
        ("user-agent: FooBot\nallow: /p\ndisallow: /\n", "FooBot", &["+/page"]),
        ("user-agent: FooBot\nallow: /folder\ndisallow: /folder\n", "FooBot", &["+/folder/page"]),
        ("user-agent: FooBot\nallow: /page\ndisallow: /*.htm\n", "FooBot", &["-/page.htm"]),
        ("user-agent: FooBot\nallow: /$\ndisallow: /\n", "FooBot", &["+/", "-/page.html"]),
        // Exactly one index.html of a directory is allowed; that this allows the directory is its own addition.
        (
            "User-Agent: *\nAllow: /allowed-slash/index.html\nDisallow: /\n",
            "foobot",
            &["-/allowed-slash/index.htm", "+/allowed-slash/index.html", "-/anyother-url"],
        ),
    ]);
    assert!(expectations >= 133, "{expectations}");
}

/// What its tests expect of names, of paths and of patterns by themselves.
#[test]
fn row_07_the_published_parser_on_names_paths_and_patterns() {
    for (name, valid) in [
        ("Foobot", true),
        ("Foobot-Bar", true),
        ("Foo_Bar", true),
        ("", false),
        ("\u{30c4}", false),
        ("Foobot*", false),
        (" Foobot ", false),
        ("Foobot/2.1", false),
        ("Foobot Bar", false),
    ] {
        let whole = !name.is_empty() && product_token(name.as_bytes()) == name.as_bytes();
        assert_eq!(whole, valid, "{name:?}");
    }
    // Texts without a scheme, of which it makes paths too, are no URLs here: nothing of the kind can be asked for.
    for (url, path) in [
        ("http://www.example.com", "/"),
        ("http://www.example.com/", "/"),
        ("http://www.example.com/a", "/a"),
        ("http://www.example.com/a/", "/a/"),
        ("http://www.example.com/a/b?c=http://d.e/", "/a/b?c=http://d.e/"),
        ("http://www.example.com/a/b?c=d&e=f#fragment", "/a/b?c=d&e=f"),
        ("http://example.com?a", "/?a"),
        ("http://example.com/a;b#c", "/a;b"),
        ("http://a/b/c", "/b/c"),
    ] {
        assert_eq!(Target::of(&url.parse().expect("a URL")), Target::new(path), "{url}");
    }
    for (pattern, path) in [("/a/b/c", "/a/b/c"), ("/\u{e1}", "/%C3%A1"), ("/%aa", "/%AA")] {
        assert!(!allows(format!("user-agent: *\ndisallow: {pattern}$").as_bytes(), "foo", path), "{pattern}");
    }
}

/// Line ends, byte order marks and sitemaps: which lines are read as what.
#[test]
fn row_07_the_published_parser_on_lines() {
    let lines = ["User-Agent: foo", "Allow: /some/path", "User-Agent: bar", "", "", "Disallow: /"];
    for end in ["\n", "\r\n", "\r"] {
        for last in [end, ""] {
            let file = lines.join(end) + last;
            let rules = Rules::parse(file.as_bytes(), Extent::Whole, "bar");
            let Access::Deny { line, .. } = rules.access(&Target::new("/x")) else { panic!("{file:?}") };
            assert_eq!(line, 6, "{file:?}");
            assert!(allows(file.as_bytes(), "foo", "/x"));
        }
    }
    let mixed = "User-Agent: foo\nAllow: /some/path\r\nUser-Agent: bar\n\r\n\nDisallow: /";
    assert!(!allows(mixed.as_bytes(), "bar", "/x"));
    // A mark at the beginning, also a part of one, hides nothing; anything else makes its line none.
    for (mark, read) in [
        (&b"\xef\xbb\xbf"[..], true),
        (b"\xef\xbb", true),
        (b"\xef", true),
        (b"\xef\x11\xbf", false),
        (b"\xbb\xbf", false),
    ] {
        let file = [mark, b"User-Agent: foo\nDisallow: /x\n"].concat();
        assert_eq!(!allows(&file, "foo", "/x"), read, "{}", mark.escape_ascii());
    }
    let middle = b"User-Agent: foo\n\xef\xbb\xbfDisallow: /x\nDisallow: /y\n";
    assert!(allows(middle, "foo", "/x") && !allows(middle, "foo", "/y"));
    for file in [
        "User-Agent: foo\nAllow: /some/path\nUser-Agent: bar\n\n\nSitemap: http://foo.bar/sitemap.xml\n",
        "Sitemap: http://foo.bar/sitemap.xml\nUser-Agent: foo\nAllow: /some/path\nUser-Agent: bar\n\n\n",
    ] {
        let rules = Rules::parse(file.as_bytes(), Extent::Whole, "foo");
        assert_eq!(rules.sitemaps, ["http://foo.bar/sitemap.xml".into()]);
    }
}

/// Where we differ, and why: its additions to the standard, and one place in which the RFC says otherwise.
#[test]
fn row_07_differences_from_the_published_parser() {
    assert_rows(&[
        // A missing colon and misspelt names are made good there; the RFC's grammar has neither.
        ("user-agent FooBot\ndisallow /\n", "FooBot", &["+/x/y"]),
        ("user-agent: FooBot\ndissallow: /\n", "FooBot", &["+/x/y"]),
        // It takes `index.html` at the end of an Allow for the directory, too.
        ("User-Agent: *\nAllow: /allowed-slash/index.html\nDisallow: /\n", "foobot", &["-/allowed-slash/"]),
        // It compares `%62%61%7A` as written; RFC 9309 2.2.2 decodes what is unreserved.
        ("User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%62%61%7A\n", "FooBot", &["+/foo/bar/baz"]),
        // It leaves encoding a URL to its caller; here every URL is encoded before.
        ("User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/\u{30c4}\n", "FooBot", &["+/foo/bar/\u{30c4}"]),
        ("User-agent: FooBot\nDisallow: /\nAllow: /foo/bar/%E3%83%84\n", "FooBot", &["+/foo/bar/\u{30c4}"]),
        // It takes an agent's whole name `Foo Bar` for no name at all; here its first word is the name.
        ("User-Agent: *\nDisallow: /\nUser-Agent: Foo Bar\nAllow: /x/\nDisallow: /\n", "Foo Bar", &["+/x/y"]),
    ]);
    // It cuts lines at 16,664 bytes, so that the head of a longer pattern counts; here the whole line does.
    let long = format!("/x/{}", "a".repeat(8 * 2083));
    let file = format!("user-agent: FooBot\ndisallow: {long}/qux\n");
    assert!(allows(file.as_bytes(), "FooBot", &format!("{long}/fux")));
    assert!(!allows(file.as_bytes(), "FooBot", &format!("{long}/qux")));
    assert!(allows(file.as_bytes(), "FooBot", "/fux"));
}

/// Sixty bodies that mean one thing: line ends, encodings and what stands before the first group change nothing.
#[test]
fn row_07_sixty_bodies_that_mean_the_same_forbid_the_same() {
    let lines = ["User-agent: *", "Disallow: /secret/", "Allow: /secret/open", "Crawl-delay: 2"];
    let before: [&[&str]; 3] =
        [&[], &["", "\0\0\0", "a line without a colon", ""], &["<html>", "<p>Not found</p>", "# c"]];
    let utf16 = |text: &str, unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(unit).collect()
    };
    let mut bodies = 0;
    for end in ["\n", "\r", "\r\n", "\n\r\n"] {
        for before in before {
            let text: String = before.iter().chain(&lines).flat_map(|line| [*line, end]).collect();
            let encoded = [
                text.clone().into_bytes(),
                format!("\u{feff}{text}").into_bytes(),
                format!("# c{end}\u{feff}{text}").into_bytes(),
                utf16(&text, u16::to_le_bytes),
                utf16(&text, u16::to_be_bytes),
            ];
            for body in encoded {
                bodies += 1;
                for (path, allowed) in [("/secret/", false), ("/secret/x", false), ("/secret/open", true), ("/", true)]
                {
                    assert_eq!(allows(&body, "crawldeck", path), allowed, "{path} in {}", body.escape_ascii());
                }
                // Cut off anywhere it is borne, and half a line is no rule.
                for length in 0..body.len() {
                    Rules::parse(&body[..length], Extent::Cut, "crawldeck").access(&Target::new("/secret/x"));
                }
            }
        }
    }
    assert_eq!(bodies, 60);
}
