//! Conversion of the files that a person adds as tools: core modules and WebAssembly text.
//!
//! A program for WASI 0.1 becomes a program for WASI 0.2. A module with component types, or with the exports of the
//! contract, becomes their component. Of any other module, the functions over numbers are exported.

use std::borrow::Cow;

use wasmparser::{Validator, WasmFeatures};

use super::module_outline::{ModuleOutline, call_export};
use super::{COMMAND_ADAPTER, ComponentizeError, REACTOR_ADAPTER, WASI_01};
use super::{encode_component, encode_error, number_functions, wasm_text, with_sdk_world};
use crate::lift::{SkippedExport, SkippedExports};

/// Version of the conversion, and part of the keys of cached code and descriptions. Increase it when the same module would
/// become another component.
pub(crate) const ADAPT_VERSION: u32 = 3;

/// The entry function of a program for WASI 0.1.
const START: &str = "_start";

/// Converts the content of a file to a component: core modules through the adapter to WASI 0.2, and WebAssembly text
/// through its binary form. A component is returned as it is, and so is any other file, which
/// [`detect`](crate::family::detect) rejects.
///
/// # Errors
///
/// Text that is not valid, with line and column; damaged modules; imports other than those of WASI and the contract;
/// modules with nothing to call.
///
/// # Example
///
/// ```
/// use mimir_wasm::componentize::adapt;
///
/// let text = br#"(module (func (export "double") (param i32) (result i32)
///     local.get 0
///     local.get 0
///     i32.add))"#;
/// let component = adapt(text)?;
/// assert!(mimir_wasm::family::detect(&component).is_ok());
/// # Ok::<(), mimir_wasm::componentize::ComponentizeError>(())
/// ```
pub fn adapt(content: &[u8]) -> Result<Cow<'_, [u8]>, ComponentizeError> {
    adapt_exports(content).map(|adapted| adapted.component)
}

/// A component, and what it does not have of the file.
pub(crate) struct AdaptedComponent<'a> {
    pub component: Cow<'a, [u8]>,
    /// Functions of a core module that are not exported by the component.
    pub skipped: Vec<SkippedExport>,
}

/// Converts the content of a file like [`adapt`], and lists the functions that are left out.
pub(crate) fn adapt_exports(content: &[u8]) -> Result<AdaptedComponent<'_>, ComponentizeError> {
    let binary = match wasm_text::text(content) {
        Some(text) => Cow::Owned(wasm_text::parse(text)?),
        None => Cow::Borrowed(content),
    };
    // The last two bytes of the header are 0 for modules, and 1 for components.
    if binary.starts_with(b"\0asm") && binary.get(6..8) == Some(&[0, 0]) {
        let (component, skipped) = adapt_module(&binary)?;
        return Ok(AdaptedComponent {
            component: Cow::Owned(component),
            skipped: skipped.finish(),
        });
    }
    Ok(AdaptedComponent {
        component: binary,
        skipped: Vec::new(),
    })
}

