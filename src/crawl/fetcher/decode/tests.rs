//! Tests of the content codings, at every way of splitting the input.

use async_compression::tokio::write::{BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder};
use async_compression::{Level, zstd::CParameter};
use proptest::prelude::*;
use tokio::io::AsyncWriteExt;

use super::*;

const MIB: usize = 1024 * 1024;

macro_rules! pack {
    ($encoder:expr, $bytes:expr) => {{
        let mut encoder = $encoder;
        encoder.write_all($bytes).await.expect("encoded");
        encoder.shutdown().await.expect("encoded");
        encoder.into_inner()
    }};
}

async fn gzip(bytes: &[u8]) -> Vec<u8> {
    pack!(GzipEncoder::new(Vec::new()), bytes)
}

async fn zlib(bytes: &[u8]) -> Vec<u8> {
    pack!(ZlibEncoder::new(Vec::new()), bytes)
}

async fn raw(bytes: &[u8]) -> Vec<u8> {
    pack!(DeflateEncoder::new(Vec::new()), bytes)
}

async fn brotli(bytes: &[u8]) -> Vec<u8> {
    pack!(BrotliEncoder::with_quality(Vec::new(), Level::Fastest), bytes)
}

async fn zstd(bytes: &[u8]) -> Vec<u8> {
    pack!(ZstdEncoder::new(Vec::new()), bytes)
}

fn kept(cap: usize) -> Limits {
    Limits { cap: cap as u64, at_cap: AtCap::Fail, keep: true }
}

/// Decodes in pieces of `size`; the decoded bytes, whether there was garbage, and how it ended.
fn decode(codings: &[Coding], bytes: &[u8], size: usize, limits: Limits) -> (Bytes, bool, Result<(), Stop>) {
    let mut decoding = Decoding::new(codings, limits);
    let pushed = bytes.chunks(size).try_for_each(|piece| decoding.push(piece));
    let result = pushed.and_then(|()| decoding.finish());
    assert_eq!(decoding.decoded(), decoding.sink.kept.len() as u64);
    let garbage = decoding.has_garbage();
    (decoding.into_body(), garbage, result)
}

fn assert_decodes(codings: &[Coding], bytes: &[u8], expected: &[u8], garbage: bool) {
    for size in [1, 2, 3, 7, 64, bytes.len().max(1)] {
        let (body, found, result) = decode(codings, bytes, size, kept(MIB));
        assert!(result.is_ok(), "{codings:?} in pieces of {size}: {result:?}");
        assert_eq!(&body[..], expected, "{codings:?} in pieces of {size}");
        assert_eq!(found, garbage, "{codings:?} in pieces of {size}");
    }
}

#[tokio::test]
async fn every_coding_is_decoded_however_it_is_split() {
    let text = "text ".repeat(10_000).into_bytes();
    assert_decodes(&[], &text, &text, false);
    assert_decodes(&[Coding::Gzip], &gzip(&text).await, &text, false);
    assert_decodes(&[Coding::Deflate], &zlib(&text).await, &text, false);
    assert_decodes(&[Coding::Deflate], &raw(&text).await, &text, false);
    assert_decodes(&[Coding::Brotli], &brotli(&text).await, &text, false);
    assert_decodes(&[Coding::Zstd], &zstd(&text).await, &text, false);
    let stacked = brotli(&gzip(&gzip(&text).await).await).await;
    assert_decodes(&[Coding::Gzip, Coding::Gzip, Coding::Brotli], &stacked, &text, false);
}

#[tokio::test]
async fn case_62_gzip_of_several_members_is_whole() {
    let mut members = gzip(b"first,").await;
    members.extend(gzip(b"").await);
    members.extend(gzip(b"second").await);
    assert_decodes(&[Coding::Gzip], &members, b"first,second", false);
    members.extend([0; 600]);
    assert_decodes(&[Coding::Gzip], &members, b"first,second", false);
    members.extend(b"garbage");
    assert_decodes(&[Coding::Gzip], &members, b"first,second", true);
}

#[tokio::test]
async fn case_62_garbage_that_looks_like_a_member_is_still_garbage() {
    for tail in [&b"\x1f"[..], b"\x1f\x8b", b"\x1fnot a member at all"] {
        let mut bytes = gzip(b"body").await;
        bytes.extend(tail);
        assert_decodes(&[Coding::Gzip], &bytes, b"body", true);
    }
    let mut bytes = brotli(b"body").await;
    bytes.extend(b"more");
    assert_decodes(&[Coding::Brotli], &bytes, b"body", true);
}

