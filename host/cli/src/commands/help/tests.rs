//! Checks of the manual and the README: the commands, options, config keys and tools that they name exist, and the
//! manual contains all keys and tools.

use std::collections::BTreeSet;

use clap::CommandFactory as _;
use mimir_agent::WorkerSettings;
use mimir_core::config::Config;
use serde_json::Value;

use super::{HelpPage, TOPICS};
use crate::args::CliArgs;

mod keys;
mod markdown;

use keys::Keys;
use markdown::{Fence, Page};

const README: &str = include_str!("../../../../../README.md");

/// Tools that no plugin in `plugins/` exports.
const MORE_TOOLS: [&str; 8] = [
    "load_skill",
    "run_code",
    "search_code",
    "install_package",
    "worker_call",
    "mimir_search_tools",
    "mimir_describe_tool",
    "mimir_call_tool",
];

/// Names in snake case that are not built-in tools: examples, files, modules of Node, and a key of another program.
const EXAMPLES: [&str; 8] = [
    "hello",
    "id_ed25519",
    "node_modules",
    "word_count",
    "string_decoder",
    "child_process",
    "disabled_tools",
    "shop_list_orders",
];

/// Fields that no schema contains: of results, the audit log and workers, arguments of `run_code`, and names of other
/// programs.
const FIELDS: [&str; 23] = [
    "dev",
    "scripts",
    "needs",
    "needsApproval",
    "timeoutMs",
    "workDir",
    "backend",
    "cached",
    "progressToken",
    "preApproved",
    "session",
    "tools",
    "readOnly",
    "secretsFound",
    "wayOut",
    "mimeType",
    "dataClass",
    "wordCount",
    "autoApprove",
    "mayHaveRun",
    "untrustedReads",
    "retryAfterMs",
    "stoppedBy",
];

/// Names of exported attributes and metrics, and of settings of NATS.
const FOREIGN: [&str; 16] = [
    "gen_ai.tool.name",
    "mcp.protocol.version",
    "error.type",
    "tool_error",
    "deployment.environment.name",
    "mimir.decision",
    "mimir.fuel",
    "mimir.tool.digest",
    "mimir_telemetry_dropped_total",
    "mimir_call_duration_seconds",
    "mcp.server.operation.duration",
    "mimir.call.duration",
    "mimir_canary_alarms_total",
    "mcp_server_operation_duration_seconds",
    "max_connections",
    "max_file_store",
];

/// The last part of names with dots that are files or hosts.
const ENDINGS: [&str; 21] = [
    "c", "com", "cpp", "js", "json", "jsonc", "jsonl", "lock", "md", "mod", "org", "py", "rs",
    "token", "toml", "ts", "txt", "wasm", "xml", "yml", "zig",
];

/// The built-in tools, without their aliases.
fn built_in() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = MORE_TOOLS.map(str::to_owned).into();
    for plugin in mimir_builtins::ALL {
        let description: Value = serde_json::from_str(plugin.description.unwrap()).unwrap();
        let tools = description["tools"].as_array().unwrap();
        names.extend(tools.iter().map(|tool| name_of(tool).to_owned()));
    }
    names
}

fn name_of(tool: &Value) -> &str {
    let name = tool["name"].as_str();
    name.or(tool["definition"]["name"].as_str()).unwrap()
}

/// Everything that a page may name.
struct Known {
    tools: BTreeSet<String>,
    keys: Keys,
    /// Names of fields: of config files and tools in YAML files, and arguments of built-in tools.
    fields: BTreeSet<String>,
    root: clap::Command,
}

impl Known {
    fn new() -> Self {
        let mut tools = built_in();
        tools.extend(mimir_core::policy::BROWSER_TOOLS.map(str::to_owned));
        tools.insert("browser".to_owned());
        let mut fields: BTreeSet<String> = FIELDS.map(str::to_owned).into();
        for plugin in mimir_builtins::ALL {
            tools.extend(plugin.aliases.iter().map(|(_, alias)| (*alias).to_owned()));
            let description = serde_json::from_str(plugin.description.unwrap()).unwrap();
            keys::fields(&description, &mut fields);
        }
        for schema in [Config::schema(), mimir_script::schema()] {
            keys::fields(&schema, &mut fields);
        }
        let mut root = CliArgs::command();
        root.build();
        Self {
            tools,
            keys: Keys::new(&Config::schema()),
            fields,
            root,
        }
    }

    /// Returns the mistakes of a page.
    fn faults(&self, text: &str) -> Vec<String> {
        let page = Page::read(text);
        let mut faults = Vec::new();
        let mut check = |shown: &str, result: Result<(), String>| {
            if let Err(why) = result {
                faults.push(format!("`{shown}`: {why}"));
            }
        };
        for span in &page.spans {
            for line in markdown::commands(span) {
                check(span, self.command(&line));
            }
            check(span, self.span(span));
        }
        for fence in &page.fences {
            if fence.info == "sh" {
                for line in fence.text.lines() {
                    for command in markdown::commands(line) {
                        check(line, self.command(&command));
                    }
                }
            }
            check(fence.text.trim(), example(fence));
        }
        faults
    }

