//! The bytes of an engine as a binary carries them: whole, or packed, since they are wanted once per machine.

use std::borrow::Cow;

use crate::error::HostError;

/// A component that may be packed.
#[derive(Debug, Clone, Copy)]
pub enum Packed {
    /// As it is.
    Plain(&'static [u8]),
    /// A module packed with xz, and what stands before and after it in the component.
    Around {
        /// What stands before it.
        before: &'static [u8],
        /// The module.
        module: &'static [u8],
        /// What stands after it.
        after: &'static [u8],
    },
}

impl Packed {
    /// The component.
    pub(crate) fn unpack(&self) -> Result<Cow<'static, [u8]>, HostError> {
        match self {
            Packed::Plain(bytes) => Ok(Cow::Borrowed(bytes)),
            Packed::Around {
                before,
                module,
                after,
            } => {
                let mut bytes = before.to_vec();
                let mut packed = *module;
                lzma_rs::xz_decompress(&mut packed, &mut bytes).map_err(|error| {
                    HostError::Engine(format!("it cannot be unpacked: {error}"))
                })?;
                bytes.extend_from_slice(after);
                Ok(Cow::Owned(bytes))
            }
        }
    }
}
