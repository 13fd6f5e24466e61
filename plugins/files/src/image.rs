//! Recognizes images and reads their size in pixels.

/// An image format that models can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageFormat {
    /// PNG.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF.
    Gif,
    /// WebP.
    Webp,
}

impl ImageFormat {
    /// Recognizes the format by the first bytes of a file.
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [
                b'R',
                b'I',
                b'F',
                b'F',
                _,
                _,
                _,
                _,
                b'W',
                b'E',
                b'B',
                b'P',
                ..,
            ] => Some(Self::Webp),
            _ => None,
        }
    }

    /// Returns the MIME type.
    pub fn mime_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// Returns width and height. `None` if the file is damaged.
    pub fn dimensions(self, bytes: &[u8]) -> Option<(u32, u32)> {
        let size = match self {
            Self::Png => {
                (bytes.get(12..16)? == b"IHDR").then_some(())?;
                (big_endian(bytes, 16, 4)?, big_endian(bytes, 20, 4)?)
            }
            Self::Gif => (little_endian(bytes, 6, 2)?, little_endian(bytes, 8, 2)?),
            Self::Jpeg => jpeg_dimensions(bytes)?,
            Self::Webp => webp_dimensions(bytes)?,
        };
        (size.0 > 0 && size.1 > 0).then_some(size)
    }
}

fn big_endian(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + count)?.iter();
    Some(bytes.fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn little_endian(bytes: &[u8], at: usize, count: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + count)?.iter().rev();
    Some(bytes.fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

/// Finds the frame header among the segments of a JPEG file.
fn jpeg_dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        while *bytes.get(at)? != 0xff {
            at += 1;
        }
        while *bytes.get(at)? == 0xff {
            at += 1;
        }
        let marker = *bytes.get(at)?;
        at += 1;
        match marker {
            // Markers without a length.
            0x00 | 0x01 | 0xd0..=0xd8 => continue,
            // The image data begins, or the file ends, before a frame header.
            0xd9 | 0xda => return None,
            // Frame headers, except tables, which share their range.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                let height = big_endian(bytes, at + 3, 2)?;
                let width = big_endian(bytes, at + 5, 2)?;
                return Some((width, height));
            }
            _ => at += usize::try_from(big_endian(bytes, at, 2)?).ok()?.max(2),
        }
    }
}

fn webp_dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8X" => Some((
            little_endian(bytes, 24, 3)? + 1,
            little_endian(bytes, 27, 3)? + 1,
        )),
        b"VP8L" => {
            let bits = little_endian(bytes, 21, 4)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8 " => Some((
            little_endian(bytes, 26, 2)? & 0x3fff,
            little_endian(bytes, 28, 2)? & 0x3fff,
        )),
        _ => None,
    }
}
