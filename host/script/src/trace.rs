//! Maps the engine's stack traces to lines of the file.

use mimir_wasm::script::trace::{mapped, original};

use crate::compile::Compiled;
use crate::definition::Checked;

/// Returns the stack frames that are in the script, with positions in the file called `place`.
pub(crate) fn in_script(
    place: &str,
    compiled: &Compiled,
    checked: &Checked,
    stack: &str,
) -> Vec<String> {
    mapped(stack, &|row, column| {
        let [row, column] = original(&compiled.map, row, column)?;
        let at = checked.places.in_code(row as usize, column as usize);
        Some(format!("{place}:{at}"))
    })
}
