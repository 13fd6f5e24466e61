//! Arguments of `mimir tools add`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Arguments of `mimir tools add`.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "\
A reference names its registry, and has a tag or a digest. The signature is checked against the `trust` rules \
before the component is compiled, and tools.lock pins what was installed (mimir help registries):
  mimir tools add weather.wasm
  mimir tools add registry.example.com/acme/weather:1.2
  mimir tools add https://example.com/weather.wasm --digest 9f86d081…")]
pub struct ToolsAddArgs {
    /// The component: a file, a folder, a reference of a registry, a URL, or `npm:PACKAGE`
    #[arg(value_name = "SOURCE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Expected SHA-256 of the file, in hex; required for a URL
    #[arg(long, value_name = "SHA256", value_parser = digest)]
    pub digest: Option<String>,
    /// Replace a tool with the same file name
    #[arg(short, long)]
    pub force: bool,
    /// Prefix for the names of its tools, such as `fs_`
    #[arg(long, value_name = "PREFIX", value_parser = prefix)]
    pub prefix: Option<String>,
}

/// Maximum length of a prefix: half of that of a tool name.
const MAX_PREFIX_LENGTH: usize = 32;

/// Parses a prefix for tool names, which may be empty.
pub(super) fn prefix(text: &str) -> Result<String, String> {
    let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
    if text.len() > MAX_PREFIX_LENGTH || !text.bytes().all(good) {
        return Err(format!(
            "expected at most {MAX_PREFIX_LENGTH} characters of a-z, 0-9 and _"
        ));
    }
    Ok(text.to_owned())
}

/// Parses 64 hex digits, with or without a leading `sha256:`.
pub(in crate::args) fn digest(text: &str) -> Result<String, String> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    let good = hex.len() == 64 && hex.bytes().all(|c| c.is_ascii_hexdigit());
    if !good {
        return Err("expected 64 hex digits, as `sha256sum` prints them".to_owned());
    }
    Ok(hex.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_argument_takes_lower_case_names() {
        assert!(prefix("fs_").is_ok() && prefix("").is_ok());
        for bad in ["Fs_", "fs-", &"x".repeat(33)] {
            assert!(prefix(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn digest_argument_takes_64_hex_digits() {
        let hex = "AB".repeat(32);
        assert_eq!(digest(&hex), Ok(hex.to_lowercase()));
        assert_eq!(digest(&format!("sha256:{hex}")), Ok(hex.to_lowercase()));
        for bad in ["", "ab", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65)] {
            assert!(digest(bad).is_err(), "{bad}");
        }
    }
}
