//! The tools as the pipeline sees them.

use std::sync::Arc;

use mimir_core::backend::{Backend, BoxFuture, RawResult, ToolAssessment};
use mimir_core::needs::{ANY_HOST, HostNeed};
use mimir_core::network::RequestTarget;
use mimir_core::outcome::ToolOutput;
use mimir_core::pipeline::Checked;
use mimir_core::tool::{InvalidToolName, ToolOrigin, ToolSource, ToolTrust};
use mimir_core::{
    Approved, Decision, Needs, RiskLevel, Schema, Tool, ToolDefinition, ToolError, ToolGroup,
    ToolHints, ToolName,
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::page_view::{CurrentPage, PageView};
use crate::secret_entry::could_split_secret;
use crate::session::{BrowserSessions, call_digest};
use crate::tools::{ACTIONS, ActionKind, ActionTool, PageAction, split_combined, tool_schemas};

/// The name of the plugin, and the prefix of the tools' names.
const PLUGIN: &str = "browser";

/// The tool that saves screenshots and PDF files in the workspace, so that its rules and questions apply to them.
pub(crate) const WRITE_FILE: &str = "write_file";

/// Methods of the requests that pages may send.
const METHODS: [&str; 8] = [
    "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT",
];

/// Backend of one tool, or of the tool with all actions.
struct BrowserTool {
    sessions: Arc<BrowserSessions>,
    /// `None` for the tool with all actions.
    tool: Option<&'static ActionTool>,
}

impl BrowserSessions {
    /// Creates the tools: `browser_navigate` and its like, and `browser` with all actions.
    ///
    /// # Errors
    ///
    /// Does not fail in practice: the names are constants.
    pub fn tools(self: &Arc<Self>) -> Result<Vec<Tool>, InvalidToolName> {
        let mut tools = Vec::new();
        let schemas = tool_schemas();
        for (at, tool) in ACTIONS.iter().enumerate() {
            let template = template(ToolName::new(PLUGIN)?);
            let mut needs = template.needs.clone();
            if tool.saves_files() {
                needs.tools.push(WRITE_FILE.to_owned());
            }
            let definition = ToolDefinition {
                name: ToolName::new(&format!("{PLUGIN}_{}", tool.action))?,
                title: Some(tool.title.to_owned()),
                description: tool.description.to_owned(),
                input_schema: Schema::unchecked(schemas.of_actions[at].to_string()),
                approval: tool.approval(),
                hints: hints(tool),
                needs,
                ..template
            };
            tools.push(self.tool(definition, Some(tool)));
        }
        let template = template(ToolName::new(PLUGIN)?);
        let mut needs = template.needs.clone();
        needs.tools.push(WRITE_FILE.to_owned());
        let all = ToolDefinition {
            title: Some("Browser".to_owned()),
            description: "Controls a web browser: `action` names what to do, and the other arguments are those of the \
                          tool browser_ACTION"
                .to_owned(),
            input_schema: Schema::unchecked(schemas.combined.to_string()),
            approval: Decision::Ask,
            needs,
            ..template
        };
        tools.push(self.tool(all, None));
        Ok(tools)
    }

    fn tool(
        self: &Arc<Self>,
        definition: ToolDefinition,
        tool: Option<&'static ActionTool>,
    ) -> Tool {
        let identity = format!(
            "{} {} {} {}",
            env!("CARGO_PKG_VERSION"),
            definition.name,
            definition.description,
            definition.input_schema.as_str()
        );
        let origin = ToolOrigin::compiled_in(PLUGIN, format!("{:x}", Sha256::digest(identity)));
        let backend = BrowserTool {
            sessions: Arc::clone(self),
            tool,
        };
        let mut tool = Tool::new(
            definition,
            ToolSource::BuiltIn,
            Arc::new(origin),
            ToolTrust::Trusted,
            Arc::new(backend),
        );
        tool.assessed = true;
        tool
    }
}

fn hints(tool: &ActionTool) -> ToolHints {
    ToolHints {
        // Clients may call a tool that only reads without a question.
        read_only: tool.kind == ActionKind::Read && !tool.saves_files(),
        // A repeated call overwrites the same file.
        idempotent: tool.saves_files(),
        open_world: true,
        ..ToolHints::default()
    }
}

fn template(name: ToolName) -> ToolDefinition {
    ToolDefinition {
        name,
        title: None,
        description: String::new(),
        group: ToolGroup::Browser,
        input_schema: Schema::unchecked(String::new()),
        output_schema: None,
        silent: false,
        approval: Decision::Ask,
        risk: RiskLevel::Medium,
        hints: ToolHints {
            open_world: true,
            ..ToolHints::default()
        },
        needs: Needs {
            hosts: vec![HostNeed {
                host: ANY_HOST.to_owned(),
                methods: METHODS.map(str::to_owned).into(),
                reason: "to load pages".to_owned(),
            }],
            ..Needs::default()
        },
    }
}

impl BrowserTool {
    /// Returns the tool for the action of a call, and the arguments of the action.
    fn resolve(&self, arguments: &Value) -> Result<(&'static ActionTool, PageAction), ToolError> {
        let (tool, arguments) = match self.tool {
            Some(tool) => (tool, arguments.clone()),
            None => split_combined(arguments.clone())?,
        };
        Ok((tool, tool.parse(arguments)?))
    }

    async fn attempt(&self, call: &Approved) -> Result<ToolOutput, ToolError> {
        let (_, action) = self.resolve(call.arguments())?;
        Ok(ToolOutput {
            content: self.sessions.run(call, action).await?,
            ..ToolOutput::default()
        })
    }
}

impl Backend for BrowserTool {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move { self.attempt(&call).await.into() })
    }

    /// Allows actions on pages of hosts that the settings list, and asks about those on others.
    fn assess<'a>(
        &'a self,
        call: &'a Checked,
    ) -> BoxFuture<'a, Result<Option<ToolAssessment>, ToolError>> {
        let assessed = self.resolve(call.arguments()).map(|(tool, action)| {
            let session = &call.context().session_id;
            let view = if action.depends_on_page() {
                let digest = call_digest(call.context(), call.arguments());
                self.sessions.assess_page(session, digest)
            } else {
                self.sessions.current_page(session)
            };
            Some(assess_action(
                tool,
                &action,
                &view,
                self.sessions.has_secrets(),
                &|target| self.sessions.element_label(session, target),
            ))
        });
        Box::pin(std::future::ready(assessed))
    }

    fn end_session(&self, session: &str) {
        self.sessions.end_session(session);
    }
}

