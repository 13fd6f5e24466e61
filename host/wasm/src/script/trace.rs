//! Stacks as the engine of JavaScript writes them, in the lines of the files that the code came from.

use mimir_core::ToolError;
use serde_json::Value;

use super::STACK;

/// What engines call code that was evaluated, and so what stands before its places.
const EVALUATED: [&str; 2] = ["<input>:", "<eval>:"];

/// Frames that a stack is told with. The innermost ones name the fault.
const MOST: usize = 20;

/// Lines before the first file: what is evaluated as text has its own lines from 1 on, and is told from it by that.
const BEFORE: u32 = 1_000;

/// Code that a program has loaded.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// How stacks call the file.
    pub path: String,
    /// Lines before its first, as the engine counts.
    pub base: u32,
    /// Its lines, as compiled.
    pub lines: u32,
    /// From places in what the engine evaluates to places in the file: line and column there, line and column here,
    /// all from 1, in the order of the former.
    pub map: Vec<[u32; 4]>,
}

impl Loaded {
    /// The file that a program begins with, compiled to `code`.
    pub fn first(path: &str, code: &str, map: Vec<[u32; 4]>) -> Self {
        Self::after(&[], path.to_owned(), code, map)
    }

    /// One that is loaded after these: its lines begin where no other code has any.
    pub(crate) fn after(all: &[Self], path: String, code: &str, map: Vec<[u32; 4]>) -> Self {
        let base = all.last().map_or(BEFORE, |last| last.base + last.lines);
        Self {
            path,
            base,
            lines: u32::try_from(code.lines().count()).unwrap_or(u32::MAX >> 8) + 1,
            map,
        }
    }
}

/// The frames of a stack that are in these files, with the places in them.
pub fn frames(all: &[Loaded], stack: &str) -> Vec<String> {
    mapped(stack, &|row, column| {
        let at = all.partition_point(|one| one.base < row);
        let one = all.get(at.checked_sub(1)?)?;
        if row > one.base + one.lines {
            return None;
        }
        let [line, column] = original(&one.map, row - one.base, column)?;
        Some(format!("{}:{line}:{column}", one.path))
    })
}

/// What is on stderr when a program has thrown something.
pub(super) fn uncaught(all: &[Loaded], error: &ToolError) -> String {
    let stack = error
        .details
        .as_ref()
        .and_then(|details| details.get(STACK));
    let stack = stack.and_then(Value::as_str).unwrap_or_default();
    let mut text = format!("Uncaught {}\n", error.message);
    for frame in frames(all, stack) {
        text += &format!("    at {frame}\n");
    }
    text
}

/// The frames of a stack for whose line and column there is a place.
pub fn mapped(stack: &str, place: &dyn Fn(u32, u32) -> Option<String>) -> Vec<String> {
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
        let place = place(row, column)?;
        let function = line
            .strip_prefix("at ")
            .and_then(|rest| rest.split(" (").next());
        let function = function.filter(|name| !name.contains(mark) && !name.starts_with('<'));
        Some(match function {
            Some(function) => format!("{function} ({place})"),
            None => place,
        })
    });
    let mut kept: Vec<String> = Vec::new();
    for frame in frames {
        if kept.last() != Some(&frame) {
            kept.push(frame);
        }
        if kept.len() == MOST {
            break;
        }
    }
    kept
}

/// The place in the code that a place in what was compiled comes from.
pub fn original(map: &[[u32; 4]], row: u32, column: u32) -> Option<[u32; 2]> {
    let after = map.partition_point(|[line, at, ..]| (*line, *at) <= (row, column));
    let [line, _, source, at] = *map.get(after.checked_sub(1)?)?;
    (line == row).then_some([source, at])
}
