//! Limit for nesting, checked before a recursive parser sees the bytes.
//!
//! A type section may declare a type inside a type inside a type, three bytes a level, and wasmparser follows that by
//! recursion: a small file could end the whole process with a stack overflow, which cannot be caught. This walk has an
//! explicit stack.

use wasmparser::{
    BinaryReader, ComponentImport, ComponentType, InstanceTypeDeclaration, Parser, Payload,
};

use super::FamilyError;

/// Limit for components in components, and types in types. Tools nest three or four deep.
const MAX_DEPTH: usize = 64;

/// The kind of a list of declarations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeclarationList {
    /// The types of a section.
    Types,
    /// The declarations of an instance type.
    Instance,
    /// The declarations of a component type, which may import.
    Component,
}

/// Checks all type sections of a component that is part of a file, from byte `start` of that file. Use it before a
/// parser that checks no nesting of its own.
pub(crate) fn check_component(component: &[u8], start: usize) -> Result<(), FamilyError> {
    let mut depth = 0;
    for payload in Parser::new(start as u64).parse_all(component) {
        match payload? {
            Payload::Version { range, .. } => {
                depth += 1;
                check_depth(depth, range.start)?;
            }
            Payload::End(_) => depth -= 1,
            Payload::ComponentTypeSection(section) => {
                let range = section.range();
                let content = component.get(range.start - start..range.end - start);
                check(content.unwrap_or_default(), range.start)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks the number of components around the current one, which begins at byte `start`.
pub(super) fn check_depth(depth: usize, start: usize) -> Result<(), FamilyError> {
    if depth > MAX_DEPTH {
        let what = format_args!("components are nested more than {MAX_DEPTH} deep");
        return Err(FamilyError::corrupt(start, what));
    }
    Ok(())
}

/// Checks one component type section, whose contents begin at byte `start` of the file.
pub(super) fn check(section: &[u8], start: usize) -> Result<(), FamilyError> {
    const DECLARES_TYPE: u8 = 0x01;
    const DECLARES_IMPORT: u8 = 0x03;

    let mut reader = BinaryReader::new(section, start);
    let count = reader.read_var_u32()?;
    let mut open = vec![(DeclarationList::Types, count)];
    while let Some((list, left)) = open.last_mut() {
        let list = *list;
        let Some(fewer) = left.checked_sub(1) else {
            open.pop();
            continue;
        };
        *left = fewer;
        let next = section.get(reader.original_position() - start).copied();
        match (list, next) {
            (DeclarationList::Types, _) => {}
            (_, Some(DECLARES_TYPE)) => {
                reader.read_u8()?;
            }
            (DeclarationList::Component, Some(DECLARES_IMPORT)) => {
                reader.read_u8()?;
                reader.read::<ComponentImport<'_>>()?;
                continue;
            }
            _ => {
                reader.read::<InstanceTypeDeclaration<'_>>()?;
                continue;
            }
        }
        if let Some(inner) = read_or_enter(section, start, &mut reader)? {
            open.push(inner);
            if open.len() > MAX_DEPTH {
                return Err(FamilyError::corrupt(
                    reader.original_position(),
                    format_args!("types are nested more than {MAX_DEPTH} deep"),
                ));
            }
        }
    }
    Ok(())
}

/// Reads a type; a type with declarations is opened instead.
fn read_or_enter<'a>(
    section: &'a [u8],
    start: usize,
    reader: &mut BinaryReader<'a>,
) -> Result<Option<(DeclarationList, u32)>, FamilyError> {
    const COMPONENT: u8 = 0x41;
    const INSTANCE: u8 = 0x42;

    let list = match section.get(reader.original_position() - start) {
        Some(&COMPONENT) => DeclarationList::Component,
        Some(&INSTANCE) => DeclarationList::Instance,
        _ => {
            reader.read::<ComponentType<'_>>()?;
            return Ok(None);
        }
    };
    reader.read_u8()?;
    Ok(Some((list, reader.read_var_u32()?)))
}
