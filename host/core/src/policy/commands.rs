//! Which commands may run: the modes `full`, `allowlist` and `deny` over tools that take a command.
//!
//! A command is judged as a list of words. Text that a shell would do more with than split it into words (a
//! pipe, a variable, a second command) is not judged here: it is asked about.

use globset::GlobBuilder;
use serde_json::Value;

use crate::config::{AddedBy, ExecApprovals, ExecMode};
use crate::decision::{Decision, Evaluation, Layer, Reason};
use crate::text;
use crate::tool::{Group, Tool};

use super::error::PolicyError;
use super::source::Source;

/// The rules for commands of one file.
#[derive(Debug, Clone, Default)]
pub(super) struct Commands {
    mode: Option<ExecMode>,
    patterns: Vec<(Vec<Word>, AddedBy)>,
    /// The patterns as they are written.
    written: Vec<String>,
}

/// One word of a pattern.
#[derive(Debug, Clone)]
enum Word {
    /// All the words that follow, none too.
    Rest,
    Glob(globset::GlobMatcher),
}

impl Commands {
    pub(super) fn new(settings: &ExecApprovals, source: &Source) -> Result<Self, PolicyError> {
        let mut patterns = Vec::new();
        for (at, approval) in settings.approvals.iter().enumerate() {
            let key = format!("execApprovals.approvals[{at}]");
            let fault = |text: String| PolicyError::Rule {
                place: source.at(&key),
                text: format!("{key}: {text}"),
            };
            let used = approval.last_used.as_deref();
            if used.is_some_and(|time| !is_time(time)) {
                return Err(fault(
                    "lastUsed is no time such as 2026-01-31T12:00:00Z or 2026-01-31".into(),
                ));
            }
            patterns.push((words(&approval.pattern).map_err(fault)?, approval.added_by));
        }
        Ok(Self {
            mode: settings.mode,
            patterns,
            written: settings
                .approvals
                .iter()
                .map(|approval| approval.pattern.clone())
                .collect(),
        })
    }

    /// Which commands run.
    pub(super) fn mode(&self) -> Option<ExecMode> {
        self.mode
    }

    /// The patterns as they are written.
    pub(super) fn written(&self) -> &[String] {
        &self.written
    }

    /// Judges the command among the arguments of a tool that runs some. Says whether it was allowed.
    pub(super) fn evaluate(
        &self,
        tool: &Tool,
        arguments: &Value,
        source: &Source,
        evaluation: &mut Evaluation,
    ) -> bool {
        let Some(mode) = self.mode else {
            return false;
        };
        let runs = tool.definition.group == Group::Runtime;
        let judged = match mode {
            // Whatever it runs and however it is told to.
            ExecMode::Deny => runs || !tool.definition.needs.commands.is_empty(),
            ExecMode::Full | ExecMode::Allowlist => runs && arguments["command"].is_string(),
        };
        if !judged {
            return false;
        }
        let (decision, key, text) = match mode {
            ExecMode::Full => (
                Decision::Allow,
                "mode: full",
                "every command may run".to_owned(),
            ),
            ExecMode::Deny => (
                Decision::Deny,
                "mode: deny",
                "no command may run".to_owned(),
            ),
            ExecMode::Allowlist => self.listed(arguments),
        };
        evaluation.push(Reason {
            layer: Layer::Commands,
            decision,
            rule: format!("execApprovals.{key}"),
            source: source.at("execApprovals"),
            text,
        });
        decision == Decision::Allow
    }

    fn listed(&self, arguments: &Value) -> (Decision, &'static str, String) {
        let key = "mode: allowlist";
        let Some(command) = split(arguments) else {
            let text = "the command does more than run one program, which the list cannot judge";
            return (Decision::Ask, key, text.to_owned());
        };
        let hits = |(pattern, _): &&(Vec<Word>, AddedBy)| matches(pattern, &command);
        let hit = |by| {
            self.patterns
                .iter()
                .filter(|(_, added)| *added == by)
                .find(hits)
        };
        if hit(AddedBy::User).is_some() {
            return (
                Decision::Allow,
                key,
                "the command is in the list".to_owned(),
            );
        }
        if hit(AddedBy::Auto).is_some() {
            let text = "the command is in the list, but no person has put it there";
            return (Decision::Ask, key, text.to_owned());
        }
        let first = command.first().map_or("", String::as_str);
        let shown = text::visible(text::prefix(first, 64));
        (
            Decision::Deny,
            key,
            format!("no pattern of the list matches this `{shown}` command"),
        )
    }
}