/// Returns role and name of the element that a ref names, as the page shows it.
type ElementLabels<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Assesses an action on a page. `has_secrets` is true if a secret may be entered into pages of some host.
fn assess_action(
    tool: &ActionTool,
    action: &PageAction,
    view: &PageView,
    has_secrets: bool,
    labels: ElementLabels<'_>,
) -> ToolAssessment {
    let page = view.shown();
    let is_upload = matches!(action, PageAction::FileUpload(args) if !args.paths.is_empty());
    // A call that fails for this reason needs no answer. It does not run if the page is another one by then.
    let is_futile = action.depends_on_page()
        && (matches!(view, PageView::Closed | PageView::Failed)
            || (is_upload && page.is_some_and(|page| !page.has_file_chooser)));
    let has_secret = page.is_some_and(|page| page.has_secret);
    let mut risks = Vec::new();
    if is_upload {
        risks.push("the content of the files leaves this machine");
    }
    // Its masking cannot be relied on: code can change the form of a text, and a picture is not masked.
    let is_revealing = matches!(
        action,
        PageAction::Evaluate(_) | PageAction::Screenshot(_) | PageAction::PdfSave(_)
    );
    if has_secret && is_revealing {
        risks.push("a secret was entered into a page, and the result may show it");
    } else if has_secret && could_split_secret(action) {
        risks.push(
            "a secret was entered into a page, and this may split it, so that its parts are not masked",
        );
    } else if has_secrets && runs_where_secrets_go(action, page) {
        risks.push("the code can read secrets that are entered into pages of this host");
    }
    let each_time = !risks.is_empty();
    let is_listed = page.is_some_and(|page| page.is_listed);
    let needs_approval = each_time || (tool.kind == ActionKind::Act && !is_listed);
    // A page that is opened has nothing to do with the one that is shown.
    let opens_page = tool.kind == ActionKind::Open;
    let place = if opens_page {
        opened_origin(action)
    } else {
        page.map(|page| page.origin.clone())
    };
    let place = place.map_or_else(String::new, |origin| format!(" on {origin}"));
    ToolAssessment {
        approval: if needs_approval && !is_futile {
            Decision::Ask
        } else {
            Decision::Allow
        },
        risk: if each_time {
            RiskLevel::High
        } else {
            RiskLevel::Medium
        },
        summary: mimir_core::text::visible(&format!("{}{place}", summary(tool, action, labels))),
        risks: risks.into_iter().map(str::to_owned).collect(),
        scope: page.filter(|_| !opens_page).map(|page| page.origin.clone()),
        each_time,
    }
}