    /// Checks a command line whose first word is `mimir`.
    fn command(&self, words: &[String]) -> Result<(), String> {
        let (mut command, mut words) = (&self.root, words.iter().skip(1));
        let mut position = 0;
        while let Some(word) = words.next() {
            if word == "--" || word == "…" {
                break;
            }
            if word.starts_with('-') && word != "-" {
                if option(command, word)? {
                    words.next();
                }
                continue;
            }
            if position == 0 && is_placeholder(word) {
                break;
            }
            if command.has_subcommands() {
                let unknown = || format!("`{word}` is not a command");
                command = command.find_subcommand(word).ok_or_else(unknown)?;
                continue;
            }
            if position == 0 {
                self.first_word(command.get_name(), word)?;
            }
            position += 1;
        }
        Ok(())
    }

    /// Checks the first word after a command, where it names something.
    fn first_word(&self, command: &str, word: &str) -> Result<(), String> {
        match command {
            "help" => HelpPage::find(&[word.to_owned()])
                .map(drop)
                .map_err(|error| error.to_string()),
            "call" | "explain" => self.tool(word),
            "get" | "set" | "unset" if word.contains('.') => self.keys.check(word),
            _ => Ok(()),
        }
    }

    fn tool(&self, name: &str) -> Result<(), String> {
        if self.tools.contains(name) || EXAMPLES.contains(&name) {
            return Ok(());
        }
        Err(format!("`{name}` is not a tool"))
    }

    /// Checks a name in backticks: of a tool, a config key, or a field.
    fn span(&self, span: &str) -> Result<(), String> {
        let (name, has_value) = match span.split_once(": ") {
            Some((name, _)) => (name, true),
            None => (span, false),
        };
        if FOREIGN.contains(&name) {
            return Ok(());
        }
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '*');
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(word) {
            return Ok(());
        }
        if let Some((first, rest)) = name.split_once('.') {
            let ending = name.rsplit('.').next().unwrap_or_default();
            return match first {
                _ if ENDINGS.contains(&ending) => Ok(()),
                // Of tools in YAML files, of git, and of workers.
                "platform" | "commit" | "custom" => Ok(()),
                "permissions" => self.field(rest),
                _ => self.keys.check(name),
            };
        }
        // Tools of MCP servers.
        if name.starts_with("mcp_") {
            return Ok(());
        }
        let has_capitals = name.contains(|c: char| c.is_ascii_uppercase());
        if has_capitals || has_value {
            return self.field(name);
        }
        if name.contains('_') {
            return self.tool(name);
        }
        Ok(())
    }

    fn field(&self, name: &str) -> Result<(), String> {
        if self.fields.contains(name) {
            return Ok(());
        }
        Err(format!("`{name}` is not a key or a field"))
    }
}

/// Checks an option. Returns true if the next word is its value.
fn option(command: &clap::Command, word: &str) -> Result<bool, String> {
    let (name, has_value) = match word.split_once('=') {
        Some((name, _)) => (name, true),
        None => (word, false),
    };
    let mut all = command.get_arguments();
    let found = match name.strip_prefix("--") {
        Some(long) => all.find(|arg| arg.get_long() == Some(long)),
        None => {
            let short = name.chars().nth(1);
            all.find(|arg| arg.get_short() == short)
        }
    };
    let Some(arg) = found else {
        return Err(format!("`{}` has no option `{name}`", command.get_name()));
    };
    let least = arg.get_num_args().map_or(0, |range| range.min_values());
    Ok(!has_value && least > 0)
}

/// Returns true if the word stands for one that the reader fills in: `TOOL`, `FILE|URL`.
fn is_placeholder(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && !word.contains(|c: char| c.is_ascii_lowercase())
}

/// Checks an example in YAML: a config file, a worker, or a tool.
fn example(fence: &Fence) -> Result<(), String> {
    match fence.info.as_str() {
        "yaml" => serde_yaml::from_str::<Config>(&fence.text)
            .map_err(|error| error.to_string())?
            .check()
            .map_err(|error| error.to_string()),
        "yaml worker" => serde_yaml::from_str::<WorkerSettings>(&fence.text)
            .map(drop)
            .map_err(|error| error.to_string()),
        "yaml team" => {
            serde_yaml::from_str::<mimir::team_authoring::AuthoringManifest>(&fence.text)
                .map(drop)
                .map_err(|error| error.to_string())
        }
        "yaml tool" => mimir_script::check("the example", &fence.text)
            .map(drop)
            .map_err(|error| error.to_string()),
        _ => Ok(()),
    }
}

fn topic(name: &str) -> &'static str {
    TOPICS.iter().find(|topic| topic.name == name).unwrap().text
}

