//! Components that export an interface of WASI without giving anything.

use std::collections::HashSet;

use wasm_encoder::{
    CodeSection, ConstExpr, DataSection, ExportKind, ExportSection, Function, FunctionSection,
    MemorySection, MemoryType, Module, TypeSection, ValType,
};
use wasmparser::Payload;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::abi::{AbiVariant, WasmType};
use wit_parser::{
    Function as WitFunction, Int, InterfaceId, Resolve, SizeAlign, Type, TypeDefKind, WorldId,
    WorldKey,
};

use super::{ComponentizeError, encode_failure, top_sections};

/// Size of a stub's memory in bytes, which holds the results of its functions.
const MEMORY_BYTES: usize = 1 << 16;

/// Alignment of each result in bytes: that of any type.
const RESULT_ALIGNMENT: usize = 16;

/// Names of the error with which a function of WASI refuses access.
const REFUSALS: [&str; 3] = ["access-denied", "access", "not-permitted"];

/// A component that replaces the imports of interfaces. It replaces as many as possible, because each has a memory, and the
/// memories of a component are limited.
pub(super) struct StubComponent {
    /// The interfaces, as imported.
    pub interfaces: Vec<String>,
    /// The interfaces that it imports, for their types. All of them are imported before the first of its own.
    pub imports: Vec<String>,
    pub bytes: Vec<u8>,
}

/// Returns the stubs for the imports of a world that are to be sealed.
pub(super) fn stubs(
    resolve: &Resolve,
    world: WorldId,
    is_sealed: impl Fn(&str) -> bool,
) -> Result<Vec<StubComponent>, ComponentizeError> {
    let keys = resolve.worlds[world].imports.keys();
    let interfaces: Vec<InterfaceId> = keys
        .filter_map(|key| match key {
            WorldKey::Interface(id) => Some(*id),
            WorldKey::Name(_) => None,
        })
        .collect();
    let must_seal = |id: InterfaceId| is_sealed(&interface_name(resolve, id));
    let mut stubs = Vec::new();
    let mut known: HashSet<InterfaceId> = HashSet::new();
    for (at, id) in interfaces.iter().enumerate() {
        if !known.insert(*id) || !must_seal(*id) {
            continue;
        }
        let mut group = vec![*id];
        for later in interfaces.iter().skip(at + 1) {
            let mut uses = resolve.interface_direct_deps(*later);
            if must_seal(*later) && uses.all(|used| known.contains(&used)) {
                known.insert(*later);
                group.push(*later);
            }
        }
        stubs.push(stub(resolve, &group)?);
    }
    Ok(stubs)
}

fn interface_name(resolve: &Resolve, id: InterfaceId) -> String {
    resolve.name_world_key(&WorldKey::Interface(id))
}

fn stub(resolve: &Resolve, group: &[InterfaceId]) -> Result<StubComponent, ComponentizeError> {
    let mut resolve = resolve.clone();
    let names = group.iter().map(|id| interface_name(&resolve, *id));
    let interfaces: Vec<String> = names.collect();
    let exports: String = interfaces
        .iter()
        .map(|interface| format!("  export {interface};\n"))
        .collect();
    let world = format!("package mimir:sealed;\nworld stub {{\n{exports}}}\n");
    let package = resolve.push_str("sealed.wit", &world);
    let world = resolve.select_world(&[package.map_err(encode_failure)?], Some("stub"));
    let world = world.map_err(encode_failure)?;
    let mut module = core_module(&resolve, group);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
        .map_err(encode_failure)?;
    let mut encoder = ComponentEncoder::default();
    encoder.module(&module).map_err(encode_failure)?;
    let bytes = encoder.encode().map_err(encode_failure)?;
    Ok(StubComponent {
        imports: import_names(&bytes)?,
        interfaces,
        bytes,
    })
}

