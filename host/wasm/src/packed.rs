//! Components embedded in the executable. They are compressed, because they are usually needed only once per machine:
//! the compiled code is cached.

use std::io::Read as _;

use crate::error::WasmHostError;

/// A compressed component.
#[derive(Debug, Clone, Copy)]
pub enum PackedComponent {
    /// The component, compressed with zlib.
    Deflated(&'static [u8]),
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
        let unpacked = match self {
            PackedComponent::Deflated(bytes) => inflate(bytes).map_err(|error| error.to_string()),
            PackedComponent::Around {
                before,
                module,
                after,
            } => unpack_xz(before, module, after).map_err(|error| error.to_string()),
        };
        unpacked.map_err(|error| {
            WasmHostError::Engine(format!(
                "a built-in component cannot be decompressed: {error}"
            ))
        })
    }
}

fn inflate(mut compressed: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    flate2::read::ZlibDecoder::new(&mut compressed).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unpack_xz(
    before: &[u8],
    mut module: &[u8],
    after: &[u8],
) -> Result<Vec<u8>, lzma_rs::error::Error> {
    let mut bytes = before.to_vec();
    lzma_rs::xz_decompress(&mut module, &mut bytes)?;
    bytes.extend_from_slice(after);
    Ok(bytes)
}