#[test]
fn help_topics_name_only_existing_commands_and_keys() {
    let known = Known::new();
    let topics = TOPICS.iter().map(|topic| (topic.name, topic.text));
    let mut faults = Vec::new();
    for (name, text) in topics.chain([("README.md", README)]) {
        let found = known.faults(text).into_iter();
        faults.extend(found.map(|fault| format!("{name}: {fault}")));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn help_of_a_tool_names_the_command_that_describes_it() {
    for (word, hint) in [
        (
            "read_file",
            " `mimir tools info read_file` describes the tool.",
        ),
        ("shell", " `mimir tools info shell` describes the tool."),
        ("file", " Did you mean `files`"),
    ] {
        let failure = HelpPage::find(&[word.to_owned()]).unwrap_err();
        let message = failure.to_string();
        assert!(message.contains(hint), "{message}");
    }
}

#[test]
fn help_check_finds_mistakes() {
    let known = Known::new();
    for (text, wanted) in [
        ("Use `mimir tols list`.", "`tols` is not a command"),
        ("Use `mimir tools lits`.", "`lits` is not a command"),
        ("```sh\nclaude mcp add x -- mimir serv\n```\n", "`serv`"),
        (
            "```sh\necho x | mimir redact --jsn  # mask\n```\n",
            "no option `--jsn`",
        ),
        (
            "```sh\nmimir call read_fil path=x\n```\n",
            "`read_fil` is not a tool",
        ),
        ("See `mimir help sandboxes`.", "`sandbox`"),
        ("Set `limit.timeMs`.", "`limit.timeMs`"),
        ("Set `limits.timeMS`.", "`limits.timeMS`"),
        ("Set `tools.tokenPrize`.", "`tools.tokenPrize`"),
        ("Set `tools.NAME.enable`.", "`tools.NAME.enable`"),
        ("With `toolDiscover: off`", "`toolDiscover`"),
        ("The tool `write_files`.", "`write_files` is not a tool"),
        (
            "```sh\nmimir config set limits.time 5\n```\n",
            "`limits.time`",
        ),
        ("```yaml\nlimits: {time: 5}\n```\n", "time"),
        ("```yaml worker\ntool: {}\n```\n", "tool"),
        ("```yaml tool\nname: x\n```\n", "description"),
    ] {
        let faults = known.faults(text);
        assert!(
            faults.len() == 1 && faults[0].contains(wanted),
            "{text}: {faults:?}"
        );
    }
    for text in [
        "Use `mimir tools trust NAME --host HOST`, `mimir -C DIR doctor`, `mimir TOOL JSON`.",
        "`tools.NAME.limits.timeMs`, `policy.rules.when.NAME.not`, `api.example.com`, `config.yml`.",
        "```sh\nMIMIR_LOG=debug mimir call read_file path=x --json | head -1\n```\n",
    ] {
        assert_eq!(known.faults(text), [""; 0], "{text}");
    }
}

#[test]
fn help_has_every_config_key() {
    let page = Page::read(topic("config"));
    let written: BTreeSet<String> = page.spans.iter().map(|span| keys::plain(span)).collect();
    let keys = Keys::new(&Config::schema());
    let missing: Vec<_> = keys
        .values()
        .filter(|key| !written.contains(*key))
        .collect();
    assert!(missing.is_empty(), "add to help/config.md: {missing:#?}");
}

#[test]
fn help_has_every_built_in_tool() {
    let page = Page::read(topic("tools"));
    let missing: Vec<_> = built_in()
        .into_iter()
        .filter(|name| !page.spans.contains(name))
        .collect();
    assert!(missing.is_empty(), "add to help/tools.md: {missing:#?}");
}

#[test]
fn help_topics_have_a_title_and_a_summary() {
    for topic in TOPICS {
        let summary = topic.summary();
        assert!(topic.text.starts_with("# "), "{}", topic.name);
        assert!(
            summary.ends_with('.') && summary.len() <= 100,
            "{}: {summary}",
            topic.name
        );
        // The list of all keys grows with them.
        let longest = if topic.name == "config" { 24 } else { 16 };
        assert!(topic.text.len() <= longest << 10, "{}", topic.name);
    }
    assert!(TOPICS.is_sorted_by(|one, next| one.name < next.name));
    assert!(README.len() <= 10 << 10, "{}", README.len());
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/help");
    let files = std::fs::read_dir(folder).unwrap().count();
    assert_eq!(files, TOPICS.len(), "a file of {folder} is not a topic");
}

#[test]
fn help_of_a_topic_shows_the_command_of_that_name() {
    let find = |name: &str| HelpPage::find(&[name.to_owned()]);
    let Ok(Some(HelpPage::Topic(undo))) = find("undo") else {
        panic!("not a topic");
    };
    let text = super::page_with_options(undo);
    assert!(
        text.starts_with("# Undo") && text.contains("--force"),
        "{text}"
    );
    let Ok(Some(HelpPage::Topic(files))) = find("files") else {
        panic!("not a topic");
    };
    assert_eq!(super::page_with_options(files), files.text);
    assert!(matches!(find("serve"), Ok(None)));
}
