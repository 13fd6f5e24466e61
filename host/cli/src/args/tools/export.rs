//! Arguments of `mimir tools export`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueHint};

/// Arguments of `mimir tools export`.
#[derive(Debug, PartialEq, Args)]
#[command(
    group(ArgGroup::new("format").required(true).multiple(true)),
    after_help = "\
Each format contains the same component, unchanged. Nothing is granted by an export: the person who \
installs it grants the rights that its tools need.

Examples:
  mimir tools export weather --oci weather-image
  mimir tools export weather --mcpb dist --with-program
  mimir tools export weather --claude-plugin weather-plugin --skill .claude/skills/weather
  mimir tools export weather --mcpb dist --server-json dist --server-name com.example/weather \\
      --bundle-url https://example.com/weather-1.0.0.mcpb"
)]
pub struct ToolsExportArgs {
    /// Name or alias of one of its tools, or its file name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Write an OCI image layout with the component as a wasm artifact
    #[arg(long, value_name = "DIR", group = "format", value_hint = ValueHint::DirPath)]
    pub oci: Option<PathBuf>,
    /// Write an MCP bundle, NAME-VERSION.mcpb, which desktop applications install
    #[arg(long, value_name = "DIR", group = "format", value_hint = ValueHint::DirPath)]
    pub mcpb: Option<PathBuf>,
    /// Write a plugin of Claude Code
    #[arg(long, value_name = "DIR", group = "format", value_hint = ValueHint::DirPath)]
    pub claude_plugin: Option<PathBuf>,
    /// Write an Agent Skill, which calls the tools by `mimir call`
    #[arg(long, value_name = "DIR", group = "format", value_hint = ValueHint::DirPath)]
    pub skill: Option<PathBuf>,
    /// Write server.json, the entry of the MCP registry for the bundle of --mcpb
    #[arg(long, value_name = "DIR", group = "format", value_hint = ValueHint::DirPath,
        requires_all = ["mcpb", "server_name", "bundle_url"])]
    pub server_json: Option<PathBuf>,
    /// Name of the server in the MCP registry, such as com.example/weather
    #[arg(long, value_name = "NAME", requires = "server_json", value_parser = server_name)]
    pub server_name: Option<String>,
    /// Address at which you publish the bundle
    #[arg(long, value_name = "URL", requires = "server_json", value_parser = bundle_url, value_hint = ValueHint::Url)]
    pub bundle_url: Option<String>,
    /// Put the mimir program for this platform into the bundle; without it, the bundle starts `mimir` from the PATH
    #[arg(long, requires = "mcpb")]
    pub with_program: bool,
    /// Author in the manifests
    #[arg(long, value_name = "NAME", value_parser = author)]
    pub author: Option<String>,
    /// Replace existing files
    #[arg(short, long)]
    pub force: bool,
}

/// Maximum length of a server's name.
const MAX_SERVER_NAME: usize = 200;

/// Parses the name of a server: a namespace in reverse DNS form, a slash, and a name.
fn server_name(text: &str) -> Result<String, String> {
    let is_good = |part: &str, more: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
        let ends = |c: char| c.is_ascii_alphanumeric();
        part.starts_with(ends) && part.ends_with(ends) && part.chars().all(inner)
    };
    let parts = text.split_once('/');
    let good = parts.is_some_and(|(space, name)| {
        space.contains('.') && is_good(space, ".-") && is_good(name, "._-")
    });
    if !good || text.len() > MAX_SERVER_NAME {
        return Err(
            "expected a namespace in reverse DNS form and a name: com.example/weather".to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// Parses the address of a bundle.
fn bundle_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").unwrap_or_default();
    let is_plain = !rest.contains(|c: char| c.is_whitespace() || c.is_control() || c == '@');
    if rest.contains('/') && rest.ends_with(".mcpb") && is_plain {
        Ok(text.to_owned())
    } else {
        Err("expected the address of a file: https://HOST/NAME.mcpb".to_owned())
    }
}

/// Parses the name of an author.
fn author(text: &str) -> Result<String, String> {
    let name = text.trim();
    if name.is_empty() || name.contains(char::is_control) {
        return Err("expected a name without control characters".to_owned());
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn export_server_name_has_a_namespace() {
        for good in ["com.example/weather", "io.github.acme/we.a-ther_2"] {
            assert_eq!(server_name(good).as_deref(), Ok(good));
        }
        let long = format!("com.example/{}", "a".repeat(MAX_SERVER_NAME));
        for bad in [
            "weather",
            "example/weather",
            "com.example/",
            "/a",
            "com.example/a/b",
            "com.ex ample/a",
            &long,
        ] {
            assert!(server_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn export_bundle_url_is_an_https_file() {
        assert!(bundle_url("https://example.com/a/weather.mcpb").is_ok());
        for bad in [
            "http://example.com/a.mcpb",
            "https://example.com/a.zip",
            "https://a.mcpb",
            "https://me:pw@example.com/a.mcpb",
            "https://example.com/a b.mcpb",
        ] {
            assert!(bundle_url(bad).is_err(), "{bad}");
        }
    }
}
