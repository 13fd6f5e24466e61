//! Arguments of `mimir tools import`.

use clap::{Args, Subcommand};

/// Commands of `mimir tools import`.
#[derive(Debug, PartialEq, Subcommand)]
pub enum ToolsImportCommand {
    /// Make tools from the OpenAPI document of an HTTP API
    Openapi(OpenApiImportArgs),
}

/// Arguments of `mimir tools import openapi`.
#[derive(Debug, PartialEq, Args)]
pub struct OpenApiImportArgs {
    /// The document: a JSON or YAML file, or a URL to download it from [default with --update: that of the last import]
    #[arg(value_name = "FILE|URL", required_unless_present = "update")]
    pub document: Option<String>,
    /// Name of the API, which begins the names of its tools [default: from the title]
    #[arg(long, value_name = "NAME", required_if_eq("update", "true"))]
    pub name: Option<String>,
    /// Import only these operations: an operation id, `tag:NAME`, or a path such as `/users/*`; repeatable
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<String>,
    /// Leave out these operations; repeatable
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Server of all requests, instead of those in the document
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Send this secret as a bearer token, instead of what the document says
    #[arg(long, value_name = "SECRET")]
    pub bearer: Option<String>,
    /// Import again: show the difference, and ask before the file is replaced
    #[arg(long)]
    pub update: bool,
    /// With --update: replace the file without a question
    #[arg(long)]
    pub yes: bool,
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches as _;

    use super::*;

    #[test]
    fn import_arguments_take_yes_without_update() {
        let command = OpenApiImportArgs::augment_args(clap::Command::new("openapi"));
        let matches = command.try_get_matches_from(["openapi", "api.json", "--yes"]);
        let args = OpenApiImportArgs::from_arg_matches(&matches.unwrap()).unwrap();
        assert!(args.yes && !args.update);
    }
}
