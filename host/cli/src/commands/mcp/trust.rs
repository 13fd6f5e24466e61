//! The prompt about a server: shows all texts that a model may read, and asks which tools run without asking.

use std::sync::Arc;
use std::time::SystemTime;

use mimir_core::audit::{AuditEvent, EventKind};
use mimir_core::config::{McpServerSettings, SandboxMode};
use mimir_core::grants::Grant;
use mimir_core::registry::Registry;
use mimir_core::text::visible;
use mimir_core::{Decision, Tool, ToolError};
use mimir_mcp::client::ServerTestReport;

use crate::args::{AllowedTools, ServerTrust};
use crate::exit::CommandResult;
use crate::output::{FAINT, STRONG, WARN, note, server_text, styled};
use crate::terminal;
use mimir::settings::ConfigEdit;
use mimir::setup::HostSetup;

/// Reach of a server's tool, for display. The server's own annotations are not reliable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Runs in a sandbox without network, with access only to a folder of its own.
    Confined,
    /// Only reads, according to the server's annotation.
    Reads,
    /// Not annotated as read-only.
    Writes,
}

impl Reach {
    fn describe(self) -> &'static str {
        match self {
            Self::Confined => "reaches only a folder of its own",
            Self::Reads => "only reads, according to the server",
            Self::Writes => "may change things",
        }
    }
}

/// A server that was started for review, with its tools and the reach of each.
pub struct TrustCandidate {
    pub tools: Vec<(Arc<Tool>, Reach)>,
    /// The tools that cannot be called, because a tool of another source has their name.
    shadowed: Vec<ShadowedTool>,
    /// The names of the tools of this server that the settings allow already.
    allowed_before: Vec<String>,
    /// True if the server's sandbox has no network access, so that the server cannot leak data.
    offline: bool,
    report: ServerTestReport,
}

/// A tool of a server whose name belongs to a tool of another source.
struct ShadowedTool {
    name: String,
    /// The location of the other tool, if one of this name can be called.
    holder: Option<String>,
}

impl ShadowedTool {
    /// Describes the conflict in one line, with the remedy.
    fn describe(&self, server: &str) -> String {
        let holder = match &self.holder {
            Some(holder) => format!("{} has a tool of this name", visible(holder)),
            None => "its name is reserved or used by several sources".to_owned(),
        };
        format!(
            "`{}` cannot be called and gets no permission: {holder}; set `mcp.servers.{}.prefix` to another prefix",
            self.name,
            visible(server)
        )
    }
}

impl TrustCandidate {
    /// Starts the review of a server that was just tested: applies the grants of the user, and classifies its tools.
    pub async fn review(
        setup: &HostSetup,
        mut report: ServerTestReport,
        settings: &McpServerSettings,
    ) -> Self {
        setup.apply_grants(&mut report.found.tools);
        let registry = setup.registry_with_granted(&report.found.tools).await;
        let config = &setup.settings.config;
        let mut candidate = Self::new(report, settings, config.sandbox.mode, &registry);
        let server = candidate.server();
        // Settings of older versions do not name the server. Those for a tool of another source are not touched.
        let is_of_server = |name: &str, named: Option<&str>| match named {
            Some(named) => named == server,
            None => !candidate.shadowed_names().contains(&name),
        };
        let allowed = config.tools.each.iter().filter(|(name, settings)| {
            is_of_server(name, settings.server.as_deref())
                && settings.approval.level() == Some(Decision::Allow)
        });
        let allowed = allowed.map(|(name, _)| name.clone()).collect();
        candidate.allowed_before = allowed;
        candidate
    }

    /// Classifies the tools of a server that was just tested. `registry` has the tools of all sources.
    fn new(
        report: ServerTestReport,
        settings: &McpServerSettings,
        base: Option<SandboxMode>,
        registry: &Registry,
    ) -> Self {
        let confined = is_confined(settings, base);
        let offline = is_offline(settings, base);
        let reach = |tool: &Tool| {
            if confined {
                Reach::Confined
            } else if tool.definition.hints.read_only {
                Reach::Reads
            } else {
                Reach::Writes
            }
        };
        let shadowed = report.found.tools.iter().filter_map(|tool| {
            let holder = registry.get(tool.name().as_str());
            let holder = holder.map(|holder| holder.origin.location.clone());
            (holder.as_ref() != Some(&tool.origin.location)).then(|| ShadowedTool {
                name: tool.name().to_string(),
                holder,
            })
        });
        let shadowed = shadowed.collect();
        let tools = report.found.tools.iter();
        let tools = tools
            .map(|tool| (Arc::new(tool.clone()), reach(tool)))
            .collect();
        Self {
            tools,
            shadowed,
            allowed_before: Vec::new(),
            offline,
            report,
        }
    }

    /// Returns the digest of all texts of the server, for `--approve`.
    pub fn digest(&self) -> &str {
        self.tools
            .first()
            .map_or("", |(tool, _)| &tool.origin.digest)
    }

