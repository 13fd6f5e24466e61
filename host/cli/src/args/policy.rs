//! Arguments of `mimir policy`.

use clap::Subcommand;

/// Commands of `mimir policy`.
#[derive(Debug, PartialEq, Subcommand)]
pub enum PolicyCommand {
    /// Explain what would be decided about a call, and why, without running it
    #[command(after_help = "Example: mimir policy explain delete_file path=notes.md")]
    Explain {
        /// Name or alias
        #[arg(value_name = "TOOL")]
        tool: String,
        /// JSON, `-`, or key=value arguments, as in `mimir call`
        #[arg(value_name = "ARGS")]
        arguments: Vec<String>,
    },
    /// Check the rules: run their examples, and report conditions that can never be true
    Check {
        /// Check again whenever a file changes, until Ctrl-C
        #[arg(short, long)]
        watch: bool,
    },
    /// Accept the project's settings in full, as they are now
    #[command(after_help = "\
Restrictions in a project's .mimir/config.yml always apply. Anything in it that allows, lifts or reveals \
something applies only after you have accepted the file on this machine, because it may have come with a \
checkout. After each change it has to be accepted again. The same holds for worker files: until accepted, \
they are neither run nor shown to a model.")]
    Accept {
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
}
