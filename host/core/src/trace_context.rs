//! The W3C trace context of a request: the position in a distributed trace, as the headers `traceparent` and
//! `tracestate` carry it.
//!
//! A process that passes a request on sends a child of the context that it received: the same trace, a new span.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

/// Name of the field that carries the trace and the span.
pub const TRACEPARENT: &str = "traceparent";

/// Name of the field that carries the state of tracing systems.
pub const TRACESTATE: &str = "tracestate";

/// Maximum length of the state of tracing systems in bytes, and maximum number of its members. A longer state is
/// dropped as a whole.
const MAX_STATE_LENGTH: usize = 512;
const MAX_STATE_MEMBERS: usize = 32;

/// Length of a `traceparent` of version 00.
const PARENT_LENGTH: usize = 55;

/// Flags that are passed on: sampled, and random trace id.
const KNOWN_FLAGS: u8 = 0b11;
const SAMPLED: u8 = 0b01;

/// The id of a trace. Never all zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// The id of a span within a trace. Never all zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// A position in a distributed trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: TraceId,
    span_id: SpanId,
    flags: u8,
    state: Option<Box<str>>,
}

impl TraceId {
    /// Creates a random id. Not secret.
    pub fn random() -> Self {
        let mut id = [0; 16];
        let (high, low) = id.split_at_mut(8);
        high.copy_from_slice(&random_bits());
        low.copy_from_slice(&random_bits());
        Self(id)
    }

    /// Returns the bytes.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl SpanId {
    /// Creates a random id. Not secret.
    pub fn random() -> Self {
        Self(random_bits())
    }

    /// Returns the bytes.
    pub const fn bytes(&self) -> &[u8; 8] {
        &self.0
    }
}

impl TraceContext {
    /// Creates the context of a new trace.
    pub fn new_trace(is_sampled: bool) -> Self {
        Self {
            trace_id: TraceId::random(),
            span_id: SpanId::random(),
            flags: u8::from(is_sampled),
            state: None,
        }
    }

    /// Parses the fields of a request. Returns `None` if `traceparent` is not valid. A `tracestate` that is not valid is
    /// dropped.
    ///
    /// ```
    /// # use mimir_core::trace_context::{SpanId, TraceContext};
    /// let received = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    /// let context = TraceContext::parse(received, Some("vendor=1")).unwrap();
    /// assert_eq!(context.traceparent(), received);
    /// let child = context.child(SpanId::random());
    /// assert_eq!((child.trace_id(), child.tracestate()), (context.trace_id(), Some("vendor=1")));
    /// ```
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let (parent, rest) = traceparent.split_at_checked(PARENT_LENGTH)?;
        let mut parts = parent.split('-');
        let version = parse_hex::<1>(parts.next()?)?[0];
        let trace_id = parse_hex::<16>(parts.next()?)?;
        let span_id = parse_hex::<8>(parts.next()?)?;
        let flags = parse_hex::<1>(parts.next()?)?[0];
        // Later versions may add fields.
        let is_complete = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        let is_valid = is_complete && trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then(|| Self {
            trace_id: TraceId(trace_id),
            span_id: SpanId(span_id),
            flags: flags & KNOWN_FLAGS,
            state: tracestate.and_then(parse_state),
        })
    }

    /// Returns the context for a request that is made within this span: the same trace, with `span_id` as its parent.
    #[must_use]
    pub fn child(&self, span_id: SpanId) -> Self {
        Self {
            span_id,
            ..self.clone()
        }
    }

    /// Returns the trace.
    pub const fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    /// Returns the span: the parent of what the receiver does.
    pub const fn span_id(&self) -> SpanId {
        self.span_id
    }

    /// Returns true if the sender records the trace.
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the value of `traceparent`.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags)
    }

    /// Returns the value of `tracestate`.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

fn write_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Returns 64 random bits, not all zero.
fn random_bits() -> [u8; 8] {
    // Each `RandomState` has keys from the system's random source.
    RandomState::new().hash_one(0).max(1).to_be_bytes()
}

/// Parses lower-case hex digits of exactly `N` bytes.
fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    let pairs = text.as_bytes().chunks(2);
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// Returns the state without empty members, or `None` if it is not valid.
fn parse_state(state: &str) -> Option<Box<str>> {
    let members = state
        .split(',')
        .map(|member| member.trim_matches([' ', '\t']));
    let members: Vec<&str> = members.filter(|member| !member.is_empty()).collect();
    let is_valid = (1..=MAX_STATE_MEMBERS).contains(&members.len())
        && members.iter().all(|member| is_state_member(member));
    let joined = members.join(",");
    (is_valid && joined.len() <= MAX_STATE_LENGTH).then(|| joined.into())
}

fn is_state_member(member: &str) -> bool {
    let Some((key, value)) = member.split_once('=') else {
        return false;
    };
    let is_key_byte =
        |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let is_key = (1..=256).contains(&key.len())
        && key.bytes().all(is_key_byte)
        && key.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit());
    let is_value = (1..=256).contains(&value.len())
        && value
            .bytes()
            .all(|byte| matches!(byte, b' '..=b'~') && byte != b'=');
    is_key && is_value
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn trace_contexts_that_are_not_valid_are_rejected() {
        assert!(TraceContext::parse(PARENT, None).is_some_and(|context| context.is_sampled()));
        let longer = format!("{PARENT}-more");
        assert!(TraceContext::parse(&longer, None).is_none());
        // A later version may add fields, and is answered with version 00.
        let later = longer.replacen("00", "01", 1);
        let later = TraceContext::parse(&later, None);
        assert_eq!(
            later.map(|context| context.traceparent()),
            Some(PARENT.to_owned())
        );
        for bad in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1\n",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more",
            "00-0af7651916cd43dd8448eb211c80319é-b7ad6b7169203331-01",
        ] {
            assert_eq!(TraceContext::parse(bad, None), None, "{bad}");
        }
    }

    #[test]
    fn trace_state_that_is_not_valid_is_dropped() {
        let state = |text: &str| {
            let context = TraceContext::parse(PARENT, Some(text)).unwrap();
            context.tracestate().map(str::to_owned)
        };
        assert_eq!(state("a=1, ,b@c=x y").as_deref(), Some("a=1,b@c=x y"));
        let many = vec!["a=1"; 33].join(",");
        let long = format!("a={}", "x".repeat(257));
        for bad in [
            "", ",", "a", "=1", "a=", "A=1", "a=1\n", "a=ä", &many, &long,
        ] {
            assert_eq!(state(bad), None, "{bad}");
        }
    }

    #[test]
    fn trace_children_share_the_trace_and_have_another_span() {
        let parent = TraceContext::new_trace(true);
        let child = parent.child(SpanId::random());
        assert_eq!(parent.trace_id(), child.trace_id());
        assert_ne!(parent.span_id(), child.span_id());
        assert_eq!(TraceContext::parse(&child.traceparent(), None), Some(child));
    }
}
