//! The description of a plugin's tools as a custom section of its component, so that listing tools compiles nothing.
//!
//! The section makes the claims that the plugin's `describe` makes, by the same author, and is validated in the same way.
//! No rights follow from it: imports are read from the component itself, and a call gets only what a person has granted.
//!
//! Out of scope: the content of the description.

use wasm_encoder::{ComponentSection as _, CustomSection};
use wasmparser::BinaryReader;

/// Name of the section, with the version of its form.
pub(crate) const SECTION: &str = "mimir:manifest@1";

/// Maximum size of a description in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Length of the header of a component.
const HEADER: usize = 8;

/// The id of custom sections.
const CUSTOM: u8 = 0;

/// Reason why a section cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ManifestSectionError {
    #[error("the component is damaged or truncated")]
    Corrupt,
    #[error("the component has several sections `{SECTION}`: expected one")]
    Several,
    #[error("the section `{SECTION}` is larger than {MAX_BYTES} bytes")]
    TooLarge,
}

/// A section of a component: its bytes, from its id, and the content if it is the description.
struct RawComponentSection<'a> {
    bytes: &'a [u8],
    manifest: Option<&'a [u8]>,
}

/// Splits a component into its sections.
fn sections(component: &[u8]) -> Option<Vec<RawComponentSection<'_>>> {
    let body = component.get(HEADER..)?;
    let mut reader = BinaryReader::new(body, 0);
    let mut sections = Vec::new();
    while !reader.eof() {
        let start = reader.current_position();
        let id = reader.read_u8().ok()?;
        let length = reader.read_var_u32().ok()?;
        let data = reader.read_bytes(length as usize).ok()?;
        let mut manifest = None;
        if id == CUSTOM {
            let mut content = BinaryReader::new(data, 0);
            let name = content.read_string().ok()?;
            if name == SECTION {
                manifest = data.get(content.current_position()..);
            }
        }
        sections.push(RawComponentSection {
            bytes: body.get(start..reader.current_position())?,
            manifest,
        });
    }
    Some(sections)
}

/// Returns the content of the section, or `None` without one. Sections of nested components are not read.
pub(crate) fn read(component: &[u8]) -> Result<Option<&[u8]>, ManifestSectionError> {
    let sections = sections(component).ok_or(ManifestSectionError::Corrupt)?;
    let mut manifests = sections.iter().filter_map(|section| section.manifest);
    match (manifests.next(), manifests.next()) {
        (Some(_), Some(_)) => Err(ManifestSectionError::Several),
        (Some(manifest), None) if manifest.len() > MAX_BYTES => Err(ManifestSectionError::TooLarge),
        (manifest, _) => Ok(manifest),
    }
}

/// Returns the component without sections of this name.
pub(crate) fn without_manifest(component: &[u8]) -> Result<Vec<u8>, ManifestSectionError> {
    let sections = sections(component).ok_or(ManifestSectionError::Corrupt)?;
    let mut rest = component.get(..HEADER).unwrap_or_default().to_vec();
    for section in sections.iter().filter(|section| section.manifest.is_none()) {
        rest.extend_from_slice(section.bytes);
    }
    Ok(rest)
}

/// Appends the section.
pub(crate) fn append(component: &mut Vec<u8>, manifest: &[u8]) -> Result<(), ManifestSectionError> {
    if manifest.len() > MAX_BYTES {
        return Err(ManifestSectionError::TooLarge);
    }
    let section = CustomSection {
        name: SECTION.into(),
        data: manifest.into(),
    };
    section.append_to_component(component);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(more: &str) -> Vec<u8> {
        wat::parse_str(format!("(component (core module) {more})")).unwrap()
    }

    #[test]
    fn manifest_section_is_read_as_appended() {
        let plain = component("");
        assert_eq!(read(&plain), Ok(None));
        let mut described = plain.clone();
        append(&mut described, b"{}").unwrap();
        assert_eq!(read(&described), Ok(Some(&b"{}"[..])));
        assert_eq!(without_manifest(&described).unwrap(), plain);
        wasmparser::validate(&described).unwrap();
    }

    #[test]
    fn manifest_section_of_a_nested_component_is_not_read() {
        let nested = component(r#"(component (@custom "mimir:manifest@1" "{}"))"#);
        assert_eq!(read(&nested), Ok(None));
        let other = component(r#"(@custom "mimir:manifest@2" "{}")"#);
        assert_eq!(read(&other), Ok(None));
    }

    #[test]
    fn manifest_section_must_be_unique_and_small() {
        let mut twice = component("");
        append(&mut twice, b"{}").unwrap();
        append(&mut twice, b"{}").unwrap();
        assert_eq!(read(&twice), Err(ManifestSectionError::Several));
        assert_eq!(without_manifest(&twice).unwrap(), component(""));
        let huge = vec![b' '; MAX_BYTES + 1];
        let mut large = component("");
        assert_eq!(
            append(&mut large, &huge),
            Err(ManifestSectionError::TooLarge)
        );
        assert_eq!(large, component(""), "nothing was appended");
        let section = CustomSection {
            name: SECTION.into(),
            data: (&huge).into(),
        };
        section.append_to_component(&mut large);
        assert_eq!(read(&large), Err(ManifestSectionError::TooLarge));
    }

    #[test]
    fn manifest_section_of_a_truncated_component_is_refused() {
        let mut whole = component("");
        append(&mut whole, b"{\"name\": \"x\"}").unwrap();
        let end = component("").len();
        for length in end + 1..whole.len() {
            assert_eq!(
                read(&whole[..length]),
                Err(ManifestSectionError::Corrupt),
                "cut at {length}"
            );
        }
        assert_eq!(read(&whole[..4]), Err(ManifestSectionError::Corrupt));
    }
}
