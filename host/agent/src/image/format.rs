//! Formats and dimensions of image files, read from their headers.

/// The format and the dimensions of an image file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ImageHeader {
    pub mime_type: &'static str,
    pub width: u32,
    pub height: u32,
}

impl ImageHeader {
    /// Reads the header of a PNG, GIF, JPEG or WebP file. Returns `None` for other files.
    pub(super) fn read(file: &[u8]) -> Option<Self> {
        let (mime_type, (width, height)) = if file.starts_with(b"\x89PNG\r\n\x1a\n") {
            ("image/png", png_size(file)?)
        } else if file.starts_with(b"GIF87a") || file.starts_with(b"GIF89a") {
            ("image/gif", (u16_le(file, 6)?, u16_le(file, 8)?))
        } else if file.starts_with(b"\xff\xd8\xff") {
            ("image/jpeg", jpeg_size(file)?)
        } else if file.starts_with(b"RIFF") && file.get(8..12)? == b"WEBP" {
            ("image/webp", webp_size(file)?)
        } else {
            return None;
        };
        Some(Self {
            mime_type,
            width,
            height,
        })
    }
}

fn u16_le(file: &[u8], at: usize) -> Option<u32> {
    let bytes: [u8; 2] = file.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_le_bytes(bytes).into())
}

fn u16_be(file: &[u8], at: usize) -> Option<u32> {
    let bytes: [u8; 2] = file.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_be_bytes(bytes).into())
}

fn png_size(file: &[u8]) -> Option<(u32, u32)> {
    let number = |at: usize| Some(u32::from_be_bytes(file.get(at..at + 4)?.try_into().ok()?));
    if file.get(12..16)? != b"IHDR" {
        return None;
    }
    Some((number(16)?, number(20)?))
}

/// Finds the frame header among the segments of a JPEG file.
fn jpeg_size(file: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *file.get(at)? != 0xff {
            return None;
        }
        match *file.get(at + 1)? {
            // Fill bytes before a marker.
            0xff => at += 1,
            // Frame headers, except the tables DHT, JPG and DAC in between.
            0xc0..=0xcf if !matches!(file[at + 1], 0xc4 | 0xc8 | 0xcc) => {
                return Some((u16_be(file, at + 7)?, u16_be(file, at + 5)?));
            }
            // Markers without a length.
            0x01 | 0xd0..=0xd8 => at += 2,
            // The scan begins, or the file ends, before a frame header.
            0xd9 | 0xda => return None,
            _ => {
                let length = usize::try_from(u16_be(file, at + 2)?).ok()?;
                at += 2 + length.max(2);
            }
        }
    }
}

fn webp_size(file: &[u8]) -> Option<(u32, u32)> {
    let byte = |at: usize| file.get(at).copied().map(u32::from);
    match file.get(12..16)? {
        b"VP8X" => {
            let number = |at: usize| Some(byte(at)? | (byte(at + 1)? << 8) | (byte(at + 2)? << 16));
            Some((number(24)? + 1, number(27)? + 1))
        }
        b"VP8L" => {
            let bits = u16_le(file, 21)? | (u16_le(file, 23)? << 16);
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8 " => Some((u16_le(file, 26)? & 0x3fff, u16_le(file, 28)? & 0x3fff)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(file: &[u8]) -> Option<(&'static str, u32, u32)> {
        ImageHeader::read(file).map(|info| (info.mime_type, info.width, info.height))
    }

    #[test]
    fn image_dimensions_are_read_from_each_format() {
        let gif = b"GIF89a\x2c\x01\xc8\x00\xf7";
        assert_eq!(size(gif), Some(("image/gif", 300, 200)));
        let jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc0\x00\x11\x08\x00\xc8\x01\x2c\x03";
        assert_eq!(size(jpeg), Some(("image/jpeg", 300, 200)));
        let webp =
            |kind: &[u8], rest: &[u8]| [b"RIFF\0\0\0\0WEBP", kind, b"\0\0\0\0", rest].concat();
        let extended = webp(b"VP8X", b"\0\0\0\0\x2b\x01\0\xc7\0\0");
        assert_eq!(size(&extended), Some(("image/webp", 300, 200)));
        let lossless = webp(b"VP8L", b"\x2f\x2b\xc1\x31\0");
        assert_eq!(size(&lossless), Some(("image/webp", 300, 200)));
        let lossy = webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a\x2c\x01\xc8\0");
        assert_eq!(size(&lossy), Some(("image/webp", 300, 200)));
    }

    #[test]
    fn image_header_that_is_cut_or_hostile_is_rejected() {
        let jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xff\xc0\x00\x11\x08\x00\xc8\x01\x2c\x03";
        for end in 0..jpeg.len() - 1 {
            assert_eq!(size(&jpeg[..end]), None, "{end}");
        }
        // A length of zero does not loop for ever, and neither do fill bytes.
        assert_eq!(
            size(&[b"\xff\xd8\xff\xe0".as_slice(), &[0; 64]].concat()),
            None
        );
        assert_eq!(size(&[b"\xff\xd8".as_slice(), &[0xff; 64]].concat()), None);
        assert_eq!(size(b"\x89PNG\r\n\x1a\n\0\0\0\rJUNK\0\0\0\0\0\0\0\0"), None);
        assert_eq!(size(b""), None);
    }
}
