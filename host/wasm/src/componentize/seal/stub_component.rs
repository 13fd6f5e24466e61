//! Components that export an interface of WASI without giving anything.

use wasm_encoder::{
    CodeSection, ConstExpr, DataSection, ExportKind, ExportSection, Function, FunctionSection,
    MemorySection, MemoryType, Module, TypeSection, ValType,
};
use wasmparser::Payload;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::abi::{AbiVariant, WasmType};
use wit_parser::{
    Function as WitFunction, InterfaceId, Resolve, Type, TypeDefKind, WorldId, WorldKey,
};

use super::{ComponentizeError, encode_failure, top_sections};

/// Address of a pair of zeros in the memory of a stub: an empty list.
const EMPTY_LIST: i32 = 8;

/// A component that replaces the import of an interface.
pub(super) struct StubComponent {
    /// The interface, as imported.
    pub interface: String,
    /// The interfaces that it imports, for their types.
    pub imports: Vec<String>,
    pub bytes: Vec<u8>,
}

/// Returns the stubs for the imports of a world that are to be sealed.
pub(super) fn stubs(
    resolve: &Resolve,
    world: WorldId,
    is_sealed: impl Fn(&str) -> bool,
) -> Result<Vec<StubComponent>, ComponentizeError> {
    let mut stubs = Vec::new();
    for key in resolve.worlds[world].imports.keys() {
        let WorldKey::Interface(id) = key else {
            continue;
        };
        let interface = resolve.name_world_key(key);
        if is_sealed(&interface) {
            stubs.push(stub(resolve, *id, interface)?);
        }
    }
    Ok(stubs)
}

fn stub(
    resolve: &Resolve,
    id: InterfaceId,
    interface: String,
) -> Result<StubComponent, ComponentizeError> {
    let mut resolve = resolve.clone();
    let world = format!("package mimir:sealed;\nworld stub {{ export {interface}; }}\n");
    let package = resolve.push_str("sealed.wit", &world);
    let world = resolve.select_world(&[package.map_err(encode_failure)?], Some("stub"));
    let world = world.map_err(encode_failure)?;
    let mut module = core_module(&resolve, id, &interface);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .map_err(encode_failure)?;
    let mut encoder = ComponentEncoder::default();
    encoder.module(&module).map_err(encode_failure)?;
    let bytes = encoder.encode().map_err(encode_failure)?;
    Ok(StubComponent {
        imports: import_names(&bytes)?,
        interface,
        bytes,
    })
}

/// Returns a module with a function for each of the interface.
fn core_module(resolve: &Resolve, id: InterfaceId, interface: &str) -> Vec<u8> {
    let (mut types, mut functions) = (TypeSection::new(), FunctionSection::new());
    let (mut exports, mut code) = (ExportSection::new(), CodeSection::new());
    let mut add = |name: &str, params: Vec<ValType>, results: Vec<ValType>, body: Function| {
        let index = functions.len();
        types.ty().function(params, results);
        functions.function(index);
        exports.export(name, ExportKind::Func, index);
        code.function(&body);
    };
    for function in resolve.interfaces[id].functions.values() {
        let signature = resolve.wasm_signature(AbiVariant::GuestExport, function);
        let convert = |types: &[WasmType]| types.iter().map(|ty| val_type(*ty)).collect();
        let mut body = Function::new([]);
        if returns_list(resolve, function) {
            body.instructions().i32_const(EMPTY_LIST).end();
        } else {
            body.instructions().unreachable().end();
        }
        let name = format!("{interface}#{}", function.name);
        let (params, results) = (convert(&signature.params), convert(&signature.results));
        add(&name, params, results, body);
    }
    let mut realloc = Function::new([]);
    realloc.instructions().unreachable().end();
    add(
        "cabi_realloc",
        vec![ValType::I32; 4],
        vec![ValType::I32],
        realloc,
    );
    let mut memories = MemorySection::new();
    memories.memory(MemoryType {
        minimum: 1,
        maximum: Some(1),
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    exports.export("memory", ExportKind::Memory, 0);
    let mut data = DataSection::new();
    data.active(0, &ConstExpr::i32_const(EMPTY_LIST), [0; 8]);
    let mut module = Module::new();
    module
        .section(&types)
        .section(&functions)
        .section(&memories)
        .section(&exports)
        .section(&code)
        .section(&data);
    module.finish()
}

fn val_type(ty: WasmType) -> ValType {
    match ty {
        WasmType::I32 | WasmType::Pointer | WasmType::Length => ValType::I32,
        WasmType::I64 | WasmType::PointerOrI64 => ValType::I64,
        WasmType::F32 => ValType::F32,
        WasmType::F64 => ValType::F64,
    }
}

fn returns_list(resolve: &Resolve, function: &WitFunction) -> bool {
    let Some(Type::Id(id)) = function.result else {
        return false;
    };
    matches!(resolve.types[id].kind, TypeDefKind::List(_))
}

/// Returns the names of a component's imports.
fn import_names(component: &[u8]) -> Result<Vec<String>, ComponentizeError> {
    let mut names = Vec::new();
    for section in top_sections(component)? {
        if let Payload::ComponentImportSection(section) = section {
            for import in section {
                names.push(import.map_err(encode_failure)?.name.name.to_owned());
            }
        }
    }
    Ok(names)
}
