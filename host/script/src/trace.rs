//! Mapping of the engine's stack traces to lines of the file.

use mimir_wasm::script::stack_trace::{map_frames, original_position};

use crate::compile::CompiledCode;
use crate::definition::CheckedScript;

/// Returns the stack frames in the script, with positions in `file`.
pub(crate) fn map_stack(
    file: &str,
    compiled: &CompiledCode,
    checked: &CheckedScript,
    stack: &str,
) -> Vec<String> {
    map_frames(stack, &|row, column| {
        let [row, column] = original_position(&compiled.map, row, column)?;
        let at = checked
            .positions
            .code_position(row as usize, column as usize);
        Some(format!("{file}:{at}"))
    })
}
