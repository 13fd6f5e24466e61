//! PEM: labelled Base64 text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A block of a PEM file.
#[derive(PartialEq, Eq)]
pub(super) struct PemBlock {
    /// Text between `-----BEGIN ` and `-----`.
    pub label: String,
    /// The decoded content.
    pub content: Vec<u8>,
}

/// Length of a line of Base64.
const LINE: usize = 64;

/// Parses the first block of a PEM file. Text before and after it is ignored; headers are not supported.
pub(super) fn parse(text: &str) -> Option<PemBlock> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let body: String = body.split_ascii_whitespace().collect();
    Some(PemBlock {
        label: label.to_owned(),
        content: STANDARD.decode(body).ok()?,
    })
}

/// Parses all blocks with the label `CERTIFICATE`.
pub(super) fn parse_certificates(text: &str) -> Option<Vec<Vec<u8>>> {
    let parts = text.split_inclusive("-----END CERTIFICATE-----");
    let parts = parts.filter(|part| part.contains("-----BEGIN "));
    parts
        .map(|part| {
            let block = parse(part)?;
            (block.label == "CERTIFICATE").then_some(block.content)
        })
        .collect()
}

/// Writes a PEM block.
pub(super) fn write(label: &str, content: &[u8]) -> String {
    let mut pem = format!("-----BEGIN {label}-----\n");
    let body = STANDARD.encode(content);
    for line in body.as_bytes().chunks(LINE) {
        pem.extend(line.iter().map(|&byte| char::from(byte)));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}
