//! A stack as the engine writes it, in the lines of the file.

use crate::compile::Compiled;
use crate::definition::Checked;

/// What engines call code that was evaluated, and so what stands before its places.
const EVALUATED: [&str; 2] = ["<input>:", "<eval>:"];

/// Frames that a stack is told with. The innermost ones name the fault.
const MOST: usize = 20;

/// The frames of a stack that are in the script, with their places in the file called `place`.
pub(crate) fn mapped(
    place: &str,
    compiled: &Compiled,
    checked: &Checked,
    stack: &str,
) -> Vec<String> {
    let at = |row, column| {
        let at = checked.places.in_code(row as usize, column as usize);
        Some(format!("{place}:{at}"))
    };
    frames(compiled, stack, &at)
}

/// The frames of a stack that are in what was compiled, with the places that `at` gives to lines and columns of it.
pub(crate) fn frames(
    compiled: &Compiled,
    stack: &str,
    at: &dyn Fn(u32, u32) -> Option<String>,
) -> Vec<String> {
    in_map(&compiled.map, stack, at)
}

/// The same, by the map of what was compiled.
pub(crate) fn in_map(
    map: &[[u32; 4]],
    stack: &str,
    at: &dyn Fn(u32, u32) -> Option<String>,
) -> Vec<String> {
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
        let [row, column] = original(map, row, column)?;
        let place = at(row, column)?;
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
fn original(map: &[[u32; 4]], row: u32, column: u32) -> Option<[u32; 2]> {
    let after = map.partition_point(|[line, at, ..]| (*line, *at) <= (row, column));
    let [line, _, source, at] = *map.get(after.checked_sub(1)?)?;
    (line == row).then_some([source, at])
}
