//! Arguments of `mimir audit`.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::builder::PossibleValue;
use clap::{Args, Subcommand, ValueHint};
use mimir_core::Decision;
use mimir_core::audit::{EventKind, OutcomeKind};

use super::{ClusterOptions, enum_value};

/// The log that a command reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct AuditSource {
    /// Read the audit log of a cluster instead of the one of this workspace
    #[arg(long)]
    pub cluster: bool,
    #[command(flatten)]
    pub options: ClusterOptions,
}

impl AuditSource {
    /// Returns true if the log is the one of a cluster.
    pub fn is_cluster(&self) -> bool {
        self.cluster || self.options.servers.is_some()
    }
}

/// Commands of `mimir audit`.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum AuditCommand {
    /// Verify that no line was changed, removed, moved or inserted
    #[command(after_help = "\
The last line of the output names the newest line and its hash. Store it outside of this folder to check \
later that the log was not rewritten:
  mimir audit verify --head 3f1c…

With --cluster: also that each announced call has exactly one outcome, and that no message is missing.

Exit codes: 0 the log is intact, 1 it is not.")]
    Verify {
        /// A hash noted earlier, or at least its first 16 digits
        #[arg(long, value_name = "HASH", value_parser = hash)]
        head: Option<String>,
        /// Files to verify instead of the log of this workspace, such as those of `mimir audit export`
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "head")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        source: AuditSource,
    },
    /// Copy the audit log of a cluster into files, one for each process that wrote it
    #[command(after_help = "\