/// Returns a module with a function for each of the interfaces.
fn core_module(resolve: &Resolve, group: &[InterfaceId]) -> Vec<u8> {
    let (mut types, mut functions) = (TypeSection::new(), FunctionSection::new());
    let (mut exports, mut code) = (ExportSection::new(), CodeSection::new());
    let mut add = |name: &str, params: Vec<ValType>, results: Vec<ValType>, body: Function| {
        let index = functions.len();
        types.ty().function(params, results);
        functions.function(index);
        exports.export(name, ExportKind::Func, index);
        code.function(&body);
    };
    let mut sizes = SizeAlign::default();
    sizes.fill(resolve);
    // The first address is not 0, which some libraries take for a missing result.
    let mut memory = vec![0; RESULT_ALIGNMENT];
    let functions_of = |id: &InterfaceId| {
        let interface = interface_name(resolve, *id);
        let functions = resolve.interfaces[*id].functions.values();
        functions.map(move |function| (format!("{interface}#{}", function.name), function))
    };
    for (name, function) in group.iter().flat_map(functions_of) {
        let signature = resolve.wasm_signature(AbiVariant::GuestExport, function);
        let convert = |types: &[WasmType]| types.iter().map(|ty| val_type(*ty)).collect();
        let mut body = Function::new([]);
        let refusal = refusal(resolve, &sizes, function).filter(|_| signature.retptr);
        match refusal.and_then(|bytes| store_result(&mut memory, &bytes)) {
            Some(address) => body.instructions().i32_const(address).end(),
            None => body.instructions().unreachable().end(),
        };
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
    data.active(0, &ConstExpr::i32_const(0), memory);
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

/// Appends a function's result to the memory of the stub, and returns its address; `None` if the memory is full.
fn store_result(memory: &mut Vec<u8>, result: &[u8]) -> Option<i32> {
    let address = memory.len();
    let end = (address + result.len()).next_multiple_of(RESULT_ALIGNMENT);
    if end > MEMORY_BYTES {
        return None;
    }
    memory.extend_from_slice(result);
    memory.resize(end, 0);
    i32::try_from(address).ok()
}

/// Returns the result that gives nothing, as it is in memory: an empty list, no value, or the error that access is denied.
/// `None` if the function has no such result.
fn refusal(resolve: &Resolve, sizes: &SizeAlign, function: &WitFunction) -> Option<Vec<u8>> {
    let ty = function.result?;
    let mut bytes = vec![0; sizes.size(&ty).size_wasm32()];
    match kind(resolve, ty)? {
        TypeDefKind::List(_) | TypeDefKind::Option(_) => {}
        TypeDefKind::Result(result) => {
            let error = error_case(resolve, result.err?)?;
            let cases = [result.ok.as_ref(), result.err.as_ref()];
            let payload = sizes.payload_offset(Int::U8, cases).size_wasm32();
            *bytes.get_mut(0)? = 1;
            *bytes.get_mut(payload)? = error;
        }
        _ => return None,
    }
    Some(bytes)
}

/// Returns the number of the case of an error that denies access.
fn error_case(resolve: &Resolve, error: Type) -> Option<u8> {
    let cases: Vec<&str> = match kind(resolve, error)? {
        TypeDefKind::Enum(ty) => ty.cases.iter().map(|case| case.name.as_str()).collect(),
        // A case with a value is none of the refusals, but counts.
        TypeDefKind::Variant(ty) => {
            let cases = ty.cases.iter();
            let names = cases.map(|case| match case.ty {
                None => case.name.as_str(),
                Some(_) => "",
            });
            names.collect()
        }
        _ => return None,
    };
    let mut cases_of = REFUSALS
        .iter()
        .filter_map(|refusal| cases.iter().position(|case| case == refusal));
    u8::try_from(cases_of.next()?).ok()
}

/// Returns the kind of a type, behind its other names; `None` for a number or text.
fn kind(resolve: &Resolve, mut ty: Type) -> Option<&TypeDefKind> {
    while let Type::Id(id) = ty {
        match &resolve.types[id].kind {
            TypeDefKind::Type(other) => ty = *other,
            kind => return Some(kind),
        }
    }
    None
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
