//! Repeated builds, for `mimir tools build --watch` and `mimir tools dev`.

use std::path::{Path, PathBuf};

use mimir_core::text::visible;

use super::PluginFolder;
use super::source_watch::SourceWatch;
use crate::args::PluginSourceArgs;
use crate::commands::call::wait_for_interrupt;
use crate::exit::{CommandFailure, CommandResult, ExitReason};
use crate::output::{FAINT, ResultPrinter, note, styled};

/// Maximum number of changed files in a message.
const SHOWN_FILES: usize = 3;

/// Runs `cycle` for the plugin, and again after each change of its sources, until Ctrl-C. A cycle that fails prints its
/// error.
pub async fn repeat_until_interrupt(
    plugin: &PluginSourceArgs,
    printer: ResultPrinter,
    cycle: impl AsyncFn(PluginFolder) -> CommandResult<()>,
) -> CommandResult {
    let find = || PluginFolder::find(&plugin.dir, plugin.lang);
    let watched = find()?.watched;
    // Found again each time: the name of the plugin may have changed, too.
    // On the heap: the type of a build's future is nested too deeply for the compiler otherwise.
    let cycle = async || Box::pin(cycle(find()?)).await;
    tokio::select! {
        ended = repeat_on_change(&watched, printer, cycle) => ended,
        // The usual end.
        _ = wait_for_interrupt() => Ok(ExitReason::Done),
    }
}

/// Runs `cycle`, and again after each change of the file, or of a file in the folder. Returns only if it can no longer be
/// watched.
async fn repeat_on_change(
    watched: &Path,
    printer: ResultPrinter,
    cycle: impl AsyncFn() -> CommandResult<()>,
) -> CommandResult {
    // Before the first cycle, so that a change during it counts.
    let mut watch = SourceWatch::start(watched)?;
    loop {
        match cycle().await {
            Ok(()) => {}
            Err(CommandFailure::Reported { error, .. }) => printer.print_failure(&error)?,
            Err(failure) => return Err(failure),
        }
        note(styled(FAINT, "waiting for changes; Ctrl-C ends"));
        let files = watch.next_change().await?;
        note(styled(
            FAINT,
            format_args!("changed: {}", shown_files(&files)),
        ));
    }
}

/// Returns the first files, and the number of the others.
fn shown_files(files: &[PathBuf]) -> String {
    let shown = files.iter().take(SHOWN_FILES);
    let shown: Vec<String> = shown
        .map(|file| visible(&file.display().to_string()))
        .collect();
    let rest = files.len() - shown.len();
    let shown = shown.join(", ");
    if rest == 0 {
        shown
    } else {
        format!("{shown} and {rest} more")
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use mimir_core::ToolError;

    use super::*;

    #[test]
    fn build_watch_shows_few_changed_files() {
        let files: Vec<PathBuf> = ["a.py", "b.py", "c.py", "d\u{1b}.py"]
            .map(PathBuf::from)
            .into();
        assert_eq!(shown_files(&files[..2]), "a.py, b.py");
        assert_eq!(shown_files(&files), "a.py, b.py, c.py and 1 more");
    }

    #[tokio::test]
    async fn build_watch_goes_on_after_a_failed_build() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tool.py");
        std::fs::write(&file, "").unwrap();
        let count = Cell::new(0);
        let cycle = async || {
            count.set(count.get() + 1);
            // A change during the cycle causes the next one.
            std::fs::write(&file, "x".repeat(count.get()))?;
            match count.get() {
                1 => Err(ToolError::execution("the first build fails").into()),
                2 => Ok(()),
                _ => Err(CommandFailure::Print(std::io::Error::other("stop"))),
            }
        };
        let ended = repeat_on_change(dir.path(), ResultPrinter::new(false), cycle).await;
        assert!(matches!(ended, Err(CommandFailure::Print(_))), "{ended:?}");
        assert_eq!(count.get(), 3);
    }
}