Lines that the folder has already are skipped, so that the command can be repeated. Verify the files with:
  mimir audit verify DIR/*.jsonl

With --remove-before, messages that are older are removed from the log once they are exported. Nothing is \
removed if the log or a file does not verify, or lacks a line. The last message of each process and those \
of running calls are kept. If the command is interrupted, the log still verifies: repeat the command.

Examples:
  mimir audit export --cluster --out DIR
  mimir audit export --cluster --out DIR --remove-before 90d")]
    Export {
        /// Read the audit log of a cluster, the only one that is exported
        #[arg(long)]
        cluster: bool,
        /// Folder of the files
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: PathBuf,
        /// Remove exported messages that are older: 30m, 2h, 7d, or a date or time such as 2026-01-31 (UTC)
        #[arg(long, value_name = "TIME", value_parser = since)]
        remove_before: Option<SinceTime>,
        #[command(flatten)]
        options: ClusterOptions,
    },
    /// Print the newest lines
    #[command(after_help = "With --json each line is one JSON object.")]
    Tail {
        /// Number of lines
        #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
        lines: usize,
        /// Follow: print new events until Ctrl-C
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        source: AuditSource,
    },
    /// Print recorded events, oldest first
    #[command(after_help = "\
Examples:
  mimir audit show --since 7d --outcome refused
  mimir audit show --outcome failed --outcome limited
  mimir audit show --tool delete_file --json
  mimir audit show --client claude-code --since 7d
  mimir audit show --event grant --since 2026-01-31")]
    Show {
        #[command(flatten)]
        filter: AuditFilter,
        #[command(flatten)]
        source: AuditSource,
    },
}

/// Filter of `mimir audit show`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct AuditFilter {
    /// Only events about this tool
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<String>,
    /// Only calls and effects with this outcome, which can be repeated
    #[arg(long, value_name = "OUTCOME", value_parser = enum_value::<OutcomeKind>([
        PossibleValue::new("ok").help("The tool completed"),
        PossibleValue::new("refused").help("A rule, a person, a missing permission or the kill switch said no"),
        PossibleValue::new("stopped").help("A person, the client or the kill switch ended the call while it ran"),
        PossibleValue::new("limited").help("A limit of time, memory or calls was reached"),
        PossibleValue::new("unavailable").help("Something that the call needs was not available"),
        PossibleValue::new("failed").help("The arguments were not valid, or the tool failed"),
    ]))]
    pub outcome: Vec<OutcomeKind>,
    /// Only calls for which the rules decided this, whatever a person answered
    #[arg(long, value_parser = enum_value::<Decision>([
        PossibleValue::new("allow").help("The call may run"),
        PossibleValue::new("ask").help("A person has to approve the call"),
        PossibleValue::new("deny").help("The call may not run"),
    ]))]
    pub decision: Option<Decision>,
    /// Only calls of programs whose name contains this text, which proves nothing
    #[arg(long, value_name = "NAME")]
    pub client: Option<String>,
    /// Only events of this kind, such as call, grant or undo
    #[arg(long, value_name = "KIND", value_parser = kind)]
    pub event: Option<EventKind>,
    /// Only events since then: 30m, 2h, 7d, or a date or time such as 2026-01-31 or 2026-01-31T12:00:00Z (UTC)
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<SinceTime>,
}

/// Start of the range of printed events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinceTime {
    /// Time before now.
    Ago(Duration),
    /// Point in time.
    At(SystemTime),
}

impl SinceTime {
    /// Returns the point in time; a duration is subtracted from `now`.
    pub fn to_time(self, now: SystemTime) -> SystemTime {
        match self {
            SinceTime::Ago(time) => now.checked_sub(time).unwrap_or(SystemTime::UNIX_EPOCH),
            SinceTime::At(moment) => moment,
        }
    }
}

/// Minimum number of digits of a hash. A shorter prefix may match more than one hash.
const MIN_HASH_DIGITS: usize = 16;

fn hash(text: &str) -> Result<String, String> {
    let hex = text.bytes().all(|c| c.is_ascii_hexdigit());
    if !hex || !(MIN_HASH_DIGITS..=64).contains(&text.len()) {
        return Err(format!(
            "expected {MIN_HASH_DIGITS} to 64 hex digits, as `mimir audit verify` prints them"
        ));
    }
    Ok(text.to_ascii_lowercase())
}

fn kind(text: &str) -> Result<EventKind, String> {
    let known = EventKind::ALL.iter().find(|kind| kind.as_str() == text);
    known.copied().ok_or_else(|| {
        let names = EventKind::ALL.map(EventKind::as_str);
        let near = mimir_core::name_suggestions::did_you_mean(text, names);
        format!("unknown kind of event.{near} Known: {}", names.join(", "))
    })
}

fn since(text: &str) -> Result<SinceTime, String> {
    if let Ok(date) = text.parse::<jiff::civil::Date>()
        && text.len() == "2026-01-31".len()
    {
        let midnight = date.to_zoned(jiff::tz::TimeZone::UTC);
        let moment = midnight.map_err(|e| e.to_string())?.timestamp();
        return Ok(SinceTime::At(moment.into()));
    }
    if let Ok(moment) = text.parse::<jiff::Timestamp>() {
        return Ok(SinceTime::At(moment.into()));
    }
    let bad = || "expected 30m, 2h, 7d, 2026-01-31 or 2026-01-31T12:00:00Z".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        "w" => 7 * 24 * 60 * 60,
        _ => return Err(bad()),
    };
    let number: u32 = digits.parse().map_err(|_| bad())?;
    Ok(SinceTime::Ago(Duration::from_secs(
        u64::from(number) * unit,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audit_since_parses_dates_and_durations() {
        let at = |secs| {
            Ok(SinceTime::At(
                SystemTime::UNIX_EPOCH + Duration::from_secs(secs),
            ))
        };
        assert_eq!(since("2026-01-01"), at(1_767_225_600));
        assert_eq!(since("2026-01-01T00:00:01Z"), at(1_767_225_601));
        assert_eq!(since("2026-01-01T02:00:00+02:00"), at(1_767_225_600));
        assert_eq!(since("2h"), Ok(SinceTime::Ago(Duration::from_secs(7200))));
        assert_eq!(
            since("1w"),
            Ok(SinceTime::Ago(Duration::from_secs(604_800)))
        );
        for bad in [
            "",
            "2",
            "h",
            "-2h",
            "2x",
            "1.5h",
            "yesterday",
            "2026-13-01",
            "99999999999s",
        ] {
            assert!(since(bad).is_err(), "{bad}");
        }
        let epoch = SystemTime::UNIX_EPOCH;
        assert_eq!(SinceTime::Ago(Duration::MAX).to_time(epoch), epoch);
    }

    #[test]
    fn audit_hash_and_event_kind_are_validated() {
        assert_eq!(hash(&"AB".repeat(32)), Ok("ab".repeat(32)));
        for bad in ["", "abc", &"0".repeat(65), &"g".repeat(64)] {
            assert!(hash(bad).is_err(), "{bad}");
        }
        assert_eq!(kind("secret-set"), Ok(EventKind::SecretSet));
        assert!(kind("grants").unwrap_err().contains("Did you mean `grant`"));
    }
}
