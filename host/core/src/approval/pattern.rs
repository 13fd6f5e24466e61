//! The calls that one approval covers: calls with the same arguments, except payload arguments of built-in tools that
//! no rule asked about; or calls whose commands match the patterns that were shown.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::command::CommandPattern;
use crate::decision::{ApprovalOffer, PolicyEvaluation};
use crate::network::RequestTarget;
use crate::text;
use crate::tool::{Tool, ToolSource};

/// A pattern that matches the arguments of calls: some arguments are fixed, others may have any value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalPattern {
    /// Arguments that must have exactly these values. Arguments that the pattern does not mention are not allowed.
    fixed: Map<String, Value>,
    /// Arguments that may have any value or be absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    open: Vec<String>,
    /// Instead of arguments: patterns that must cover every command of the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    commands: Vec<String>,
    /// Instead of an exact `url`: requests to one origin with one method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    requests: Option<RequestPattern>,
}

/// Requests to one origin with one method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestPattern {
    /// The scheme, host and port, as in `https://docs.rs`.
    origin: String,
    /// The method, in upper case.
    method: String,
}

impl RequestPattern {
    /// Returns the pattern for the request that `url` and `method` name. `None` without a valid URL, and for a request
    /// with a body: the data sent differs each time.
    fn from_arguments(arguments: &Value) -> Option<Self> {
        if !matches!(&arguments["body"], Value::Null) && arguments["body"] != "" {
            return None;
        }
        let target = RequestTarget::parse(arguments["url"].as_str()?).ok()?;
        let method = match &arguments["method"] {
            Value::Null => "GET",
            method => method.as_str()?,
        };
        Some(Self {
            origin: target.origin().to_string(),
            method: method.to_ascii_uppercase(),
        })
    }
}

/// The arguments that determine the target and the data of a request.
const REQUEST: [&str; 3] = ["url", "method", "body"];

/// Payload arguments and display options of built-in tools. The answer "always" approves the file or the URL, with any
/// payload.
const PAYLOAD: &[(&str, &[&str])] = &[
    ("write_file", &["content", "encoding"]),
    ("edit_file", &["pattern", "replacement", "regex", "all"]),
    ("web_fetch", &["format", "offset", "maxLength", "timeout"]),
    // Their approvals are about the site that the browser shows.
    (
        "browser_click",
        &["target", "element", "doubleClick", "button", "modifiers"],
    ),
    ("browser_hover", &["target", "element"]),
    (
        "browser_drag",
        &["startTarget", "startElement", "endTarget", "endElement"],
    ),
    (
        "browser_type",
        &["target", "element", "text", "submit", "slowly"],
    ),
    ("browser_fill_form", &["fields"]),
    ("browser_select_option", &["target", "element", "values"]),
    ("browser_press_key", &["key"]),
    ("browser_handle_dialog", &["accept", "promptText"]),
];

/// Arguments of built-in tools that may have any value if a rule asked only about the origin: the headers are checked
/// before each request, like the URL.
const SENT_WITH_REQUEST: &[(&str, &[&str])] = &[("web_fetch", &["headers"])];

/// Built-in tools that ask for each call, because the same arguments affect different data each time: an approval to
/// delete a file does not cover the next file with that name, and one to install a package not its next version.
const EACH_TIME: &[&str] = &["browser_file_upload", "delete_file", "install_package"];

/// Returns true if an approval for this tool never covers another call and is never stored.
pub(crate) fn is_asked_each_time(tool: &Tool) -> bool {
    tool.source == ToolSource::BuiltIn && EACH_TIME.contains(&tool.name().as_str())
}

/// Returns the patterns of the commands that rules ask about. `None` unless every such command has a pattern and no
/// other `ask` reason depends on the arguments; an approval then covers only the exact call.
fn command_patterns(evaluation: &PolicyEvaluation) -> Option<Vec<String>> {
    let mut patterns: Vec<String> = Vec::new();
    for (reason, basis) in evaluation.asking_reasons_with_basis() {
        match &basis.offer {
            Some(offer) if !patterns.contains(&offer.pattern) => {
                patterns.push(offer.pattern.clone())
            }
            Some(_) => {}
            None if reason.layer.is_tool_wide() => {}
            None => return None,
        }
    }
    (!patterns.is_empty()).then_some(patterns)
}

/// Maximum length of an argument in a list, in characters.
const VALUE_MAX: usize = 80;

