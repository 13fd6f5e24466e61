use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::*;

const TEXT: &str = "the quick brown fox jumps over the lazy dog; ";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

async fn unpack_as(coding: &str, packed: Vec<u8>, limits: RequestLimits) -> Result<Bytes, Error> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_ENCODING, coding.parse().unwrap());
    unpack(packed.into(), &headers, limits).await
}

#[tokio::test]
async fn decode_supports_every_offered_coding() {
    let text = TEXT.repeat(10);
    let mut deflate = DeflateEncoder::new(Vec::new(), Compression::best());
    deflate.write_all(text.as_bytes()).unwrap();
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(text.as_bytes()).unwrap();
    let half = text.len() / 2;
    let in_two_frames = |pack: fn(&[u8]) -> Vec<u8>| {
        [
            pack(&text.as_bytes()[..half]),
            pack(&text.as_bytes()[half..]),
        ]
        .concat()
    };
    // A skippable frame between two with content.
    let skippable = [&zstd(text.as_bytes())[..], b"\x50\x2a\x4d\x18\x03\0\0\0abc"].concat();
    for (coding, packed) in [
        ("gzip", gzip(text.as_bytes())),
        ("GZIP", gzip(text.as_bytes())),
        ("identity, x-gzip", gzip(text.as_bytes())),
        ("gzip", in_two_frames(gzip)),
        ("deflate", deflate.finish().unwrap()),
        ("deflate", zlib.finish().unwrap()),
        ("zstd", zstd(text.as_bytes())),
        ("zstd", in_two_frames(zstd)),
        ("zstd", skippable),
        ("identity", text.clone().into_bytes()),
    ] {
        let body = unpack_as(coding, packed, RequestLimits::default()).await;
        assert_eq!(body.unwrap(), text, "{coding}");
    }
    // Output of the `brotli` tool; its encoder is not a dependency.
    let packed = b"\x0b\x02\x80hello\x03".to_vec();
    assert_eq!(
        unpack_as("br", packed, RequestLimits::default())
            .await
            .unwrap(),
        "hello"
    );
}

#[tokio::test]
async fn decode_stops_a_bomb() {
    let limits = RequestLimits {
        body_bytes: 1 << 30,
        ..RequestLimits::default()
    };
    for (coding, packed) in [
        ("gzip", gzip(&vec![0; 50 << 20])),
        ("zstd", zstd(&vec![0; 50 << 20])),
    ] {
        let error = unpack_as(coding, packed.clone(), limits).await.unwrap_err();
        assert_eq!(error.kind(), "decompression-bomb", "{coding}");
        let small = RequestLimits {
            ratio: u64::MAX,
            ..RequestLimits::default()
        };
        let error = unpack_as(coding, packed, small).await.unwrap_err();
        assert_eq!(error.kind(), "too-large", "{coding}");
    }
    // A page of spaces is not a bomb.
    let spaces = gzip(&[b' '; 1 << 20]);
    assert_eq!(
        unpack_as("gzip", spaces, limits).await.unwrap().len(),
        1 << 20
    );
}

#[tokio::test]
async fn decode_invalid_data_is_an_error() {
    let whole = gzip(TEXT.as_bytes());
    let zstd_window = b"\x28\xb5\x2f\xfd\x00\x98".to_vec();
    for (coding, packed, message) in [
        ("gzip", whole[..whole.len() - 9].to_vec(), "ends too early"),
        ("gzip", b"not packed".to_vec(), "invalid gzip header"),
        ("gzip, gzip", gzip(&whole), "more than once"),
        ("br", b"\xff\xff\xff".to_vec(), ""),
        ("br", b"\x0b\x02\x80hel".to_vec(), ""),
        ("br", b"\x11\x1e\x02\x80hello\x03".to_vec(), "window"),
        ("zstd", zstd_window, "window"),
        ("zstd", b"not packed".to_vec(), ""),
        ("zstd", zstd(TEXT.as_bytes())[..20].to_vec(), ""),
        ("compress", vec![1], "`compress` is not supported"),
    ] {
        let error = unpack_as(coding, packed, RequestLimits::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), "invalid-encoding", "{coding}");
        assert!(error.to_string().contains(message), "{coding}: {error}");
    }
    // An empty body is not compressed: the response to HEAD.
    assert_eq!(
        unpack_as("gzip", vec![], RequestLimits::default())
            .await
            .unwrap(),
        ""
    );
}
