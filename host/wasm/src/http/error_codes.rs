//! Conversion of request errors into the error codes of `wasi:http`.

use mimir_core::network::UrlError;
use mimir_net::{Error, OversizedPart, RequestStage};
use wasmtime::StoreContextMut;
use wasmtime::component::Resource;
use wasmtime_wasi_http::Error as Code;
use wasmtime_wasi_http::p2::bindings::http::types::{ErrorCode, IoError};

use crate::store_state::StoreState;

/// Name of the instance that exports [`error_code`], with wasmtime's version.
pub(crate) const TYPES: &str = "wasi:http/types@0.2.12";

/// `http-error-code`: returns the code for an error of a stream.
pub(crate) fn error_code(
    store: StoreContextMut<'_, StoreState>,
    (error,): (Resource<IoError>,),
) -> wasmtime::Result<(Option<ErrorCode>,)> {
    let error = store.data().stream_error(&error)?;
    let known = error.downcast_ref::<ErrorCode>().cloned();
    Ok((known.or_else(|| error.downcast_ref::<Code>().map(body_error)),))
}

/// Converts the error that ended the body of a response.
fn body_error(code: &Code) -> ErrorCode {
    match code {
        Code::HttpRequestDenied => ErrorCode::HttpRequestDenied,
        Code::HttpResponseBodySize(size) => ErrorCode::HttpResponseBodySize(*size),
        Code::HttpResponseTimeout => ErrorCode::HttpResponseTimeout,
        Code::ConnectionReadTimeout => ErrorCode::ConnectionReadTimeout,
        _ => ErrorCode::HttpProtocolError,
    }
}

/// Returns the WASI code for an error. The error's message does not reach the guest; it becomes part of the outcome of
/// the call.
pub(super) fn wasi_code(error: &Error) -> Code {
    match error {
        Error::Url(UrlError::Scheme(_)) => Code::HttpProtocolError,
        Error::Url(_) => Code::HttpRequestUriInvalid,
        Error::Method(_) => Code::HttpRequestMethodInvalid,
        Error::ForbiddenHeader(name) | Error::InvalidHeader(name) => Code::HttpRequestHeaderSize {
            field_name: Some(name.clone()),
            field_size: None,
        },
        Error::Blocked(_)
        | Error::Denied(_)
        | Error::Downgrade
        | Error::SecretInRedirect
        | Error::ClearTunnel(_)
        | Error::TunnelName { .. }
        | Error::NotTls { .. } => Code::HttpRequestDenied,
        Error::BlockedAddress(_) => Code::DestinationIpProhibited,
        Error::Dns { .. } => Code::DnsError {
            rcode: None,
            info_code: None,
        },
        Error::Refused { .. } => Code::ConnectionRefused,
        Error::Unreachable { .. } => Code::DestinationUnavailable,
        Error::Certificate { .. } | Error::CertificateName { .. } => Code::TlsCertificateError,
        Error::Tls { .. } => Code::TlsProtocolError,
        Error::Roots { .. } => Code::ConfigurationError,
        Error::Timeout { stage, .. } => timeout_code(*stage),
        Error::TooLarge { part, limit } => too_large(*part, *limit),
        Error::Head { bytes, .. } => {
            Code::HttpResponseHeaderSectionSize(u32::try_from(*bytes).ok())
        }
        Error::TooMany(_) => Code::ConnectionLimitReached,
        Error::TooManyRedirects(_) => Code::LoopDetected,
        Error::Encoding(coding) => Code::HttpResponseContentCoding(Some(coding.clone())),
        _ => Code::HttpProtocolError,
    }
}

fn timeout_code(stage: RequestStage) -> Code {
    match stage {
        RequestStage::Dns => Code::DnsTimeout,
        RequestStage::Connect | RequestStage::Tls => Code::ConnectionTimeout,
        RequestStage::Body => Code::ConnectionReadTimeout,
        RequestStage::Headers | RequestStage::Whole => Code::HttpResponseTimeout,
    }
}

fn too_large(part: OversizedPart, limit: u64) -> Code {
    match part {
        OversizedPart::RequestBody => Code::HttpRequestBodySize(Some(limit)),
        OversizedPart::ResponseBody => Code::HttpResponseBodySize(Some(limit)),
        _ => Code::HttpRequestHeaderSectionSize(u32::try_from(limit).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mimir_core::network::NetworkRefusal;
    use std::time::Duration;

    #[test]
    fn error_code_is_specific_for_each_cause() {
        let refusal = || NetworkRefusal {
            rule: String::new(),
            reason: String::new(),
            remedy: String::new(),
        };
        let late = |stage| Error::Timeout {
            stage,
            after: Duration::ZERO,
        };
        let large = |part| Error::TooLarge { part, limit: 7 };
        let origin = String::new;
        for (error, code) in [
            (Error::Blocked(refusal()), "HttpRequestDenied"),
            (Error::BlockedAddress(refusal()), "DestinationIpProhibited"),
            (Error::Method("TRACE".into()), "HttpRequestMethodInvalid"),
            (Error::Refused { origin: origin() }, "ConnectionRefused"),
            (late(RequestStage::Dns), "DnsTimeout"),
            (late(RequestStage::Tls), "ConnectionTimeout"),
            (late(RequestStage::Body), "ConnectionReadTimeout"),
            (late(RequestStage::Whole), "HttpResponseTimeout"),
            (
                large(OversizedPart::ResponseBody),
                "HttpResponseBodySize(Some(7))",
            ),
            (
                large(OversizedPart::RequestBody),
                "HttpRequestBodySize(Some(7))",
            ),
            (
                Error::Head {
                    bytes: 7,
                    headers: 1,
                },
                "HttpResponseHeaderSectionSize(Some(7))",
            ),
            (Error::TooMany(64), "ConnectionLimitReached"),
            (Error::Protocol(String::new()), "HttpProtocolError"),
        ] {
            assert_eq!(format!("{:?}", wasi_code(&error)), code);
        }
    }
}
