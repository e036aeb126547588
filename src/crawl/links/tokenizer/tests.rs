use proptest::prelude::*;

use super::*;
use crate::crawl::links::entities;

const NAMES: [(&str, Attribute); ATTRIBUTES] = [
    ("href", Attribute::Href),
    ("src", Attribute::Src),
    ("rel", Attribute::Rel),
    ("name", Attribute::Name),
    ("content", Attribute::Content),
    ("http-equiv", Attribute::HttpEquiv),
    ("charset", Attribute::Charset),
];

fn show(tag: &Tag<'_>) -> String {
    let mut text = format!("{:?}", tag.element).to_lowercase();
    for (name, attribute) in NAMES {
        if let Some(value) = tag.value(attribute) {
            text += &format!(" {name}={:?}", entities::decode(value));
        }
    }
    text
}

/// The tags of `html`, pushed in pieces of at most `step` bytes.
fn ours(html: &[u8], step: usize) -> Vec<String> {
    let (mut tokenizer, mut tags) = (Tokenizer::default(), Vec::new());
    for piece in html.chunks(step) {
        tokenizer.push(piece, &mut |tag| tags.push(show(tag)));
    }
    tags
}

/// The same by another reader of HTML.
fn theirs(html: &str) -> Vec<String> {
    let mut emitter = html5gum::DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let tokens = html5gum::Tokenizer::new_with_emitter(html, emitter);
    let mut tags = Vec::new();
    for token in tokens.flatten() {
        let html5gum::Token::StartTag(tag) = token else { continue };
        let name = String::from_utf8_lossy(&tag.name).into_owned();
        if !["a", "area", "base", "frame", "iframe", "link", "meta"].contains(&name.as_str()) {
            continue;
        }
        let mut text = name;
        for (name, _) in NAMES {
            if let Some(value) = tag.attributes.get(name.as_bytes()) {
                text += &format!(" {name}={:?}", String::from_utf8_lossy(value));
            }
        }
        tags.push(text);
    }
    tags
}

