//! Metadata in the custom sections of a component: version, description, licences, and the like.

/// Header of a component: the magic number, and the version of the binary format.
const COMPONENT_HEADER: &[u8; 8] = b"\0asm\x0d\0\x01\0";

/// Maximum length of a value in bytes.
const MAX_VALUE: usize = 4096;

/// Metadata of a component. Values that are missing or not valid text are `None`.
#[derive(Debug, Default, PartialEq)]
pub struct ComponentMetadata {
    pub version: Option<String>,
    pub description: Option<String>,
    pub authors: Option<String>,
    pub licenses: Option<String>,
    pub source: Option<String>,
    pub homepage: Option<String>,
    pub revision: Option<String>,
}

impl ComponentMetadata {
    /// Reads the custom sections at the top level of a component. Other sections are skipped, and reading ends at the
    /// first one that is not valid.
    pub fn read(bytes: &[u8]) -> Self {
        let mut metadata = Self::default();
        let Some(mut rest) = bytes.strip_prefix(COMPONENT_HEADER) else {
            return metadata;
        };
        while let Some((id, content, next)) = section(rest) {
            rest = next;
            if id == 0
                && let Some((name, value)) = length_prefixed(content)
            {
                metadata.set(name, value);
            }
        }
        metadata
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        let field = match name {
            b"version" => &mut self.version,
            b"description" => &mut self.description,
            b"authors" => &mut self.authors,
            b"licenses" => &mut self.licenses,
            b"source" => &mut self.source,
            b"homepage" => &mut self.homepage,
            b"revision" => &mut self.revision,
            _ => return,
        };
        let text = std::str::from_utf8(value).ok();
        let text = text.map(str::trim).filter(|text| !text.is_empty());
        if let Some(text) = text.filter(|text| text.len() <= MAX_VALUE) {
            *field = Some(text.to_owned());
        }
    }
}

/// Splits a section off: its ID, its content, and the bytes after it.
fn section(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (id, rest) = bytes.split_first()?;
    let (content, rest) = length_prefixed(rest)?;
    Some((*id, content, rest))
}

/// Splits a byte string off that begins with its length.
fn length_prefixed(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length: u64 = 0;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        length |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return bytes[at + 1..].split_at_checked(usize::try_from(length).ok()?);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn custom(name: &str, value: &str) -> Vec<u8> {
        let mut content = vec![u8::try_from(name.len()).unwrap()];
        content.extend_from_slice(name.as_bytes());
        content.extend_from_slice(value.as_bytes());
        let mut section = vec![0];
        let length = content.len();
        section.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        section.push(u8::try_from(length >> 7).unwrap());
        section.extend(content);
        section
    }

    #[test]
    fn component_metadata_is_read_from_custom_sections() {
        let mut component = COMPONENT_HEADER.to_vec();
        component.extend(custom("version", "1.2.0"));
        component.extend([1, 3, 0, 0, 0]);
        component.extend(custom("licenses", "MIT OR Apache-2.0"));
        component.extend(custom("description", &"x".repeat(200)));
        component.extend(custom("unknown", "value"));
        component.extend(custom("authors", "  "));
        let metadata = ComponentMetadata::read(&component);
        assert_eq!(metadata.version.as_deref(), Some("1.2.0"));
        assert_eq!(metadata.licenses.as_deref(), Some("MIT OR Apache-2.0"));
        assert_eq!(metadata.description.map(|text| text.len()), Some(200));
        assert_eq!(metadata.authors, None);
    }

    #[test]
    fn component_metadata_of_hostile_files_is_empty() {
        for hostile in [
            &b""[..],
            b"\0asm\x01\0\0\0\0\x09\x07version1",
            b"\0asm\x0d\0\x01\0\0\xff\xff\xff\xff\x0f",
            b"\0asm\x0d\0\x01\0\0\x80\x80\x80\x80\x80\x80",
            b"\0asm\x0d\0\x01\0\0\x09\x70version1",
            b"\0asm\x0d\0\x01\0\0\x09\x07version\xff",
        ] {
            let metadata = ComponentMetadata::read(hostile);
            assert_eq!(metadata, ComponentMetadata::default(), "{hostile:?}");
        }
    }
}
