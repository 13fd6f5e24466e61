//! Decoding of text, as in the Encoding Standard.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Number of bytes at the beginning of a page that are scanned for a declared encoding, as in browsers.
const PRESCAN: usize = 1024;

/// Decodes bytes, and returns the text and the name of the encoding. `declared` is the encoding in the headers.
pub(crate) fn decode(bytes: &[u8], declared: Option<&str>) -> (String, &'static str) {
    let from_header = declared.and_then(|label| Encoding::for_label(label.as_bytes()));
    let encoding = Encoding::for_bom(bytes)
        .map(|(encoding, _)| encoding)
        .or(from_header)
        .or_else(|| declared_in_page(bytes))
        .unwrap_or_else(|| match std::str::from_utf8(bytes) {
            Ok(_) => UTF_8,
            // Without a declaration, browsers assume this legacy encoding.
            Err(_) => WINDOWS_1252,
        });
    let (text, used, _) = encoding.decode(bytes);
    (text.into_owned(), used.name())
}

/// The encoding declared by `<meta charset>`, `<meta http-equiv>` or an XML declaration.
fn declared_in_page(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = &bytes[..bytes.len().min(PRESCAN)];
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    let xml = start.trim_start().strip_prefix("<?xml");
    let declaration = xml.and_then(|rest| rest.split("?>").next());
    let declared = declaration.and_then(|text| value(text, "encoding"));
    let metas = start.split("<meta").skip(1);
    let mut metas = metas.filter_map(|meta| value(meta.split('>').next()?, "charset"));
    let label = declared.or_else(|| metas.next())?;
    let encoding = Encoding::for_label(label.as_bytes())?;
    // A declaration in ASCII could not be read in a UTF-16 page, so a declaration of UTF-16 must be wrong.
    let readable = encoding.is_ascii_compatible();
    Some(if readable { encoding } else { UTF_8 })
}

/// The value after `key=`, with or without quotes.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(key)?;
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    let rest = rest.trim_start_matches(['"', '\'']);
    let end = rest.find(|c: char| c.is_whitespace() || "\"';/>".contains(c));
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charset_is_detected_from_header_bom_and_page() {
        let greek = encoding_rs::WINDOWS_1253.encode("Καλημέρα").0;
        let page = |head: &str, body: &[u8]| [head.as_bytes(), body].concat();
        for (bytes, declared, name) in [
            (greek.to_vec(), Some("windows-1253"), "windows-1253"),
            (
                page("<meta charset=iso-8859-7>", &greek),
                None,
                "ISO-8859-7",
            ),
            (
                page(
                    "<META http-equiv=\"Content-Type\" content=\"text/html; charset=windows-1253\">",
                    &greek,
                ),
                None,
                "windows-1253",
            ),
            (
                page("<?xml version='1.0' encoding='windows-1253'?>", &greek),
                None,
                "windows-1253",
            ),
            ("Καλημέρα".as_bytes().to_vec(), None, "UTF-8"),
            // A byte order mark takes precedence over the headers.
            (
                page("\u{feff}", "Καλημέρα".as_bytes()),
                Some("latin1"),
                "UTF-8",
            ),
        ] {
            let (text, used) = decode(&bytes, declared);
            assert_eq!(used, name, "{text}");
            assert!(text.ends_with("Καλημέρα"), "{text}");
        }
        let (text, used) = decode(b"caf\xe9", None);
        assert_eq!((text.as_str(), used), ("café", "windows-1252"));
        let (text, _) = decode(b"a\xff", Some("utf-8"));
        assert_eq!(text, "a\u{fffd}");
        let (text, _) = decode(&[0xff, 0xfe, b'a', 0], None);
        assert_eq!(text, "a");
        assert_eq!(decode(b"<meta charset=utf-16>x", None).1, "UTF-8");
        assert_eq!(decode(b"x", Some("no-such-thing")).1, "UTF-8");
    }
}