/// Returns true for code of the model that runs in a page into which a secret may be entered, or may come there: in a
/// frame, or in a page without a host, which may be controlled by another one.
fn runs_where_secrets_go(action: &PageAction, page: Option<&CurrentPage>) -> bool {
    let PageAction::Evaluate(args) = action else {
        return false;
    };
    let is_in_frame = args
        .target
        .as_ref()
        .is_some_and(|target| target.starts_with('f'));
    is_in_frame || page.is_none_or(|page| page.takes_secret)
}

/// Returns the origin of the page that an action opens by its address.
fn opened_origin(action: &PageAction) -> Option<String> {
    let url = match action {
        PageAction::Navigate(args) => Some(&args.url),
        PageAction::Tabs(args) => args.url.as_ref(),
        _ => None,
    };
    let target = RequestTarget::parse(url?).ok()?;
    Some(target.origin().to_string())
}

/// Maximum length of the model's name of an element, in characters.
const ELEMENT_NAME_MAX: usize = 80;

/// Names an element for the person: as the page shows it, and with the name that the model uses if it is another one.
fn element_name(target: &str, element: Option<&String>, labels: ElementLabels<'_>) -> String {
    let label = labels(target);
    let shown = match &label {
        Some(label) => format!("{label} ({target})"),
        None => target.to_owned(),
    };
    let element = element.map(|element| element.trim()).unwrap_or_default();
    let is_same = label
        .as_ref()
        .is_some_and(|label| label.contains(&Value::from(element).to_string()));
    if element.is_empty() || is_same {
        return shown;
    }
    let quoted = Value::from(mimir_core::text::prefix(element, ELEMENT_NAME_MAX));
    format!("{shown}, which the model calls {quoted},")
}