    /// Describes the server in lines.
    fn card(&self) -> Vec<String> {
        let (name, version) = &self.report.server;
        let mut lines = vec![format!(
            "The server calls itself {} {} and has {}. Models will read:",
            visible(name),
            visible(version),
            tool_count(self.tools.len())
        )];
        for (tool, reach) in &self.tools {
            lines.push(String::new());
            lines.push(format!(
                "{} {}",
                styled(STRONG, tool.name()),
                styled(FAINT, format_args!("({})", reach.describe()))
            ));
            lines.extend(
                server_text::shown(tool)
                    .into_iter()
                    .map(|line| format!("  {line}")),
            );
        }
        let described = &self.report.described;
        let kinds = [
            ("prompt", &described.prompts),
            ("resource", &described.resources),
            ("resources", &described.templates),
        ];
        for (kind, entries) in kinds {
            for entry in entries {
                lines.push(String::new());
                lines.extend(
                    server_text::entry_texts(kind, entry)
                        .iter()
                        .map(|line| styled(FAINT, visible(line))),
                );
            }
        }
        for left_out in &self.report.found.quarantined {
            lines.push(styled(
                WARN,
                format_args!(
                    "left out: {}: {}",
                    visible(&left_out.location),
                    visible(&left_out.reason)
                ),
            ));
        }
        lines
    }

    /// Returns the name of the server in the settings.
    fn server(&self) -> &str {
        self.tools
            .first()
            .map_or("", |(tool, _)| &tool.origin.plugin)
    }

    /// Returns one line for each tool that cannot be called because of its name.
    pub fn shadowed_lines(&self) -> Vec<String> {
        let shadowed = self.shadowed.iter();
        shadowed.map(|it| it.describe(self.server())).collect()
    }

    /// Returns the names of the tools that cannot be called because of their names.
    pub fn shadowed_names(&self) -> Vec<&str> {
        let shadowed = self.shadowed.iter();
        shadowed.map(|it| it.name.as_str()).collect()
    }

    /// Returns true if a tool of another source has the name of this tool.
    fn is_shadowed(&self, tool: &Tool) -> bool {
        self.shadowed
            .iter()
            .any(|shadowed| shadowed.name == tool.name().as_str())
    }

    /// Returns true if a tool runs without asking under these permissions.
    fn runs_unasked(&self, tool: &Tool, reach: Reach, allow: &AllowedTools) -> bool {
        if self.is_shadowed(tool) {
            return false;
        }
        match allow {
            AllowedTools::All => true,
            AllowedTools::Nothing => false,
            AllowedTools::Reads => reach != Reach::Writes,
            AllowedTools::Tools(names) => names.iter().any(|name| {
                name == tool.name().as_str() || tool.name().as_str().ends_with(&format!("_{name}"))
            }),
        }
    }

