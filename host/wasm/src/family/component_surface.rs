//! The outline of a component: its types, imports, exports and documentation.

use wasmparser::component_types::ComponentEntityType;
use wasmparser::types::{Types, TypesRef};
use wasmparser::{Parser, Payload, ValidPayload, Validator, WasmFeatures};

use super::{FamilyError, MAX_FILE_BYTES, type_nesting};
use crate::engine::EngineMode;

/// The custom section for doc comments, if the build tool wrote them into the binary.
const DOCS_SECTION: &str = "package-docs";

/// The features of the component model's `async`, which a sequential engine does not have.
const ASYNC_FEATURES: WasmFeatures = WasmFeatures::CM_ASYNC
    .union(WasmFeatures::CM_ASYNC_STACKFUL)
    .union(WasmFeatures::CM_MORE_ASYNC_BUILTINS)
    .union(WasmFeatures::CM_THREADING)
    .union(WasmFeatures::CM_ERROR_CONTEXT);

/// The features among them that no engine of this host has, with what a component uses of them.
const UNFINISHED_FEATURES: [(WasmFeatures, &str); 4] = [
    (
        WasmFeatures::CM_ASYNC_STACKFUL,
        "async functions without a callback",
    ),
    (WasmFeatures::CM_THREADING, "threads (`thread.*`)"),
    (
        WasmFeatures::CM_MORE_ASYNC_BUILTINS,
        "further built-in functions for async",
    ),
    (WasmFeatures::CM_ERROR_CONTEXT, "`error-context`"),
];

/// Documentation above this size is not read, in bytes; the WIT of all of WASI has a tenth of it.
const MAX_DOCS_BYTES: usize = 1024 * 1024;

/// The outline of a component: everything except function bodies.
pub(crate) struct ComponentSurface {
    types: Types,
    imports: Vec<(String, ComponentEntityType)>,
    exports: Vec<(String, ComponentEntityType)>,
    docs: Vec<u8>,
    mode: EngineMode,
}

impl ComponentSurface {
    /// Reads and validates everything but function bodies.
    pub fn read(bytes: &[u8]) -> Result<Self, FamilyError> {
        let mut validator = Validator::new_with_features(WasmFeatures::all());
        // A component that is valid without `async` runs on the faster engine.
        let sequential = WasmFeatures::all().difference(ASYNC_FEATURES);
        let mut sequential = Some(Validator::new_with_features(sequential));
        let (mut imports, mut exports) = (Vec::new(), Vec::new());
        let mut docs = Vec::new();
        let mut depth = 0;
        let mut types = None;
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload?;
            match &payload {
                Payload::Version { range, .. } => {
                    depth += 1;
                    type_nesting::check_depth(depth, range.start)?;
                }
                Payload::ComponentTypeSection(section) => {
                    let range = section.range();
                    let content = bytes.get(range.clone()).unwrap_or_default();
                    type_nesting::check(content, range.start)?;
                }
                _ => {}
            }
            sequential = sequential
                .and_then(|mut validator| validator.payload(&payload).is_ok().then_some(validator));
            if let ValidPayload::End(end) = validator.payload(&payload)? {
                depth -= 1;
                if depth == 0 {
                    types = Some(end);
                }
            }
            match payload {
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section {
                        imports.push(import?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    for export in section {
                        exports.push(export?.name.name.to_owned());
                    }
                }
                Payload::CustomSection(section)
                    if depth == 1
                        && section.name() == DOCS_SECTION
                        && section.data().len() <= MAX_DOCS_BYTES =>
                {
                    docs = section.data().to_owned();
                }
                _ => {}
            }
        }
        let Some(types) = types else {
            return Err(FamilyError::corrupt(bytes.len(), "the file ends too early"));
        };
        if sequential.is_none() {
            check_async_features(bytes)?;
        }
        let known = types.as_ref();
        let imports = with_types(imports, |name| {
            Some(known.component_item_for_import(name)?.ty)
        });
        let exports = with_types(exports, |name| {
            Some(known.component_item_for_export(name)?.ty)
        });
        Ok(Self {
            types,
            imports,
            exports,
            docs,
            mode: match sequential {
                Some(_) => EngineMode::Sequential,
                None => EngineMode::Concurrent,
            },
        })
    }

