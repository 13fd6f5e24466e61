//! Names that Windows does not take for a file of exactly this name: streams, short names, devices, separators.
//!
//! On Windows, tools cannot use such names, because the path rules would be checked for another name than the one that
//! Windows opens. On other systems, these names are ordinary.

use super::rule::{PathRule, PathRuleLayer, ProtectionLevel};
use std::sync::LazyLock;

/// The reason why Windows reads a name as another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowsAlias {
    /// `a\b`: two names.
    Backslash,
    /// `C:a` or `a:b`: a drive, or a stream of a file.
    Colon,
    /// `GIT~1`: possibly the short name of another file.
    ShortName,
    /// `nul.txt`: a device.
    Device,
    /// `a*`: not a name.
    Character,
    /// `a.`: the name `a`.
    Trailing,
}

impl WindowsAlias {
    const ALL: [Self; 6] = [
        Self::Backslash,
        Self::Colon,
        Self::ShortName,
        Self::Device,
        Self::Character,
        Self::Trailing,
    ];

    /// Checks one component of a path. `None` for an ordinary name.
    pub(super) fn find(name: &str) -> Option<Self> {
        if name.contains('\\') {
            Some(Self::Backslash)
        } else if name.contains(':') {
            Some(Self::Colon)
        } else if is_short(name) {
            Some(Self::ShortName)
        } else if is_device(name) {
            Some(Self::Device)
        } else if name.contains(|c| matches!(c, '<' | '>' | '"' | '|' | '?' | '*') || c < ' ') {
            Some(Self::Character)
        } else if name.ends_with(['.', ' ']) {
            Some(Self::Trailing)
        } else {
            None
        }
    }

    /// Returns the text of the rule, which says what to write instead.
    fn text(self) -> &'static str {
        match self {
            Self::Backslash => "write `/` between names; Windows reads `\\` as a separator, too",
            Self::Colon => {
                "write a path in the workspace without `:`; on Windows it selects a drive or a stream"
            }
            Self::ShortName => {
                "write the full name; on Windows `~1` can be a short name of another file"
            }
            Self::Device => "choose another name; on Windows this one is a device",
            Self::Character => {
                "choose another name; Windows does not allow `<`, `>`, `\"`, `|`, `?`, `*` and control characters"
            }
            Self::Trailing => {
                "write the name without dots and spaces at its end; Windows leaves them out"
            }
        }
    }

    /// Returns the rule that hides such names.
    pub(super) fn rule(self) -> &'static PathRule {
        static RULES: LazyLock<[PathRule; WindowsAlias::ALL.len()]> = LazyLock::new(|| {
            WindowsAlias::ALL.map(|alias| PathRule {
                text: alias.text().into(),
                protection: ProtectionLevel::Hidden,
                layer: PathRuleLayer::WindowsName,
                is_exception: false,
                leaf: false,
            })
        });
        &RULES[self as usize]
    }
}

/// Returns true for `GIT~1` and the like. Windows also makes short names of names that are not long: `.git` has one.
fn is_short(name: &str) -> bool {
    let mut pairs = name.as_bytes().windows(2);
    pairs.any(|pair| pair[0] == b'~' && pair[1].is_ascii_digit())
}

/// Returns true for the name of a device, with any extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).trim_end_matches(' ');
    let is_plain = ["con", "prn", "aux", "nul", "conin$", "conout$"]
        .iter()
        .any(|device| stem.eq_ignore_ascii_case(device));
    // COM1 to COM9 and LPT1 to LPT9, whose digit may also be written ¹, ² or ³.
    let is_port = matches!((stem.get(..3), stem.get(3..)), (Some(name), Some(number))
        if ["com", "lpt"].iter().any(|port| name.eq_ignore_ascii_case(port))
            && number.chars().count() == 1
            && number.contains(|c: char| c.is_ascii_digit() || "¹²³".contains(c)));
    is_plain || is_port
}

/// Returns the rule against the first name in a path that Windows reads as another one; `.` and `..` are not names.
pub fn windows_name_rule(path: &str) -> Option<&'static PathRule> {
    let mut names = path.split('/').filter(|name| !matches!(*name, "." | ".."));
    names.find_map(|name| WindowsAlias::find(name).map(WindowsAlias::rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_names_are_detected_with_their_reason() {
        for (name, alias) in [
            ("a\\b", WindowsAlias::Backslash),
            ("\\\\server\\share", WindowsAlias::Backslash),
            ("\\\\?\\C:\\x", WindowsAlias::Backslash),
            ("\\\\.\\pipe\\x", WindowsAlias::Backslash),
            ("C:", WindowsAlias::Colon),
            ("C:x", WindowsAlias::Colon),
            ("a:b", WindowsAlias::Colon),
            (".mimir:x", WindowsAlias::Colon),
            ("file.txt::$DATA", WindowsAlias::Colon),
            (".git::$INDEX_ALLOCATION", WindowsAlias::Colon),
            ("GIT~1", WindowsAlias::ShortName),
            ("MIMIR~12.TXT", WindowsAlias::ShortName),
            ("nul", WindowsAlias::Device),
            ("NUL.txt", WindowsAlias::Device),
            ("con .txt", WindowsAlias::Device),
            ("com1", WindowsAlias::Device),
            ("LPT9.x", WindowsAlias::Device),
            ("com¹", WindowsAlias::Device),
            ("CONIN$", WindowsAlias::Device),
            ("nul ", WindowsAlias::Device),
            ("aux.", WindowsAlias::Device),
            ("a*", WindowsAlias::Character),
            ("a\u{1}", WindowsAlias::Character),
            ("x.", WindowsAlias::Trailing),
            ("x ", WindowsAlias::Trailing),
            (".git. .", WindowsAlias::Trailing),
        ] {
            assert_eq!(WindowsAlias::find(name), Some(alias), "{name}");
            let rule = windows_name_rule(&format!("a/{name}/b")).expect(name);
            assert_eq!(rule.text(), alias.text(), "{name}");
            assert_eq!(rule.protection(), ProtectionLevel::Hidden, "{name}");
        }
        for name in [
            "a~b",
            "com",
            "com10",
            "console",
            "nullable.rs",
            ".env",
            "käse",
            "comé",
            "",
        ] {
            assert_eq!(WindowsAlias::find(name), None, "{name}");
        }
        assert_eq!(windows_name_rule("../a/./b"), None);
        assert!(windows_name_rule("...").is_some());
    }
}