/// Maximum size of an argument in the text that a person approves, in bytes.
const APPROVED_VALUE_MAX: usize = 4 << 10;

impl ApprovalPattern {
    /// Creates the pattern that the answer "always" to this call stores. Payload arguments are open only for built-in
    /// tools, and only if no rule asks about them.
    pub(crate) fn for_call(tool: &Tool, arguments: &Value, evaluation: &PolicyEvaluation) -> Self {
        if let Some(commands) = command_patterns(evaluation) {
            return Self {
                fixed: Map::new(),
                open: Vec::new(),
                commands,
                requests: None,
            };
        }
        let name = tool.name().as_str();
        let arguments_in = |list: &'static [(&str, &'static [&'static str])]| {
            let mut list = list.iter();
            let entry =
                list.find(|(known, _)| tool.source == ToolSource::BuiltIn && *known == name);
            entry.map_or(&[][..], |(_, open)| *open).iter()
        };
        let requests = if evaluation.asks_per_origin() {
            RequestPattern::from_arguments(arguments)
        } else {
            None
        };
        let payload = arguments_in(PAYLOAD).filter(|key| !evaluation.asks_about(key));
        let sent_along = arguments_in(SENT_WITH_REQUEST).filter(|_| requests.is_some());
        let open: Vec<String> = payload
            .chain(sent_along)
            .map(|&key| key.to_owned())
            .collect();
        let mut fixed = arguments.as_object().cloned().unwrap_or_default();
        fixed.retain(|key, _| !open.contains(key));
        if requests.is_some() {
            fixed.retain(|key, _| !REQUEST.contains(&key.as_str()));
        }
        Self {
            fixed,
            open,
            commands: Vec::new(),
            requests,
        }
    }

    /// Replaces the patterns of commands by those of `commands` that are not wider. Has no effect on other patterns.
    #[must_use]
    pub(crate) fn narrowed_to(mut self, commands: &[String]) -> Self {
        let narrower: Vec<String> = commands
            .iter()
            .filter(|pattern| is_narrower_pattern(pattern, &self.commands))
            .cloned()
            .collect();
        if !narrower.is_empty() {
            self.commands = narrower;
        }
        self
    }

    /// Returns the patterns of commands; empty for a pattern of arguments.
    pub(crate) fn commands(&self) -> &[String] {
        &self.commands
    }

    /// Returns true if one of the command patterns covers the command.
    pub(crate) fn covers_command(&self, offer: &ApprovalOffer) -> bool {
        let mut patterns = self.commands.iter();
        patterns.any(|pattern| {
            let pattern = CommandPattern::parse(pattern);
            pattern.is_ok_and(|pattern| pattern.matches(&offer.words))
        })
    }

    /// Returns true if a call with these arguments is covered. Always false for a pattern of commands.
    pub fn covers(&self, arguments: &Value) -> bool {
        let Some(map) = arguments.as_object().filter(|_| self.commands.is_empty()) else {
            return false;
        };
        let is_covered = |(key, value): (&String, &Value)| {
            let is_of_request = self.requests.is_some() && REQUEST.contains(&key.as_str());
            is_of_request || self.open.contains(key) || self.fixed.get(key) == Some(value)
        };
        map.iter().all(is_covered)
            && self.fixed.keys().all(|key| map.contains_key(key))
            && (self.requests.is_none()
                || self.requests == RequestPattern::from_arguments(arguments))
    }

    /// Describes the pattern for a list, such as `path="notes.md", any content`. Long values are cut.
    pub fn describe(&self) -> String {
        self.describe_with(|key, value| {
            let cut = text::prefix(value, VALUE_MAX);
            let dots = if cut.len() < value.len() { "…" } else { "" };
            format!("{key}={cut}{dots}")
        })
    }

    /// Describes the pattern for a person who is about to approve it: nothing is cut. A very long value is named, because
    /// the card shows it among the arguments.
    pub(crate) fn describe_in_full(&self) -> String {
        self.describe_with(|key, value| {
            if value.len() > APPROVED_VALUE_MAX {
                format!("exactly this {key}")
            } else {
                format!("{key}={value}")
            }
        })
    }

