//! The equivalent spellings of a text argument, so that a rule for `a/c` also applies to `./a//b/../c`.

use std::borrow::Cow;

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use serde_json::Value;

use crate::backend::RealPath;

use super::link_resolver::LinkResolver;

pub(super) use mimir_commands::lexical;

/// Returns a URL without needless percent-encoding (RFC 3986 section 6.2.2.2): `%73ecret` becomes `secret`. `None` if
/// the text is not a URL or does not change.
fn without_needless_encoding(text: &str) -> Option<String> {
    if !(text.contains('%') && text.contains("://")) {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        plain.push_str(before);
        let code = after
            .get(..2)
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        let is_unreserved = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
        match code.filter(is_unreserved) {
            Some(byte) => {
                plain.push(char::from(byte));
                rest = &after[2..];
            }
            None => {
                plain.push('%');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    (plain != text).then_some(plain)
}

/// Returns the arguments with their `content` decoded. `None` if `encoding` is not `base64`, or if decoding fails.
pub(super) fn with_decoded_content(arguments: &Value) -> Option<Value> {
    let encoding = arguments.get("encoding")?.as_str()?;
    let content = arguments.get("content")?.as_str()?;
    if !encoding.eq_ignore_ascii_case("base64") {
        return None;
    }
    let plain: String = content
        .chars()
        .filter(|c| !c.is_ascii_whitespace())
        .collect();
    let bytes = LENIENT_BASE64.decode(plain).ok()?;
    let mut arguments = arguments.clone();
    arguments["content"] = String::from_utf8_lossy(&bytes).into();
    Some(arguments)
}

/// A lenient base64 decoder, so that a tool's decoder does not accept content that is skipped here.
const LENIENT_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns the path in the workspace that a text names, normalized. `None` if it leads out of the workspace. With
/// `windows`, a `\\` separates names, too, a drive leads outside, and the stream of a file is the file.
pub(super) fn workspace_path(text: &str, windows: bool) -> Option<Cow<'_, str>> {
    if !(windows && text.contains(['\\', ':'])) {
        return lexical(text);
    }
    if text.as_bytes().get(1) == Some(&b':') {
        return None;
    }
    let names = text.split(['/', '\\']);
    let names: Vec<_> = names
        .map(|name| name.split_once(':').map_or(name, |(file, _)| file))
        .collect();
    lexical(&names.join("/")).map(|path| Cow::Owned(path.into_owned()))
}

/// Calls `each` with the text and, if different, with the normalized path, or with `None` for a path that leads out of
/// the workspace. A URL is also passed without needless percent-encoding.
pub(super) fn spellings(text: &str, each: &mut impl FnMut(Option<&str>)) {
    each(Some(text));
    if let Some(url) = without_needless_encoding(text) {
        each(Some(&url));
    }
    match lexical(text) {
        Some(Cow::Borrowed(_)) => {}
        Some(Cow::Owned(path)) => each(Some(&path)),
        None if text.split('/').any(|part| part == "..") => each(None),
        None => {}
    }
}

/// Calls `each` with the results of [`spellings`], and with the target of a path through a link. A tool may resolve
/// `..` before or after links; if the targets differ, both are passed.
pub(super) fn spellings_and_links(
    text: &str,
    links: &LinkResolver<'_>,
    each: &mut impl FnMut(Option<&str>),
) {
    spellings(text, each);
    let mut follow = |path: &str| match links.resolve(path) {
        RealPath::AsWritten => {}
        RealPath::Other(path) => each(Some(&path)),
        RealPath::Outside => each(None),
    };
    follow(text);
    if let Some(Cow::Owned(path)) = lexical(text) {
        follow(&path);
    }
    if cfg!(windows) && text.contains(['\\', ':']) {
        let path = workspace_path(text, true);
        path.iter().for_each(|path| follow(path));
        each(path.as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_decodes_percent_encoding_of_urls() {
        for (url, plain) in [
            ("http://x/%73ecret", Some("http://x/secret")),
            (
                "http://x/%2Dsecret%7e?%41=%2F",
                Some("http://x/-secret~?A=%2F"),
            ),
            ("http://x/a%2Fb", None),
            ("http://x/%", None),
            ("http://x/%7", None),
            ("http://x/%+1", None),
            ("http://x/%ü", None),
            ("100%41", None),
        ] {
            assert_eq!(without_needless_encoding(url).as_deref(), plain, "{url}");
        }
    }

    #[test]
    fn spelling_decodes_base64_content() {
        let content = |encoding: &str, content: &str| {
            let arguments =
                serde_json::json!({"path": "a", "encoding": encoding, "content": content});
            with_decoded_content(&arguments).map(|arguments| arguments["content"].clone())
        };
        for written in ["Y3VybCB8IHNo", "Y3Vy bCB8\nIHNo"] {
            assert_eq!(content("base64", written), Some("curl | sh".into()));
        }
        assert_eq!(content("BASE64", "YQ"), Some("a".into()));
        assert_eq!(content("utf-8", "YQ=="), None);
        assert_eq!(content("base64", "?"), None);
    }

    #[test]
    fn spelling_normalizes_paths_lexically() {
        for (path, plain) in [
            ("a/b", Some("a/b")),
            ("./a//b/", Some("a/b")),
            ("a/../b/./c", Some("b/c")),
            (".", Some("")),
            ("a/..", Some("")),
            ("../a", None),
            ("a/../../b", None),
            ("/etc", None),
        ] {
            assert_eq!(lexical(path).as_deref(), plain, "{path}");
        }
        for (path, plain) in [
            ("a\\b", Some("a/b")),
            (".\\a\\..\\b/c", Some("b/c")),
            ("a\\b::$DATA", Some("a/b")),
            (".mimir:x", Some(".mimir")),
            ("..\\a", None),
            ("a\\..\\..\\b", None),
            ("C:x", None),
            ("C:\\x", None),
            ("c:/x", None),
            ("\\\\server\\share", None),
            ("\\\\?\\C:\\x", None),
            ("\\\\.\\pipe\\x", None),
            ("a/b", Some("a/b")),
        ] {
            assert_eq!(workspace_path(path, true).as_deref(), plain, "{path}");
            assert_eq!(workspace_path(path, false), lexical(path), "{path}");
        }
        let mut seen = Vec::new();
        spellings("x/./y", &mut |text| seen.push(text.map(str::to_owned)));
        spellings("x/../..", &mut |text| seen.push(text.map(str::to_owned)));
        let expected = [Some("x/./y"), Some("x/y"), Some("x/../.."), None];
        assert_eq!(seen, expected.map(|text| text.map(str::to_owned)));
    }
}
