//! Wait times before a request is retried.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use http::HeaderMap;

/// Wait after the first failure. It doubles with each failure, up to [`MAX_DELAY`], and then varies by up to a quarter.
const FIRST_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Maximum wait that a provider may ask for. If it asks for more, the request fails at once, so that the user sees the
/// reason.
const MAX_REQUESTED_DELAY: Duration = Duration::from_secs(120);

/// Returns the wait before retry number `attempt`, counted from 0; `None` if the provider asks for more than
/// [`MAX_REQUESTED_DELAY`].
pub(crate) fn backoff(attempt: u64, requested: Option<Duration>) -> Option<Duration> {
    if let Some(requested) = requested {
        return (requested <= MAX_REQUESTED_DELAY).then_some(requested);
    }
    let doublings = u32::try_from(attempt.min(16)).unwrap_or(16);
    let wait = FIRST_DELAY.saturating_mul(1 << doublings).min(MAX_DELAY);
    // Random jitter, so that clients that failed together do not retry together.
    let jitter = RandomState::new().hash_one(attempt) % 512;
    let jitter = u32::try_from(jitter).unwrap_or_default();
    Some(wait * 3 / 4 + wait * jitter / 1024)
}

/// Returns the wait that the response headers ask for. `now` is in seconds since 1970.
pub(crate) fn retry_after(headers: &HeaderMap, now: i64) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.parse::<u64>().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let after = text("retry-after")?;
    if let Ok(seconds) = after.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    // HTTP dates have the format of mail dates.
    let date = jiff::fmt::rfc2822::parse(after)
        .ok()?
        .timestamp()
        .as_second();
    u64::try_from(date - now).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
    }

    #[test]
    fn backoff_grows_up_to_a_maximum() {
        for (attempt, min, max) in [
            (0, 375, 625),
            (1, 750, 1_250),
            (3, 3_000, 5_000),
            (40, 22_500, 37_500),
        ] {
            let wait = backoff(attempt, None).unwrap().as_millis();
            assert!((min..=max).contains(&wait), "{attempt}: {wait}");
        }
    }

    #[test]
    fn retry_after_header_is_followed_within_limits() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(backoff(5, seconds(7)), seconds(7));
        assert_eq!(backoff(0, seconds(3_600)), None);
        assert_eq!(retry_after(&headers("retry-after", "7"), 0), seconds(7));
        assert_eq!(
            retry_after(&headers("retry-after-ms", "250"), 0),
            Some(Duration::from_millis(250))
        );
        let date = headers("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(retry_after(&date, 784_111_777 - 5), seconds(5));
        assert_eq!(
            retry_after(&date, 784_111_777 + 5),
            None,
            "the date is in the past"
        );
        assert_eq!(retry_after(&headers("retry-after", "soon"), 0), None);
    }
}