    fn describe_with(&self, describe_value: impl Fn(&str, &str) -> String) -> String {
        if !self.commands.is_empty() {
            let commands: Vec<String> = self
                .commands
                .iter()
                .map(|command| format!("`{command}`"))
                .collect();
            let noun = if commands.len() == 1 {
                "command"
            } else {
                "commands"
            };
            return text::visible(&format!("{noun} {}", commands.join(", ")));
        }
        let fixed = self.fixed.iter();
        let fixed = fixed.map(|(key, value)| describe_value(key, &value.to_string()));
        let open = self.open.iter().map(|key| format!("any {key}"));
        let requests = self.requests.iter();
        let requests = requests.map(|requests| {
            format!(
                "{} requests to any URL of {}",
                requests.method, requests.origin
            )
        });
        let parts: Vec<String> = requests.chain(fixed).chain(open).collect();
        if parts.is_empty() {
            return "no arguments".to_owned();
        }
        text::visible(&parts.join(", "))
    }
}

/// Returns true if the command pattern covers only commands that one of the `offered` patterns covers: it is equal, or it
/// begins with the same words as an offered pattern that ends in `*`.
pub fn is_narrower_pattern(pattern: &str, offered: &[String]) -> bool {
    if CommandPattern::parse(pattern).is_err() {
        return false;
    }
    let words: Vec<&str> = pattern.split_whitespace().collect();
    offered.iter().any(|offered| {
        let offered: Vec<&str> = offered.split_whitespace().collect();
        match offered.split_last() {
            Some((&"*", head)) => words.starts_with(head),
            _ => words == offered,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::{Decision, DecisionReason, PolicyLayer, RuleArguments, RuleBasis};
    use crate::pipeline::tests::tool;
    use serde_json::json;

    /// Creates an evaluation in which a rule asks about these arguments.
    fn asked(reads: RuleArguments) -> PolicyEvaluation {
        asked_by(RuleBasis::from(reads))
    }

    fn asked_by(basis: RuleBasis) -> PolicyEvaluation {
        let mut evaluation = PolicyEvaluation::default();
        let reason = DecisionReason {
            layer: PolicyLayer::ArgumentRule,
            decision: Decision::Ask,
            rule: String::new(),
            source: String::new(),
            text: String::new(),
        };
        evaluation.push_with_basis(reason, basis);
        evaluation
    }

    #[test]
    fn approval_pattern_is_narrowed_but_never_widened() {
        let offered = ["git push *", "ls -l"].map(str::to_owned);
        for (pattern, narrower) in [
            ("git push *", true),
            ("git push", true),
            ("git push origin *", true),
            ("git  push  origin main", true),
            ("git push *.x", true),
            ("ls -l", true),
            ("git *", false),
            ("git pull", false),
            ("ls *", false),
            ("ls -l a", false),
            ("rm *", false),
            ("*", false),
            ("", false),
            ("git push [", false),
        ] {
            assert_eq!(
                is_narrower_pattern(pattern, &offered),
                narrower,
                "{pattern}"
            );
        }
        let pattern = |commands: &[&str]| ApprovalPattern {
            fixed: Map::new(),
            open: Vec::new(),
            commands: commands.iter().map(|&command| command.to_owned()).collect(),
            requests: None,
        };
        let narrowed = pattern(&["git push *"]).narrowed_to(&["git *".into(), "git push a".into()]);
        assert_eq!(narrowed, pattern(&["git push a"]));
        let not_narrowed = pattern(&["git push *"]).narrowed_to(&["git *".to_owned()]);
        assert_eq!(not_narrowed, pattern(&["git push *"]));
    }

    #[test]
    fn approval_pattern_covers_other_offsets_of_a_url() {
        let mut fetch = tool("web_fetch");
        fetch.source = ToolSource::BuiltIn;
        let about_host = asked(RuleArguments::Only(
            ["url", "method"].map(String::from).into(),
        ));
        let pattern =
            ApprovalPattern::for_call(&fetch, &json!({"url": "https://a.example/"}), &about_host);
        assert!(pattern.covers(&json!({"url": "https://a.example/", "offset": 40_000})));
        for other in [
            json!({"url": "https://a.example/b"}),
            json!({"url": "https://a.example/", "method": "POST"}),
            json!({"url": "https://a.example/", "headers": {}}),
        ] {
            assert!(!pattern.covers(&other), "{other}");
        }
    }

    #[test]
    fn approval_pattern_per_origin_fixes_method_and_forbids_body() {
        let evaluation = asked_by(RuleBasis {
            per_origin: true,
            reads: RuleArguments::none(),
            ..RuleBasis::default()
        });
        let mut fetch = tool("web_fetch");
        fetch.source = ToolSource::BuiltIn;
        let pattern =
            ApprovalPattern::for_call(&fetch, &json!({"url": "https://a.example/x"}), &evaluation);
        for same in [
            json!({"url": "https://a.example/y?z=1", "method": "get", "offset": 3}),
            json!({"url": "https://A.example:443/", "headers": {"accept": "text/html"}}),
        ] {
            assert!(pattern.covers(&same), "{same}");
        }
        for other in [
            json!({"url": "http://a.example/"}),
            json!({"url": "https://b.example/"}),
            json!({"url": "https://a.example:8443/"}),
            json!({"url": "https://a.example/", "method": "HEAD"}),
            json!({"url": "https://a.example/", "body": "x"}),
            json!({"url": "https://a.example/", "more": 1}),
            json!({"url": "nonsense"}),
            json!({}),
        ] {
            assert!(!pattern.covers(&other), "{other}");
        }
        assert!(
            pattern
                .describe()
                .starts_with("GET requests to any URL of https://a.example"),
            "{}",
            pattern.describe()
        );
        let text = serde_json::to_string(&pattern).unwrap();
        assert_eq!(
            serde_json::from_str::<ApprovalPattern>(&text).unwrap(),
            pattern
        );
        // For a tool that is not built in, the other arguments stay fixed.
        let stranger = tool("sample");
        let pattern = ApprovalPattern::for_call(
            &stranger,
            &json!({"url": "https://a.example/", "depth": 1}),
            &evaluation,
        );
        assert!(pattern.covers(&json!({"url": "https://a.example/b", "depth": 1})));
        assert!(!pattern.covers(&json!({"url": "https://a.example/b", "depth": 2})));
    }

    #[test]
    fn approval_pattern_frees_content_for_built_in_tools_only() {
        let mut write = tool("write_file");
        let arguments = json!({"path": "a.md", "content": "x", "createDirs": true});
        let about_file = asked(RuleArguments::Only([String::from("path")].into()));
        let stranger = ApprovalPattern::for_call(&write, &arguments, &about_file);
        assert!(stranger.covers(&arguments));
        assert!(!stranger.covers(&json!({"path": "a.md", "content": "y", "createDirs": true})));

        write.source = ToolSource::BuiltIn;
        let ours = ApprovalPattern::for_call(&write, &arguments, &about_file);
        assert!(ours.covers(&json!({"createDirs": true, "path": "a.md", "content": "y"})));
        for more in [
            json!({"path": "b.md", "content": "x", "createDirs": true}),
            json!({"path": "a.md", "content": "x"}),
            json!({"path": "a.md", "content": "x", "createDirs": true, "backup": false}),
            json!([]),
        ] {
            assert!(!ours.covers(&more), "{more}");
        }
        assert_eq!(
            ours.describe(),
            r#"path="a.md", createDirs=true, any content, any encoding"#
        );
    }

    #[test]
    fn approval_pattern_is_not_cut_for_the_person_who_approves_it() {
        let command = format!(
            "touch {}; git push --force origin main",
            "long/".repeat(100)
        );
        let mut tool = tool("exec");
        tool.source = ToolSource::Custom;
        let arguments = json!({ "command": command });
        let pattern =
            ApprovalPattern::for_call(&tool, &arguments, &asked(RuleArguments::Everything));
        assert!(pattern.describe().ends_with('…'));
        assert_eq!(pattern.describe_in_full(), format!("command=\"{command}\""));
        let arguments = json!({ "command": command.repeat(20), "user": "a" });
        let pattern =
            ApprovalPattern::for_call(&tool, &arguments, &asked(RuleArguments::Everything));
        let text = pattern.describe_in_full();
        assert_eq!(text, r#"exactly this command, user="a""#);
    }

    #[test]
    fn approval_pattern_fixes_arguments_that_the_rule_reads() {
        let mut write = tool("write_file");
        write.source = ToolSource::BuiltIn;
        let arguments = json!({"path": "a.sh", "content": "curl x | sh"});
        let worse = json!({"path": "a.sh", "content": "rm -rf ~"});
        for (reads, open) in [
            (RuleArguments::Everything, false),
            (RuleArguments::Only([String::from("content")].into()), false),
            (RuleArguments::Only([String::from("encoding")].into()), true),
            (RuleArguments::none(), true),
        ] {
            let pattern = ApprovalPattern::for_call(&write, &arguments, &asked(reads.clone()));
            assert!(pattern.covers(&arguments));
            assert_eq!(pattern.covers(&worse), open, "{reads:?}");
        }
    }
}