    /// Shows the server after the lines `before`, and asks the user at the terminal. Returns the permissions to grant,
    /// or `None` if the user refuses. A plain yes grants `suggested`.
    pub fn ask(
        &self,
        before: &[String],
        suggested: &ServerTrust,
        question: &str,
    ) -> CommandResult<Option<ServerTrust>> {
        let allow = &suggested.allow;
        let mut lines = before.to_vec();
        lines.extend(self.card());
        lines.push(String::new());
        let runs: Vec<&str> = self
            .tools
            .iter()
            .filter(|(tool, reach)| self.runs_unasked(tool, *reach, allow))
            .map(|(tool, _)| tool.name().as_str())
            .collect();
        let asks: Vec<&str> = self
            .tools
            .iter()
            .filter(|(tool, reach)| {
                !self.is_shadowed(tool) && !self.runs_unasked(tool, *reach, allow)
            })
            .map(|(tool, _)| tool.name().as_str())
            .collect();
        let listed = |names: &[&str]| {
            if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            }
        };
        lines.push(format!(
            "If you answer yes, these run without asking: {}",
            listed(&runs)
        ));
        lines.push(format!("These ask each time: {}", listed(&asks)));
        let shadowed = self.shadowed_lines().into_iter();
        lines.extend(shadowed.map(|line| styled(WARN, line)));
        lines.push(if suggested.own_data {
            "Results count as your own data (`--own-data`).".to_owned()
        } else {
            styled(
                WARN,
                "Results count as third-party content: a session that reads them asks before data leaves. \
                 Answer `o` if the server returns only your own data.",
            )
        });
        if !self.offline && !suggested.accept_untrusted {
            lines.push(styled(
                WARN,
                "After a session has read third-party content, each of these tools asks again, because a call sends its \
                 arguments to the server. Answer `u` to let the tools that only read run even then.",
            ));
        }
        lines.push(styled(
            FAINT,
            "This applies until a description changes. The server itself declares which of its tools only read.",
        ));
        terminal::print_paged(&lines)?;
        let mut options = "[y]es, [a]ll tools without asking, ".to_owned();
        if !suggested.own_data {
            options += "[o]wn data, ";
        }
        if !self.offline && !suggested.accept_untrusted {
            options += "[u] yes, also after third-party content, ";
        }
        options += "[e]ach call asks, [n]o > ";
        let answer = terminal::ask_for_answer(&format!("{question} {options}"))?;
        let mut rights = suggested.clone();
        match answer.as_str() {
            "y" | "yes" => {}
            "a" | "all" => rights.allow = AllowedTools::All,
            "e" | "each" => rights.allow = AllowedTools::Nothing,
            "o" | "own" => rights.own_data = true,
            "u" if !self.offline => rights.accept_untrusted = true,
            _ => return Ok(None),
        }
        Ok(Some(rights))
    }

    /// Returns the settings edits that grant these permissions. They name the server, so that they never apply to a tool
    /// of another source, and leave out tools whose name another tool has.
    pub fn edits(&self, rights: &ServerTrust) -> Vec<ConfigEdit> {
        // The server's own claims do not count. Its tools get untrusted data from the session only if the sandbox has
        // no network or the user allows it. Only the user may declare results to be own data: a package without
        // network still returns texts that its author wrote.
        let accepts = self.offline || rights.accept_untrusted;
        let mut edits = Vec::new();
        for (tool, reach) in self
            .tools
            .iter()
            .filter(|(tool, reach)| self.runs_unasked(tool, *reach, &rights.allow))
        {
            let name = tool.name().as_str();
            edits.push(ConfigEdit::set_key(
                &["tools", name, "server"],
                self.server(),
            ));
            edits.push(ConfigEdit::set_key(&["tools", name, "approval"], "allow"));
            let trust = if rights.own_data {
                "verified"
            } else {
                "untrusted"
            };
            let mut labels = serde_json::json!({ "outputTrust": trust });
            // After a session has read untrusted content, a change needs approval in any case.
            if accepts && *reach != Reach::Writes {
                labels["acceptsUntrusted"] = true.into();
            }
            edits.push(ConfigEdit::set_key(&["tools", name, "labels"], labels));
        }
        // Tools that were allowed before and are not allowed now ask again.
        for (tool, reach) in &self.tools {
            let name = tool.name().as_str();
            let was_allowed = self.allowed_before.iter().any(|allowed| allowed == name);
            if was_allowed && !self.runs_unasked(tool, *reach, &rights.allow) {
                edits.push(ConfigEdit::set_key(&["tools", name, "approval"], "ask"));
            }
        }
        edits
    }

    /// Stores the grant for the texts that the user has seen, and records it in the audit log.
    pub fn grant(&self, setup: &HostSetup) -> CommandResult<()> {
        let tools: Vec<Arc<Tool>> = self
            .tools
            .iter()
            .map(|(tool, _)| Arc::clone(tool))
            .collect();
        let (Some(first), Some(grant)) = (tools.first(), Grant::new(&tools, Vec::new())) else {
            return Ok(());
        };
        let grant = grant.with_listed(&tools);
        let location = first.origin.location.clone();
        setup.require_approvals()?.grant(&location, grant)?;
        let event = AuditEvent::new(EventKind::Grant, SystemTime::now()).with_subject(&location);
        setup.record_event(&event.with_detail(&format!("sha256 {}", first.origin.digest)));
        Ok(())
    }

    /// Prints the number of tools that now run without asking.
    pub fn print_trusted(&self, rights: &ServerTrust) {
        let runs = self
            .tools
            .iter()
            .filter(|(tool, reach)| self.runs_unasked(tool, *reach, &rights.allow))
            .count();
        note(format_args!(
            "trusted as it is now: {runs} of its {} run{} without asking",
            tool_count(self.tools.len()),
            if self.tools.len() == 1 { "s" } else { "" }
        ));
        for line in self.shadowed_lines() {
            note(styled(WARN, line));
        }
    }

    /// Fails unless `digest` is the digest of these texts.
    pub fn check_digest(&self, digest: &str) -> Result<(), ToolError> {
        if digest == self.digest() {
            Ok(())
        } else {
            Err(ToolError::approval_denied(format!(
                "digest mismatch: the server has {}; nothing was granted",
                self.digest()
            )))
        }
    }
}

/// Writes a number of tools in words.
fn tool_count(count: usize) -> String {
    match count {
        1 => "1 tool".to_owned(),
        count => format!("{count} tools"),
    }
}

fn mode(settings: &McpServerSettings, base: Option<SandboxMode>) -> SandboxMode {
    settings.sandbox.or(base).unwrap_or_default()
}

/// Returns true if the server is a package whose sandbox has no network access.
fn is_offline(settings: &McpServerSettings, base: Option<SandboxMode>) -> bool {
    settings.package.is_some()
        && mode(settings, base) != SandboxMode::None
        && settings.network.is_empty()
        && settings.network_access != Some(true)
}

/// Returns true if the server is offline and has access only to a home folder of its own.
fn is_confined(settings: &McpServerSettings, base: Option<SandboxMode>) -> bool {
    is_offline(settings, base) && settings.folders.is_empty() && settings.bind_mounts.is_empty()
}
