//! Times for people: the date in UTC, with the distance from now.

use jiff::{SignedDuration, Timestamp, tz::TimeZone};

/// Returns a time such as `2026-12-29 13:44 UTC, in 30 days`.
pub fn time_with_distance(time: Timestamp, now: Timestamp) -> String {
    let date = time.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M UTC");
    format!("{date}, {}", distance(time.duration_since(now)))
}

/// Returns a time in JSON as [`time_with_distance`] does; other texts as they are.
pub fn json_time_with_distance(text: &str, now: Timestamp) -> String {
    match text.parse() {
        Ok(time) => time_with_distance(time, now),
        Err(_) => text.to_owned(),
    }
}

/// Returns a duration in one unit: `in 30 days`, `2 hours ago`.
pub fn distance(duration: SignedDuration) -> String {
    let minutes = duration.as_secs().unsigned_abs() / 60;
    let (count, unit) = match minutes {
        0 => return "now".to_owned(),
        1..60 => (minutes, "minute"),
        60..2880 => (minutes / 60, "hour"),
        // Rounded, so that a bundle that was just published is valid for 30 days, and not for 29.
        _ => ((minutes + 720) / 1440, "day"),
    };
    let plural = if count == 1 { "" } else { "s" };
    if duration.is_negative() {
        format!("{count} {unit}{plural} ago")
    } else {
        format!("in {count} {unit}{plural}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_shown_with_their_distance() {
        let now: Timestamp = "2026-06-01T12:00:00Z".parse().unwrap();
        for (time, shown) in [
            (
                "2026-07-01T11:59:30.123456Z",
                "2026-07-01 11:59 UTC, in 30 days",
            ),
            ("2026-06-03T11:59:00Z", "2026-06-03 11:59 UTC, in 47 hours"),
            ("2026-06-01T10:59:00Z", "2026-06-01 10:59 UTC, 1 hour ago"),
            ("2026-06-01T12:01:00Z", "2026-06-01 12:01 UTC, in 1 minute"),
            ("2026-06-01T12:00:01Z", "2026-06-01 12:00 UTC, now"),
            ("2025-06-01T12:00:00Z", "2025-06-01 12:00 UTC, 365 days ago"),
        ] {
            assert_eq!(json_time_with_distance(time, now), shown);
        }
        assert_eq!(json_time_with_distance("soon", now), "soon");
    }
}