fn adapt_module(module: &[u8]) -> Result<(Vec<u8>, SkippedExports), ComponentizeError> {
    // The encoder expects a valid module.
    let mut validator = Validator::new_with_features(WasmFeatures::all());
    let types = validator.validate_all(module)?;
    let outline = ModuleOutline::read(module)?;
    outline.check_imports()?;
    let mut skipped = SkippedExports::default();
    let has_export = |name: &str| outline.exports.iter().any(|export| export == name);
    let encoded = if has_export(START) {
        encode_component(module, COMMAND_ADAPTER)
    } else if outline.has_world {
        encode_component(module, REACTOR_ADAPTER)
    } else if has_export(&call_export()) {
        with_sdk_world(module).and_then(|module| encode_component(&module, REACTOR_ADAPTER))
    } else {
        // Only WASI 0.1: an untyped module cannot import interfaces.
        if let Some((module, name)) = outline.imports.iter().find(|(name, _)| name != WASI_01) {
            let names = vec![crate::family::shown(&format!("{module}.{name}"))];
            return Err(ComponentizeError::Imports { names });
        }
        let typed = number_functions::with_types(module, types.as_ref(), &outline)?;
        skipped = typed.1;
        encode_component(&typed.0, REACTOR_ADAPTER)
    };
    let component = encoded.map_err(|error| encode_error(module, &error))?;
    Ok((component, skipped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{self, ComponentFamily, DetectedComponent, WasiGeneration};
    use crate::lift::testkit::{CompiledFixture, lifted};
    use crate::lift::{LiftedOutput, MAX_TOOLS};

    fn binary(text: &str) -> Vec<u8> {
        wat::parse_str(text).unwrap()
    }

    fn detected(content: &[u8]) -> DetectedComponent {
        family::detect(&adapt(content).unwrap()).unwrap()
    }

    fn message(text: &str) -> String {
        adapt(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn adapt_returns_components_and_other_files_unchanged() {
        let component = binary("(component)");
        for content in [&component[..], b"", b"\0asm", b"hello", b"\x7fELF\x02"] {
            assert!(matches!(adapt(content).unwrap(), Cow::Borrowed(same) if same == content));
        }
    }

    #[test]
    fn adapt_makes_a_program_of_a_module_with_start() {
        let program = r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (func (export "_start")))"#;
        for content in [&binary(program)[..], program.as_bytes()] {
            let detected = detected(content);
            assert_eq!(
                detected.family,
                ComponentFamily::Command(WasiGeneration::Preview2)
            );
            assert!(
                !detected.imports.iter().any(|name| name.contains("sockets")),
                "{detected:?}"
            );
        }
        let silent =
            detected(b"(module (memory (export \"memory\") 1) (func (export \"_start\")))");
        assert_eq!(
            silent.family,
            ComponentFamily::Command(WasiGeneration::Preview2)
        );
    }

    #[tokio::test]
    async fn adapt_exports_functions_over_numbers() {
        let text = r#"(module
            (func (export "addTwo_numbers") (param $left i32) (param $right i32) (result i32)
                local.get $left local.get $right i32.add)
            (func (export "half") (param f64) (result f64) local.get 0 f64.const 2 f64.div)
            (func (export "fib_2") (param i64) (result i64) local.get 0)
            (func (export "two") (result i32 i32) i32.const 1 i32.const 2)
            (func (export "_private")) (func (export "a b")) (func (export "list"))
            (global (export "g") i32 (i32.const 1)))"#;
        let component = adapt(text.as_bytes()).unwrap();
        let tools = lifted(&component);
        let mut names: Vec<&str> = tools.tools.iter().map(|tool| tool.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["add_two_numbers", "fib2", "half", "list"]);
        let fixture = CompiledFixture::new(&component);
        let numbers = serde_json::json!({"left": 40, "right": 2});
        let sum = fixture.call("add_two_numbers", &numbers);
        assert_eq!(
            sum.await.unwrap(),
            LiftedOutput::Ok(Some(serde_json::json!({"result": 42})))
        );
        let three = serde_json::json!({"a": 3});
        let half = fixture.call("half", &three);
        assert_eq!(
            half.await.unwrap(),
            LiftedOutput::Ok(Some(serde_json::json!({"result": 1.5})))
        );
    }

    #[test]
    fn adapt_lists_the_functions_that_are_left_out() {
        let many = "i32 ".repeat(17);
        let text = format!(
            r#"(module (func (export "fib_2")) (func (export "fib2")) (func (export "a b"))
                (func (export "wide") (param {many})) (func (export "host") (param externref))
                (func (export "two") (result i32 i32) unreachable)
                (func (export "_private")) (global (export "g") i32 (i32.const 1)))"#
        );
        let skipped = adapt_exports(text.as_bytes()).unwrap().skipped;
        let expected = [
            ("fib2", "`fib2`"),
            ("a b", "name"),
            ("wide", "more than 16"),
            ("host", "not a number"),
            ("two", "several results"),
        ];
        assert_eq!(skipped.len(), expected.len(), "{skipped:?}");
        for (skipped, (name, reason)) in skipped.iter().zip(expected) {
            assert_eq!(skipped.export, name);
            assert!(skipped.reason.contains(reason), "{skipped:?}");
        }
    }

    #[test]
    fn adapt_bounds_the_number_of_functions() {
        let text = |count: usize| {
            let functions = (0..count).map(|at| format!("(func (export \"f{at}\"))"));
            format!("(module {})", functions.collect::<String>())
        };
        let most = text(9_999);
        let adapted = adapt_exports(most.as_bytes()).unwrap();
        assert_eq!(lifted(&adapted.component).tools.len(), MAX_TOOLS);
        let skipped = &adapted.skipped;
        assert_eq!(skipped[0].export, "f256");
        assert!(skipped[0].reason.contains("256 tools"), "{skipped:?}");
        assert!(skipped.len() < 100, "{} are listed", skipped.len());
        let error = adapt(text(60_000).as_bytes()).unwrap_err();
        assert_eq!(error.code(), "TOO_MANY_ITEMS", "{error}");
        let imports = "(import \"wasi_snapshot_preview1\" \"sched_yield\" (func (result i32)))";
        let error = message(&format!("(module {})", imports.repeat(10_001)));
        assert!(error.contains("more than 10000 imports"), "{error}");
    }

    #[test]
    fn adapt_explains_why_a_library_cannot_be_called() {
        let allocates = message(
            r#"(module (memory (export "memory") 1) (func (export "add") (param i32) (result i32) local.get 0)
                (func (export "malloc") (param i32) (result i32) unreachable))"#,
        );
        assert!(
            allocates.contains("`malloc`") && allocates.contains("wasm32-wasip1"),
            "{allocates}"
        );
        let by_word = message(
            r#"(module (memory (export "memory") 1) (func (export "image_free") (param i32))
                (func (export "image_alloc") (param i32) (result i32) unreachable))"#,
        );
        assert!(by_word.contains("`image_alloc`"), "{by_word}");
        let nothing = message(r#"(module (func (export "f") (param externref)))"#);
        assert!(nothing.contains("no function over numbers"), "{nothing}");
        let foreign = message(r#"(module (import "env" "abort" (func)) (func (export "f")))"#);
        assert!(foreign.contains("`env.abort`"), "{foreign}");
        let untyped =
            message(r#"(module (import "wasi:io/poll@0.2.0" "poll" (func)) (func (export "f")))"#);
        assert!(untyped.contains("wasi:io/poll@0.2.0.poll"), "{untyped}");
    }

    #[test]
    fn adapt_reports_line_and_column_of_text() {
        let error = message("(module\n  (func (export \"f\")\n    i32.addd))");
        assert!(error.starts_with("line 3, column 5: "), "{error}");
        let error = message(";; a comment\n(component (func))");
        assert!(error.starts_with("line 2, "), "{error}");
        let error = message("(module\n  (func (call $missing)))");
        assert!(error.starts_with("line 2, column 15: "), "{error}");
        assert!(message("(module").starts_with("line 1, "));
        let deep = message(&"(".repeat(1_000_000));
        assert!(deep.starts_with("line 1, "), "{deep}");
        let large = message(&format!("(module {})", " ".repeat(17 << 20)));
        assert!(large.contains("too large to be parsed"), "{large}");
    }

    #[test]
    fn adapt_accepts_components_as_text() {
        let text = "\u{feff};; nothing else\n(component\n (core module $m (func (export \"f\")))
            (core instance $i (instantiate $m)) (func $f (canon lift (core func $i \"f\"))) (export \"f\" (func $f)))";
        assert!(matches!(
            detected(text.as_bytes()).family,
            ComponentFamily::Lifted(_)
        ));
    }

    #[test]
    fn adapt_survives_damaged_modules() {
        let whole = binary(
            r#"(module
                (import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))
                (memory (export "memory") 1) (data (i32.const 8) "text")
                (func (export "_initialize")) (func (export "add") (param $a i32) (result i32) local.get $a))"#,
        );
        for length in 0..whole.len() {
            let _ = adapt(&whole[..length]);
        }
        let mut damaged = 0;
        for at in (0..whole.len() * 8).step_by(3) {
            let mut flipped = whole.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            damaged += usize::from(adapt(&flipped).is_err());
        }
        assert!(damaged > whole.len() / 3, "{damaged}");
    }
}
