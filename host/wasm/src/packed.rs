//! Components embedded in the executable. They are compressed, because they are usually needed only once per machine:
//! the compiled code is cached.

use std::io::Read as _;

use lzma_rust2::XzReader;

use crate::error::WasmHostError;

/// A compressed component.
#[derive(Debug, Clone, Copy)]
pub enum PackedComponent {
    /// The component, compressed with xz.
    Whole(&'static [u8]),
    /// A module compressed with xz, and the uncompressed parts of the component before and after the module.
    Around {
        /// The part before the module.
        before: &'static [u8],
        /// The compressed module.
        module: &'static [u8],
        /// The part after the module.
        after: &'static [u8],
    },
}

impl PackedComponent {
    /// Returns the uncompressed component.
    ///
    /// # Errors
    ///
    /// Fails if the bytes cannot be decompressed, which means that the executable is damaged.
    pub fn unpack(&self) -> Result<Vec<u8>, WasmHostError> {
        let mut bytes = Vec::new();
        let read = match self {
            PackedComponent::Whole(component) => decompress(component, &mut bytes),
            PackedComponent::Around {
                before,
                module,
                after,
            } => {
                bytes.extend_from_slice(before);
                let read = decompress(module, &mut bytes);
                bytes.extend_from_slice(after);
                read
            }
        };
        read.map_err(|error| {
            WasmHostError::Engine(format!(
                "a built-in component cannot be decompressed: {error}"
            ))
        })?;
        Ok(bytes)
    }
}

fn decompress(compressed: &[u8], bytes: &mut Vec<u8>) -> std::io::Result<usize> {
    XzReader::new(compressed, false).read_to_end(bytes)
}
