//! Arguments of `mimir tools push`, `update` and `vendor`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use mimir_registry::OciReference;

/// Arguments of `mimir tools push`.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "\
The component gets the layout that other WebAssembly tools read. `--sign` adds a signature, which others \
check with the public key (mimir help signatures). A build that is older than its sources is refused. The login is that of Docker:
  mimir tools push weather registry.example.com/acme/weather:1.2 --sign acme.key
A JSON file is pushed as a catalog, which `mimir tools search` searches (mimir help registries):
  mimir tools push catalog.json registry.example.com/acme/catalog")]
pub struct ToolsPushArgs {
    /// Folder of a built plugin, an installed tool, a component file, or a catalog in JSON
    #[arg(value_name = "DIR|FILE|NAME", value_hint = ValueHint::AnyPath)]
    pub source: PathBuf,
    #[command(flatten)]
    pub target: PushTargetArgs,
    /// Push the existing build although its sources have changed since
    #[arg(long)]
    pub allow_stale: bool,
}

/// Arguments of all commands that push: where to, and how.
#[derive(Debug, PartialEq, Args)]
pub struct PushTargetArgs {
    /// Reference with the registry, such as registry.example.com/acme/weather:1.2
    #[arg(value_name = "REF", value_parser = reference)]
    pub reference: OciReference,
    /// Sign with this private key: a name from `mimir keys list`, or a file
    #[arg(long, value_name = "KEY", value_hint = ValueHint::FilePath)]
    pub sign: Option<String>,
    /// A further tag for the same content
    #[arg(long = "tag", value_name = "TAG")]
    pub tags: Vec<String>,
    /// Replace tags that have other content
    #[arg(short, long)]
    pub force: bool,
}

/// Arguments of `mimir tools update`.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "\
Checks the tags and packages that the installed components came from. Before a component is replaced, it \
shows the signer, the versions, and the differences in needs, tools and schemas, and asks. A grant never \
covers the new build: `mimir tools trust NAME` grants it.")]
pub struct ToolsUpdateArgs {
    /// A tool or its file; all components from registries and packages if missing
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Only show updates; exit code 1 if there are any
    #[arg(long)]
    pub check: bool,
    /// Do not ask for confirmation
    #[arg(long, conflicts_with = "check")]
    pub yes: bool,
    /// Accept an older version
    #[arg(long)]
    pub allow_downgrade: bool,
}

/// Parses a reference with its registry.
fn reference(text: &str) -> Result<OciReference, String> {
    text.parse()
        .map_err(|error: mimir_registry::RegistryError| error.to_string())
}
