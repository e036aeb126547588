//! Takes credentials out of text that may hold URLs: error messages of libraries, configuration values.
//!
//! In doubt it takes out too much: whoever writes a URL by hand gets passwords with `@` and `/` wrong, and the
//! mangled text comes back in the message that says so. URLs of the crawl do not need this, their userinfo is
//! dropped when they are read; their queries stay, except here.

use super::Clean;

/// Stands for what was taken out.
const HIDDEN: &str = "***";

/// Names of query parameters whose values are secrets, in lower case.
const SECRET_NAMES: [&str; 19] = [
    "access_token",
    "api-key",
    "api_key",
    "apikey",
    "auth",
    "authorization",
    "client_secret",
    "code",
    "id_token",
    "key",
    "passwd",
    "password",
    "pwd",
    "refresh_token",
    "secret",
    "session",
    "sig",
    "signature",
    "token",
];

/// `text` without userinfo and without the values of secret query parameters, sanitised.
pub fn redact(text: &str) -> Clean {
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        let word = without_userinfo(word);
        push_query(&mut out, &word);
    }
    Clean::new(out)
}

/// A word in which `***@` stands where userinfo stood.
fn without_userinfo(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    if !word.contains("//") {
        // `user:password@proxy:3128`.
        return match word.rsplit_once('@') {
            Some((before, after)) if before.contains(':') => format!("{HIDDEN}@{after}"),
            _ => word.to_owned(),
        };
    }
    while let Some((before, after)) = rest.split_once("//") {
        out.push_str(before);
        out.push_str("//");
        let authority = after.split(['/', '\\', '?', '#']).next().unwrap_or_default();
        // A "port" that is none is the beginning of a password with one of those characters in it.
        let is_port = |port: &str| port.trim_end().bytes().all(|byte| byte.is_ascii_digit());
        let mangled = !authority.starts_with('[') && authority.split_once(':').is_some_and(|(_, port)| !is_port(port));
        let within = if mangled { after } else { authority };
        rest = match within.rfind('@') {
            Some(at) => {
                out.push_str(HIDDEN);
                &after[at..]
            }
            None => after,
        };
    }
    out.push_str(rest);
    out
}

/// Appends a word, the values of its secret parameters hidden.
fn push_query(out: &mut String, word: &str) {
    let end = word.trim_end().len();
    let (word, blank) = word.split_at(end);
    for piece in word.split_inclusive(['?', '&', '#', ';']) {
        let (pair, mark) = match piece.char_indices().next_back().filter(|(_, c)| matches!(c, '?' | '&' | '#' | ';')) {
            Some((at, _)) => piece.split_at(at),
            None => (piece, ""),
        };
        match pair.split_once('=') {
            Some((name, value)) if !value.is_empty() && SECRET_NAMES.iter().any(|it| it.eq_ignore_ascii_case(name)) => {
                out.push_str(name);
                out.push('=');
                out.push_str(HIDDEN);
            }
            _ => out.push_str(pair),
        }
        out.push_str(mark);
    }
    out.push_str(blank);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn case_130_credentials_in_any_form_are_taken_out() {
        let rows = [
            ("error for http://user:CANARY@h.example/x", "error for http://***@h.example/x"),
            ("http://user:p@CANARY@h.example/x", "http://***@h.example/x"),
            ("http://user:p/CANARY@h.example/x", "http://***@h.example/x"),
            ("http://user:p?CANARY#@h.example/x", "http://***@h.example/x"),
            ("http://CANARY@h.example", "http://***@h.example"),
            ("(socks5://u:CANARY@127.0.0.1:1080): refused", "(socks5://***@127.0.0.1:1080): refused"),
            ("proxy user:CANARY@h.example:3128", "proxy ***@h.example:3128"),
            ("//user:CANARY@h.example/", "//***@h.example/"),
            ("http://h/?next=http://u:CANARY@i/", "http://h/?next=http://***@i/"),
            ("url (\"http://u:CANARY@[::1]:8/\")", "url (\"http://***@[::1]:8/\")"),
            ("http://h/?a=1&token=CANARY&b=2", "http://h/?a=1&token=***&b=2"),
            ("http://h/?API_KEY=CANARY", "http://h/?API_KEY=***"),
            ("http://h/#access_token=CANARY\n", "http://h/#access_token=***\\x0a"),
        ];
        for (text, expected) in rows {
            assert_eq!(redact(text).as_str(), expected, "{text}");
        }
    }

    #[test]
    fn what_holds_no_secret_stays() {
        for text in [
            "connection refused",
            "http://h.example:8080/@user/x?mail=a@b.example",
            "http://[::1]:8080/a@b",
            "someone@example.org wrote: hello",
            "https://h/?tokens=3&q=key",
        ] {
            assert_eq!(redact(text).as_str(), text);
        }
    }

    proptest! {
        #[test]
        fn case_130_no_password_survives(user in "[a-z]{0,5}", before in "[!-~]{0,6}", after in "[!-~]{0,6}", path in "[a-z/?=]{0,8}") {
            // A password that begins like a port cannot be told from one; no URL parser can.
            let text = format!("failed: http://{user}:x{before}CANARY{after}@h.example/{path}");
            let clean = redact(&text);
            prop_assert!(!clean.as_str().contains("CANARY"), "{}", clean);
        }

        #[test]
        fn any_text_is_borne(text in "\\PC{0,80}") {
            redact(&text);
        }
    }
}
