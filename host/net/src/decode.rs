//! Decompression of bodies, with limits for output size and compression ratio.

use std::io::{self, Read};

use bytes::buf::Reader;
use bytes::{Buf, Bytes, BytesMut};
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::header::{CONTENT_ENCODING, HeaderMap};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::error::{Error, OversizedPart};
use crate::limits::RequestLimits;

/// Value of the `accept-encoding` header if the caller has not set one.
pub(crate) const ACCEPT: &str = "gzip, deflate, br, zstd";

/// Bytes to decompress before yielding to other tasks.
const STEP_BYTES: usize = 64 << 10;

/// Maximum zstd window in bytes. By RFC 9659, a decoder need not support a larger one, and an encoder must not require
/// it.
const ZSTD_WINDOW: u64 = 8 << 20;

/// Decompresses a body according to its `content-encoding` header, within the limits for size and ratio. Returns an
/// uncompressed body unchanged. Fails for unknown codings and for invalid or multiply compressed data.
pub async fn unpack(
    packed: Bytes,
    headers: &HeaderMap,
    limits: RequestLimits,
) -> Result<Bytes, Error> {
    let Some(mut source) = decoder_for(&packed, headers)? else {
        return Ok(packed);
    };
    let limit = limits.body_bytes;
    let ratio_limit = limits
        .ratio
        .saturating_mul(packed.len() as u64)
        .max(RequestLimits::RATIO_FROM);
    let mut output = BytesMut::new();
    let mut buffer = vec![0; STEP_BYTES];
    loop {
        let count = source
            .read(&mut buffer)
            .map_err(|error| decode_error(&error))?;
        let Some(decoded) = buffer.get(..count).filter(|decoded| !decoded.is_empty()) else {
            return Ok(output.freeze());
        };
        let size = (output.len() + decoded.len()) as u64;
        if size > ratio_limit {
            return Err(Error::Bomb {
                ratio: limits.ratio,
            });
        }
        if size > limit {
            return Err(Error::TooLarge {
                part: OversizedPart::DecompressedResponse,
                limit,
            });
        }
        output.extend_from_slice(decoded);
        tokio::task::yield_now().await;
    }
}

/// Returns the decompressing reader, or `None` if the body is not compressed.
fn decoder_for(packed: &Bytes, headers: &HeaderMap) -> Result<Option<Box<dyn Read + Send>>, Error> {
    let values = headers.get_all(CONTENT_ENCODING).iter();
    let listed = values.flat_map(|value| value.to_str().unwrap_or("?").split(','));
    let names: Vec<String> = listed
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let mut codings = names
        .iter()
        .filter(|name| !name.is_empty() && *name != "identity");
    let Some(coding) = codings.next() else {
        return Ok(None);
    };
    if packed.is_empty() {
        return Ok(None);
    }
    if codings.next().is_some() {
        return Err(Error::Encoding(
            "it is compressed more than once".to_owned(),
        ));
    }
    let input = packed.clone().reader();
    Ok(Some(match coding.as_str() {
        "gzip" | "x-gzip" => Box::new(MultiGzDecoder::new(input)),
        // Many servers send this without the zlib frame that RFC 9110 section 8.4.1.2 requires.
        "deflate" if has_zlib_header(packed) => Box::new(ZlibDecoder::new(input)),
        "deflate" => Box::new(DeflateDecoder::new(input)),
        // RFC 7932 section 9.1 does not define this window size; the decoder treats it as an extension with windows of
        // up to a gigabyte.
        "br" if packed.first().is_some_and(|first| first & 0x7f == 0x11) => {
            return Err(Error::Encoding(
                "its compression window is too large".to_owned(),
            ));
        }
        "br" => Box::new(brotli_decompressor::Decompressor::new(input, STEP_BYTES)),
        "zstd" => Box::new(ZstdReader::new(input)),
        other => {
            let other = mimir_core::text::visible(mimir_core::text::prefix(other, 40));
            return Err(Error::Encoding(format!(
                "the coding `{other}` is not supported"
            )));
        }
    }))
}

/// Returns true if the data begins with a zlib header (RFC 1950 section 2.2).
fn has_zlib_header(packed: &[u8]) -> bool {
    match packed {
        [method, flags, ..] => {
            method & 0x0f == 8 && (u16::from(*method) << 8 | u16::from(*flags)).is_multiple_of(31)
        }
        _ => false,
    }
}

fn decode_error(error: &io::Error) -> Error {
    Error::Encoding(match error.kind() {
        io::ErrorKind::UnexpectedEof => "it ends too early".to_owned(),
        _ => mimir_core::text::visible(mimir_core::text::prefix(&error.to_string(), 200)),
    })
}

/// Reads consecutive zstd frames; the decoder stops after one.
struct ZstdReader {
    input: Option<Reader<Bytes>>,
    frame: Option<StreamingDecoder<Reader<Bytes>, FrameDecoder>>,
}

impl ZstdReader {
    fn new(input: Reader<Bytes>) -> Self {
        Self {
            input: Some(input),
            frame: None,
        }
    }

    /// Begins the next frame. Returns false at the end of the input.
    fn begin_frame(&mut self) -> io::Result<bool> {
        let mut input = match self.frame.take() {
            Some(frame) => frame.into_inner(),
            None => self.input.take().unwrap_or_else(|| Bytes::new().reader()),
        };
        while input.get_ref().has_remaining() {
            if let Some(length) = skippable_frame_length(input.get_ref()) {
                let rest = input.get_mut();
                rest.advance(length.min(rest.remaining()));
                continue;
            }
            let frame = StreamingDecoder::new_with_max_window_size(input, ZSTD_WINDOW);
            self.frame = Some(frame.map_err(io::Error::other)?);
            return Ok(true);
        }
        Ok(false)
    }
}

/// Returns the length of the frame that begins here if it is skippable (RFC 8878 section 3.1.2).
fn skippable_frame_length(rest: &[u8]) -> Option<usize> {
    let (header, _) = rest.split_first_chunk::<8>()?;
    let [0x50..=0x5f, 0x2a, 0x4d, 0x18, length @ ..] = *header else {
        return None;
    };
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    Some(length.saturating_add(header.len()))
}

impl Read for ZstdReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                let count = frame.read(buffer)?;
                if count > 0 {
                    return Ok(count);
                }
            }
            if !self.begin_frame()? {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests;
