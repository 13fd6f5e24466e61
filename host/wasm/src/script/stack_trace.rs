//! Mapping of JavaScript stack traces to the lines of the source files.

use mimir_core::ToolError;
use serde_json::Value;

use super::STACK;

/// The engine's names for evaluated code, which precede positions in stack traces.
const EVALUATED: [&str; 2] = ["<input>:", "<eval>:"];

/// Maximum number of frames in a stack trace: the innermost ones.
const MAX_FRAMES: usize = 20;

/// Number of unused lines before the first file. It distinguishes files from code that is evaluated as text, whose
/// lines begin at 1.
const LINES_BEFORE_FILES: u32 = 1_000;

/// Code that a program has loaded.
#[derive(Debug, Clone, Default)]
pub struct LoadedCode {
    /// The name of the file in stack traces.
    pub path: String,
    /// Number of lines before the first line, as counted by the engine.
    pub base: u32,
    /// Number of lines of the compiled code.
    pub lines: u32,
    /// Source map: line and column in the compiled code, line and column in the file, all from 1, sorted by the
    /// position in the compiled code.
    pub map: Vec<[u32; 4]>,
}

impl LoadedCode {
    /// Describes the initial file of a program, which was compiled to `code`.
    pub fn entry_file(path: &str, code: &str, map: Vec<[u32; 4]>) -> Self {
        Self::loaded_after(&[], path.to_owned(), code, map)
    }

    /// Describes a file loaded after `files`, with line numbers after those of all other files.
    pub(crate) fn loaded_after(
        files: &[Self],
        path: String,
        code: &str,
        map: Vec<[u32; 4]>,
    ) -> Self {
        let base = files
            .last()
            .map_or(LINES_BEFORE_FILES, |last| last.base + last.lines);
        Self {
            path,
            base,
            lines: u32::try_from(code.lines().count()).unwrap_or(u32::MAX >> 8) + 1,
            map,
        }
    }
}

/// Returns the frames of a stack that are in these files, with their positions in the sources.
pub fn stack_frames(files: &[LoadedCode], stack: &str) -> Vec<String> {
    map_frames(stack, &|row, column| {
        let count = files.partition_point(|file| file.base < row);
        let file = files.get(count.checked_sub(1)?)?;
        if row > file.base + file.lines {
            return None;
        }
        let [line, column] = original_position(&file.map, row - file.base, column)?;
        Some(format!("{}:{line}:{column}", file.path))
    })
}

/// Returns the text for stderr after an uncaught error.
pub(super) fn uncaught_error_text(files: &[LoadedCode], error: &ToolError) -> String {
    let stack = error
        .details
        .as_ref()
        .and_then(|details| details.get(STACK));
    let stack = stack.and_then(Value::as_str).unwrap_or_default();
    let mut text = format!("Uncaught {}\n", error.message);
    for frame in stack_frames(files, stack) {
        text += &format!("    at {frame}\n");
    }
    text
}

/// Replaces the engine's stack trace in the details of an error by the frames that are in these files.
pub(super) fn with_stack_frames(files: &[LoadedCode], mut error: ToolError) -> ToolError {
    if let Some(Value::Object(details)) = &mut error.details
        && let Some(Value::String(stack)) = details.get(STACK)
    {
        let frames = stack_frames(files, stack);
        details.insert(STACK.to_owned(), frames.into());
    }
    error
}

/// Returns the innermost frames of a stack whose line and column can be mapped. Equal frames in a row appear once.
pub fn map_frames(stack: &str, map_position: &dyn Fn(u32, u32) -> Option<String>) -> Vec<String> {
    let frames = stack.lines().filter_map(|line| {
        let line = line.trim();
        let (mark, begin) = EVALUATED
            .iter()
            .find_map(|mark| line.find(mark).map(|at| (mark, at)))?;
        let numbers = line[begin + mark.len()..].trim_end_matches(')');
        let mut numbers = numbers.split(':').map(str::parse::<u32>);
        let (Some(Ok(row)), Some(Ok(column))) = (numbers.next(), numbers.next()) else {
            return None;
        };
        let position = map_position(row, column)?;
        let function = line
            .strip_prefix("at ")
            .and_then(|rest| rest.split(" (").next());
        let function = function.filter(|name| !name.contains(mark) && !name.starts_with('<'));
        Some(match function {
            Some(function) => format!("{function} ({position})"),
            None => position,
        })
    });
    let mut shown: Vec<String> = Vec::new();
    for frame in frames {
        if shown.last() != Some(&frame) {
            shown.push(frame);
        }
        if shown.len() == MAX_FRAMES {
            break;
        }
    }
    shown
}

/// Returns the source position of a position in the compiled code.
pub fn original_position(map: &[[u32; 4]], row: u32, column: u32) -> Option<[u32; 2]> {
    let after = map.partition_point(|[line, at, ..]| (*line, *at) <= (row, column));
    let [line, _, source, at] = *map.get(after.checked_sub(1)?)?;
    (line == row).then_some([source, at])
}
