//! Requests and replies in the binary form of the CPython engine: fields preceded by their lengths, as 32 bits in
//! little-endian order. The bytes come from a program and may be invalid.

use serde_json::Value;

use crate::script::script_protocol::{AsyncRequest, ByteData};

/// The method that marks a body as a JSON request to the host instead of an HTTP request.
pub(super) const HOST_REQUEST_METHOD: &str = "mimir";

/// An HTTP request.
pub(super) struct RecordRequest {
    pub method: String,
    url: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl RecordRequest {
    /// Parses method, URL, headers and body; `None` if the bytes are not valid.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let method = text(&mut rest)?;
        let url = text(&mut rest)?;
        let mut headers = Vec::new();
        for _ in 0..number(&mut rest)? {
            headers.push((text(&mut rest)?, text(&mut rest)?));
        }
        let body = field(&mut rest)?.to_vec();
        rest.is_empty().then_some(Self {
            method,
            url,
            headers,
            body,
        })
    }

    pub(super) fn into_fetch(self) -> AsyncRequest {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::STANDARD.encode(&self.body);
        AsyncRequest::Fetch {
            url: self.url,
            method: self.method,
            headers: self.headers,
            data: ByteData {
                text: None,
                base64: (!self.body.is_empty()).then_some(encoded),
            },
        }
    }
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    let (number, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_le_bytes(*number))
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(number(rest)?).ok()?;
    let (field, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(field)
}

fn text(rest: &mut &[u8]) -> Option<String> {
    String::from_utf8(field(rest)?.to_vec()).ok()
}

/// Encodes status, headers (pairs of strings) and body.
pub(super) fn encode_response(status: u32, headers: &[Value], body: &[u8]) -> Vec<u8> {
    let mut bytes = status.to_le_bytes().to_vec();
    let pairs: Vec<(&str, &str)> = headers
        .iter()
        .filter_map(|pair| Some((pair[0].as_str()?, pair[1].as_str()?)))
        .collect();
    bytes.extend((pairs.len() as u32).to_le_bytes());
    let mut push_field = |field: &[u8]| {
        bytes.extend((field.len() as u32).to_le_bytes());
        bytes.extend_from_slice(field);
    };
    for (name, value) in pairs {
        push_field(name.as_bytes());
        push_field(value.as_bytes());
    }
    push_field(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_refuses_invalid_requests() {
        let mut encoded = Vec::new();
        for part in ["GET", "http://x/"] {
            encoded.extend((part.len() as u32).to_le_bytes());
            encoded.extend(part.as_bytes());
        }
        encoded.extend(0_u32.to_le_bytes());
        encoded.extend(2_u32.to_le_bytes());
        encoded.extend(b"{}");
        let request = RecordRequest::parse(&encoded).unwrap();
        assert_eq!(
            (request.method.as_str(), &*request.body),
            ("GET", &b"{}"[..])
        );
        for end in 0..encoded.len() {
            assert!(RecordRequest::parse(&encoded[..end]).is_none(), "{end}");
        }
        encoded.push(0);
        assert!(RecordRequest::parse(&encoded).is_none());
        assert!(RecordRequest::parse(&u32::MAX.to_le_bytes()).is_none());
    }
}