#[tokio::test]
async fn case_63_zstd_of_several_frames_is_whole() {
    let mut frames = zstd(b"first,").await;
    // A skippable frame of three bytes.
    frames.extend([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    frames.extend(zstd(b"second").await);
    assert_decodes(&[Coding::Zstd], &frames, b"first,second", false);
}

#[tokio::test]
async fn case_65_what_comes_out_is_capped_in_every_coding() {
    let zeros = vec![0; 8 * MIB];
    let cap = MIB / 2;
    for (coding, bytes) in [
        (Coding::Gzip, gzip(&zeros).await),
        (Coding::Deflate, zlib(&zeros).await),
        (Coding::Brotli, brotli(&zeros).await),
        (Coding::Zstd, zstd(&zeros).await),
    ] {
        let (body, _, result) = decode(&[coding], &bytes, bytes.len(), kept(cap));
        assert!(matches!(result, Err(Stop::TooLarge(_))), "{coding:?}: {result:?}");
        assert_eq!(body.len(), cap, "{coding:?}");
        let cut = Limits { at_cap: AtCap::Cut, ..kept(cap) };
        let (body, _, result) = decode(&[coding], &bytes, bytes.len(), cut);
        assert!(matches!(result, Err(Stop::Cut)), "{coding:?}: {result:?}");
        assert_eq!(body.len(), cap, "{coding:?}");
    }
}

#[tokio::test]
async fn case_65_the_ratio_is_capped_and_so_is_each_step_of_a_stack() {
    let zeros = vec![0; 32 * MIB];
    let bomb = zstd(&zeros).await;
    let (body, _, result) = decode(&[Coding::Zstd], &bomb, bomb.len(), kept(usize::MAX));
    assert!(matches!(result, Err(Stop::Ratio)), "{result:?}");
    assert!(body.len() <= MIB + bomb.len() * 1000 + 64 * 1024, "{} of {}", body.len(), bomb.len());
    // The outer coding blows up to more gzip than is let through, though nothing comes out at the end.
    let inner = [gzip(b"").await.repeat(100_000)].concat();
    let nested = zstd(&inner).await;
    let (_, _, result) = decode(&[Coding::Gzip, Coding::Zstd], &nested, nested.len(), kept(MIB));
    assert!(matches!(result, Err(Stop::TooLarge(_))), "{result:?}");
}

#[tokio::test]
async fn a_zstd_window_above_8_mib_is_refused() {
    let params = [CParameter::window_log(24), CParameter::content_size_flag(false)];
    let noise: Vec<u8> = (0..20 * MIB as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let wide = pack!(ZstdEncoder::with_quality_and_params(Vec::new(), Level::Fastest, &params), &noise);
    let (_, _, result) = decode(&[Coding::Zstd], &wide, wide.len(), Limits { keep: true, ..kept(64 * MIB) });
    assert!(matches!(result, Err(Stop::Broken(_))), "{result:?}");
}

#[tokio::test]
async fn broken_and_cut_bodies_are_told_apart_and_their_prefix_is_kept() {
    let text = "text ".repeat(10_000).into_bytes();
    let whole = gzip(&text).await;
    for end in 1..whole.len() {
        let (body, _, result) = decode(&[Coding::Gzip], &whole[..end], end, kept(MIB));
        assert!(matches!(result, Err(Stop::Truncated)), "cut at {end}: {result:?}");
        assert!(text.starts_with(&body));
    }
    let mut bad_sum = whole.clone();
    let at = bad_sum.len() - 6;
    bad_sum[at] ^= 1;
    let (body, _, result) = decode(&[Coding::Gzip], &bad_sum, 64, kept(MIB));
    assert!(matches!(result, Err(Stop::Broken(_))), "{result:?}");
    assert_eq!(&body[..], &text[..]);
    for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd, Coding::Deflate] {
        let (_, _, result) = decode(&[coding], b"\xff<html>not compressed at all</html>", 64, kept(MIB));
        assert!(matches!(result, Err(Stop::Broken(_) | Stop::Truncated)), "{coding:?}: {result:?}");
        assert!(decode(&[coding], b"", 1, kept(MIB)).2.is_ok(), "an empty body is empty");
    }
}

#[test]
fn content_encoding_is_read() {
    let parse = |values: &[&str]| Codings::parse(values.iter().map(|value| value.as_bytes()));
    assert_eq!(parse(&[]), Codings::Known(Vec::new()));
    assert_eq!(parse(&["identity", ""]), Codings::Known(Vec::new()));
    assert_eq!(parse(&["X-GZip"]), Codings::Known(vec![Coding::Gzip]));
    assert_eq!(parse(&["deflate, br", "zstd"]), Codings::Known(vec![Coding::Deflate, Coding::Brotli, Coding::Zstd]));
    assert_eq!(parse(&["gzip, magic"]), Codings::Unknown(String::from("magic")));
    assert_eq!(parse(&["gzip,gzip,gzip,gzip,gzip,gzip"]), Codings::TooDeep);
}

proptest! {
    #[test]
    fn no_input_breaks_the_decoder(bytes in proptest::collection::vec(any::<u8>(), 0..2000), size in 1_usize..64) {
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
            let (body, _, _) = decode(&[coding], &bytes, size, kept(MIB));
            prop_assert!(body.len() <= MIB);
        }
    }
}
