//! The bytes of an engine in the executable: plain, or compressed, since they are needed only once per machine.

use std::borrow::Cow;

use crate::error::WasmHostError;

/// A component that may be compressed.
#[derive(Debug, Clone, Copy)]
pub enum PackedComponent {
    /// Uncompressed.
    Plain(&'static [u8]),
    /// A module compressed with xz, and the parts of the component before and after it.
    Around {
        /// The part before it.
        before: &'static [u8],
        /// The module.
        module: &'static [u8],
        /// The part after it.
        after: &'static [u8],
    },
}

impl PackedComponent {
    /// Returns the component.
    pub(crate) fn unpack(&self) -> Result<Cow<'static, [u8]>, WasmHostError> {
        match self {
            PackedComponent::Plain(bytes) => Ok(Cow::Borrowed(bytes)),
            PackedComponent::Around {
                before,
                module,
                after,
            } => {
                let mut bytes = before.to_vec();
                let mut packed = *module;
                lzma_rs::xz_decompress(&mut packed, &mut bytes).map_err(|error| {
                    WasmHostError::Engine(format!("it cannot be decompressed: {error}"))
                })?;
                bytes.extend_from_slice(after);
                Ok(Cow::Owned(bytes))
            }
        }
    }
}