    /// Returns the types that the ids in the lists refer to.
    pub fn types(&self) -> TypesRef<'_> {
        self.types.as_ref()
    }

    /// Returns the mode of the engine that the component needs.
    pub fn mode(&self) -> EngineMode {
        self.mode
    }

    /// Iterates over the names and types of the imports, in order.
    pub fn imports(&self) -> impl Iterator<Item = (&str, ComponentEntityType)> {
        self.imports.iter().map(|(name, ty)| (name.as_str(), *ty))
    }

    /// Iterates over the names and types of the exports, in order.
    pub fn exports(&self) -> impl Iterator<Item = (&str, ComponentEntityType)> {
        self.exports.iter().map(|(name, ty)| (name.as_str(), *ty))
    }

    /// Returns the contents of the documentation section; empty without one.
    pub fn docs(&self) -> &[u8] {
        &self.docs
    }
}

/// Fails for a valid component that uses `async` in a way that the concurrent engine does not support.
fn check_async_features(bytes: &[u8]) -> Result<(), FamilyError> {
    let is_valid = |without: WasmFeatures| {
        let features = WasmFeatures::all().difference(without);
        // Function bodies do not depend on these features.
        let mut validator = Validator::new_with_features(features);
        let mut payloads = Parser::new(0).parse_all(bytes);
        payloads.all(|payload| payload.is_ok_and(|payload| validator.payload(&payload).is_ok()))
    };
    let unfinished = UNFINISHED_FEATURES
        .iter()
        .fold(WasmFeatures::empty(), |all, (feature, _)| all | *feature);
    if is_valid(unfinished) {
        return Ok(());
    }
    let used = UNFINISHED_FEATURES
        .iter()
        .filter(|(feature, _)| !is_valid(*feature));
    let names: Vec<&str> = used.map(|(_, name)| *name).collect();
    Err(FamilyError::AsyncFeatures {
        found: names.join(", "),
    })
}

fn with_types(
    names: Vec<String>,
    find: impl Fn(&str) -> Option<ComponentEntityType>,
) -> Vec<(String, ComponentEntityType)> {
    names
        .into_iter()
        .filter_map(|name| find(&name).map(|ty| (name, ty)))
        .collect()
}

/// Fails for a size above [`MAX_FILE_BYTES`]. Call it before reading a file.
pub fn check_size(size: u64) -> Result<(), FamilyError> {
    match size {
        0..=MAX_FILE_BYTES => Ok(()),
        size => Err(FamilyError::TooLarge { size }),
    }
}

/// Checks that the first eight bytes are the header of a component.
pub(super) fn check_header(bytes: &[u8]) -> Result<(), FamilyError> {
    let magic = b"\0asm";
    let Some((start, rest)) = bytes.split_first_chunk::<4>() else {
        let hint = match bytes {
            [] => "; it is empty",
            _ if magic.starts_with(bytes) => "; it is truncated",
            _ => "",
        };
        return Err(FamilyError::NotWasm { hint: hint.into() });
    };
    if start != magic {
        return Err(FamilyError::NotWasm {
            hint: String::new(),
        });
    }
    let Some((&[v0, v1, l0, l1], _)) = rest.split_first_chunk::<4>() else {
        return Err(FamilyError::corrupt(
            bytes.len(),
            "the file ends within its header",
        ));
    };
    match (u16::from_le_bytes([v0, v1]), u16::from_le_bytes([l0, l1])) {
        (_, 0) => Err(FamilyError::CoreModule),
        (0x0d, 1) => Ok(()),
        (version, layer) => Err(FamilyError::Encoding { version, layer }),
    }
}