/// Describes an action for the person who is asked about it.
fn summary(tool: &ActionTool, action: &PageAction, labels: ElementLabels<'_>) -> String {
    let named =
        |element: &Option<String>, target: &str| element_name(target, element.as_ref(), labels);
    match action {
        PageAction::Click(args) => format!("click {}", named(&args.element, &args.target)),
        PageAction::Hover(args) => format!("hover over {}", named(&args.element, &args.target)),
        PageAction::Drag(args) => format!(
            "drag {} to {}",
            named(&args.start_element, &args.start_target),
            named(&args.end_element, &args.end_target)
        ),
        PageAction::SelectOption(args) => format!(
            "select {} in {}",
            Value::from(args.values.join(", ")),
            named(&args.element, &args.target)
        ),
        PageAction::Type(args) => {
            let what = match &args.secret {
                Some(secret) => format!("the secret {secret}"),
                None => "text".to_owned(),
            };
            format!("type {what} into {}", named(&args.element, &args.target))
        }
        PageAction::FillForm(args) => format!("fill in {} fields", args.fields.len()),
        PageAction::PressKey(args) => format!("press {}", args.key),
        PageAction::FileUpload(args) => format!("upload {}", args.paths.join(", ")),
        PageAction::HandleDialog(args) => {
            format!(
                "{} a dialog",
                if args.accept { "accept" } else { "dismiss" }
            )
        }
        _ => tool.title.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn assessment(action: &str, arguments: Value, view: &PageView) -> ToolAssessment {
        let tool = ActionTool::find(action).unwrap();
        let action = tool.parse(arguments).unwrap();
        let labels = |target: &str| (target == "e1").then(|| "button \"Delete\"".to_owned());
        assess_action(tool, &action, view, true, &labels)
    }

    fn assessed(action: &str, arguments: Value, view: &PageView) -> (Decision, bool) {
        let assessment = assessment(action, arguments, view);
        (assessment.approval, assessment.each_time)
    }

    fn listed_page() -> CurrentPage {
        CurrentPage {
            origin: "https://shop.example".to_owned(),
            is_listed: true,
            has_secret: false,
            takes_secret: false,
            has_file_chooser: false,
        }
    }

    #[test]
    fn card_names_the_host_that_is_opened() {
        let view = PageView::Shown(listed_page());
        let url = "http://other.example:8080/a";
        for (action, arguments) in [
            ("navigate", json!({"url": url})),
            ("tabs", json!({"action": "new", "url": url})),
        ] {
            let assessment = assessment(action, arguments, &view);
            assert!(
                assessment
                    .summary
                    .ends_with(" on http://other.example:8080"),
                "{assessment:?}"
            );
            assert_eq!(assessment.scope, None, "{action}");
        }
        let back = assessment("navigate_back", json!({}), &view);
        assert_eq!((&*back.summary, back.scope), ("go back", None));
        let click = assessment("click", json!({"target": "e1"}), &view);
        assert_eq!(click.scope.as_deref(), Some("https://shop.example"));
    }

    #[test]
    fn card_names_elements_as_the_page_does() {
        let view = PageView::Shown(listed_page());
        for (target, element, expected) in [
            (
                "e1",
                "Delete",
                "click button \"Delete\" (e1) on https://shop.example",
            ),
            (
                "e1",
                "Help",
                "click button \"Delete\" (e1), which the model calls \"Help\", on https://shop.example",
            ),
            ("e2", "", "click e2 on https://shop.example"),
            (
                "#x",
                "a\" on https://b",
                "click #x, which the model calls \"a\\\" on https://b\", on https://shop.example",
            ),
        ] {
            let arguments = json!({"target": target, "element": element});
            assert_eq!(assessment("click", arguments, &view).summary, expected);
        }
    }

    #[test]
    fn closing_and_resizing_change_the_browser() {
        for (action, arguments) in [
            ("close", json!({})),
            ("resize", json!({"width": 10, "height": 10})),
        ] {
            let tool = ActionTool::find(action).unwrap();
            assert_eq!(tool.kind, ActionKind::Control, "{action}");
            let view = PageView::Closed;
            assert_eq!(assessed(action, arguments, &view), (Decision::Allow, false));
        }
    }

    #[test]
    fn code_is_asked_about_each_time_where_a_secret_may_be_entered() {
        let code = || json!({"function": "() => 1"});
        let other = PageView::Shown(listed_page());
        assert_eq!(
            assessed("evaluate", code(), &other),
            (Decision::Allow, false)
        );
        let in_frame = json!({"function": "e => 1", "target": "f1e2"});
        assert_eq!(
            assessed("evaluate", in_frame, &other),
            (Decision::Ask, true)
        );
        let shop = PageView::Shown(CurrentPage {
            takes_secret: true,
            ..listed_page()
        });
        for view in [&shop, &PageView::Unknown] {
            assert_eq!(assessed("evaluate", code(), view), (Decision::Ask, true));
        }
        let click = json!({"target": "e1"});
        assert_eq!(assessed("click", click, &shop), (Decision::Allow, false));
    }

    #[test]
    fn actions_after_a_secret_are_asked_about_if_they_could_show_it() {
        let view = PageView::Shown(CurrentPage {
            has_secret: true,
            ..listed_page()
        });
        for (action, arguments) in [
            ("take_screenshot", json!({})),
            ("pdf_save", json!({})),
            ("evaluate", json!({"function": "1"})),
            ("press_key", json!({"key": "Backspace"})),
            ("click", json!({"target": "e1", "doubleClick": true})),
        ] {
            let result = assessed(action, arguments, &view);
            assert_eq!(result, (Decision::Ask, true), "{action}");
        }
        for (action, arguments) in [
            ("press_key", json!({"key": "Enter"})),
            ("click", json!({"target": "e1"})),
            ("snapshot", json!({})),
        ] {
            let result = assessed(action, arguments, &view);
            assert_eq!(result, (Decision::Allow, false), "{action}");
        }
    }

    /// A tool that can save a file is not declared as one that only reads, but is allowed without a question all the same.
    #[test]
    fn tools_that_save_files_are_not_read_only() {
        for tool in &ACTIONS {
            let hints = hints(tool);
            let is_reading = tool.kind == ActionKind::Read;
            assert_eq!(
                hints.read_only,
                is_reading && !tool.saves_files(),
                "{}",
                tool.action
            );
        }
        let view = PageView::Shown(listed_page());
        for action in ["take_screenshot", "pdf_save"] {
            let tool = ActionTool::find(action).unwrap();
            assert_eq!(
                (hints(tool).read_only, tool.approval()),
                (false, Decision::Allow)
            );
            let plain = assessed(action, json!({}), &view);
            assert_eq!(plain, (Decision::Allow, false), "{action}");
        }
        assert!(hints(ActionTool::find("snapshot").unwrap()).read_only);
    }

    #[test]
    fn calls_that_cannot_succeed_are_not_asked_about() {
        let click = || json!({"target": "e1"});
        for (view, expected) in [
            (PageView::Closed, Decision::Allow),
            (PageView::Failed, Decision::Allow),
            (PageView::Unknown, Decision::Ask),
        ] {
            assert_eq!(assessed("click", click(), &view).0, expected, "{view:?}");
        }
        let upload = || json!({"paths": ["a.txt"]});
        let mut page = listed_page();
        let view = PageView::Shown(page.clone());
        assert_eq!(assessed("file_upload", upload(), &view).0, Decision::Allow);
        page.has_file_chooser = true;
        let view = PageView::Shown(page);
        assert_eq!(assessed("file_upload", upload(), &view).0, Decision::Ask);
    }
}