/// A time, or a day.
fn is_time(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok() || text.parse::<jiff::civil::Date>().is_ok()
}

/// The words of a pattern.
fn words(pattern: &str) -> Result<Vec<Word>, String> {
    let parts: Vec<&str> = pattern.split_whitespace().collect();
    let Some((program, _)) = parts.split_first() else {
        return Err("the pattern is empty".into());
    };
    if program.contains(['*', '?', '[', '{']) {
        return Err(format!(
            "the first word of `{}` names the program and holds no wildcard; `mode: full` runs everything",
            text::visible(text::prefix(pattern, 100))
        ));
    }
    let last = parts.len() - 1;
    let word = |(at, part): (usize, &&str)| {
        if at == last && *part == "*" {
            return Ok(Word::Rest);
        }
        let glob = GlobBuilder::new(part).literal_separator(true).build();
        glob.map(|glob| Word::Glob(glob.compile_matcher()))
            .map_err(|error| format!("`{part}` is no glob: {}", error.kind()))
    };
    parts.iter().enumerate().map(word).collect()
}

fn matches(pattern: &[Word], command: &[String]) -> bool {
    match (pattern.split_first(), command.split_first()) {
        (None, None) => true,
        (Some((Word::Rest, _)), _) => true,
        (Some((Word::Glob(glob), pattern)), Some((word, command))) => {
            glob.is_match(word) && matches(pattern, command)
        }
        _ => false,
    }
}

/// The words of the command, or nothing where only a shell could tell them.
fn split(arguments: &Value) -> Option<Vec<String>> {
    let command = arguments["command"].as_str()?;
    if let Some(args) = arguments["args"].as_array() {
        let rest = args.iter().map(|arg| arg.as_str().map(str::to_owned));
        return std::iter::once(Some(command.to_owned()))
            .chain(rest)
            .collect();
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '$' | '`' | '\\') => return None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '\t') => words.extend(word.take()),
            (None, c) if ";|&<>(){}[]*?~#!\n\r".contains(c) => return None,
            // `NAME=value program` runs the program in another environment.
            (None, '=') if words.is_empty() => return None,
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return None;
    }
    words.extend(word);
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judged(command: &str) -> Decision {
        let settings = serde_json::from_value(json!({
            "mode": "allowlist",
            "approvals": [
                {"pattern": "git status *"}, {"pattern": "ls"}, {"pattern": "cargo test *.rs"},
                {"pattern": "make *", "addedBy": "auto", "lastUsed": "2026-01-31T12:00:00Z"},
            ],
        }));
        let commands = Commands::new(&settings.unwrap(), &"x".into()).unwrap();
        commands.listed(&json!({"command": command})).0
    }

    #[test]
    fn a_list_matches_word_by_word() {
        for allowed in [
            "git status",
            "git  status -s 'a b'",
            "ls",
            "cargo test a.rs",
        ] {
            assert_eq!(judged(allowed), Decision::Allow, "{allowed}");
        }
        for denied in [
            "git push",
            "ls -l",
            "lsof",
            "cargo test a/b.rs",
            "'git status'",
        ] {
            assert_eq!(judged(denied), Decision::Deny, "{denied}");
        }
        for asked in [
            "git status; rm -rf ~",
            "git status && x",
            "git status | sh",
            "git status $(x)",
            "git status `x`",
            "git status > /etc/x",
            "ls \\\n",
            "A=1 ls",
            "git status \"$HOME\"",
            "ls 'x",
            "make all",
            "git status\nrm x",
            "",
        ] {
            assert_eq!(judged(asked), Decision::Ask, "{asked}");
        }
    }

    #[test]
    fn patterns_that_say_nothing_are_refused() {
        for bad in ["", "*", "g*t status", "ls [", "rm {a"] {
            let settings = json!({"approvals": [{"pattern": bad}]});
            let settings = serde_json::from_value(settings).unwrap();
            assert!(Commands::new(&settings, &"x".into()).is_err(), "{bad:?}");
        }
    }
}
