//! QR codes of links for paired devices.

use mimir_core::ToolError;
use qrcodegen::{QrCode, QrCodeEcc};

/// Light modules around a QR code, which readers need.
const MARGIN: i32 = 2;

/// A QR code, as rows of modules. Dark modules are true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QrMatrix(Vec<Vec<bool>>);

impl QrMatrix {
    /// Encodes a text, such as a URL.
    pub fn new(text: &str) -> Result<Self, ToolError> {
        let code = QrCode::encode_text(text, QrCodeEcc::Low)
            .map_err(|_| ToolError::internal("the link is too long for a QR code"))?;
        let range = || -MARGIN..code.size() + MARGIN;
        let rows = range().map(|y| range().map(|x| code.get_module(x, y)).collect());
        Ok(Self(rows.collect()))
    }

    /// Returns the rows.
    pub fn rows(&self) -> &[Vec<bool>] {
        &self.0
    }

    /// Draws the code with half blocks: two rows of modules per line. Light modules are drawn, so that the code is
    /// readable on a dark terminal; `inverted` draws the dark ones instead, for a light one.
    ///
    /// ```
    /// let code = mimir_console::QrMatrix::new("http://192.0.2.1:4100/")?;
    /// assert!(code.to_half_blocks(false).lines().count() < 20);
    /// # Ok::<(), mimir_core::ToolError>(())
    /// ```
    pub fn to_half_blocks(&self, inverted: bool) -> String {
        let mut text = String::new();
        for pair in self.0.chunks(2) {
            let (upper, lower) = (&pair[0], pair.get(1));
            for (x, dark) in upper.iter().enumerate() {
                let is_drawn = |dark: bool| dark == inverted;
                let below = lower
                    .and_then(|row| row.get(x))
                    .is_some_and(|dark| is_drawn(*dark));
                text.push(match (is_drawn(*dark), below) {
                    (true, true) => '█',
                    (true, false) => '▀',
                    (false, true) => '▄',
                    (false, false) => ' ',
                });
            }
            text.push('\n');
        }
        text
    }
}
