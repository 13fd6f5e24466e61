//! Arguments of `mimir call`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::ApproveMode;

/// Arguments of `mimir call`.
#[derive(Debug, PartialEq, Args)]
pub struct CallArgs {
    /// Name or alias
    #[arg(value_name = "TOOL")]
    pub tool: String,
    /// JSON, `-`, or key=value arguments
    #[arg(value_name = "ARGS")]
    pub arguments: Vec<String>,
    /// How to answer when the rules require approval
    #[arg(long, value_enum, default_value_t = ApproveMode::Ask)]
    pub approve: ApproveMode,
    /// Time limit of the call: 500ms, 5s, 2m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Call a tool of the components in this folder, such as that of an exported skill
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub tools_from: Option<PathBuf>,
}

/// Minimum and maximum of `--timeout`, as for `limits.timeMs` in a config.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Parses `500ms`, `5s` or `2m`; a number without a unit is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit `{unit}`: use ms, s, m or h")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "expected a number and a unit, such as 500ms, 5s or 2m".to_owned())?;
    let time = Duration::try_from_secs_f64(number * seconds).map_err(|e| e.to_string())?;
    if time < MIN_TIMEOUT || time > MAX_TIMEOUT {
        return Err("out of range: expected 1ms to 24h".to_owned());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_argument_accepts_units() {
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "s", "5x", "0", "0.5ms", "99h", "1e9", "1.2.3s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