#[test]
fn tags_as_they_are_written() {
    let rows: &[(&str, &[&str])] = &[
        ("<a href=x>", &[r#"a href="x""#]),
        ("<A HREF = 'x y'\n/>", &[r#"a href="x y""#]),
        ("<a href=\"x\"href=\"y\">", &[r#"a href="x""#]),
        ("<a href>", &[r#"a href="""#]),
        ("<a =href=x src=y>", &[r#"a src="y""#]),
        ("<a href=x", &[]),
        ("<a href='x>", &[]),
        ("</a href=x>", &[]),
        ("<ab href=x><anyverylongelementname href=x>", &[]),
        ("<a hrefs=1 hre=2 href=3>", &[r#"a href="3""#]),
        ("< a href=x>", &[]),
        ("<a/href=x>", &[r#"a href="x""#]),
        ("<!-- <a href=x> --><a href=y>", &[r#"a href="y""#]),
        ("<!--><a href=x>", &[r#"a href="x""#]),
        ("<!---><a href=x>", &[r#"a href="x""#]),
        ("<!-- --!><a href=x>", &[r#"a href="x""#]),
        ("<!-- -- ><a href=x>", &[]),
        ("<!doctype html \"><a href=x>", &[r#"a href="x""#]),
        ("<?xml ?><a href=x>", &[r#"a href="x""#]),
        ("<![CDATA[<a href=x>]]><a href=y>", &[r#"a href="y""#]),
        ("<title><a href=x></title><a href=y>", &[r#"a href="y""#]),
        ("<textarea><a href=x></textareas></TEXTAREA ><a href=y>", &[r#"a href="y""#]),
        ("<script>'<a href=x>'</script><a href=y>", &[r#"a href="y""#]),
        ("<script><!-- <script></script> <a href=x> --></script><a href=y>", &[r#"a href="y""#]),
        ("<script><!-- </script><a href=y>", &[r#"a href="y""#]),
        ("<script><!--><script></script><a href=y>", &[r#"a href="y""#]),
        ("<iframe src=x><a href=y></iframe><a href=z>", &[r#"iframe src="x""#, r#"a href="z""#]),
        ("<noscript><a href=x></noscript>", &[r#"a href="x""#]),
        ("<plaintext><a href=x></plaintext><a href=y>", &[]),
        ("<style></style/><a href=x>", &[r#"a href="x""#]),
        ("<meta http-equiv=refresh content=1>", &[r#"meta content="1" http-equiv="refresh""#]),
    ];
    for (html, expected) in rows {
        assert_eq!(ours(html.as_bytes(), 100), *expected, "{html}");
        // The other one reads noscript as with scripting.
        if !html.contains("noscript") {
            assert_eq!(theirs(html), *expected, "the other reader: {html}");
        }
    }
}

#[test]
fn a_value_that_is_too_long_is_not_there_and_the_next_of_its_name_neither() {
    let long = "x".repeat(VALUE_MAX + 1);
    assert_eq!(
        ours(format!("<a href={long} href=y src=z><a href=y>").as_bytes(), 999),
        [r#"a src="z""#, r#"a href="y""#]
    );
    let most = "x".repeat(VALUE_MAX);
    assert_eq!(ours(format!("<a href={most}>").as_bytes(), 999).len(), 1);
}

#[test]
fn row_03_hostile_shapes_end_soon_and_keep_little() {
    let mut tokenizer = Tokenizer::default();
    for shape in ["<p>", "<a ", "<div><div>", "<!-- ", "<", "a=b ", "<a href=\"", "&amp;", "<script><!--<script>"] {
        let piece = shape.repeat(64 * 1024 / shape.len());
        for _ in 0..64 {
            tokenizer.push(piece.as_bytes(), &mut |_| {});
        }
        let kept: usize = tokenizer.values.iter().flatten().map(Vec::len).sum();
        assert!(kept <= ATTRIBUTES * VALUE_MAX && tokenizer.name.len() + tokenizer.attribute.len() <= 2 * NAME_MAX);
    }
}

/// Pieces that meet in odd ways.
fn soup() -> impl Strategy<Value = String> {
    let pieces = [
        "<a href=",
        "<A\nHREF='",
        "<link rel=\"next\" href=/n>",
        "<meta name=robots content=\"none\">",
        "<base href",
        "<iframe src=f>",
        "</iframe>",
        "<script>",
        "</script>",
        "</scrip",
        "<!--",
        "-->",
        "--!>",
        "-",
        "<!",
        "<?",
        "<",
        ">",
        "/",
        "=",
        "\"",
        "'",
        " ",
        "\t",
        "\n",
        "x",
        "&amp;",
        "&#65;",
        "&copy",
        "&copy=",
        "é",
        "<title>",
        "</title>",
        "<style>",
        "</style >",
        "<textarea>",
        "</textarea>",
        "<plaintext",
        "<p class=\"q\">",
        "]]>",
        "<area href=x href=y>",
        "content=",
        "charset",
        "SRC=",
        "&notit;",
        "&#x41",
        "&",
        ";",
    ];
    proptest::collection::vec(proptest::sample::select(pieces.to_vec()), 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_another_reader(html in soup()) {
        prop_assert_eq!(ours(html.as_bytes(), 1_000), theirs(&html), "{}", html);
    }

    #[test]
    fn the_cuts_between_chunks_make_no_difference(html in soup(), step in 1_usize..9) {
        prop_assert_eq!(ours(html.as_bytes(), step), ours(html.as_bytes(), 1_000));
    }

    #[test]
    fn any_bytes_are_borne(html in proptest::collection::vec(any::<u8>(), 0..300), step in 1_usize..9) {
        prop_assert_eq!(ours(&html, step), ours(&html, 1_000));
    }
}
