//! The tools: their names, arguments and schemas. Names, arguments and the form of results are those of
//! `@playwright/mcp`, which models know.

use std::sync::LazyLock;

use mimir_core::{Decision, ToolError};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::tool_arguments::{
    ClickArgs, ConsoleArgs, DialogArgs, DownloadArgs, DragArgs, EvaluateArgs, FillFormArgs,
    FindArgs, NavigateArgs, NoArgs, PdfArgs, PressArgs, RequestArgs, RequestsArgs, ResizeArgs,
    ScreenshotArgs, SelectArgs, SnapshotArgs, TabsArgs, TargetArgs, TypeArgs, UploadArgs, WaitArgs,
};

/// An action of the browser with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PageAction {
    Navigate(NavigateArgs),
    NavigateBack,
    Snapshot(SnapshotArgs),
    Find(FindArgs),
    Click(ClickArgs),
    Hover(TargetArgs),
    Drag(DragArgs),
    Type(TypeArgs),
    FillForm(FillFormArgs),
    SelectOption(SelectArgs),
    PressKey(PressArgs),
    WaitFor(WaitArgs),
    HandleDialog(DialogArgs),
    FileUpload(UploadArgs),
    Downloads(DownloadArgs),
    Tabs(TabsArgs),
    Evaluate(EvaluateArgs),
    Screenshot(ScreenshotArgs),
    PdfSave(PdfArgs),
    ConsoleMessages(ConsoleArgs),
    NetworkRequests(RequestsArgs),
    NetworkRequest(RequestArgs),
    Resize(ResizeArgs),
    Close,
}

impl PageAction {
    /// Returns true if the approval of the action depends on the page that the browser shows.
    pub(crate) fn depends_on_page(&self) -> bool {
        match self {
            Self::Click(_)
            | Self::Hover(_)
            | Self::Drag(_)
            | Self::Type(_)
            | Self::FillForm(_)
            | Self::SelectOption(_)
            | Self::PressKey(_)
            | Self::HandleDialog(_)
            | Self::FileUpload(_)
            | Self::Evaluate(_)
            | Self::Screenshot(_)
            | Self::PdfSave(_) => true,
            Self::Navigate(_)
            | Self::NavigateBack
            | Self::Snapshot(_)
            | Self::Find(_)
            | Self::WaitFor(_)
            | Self::Downloads(_)
            | Self::Tabs(_)
            | Self::ConsoleMessages(_)
            | Self::NetworkRequests(_)
            | Self::NetworkRequest(_)
            | Self::Resize(_)
            | Self::Close => false,
        }
    }
}

/// The kind of an action, by what it can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ActionKind {
    /// It reads what the page shows.
    Read,
    /// It opens pages by their address, which the rules of the network decide about.
    Open,
    /// It changes the browser, and nothing outside.
    Control,
    /// It acts on the page.
    Act,
}

/// A tool for one action.
pub(crate) struct ActionTool {
    /// The name without `browser_`.
    pub(crate) action: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    pub(crate) kind: ActionKind,
    schema: fn() -> Value,
    parse: fn(Value) -> Result<PageAction, serde_json::Error>,
}

macro_rules! action_tool {
    ($action:literal, $title:literal, $kind:ident, $description:literal, $args:ty, $make:expr) => {
        ActionTool {
            action: $action,
            title: $title,
            description: $description,
            kind: ActionKind::$kind,
            schema: schema_of::<$args>,
            parse: |arguments| parse_as::<$args>(arguments, $make),
        }
    };
}

/// The tools, in the order of lists.
pub(crate) const ACTIONS: [ActionTool; 24] = [
    action_tool!(
        "navigate",
        "Open a page",
        Open,
        "Navigate to a URL",
        NavigateArgs,
        PageAction::Navigate
    ),
    action_tool!(
        "navigate_back",
        "Go back",
        Open,
        "Go back to the previous page",
        NoArgs,
        |_| PageAction::NavigateBack
    ),
    action_tool!(
        "snapshot",
        "Read the page",
        Read,
        "Capture accessibility snapshot of the current page, this is better than screenshot",
        SnapshotArgs,
        PageAction::Snapshot
    ),
    action_tool!(
        "find",
        "Search the page",
        Read,
        "Search the snapshot of the page for text or a regular expression, which is cheaper than the whole snapshot",
        FindArgs,
        PageAction::Find
    ),
    action_tool!(
        "click",
        "Click",
        Act,
        "Perform click on a web page",
        ClickArgs,
        PageAction::Click
    ),
    action_tool!(
        "hover",
        "Hover",
        Act,
        "Hover over element on page",
        TargetArgs,
        PageAction::Hover
    ),
    action_tool!(
        "drag",
        "Drag",
        Act,
        "Perform drag and drop between two elements",
        DragArgs,
        PageAction::Drag
    ),
    action_tool!(
        "type",
        "Type",
        Act,
        "Type text, or a secret, into editable element",
        TypeArgs,
        PageAction::Type
    ),
    action_tool!(
        "fill_form",
        "Fill in a form",
        Act,
        "Fill multiple form fields",
        FillFormArgs,
        PageAction::FillForm
    ),
    action_tool!(
        "select_option",
        "Select",
        Act,
        "Select an option in a dropdown",
        SelectArgs,
        PageAction::SelectOption
    ),
    action_tool!(
        "press_key",
        "Press a key",
        Act,
        "Press a key on the keyboard",
        PressArgs,
        PageAction::PressKey
    ),
    action_tool!(
        "wait_for",
        "Wait",
        Read,
        "Wait for text to appear or disappear or a specified time to pass",
        WaitArgs,
        PageAction::WaitFor
    ),
    action_tool!(
        "handle_dialog",
        "Answer a dialog",
        Act,
        "Handle a dialog",
        DialogArgs,
        PageAction::HandleDialog
    ),
    action_tool!(
        "file_upload",
        "Upload files",
        Act,
        "Upload files of the workspace",
        UploadArgs,
        PageAction::FileUpload
    ),
    action_tool!(
        "downloads",
        "Downloads",
        Read,
        "List what pages have downloaded, or return one download as a file",
        DownloadArgs,
        PageAction::Downloads
    ),
    action_tool!(
        "tabs",
        "Tabs",
        Open,
        "List, create, close, or select a browser tab.",
        TabsArgs,
        PageAction::Tabs
    ),
    action_tool!(
        "evaluate",
        "Run JavaScript",
        Act,
        "Evaluate JavaScript expression on page or element",
        EvaluateArgs,
        PageAction::Evaluate
    ),
    action_tool!(
        "take_screenshot",
        "Take a screenshot",
        Read,
        "Take a screenshot of the current page. You can't perform actions based on the screenshot, use browser_snapshot for actions.",
        ScreenshotArgs,
        PageAction::Screenshot
    ),
    action_tool!(
        "pdf_save",
        "Save as PDF",
        Read,
        "Return the page as a PDF file",
        PdfArgs,
        PageAction::PdfSave
    ),
    action_tool!(
        "console_messages",
        "Read the console",
        Read,
        "Returns all console messages",
        ConsoleArgs,
        PageAction::ConsoleMessages
    ),
    action_tool!(
        "network_requests",
        "List requests",
        Read,
        "Returns a numbered list of network requests since loading the page",
        RequestsArgs,
        PageAction::NetworkRequests
    ),
    action_tool!(
        "network_request",
        "Show a request",
        Read,
        "Returns headers and body of a single network request",
        RequestArgs,
        PageAction::NetworkRequest
    ),
    action_tool!(
        "resize",
        "Resize",
        Control,
        "Resize the browser window",
        ResizeArgs,
        PageAction::Resize
    ),
    action_tool!(
        "close",
        "Close the browser",
        Control,
        "Close the browser and forget its state",
        NoArgs,
        |_| PageAction::Close
    ),
];

impl ActionTool {
    /// Returns true if the action can save its result in the workspace.
    pub(crate) fn saves_files(&self) -> bool {
        matches!(self.action, "take_screenshot" | "pdf_save")
    }

    /// Returns the schema of the arguments.
    pub(crate) fn input_schema(&self) -> Value {
        (self.schema)()
    }

    /// Reads the arguments, which match the schema.
    pub(crate) fn parse(&self, arguments: Value) -> Result<PageAction, ToolError> {
        (self.parse)(arguments).map_err(|error| ToolError::invalid_input(error.to_string()))
    }

    /// Returns the tool for an action.
    pub(crate) fn find(action: &str) -> Option<&'static ActionTool> {
        ACTIONS.iter().find(|tool| tool.action == action)
    }

    /// Returns the decision if no rule matches: reading is allowed, since each request is decided about on its own, and
    /// acting is assessed by call.
    pub(crate) fn approval(&self) -> Decision {
        match self.kind {
            ActionKind::Read | ActionKind::Open | ActionKind::Control => Decision::Allow,
            ActionKind::Act => Decision::Ask,
        }
    }
}

/// The schemas of the arguments of all tools.
pub(crate) struct ToolSchemas {
    /// In the order of [`ACTIONS`].
    pub(crate) of_actions: Vec<Value>,
    /// The schema of the tool with all actions.
    pub(crate) combined: Value,
}

/// Returns the schemas of all tools, which are built once per process.
pub(crate) fn tool_schemas() -> &'static ToolSchemas {
    static SCHEMAS: LazyLock<ToolSchemas> = LazyLock::new(|| {
        let of_actions: Vec<Value> = ACTIONS.iter().map(ActionTool::input_schema).collect();
        let combined = combined_schema(&of_actions);
        ToolSchemas {
            of_actions,
            combined,
        }
    });
    &SCHEMAS
}

/// Returns the schema of the tool with all actions: `action`, and the arguments of each.
fn combined_schema(of_actions: &[Value]) -> Value {
    let names: Vec<&str> = ACTIONS.iter().map(|tool| tool.action).collect();
    let mut properties = serde_json::Map::new();
    properties.insert(
        "action".to_owned(),
        json!({"type": "string", "enum": names, "description": "What to do"}),
    );
    let arguments = of_actions
        .iter()
        .filter_map(|schema| schema["properties"].as_object());
    for (name, schema) in arguments.flatten() {
        // The operation on tabs; `action` is taken.
        let name = if name == "action" { "operation" } else { name };
        properties.entry(name).or_insert_with(|| schema.clone());
    }
    // `type` is the kind of a picture here.
    json!({"type": "object", "properties": properties, "required": ["action"], "additionalProperties": false})
}

/// Splits the arguments of the combined tool into the tool for the action and its arguments.
pub(crate) fn split_combined(
    mut arguments: Value,
) -> Result<(&'static ActionTool, Value), ToolError> {
    let action = arguments["action"].as_str().unwrap_or_default().to_owned();
    let tool = ActionTool::find(&action).ok_or_else(|| {
        ToolError::invalid_input(format!(
            "`{}` is not an action",
            mimir_core::text::visible(&action)
        ))
    })?;
    if let Some(arguments) = arguments.as_object_mut() {
        arguments.remove("action");
        if let Some(operation) = arguments.remove("operation") {
            arguments.insert("action".to_owned(), operation);
        }
    }
    Ok((tool, arguments))
}

fn parse_as<A: DeserializeOwned>(
    arguments: Value,
    make: impl FnOnce(A) -> PageAction,
) -> Result<PageAction, serde_json::Error> {
    serde_json::from_value(arguments).map(make)
}

/// Returns the schema of a type, in the short form that models need.
fn schema_of<A: JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<A>()
        .to_value();
    if let Some(root) = schema.as_object_mut() {
        root.remove("title");
        root.remove("description");
        root.entry("properties").or_insert_with(|| json!({}));
    }
    simplify(&mut schema);
    schema
}

/// Removes what only describes the Rust type: null as an alternative to leaving an argument out, formats of numbers, and
/// defaults.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.remove("format");
            if object
                .get("default")
                .is_some_and(|value| value.is_null() || value == &json!([]))
            {
                object.remove("default");
            }
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|one| !one.is_null());
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|one| one != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Value::Array(variants)) = object.get_mut("anyOf") {
                variants.retain(|one| one["type"] != "null");
                if let [Value::Object(only)] = variants.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    for (key, value) in only {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            object.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool_arguments::TabsOperation;

    #[test]
    fn schemas_are_plain_and_accept_what_playwright_takes() {
        let click = ActionTool::find("click").unwrap();
        let schema = click.input_schema();
        assert_eq!(schema["required"], json!(["target"]), "{schema}");
        assert_eq!(
            schema["properties"]["button"]["enum"],
            json!(["left", "right", "middle"])
        );
        assert!(!schema.to_string().contains("null"), "{schema}");
        let parsed = click.parse(json!({"target": "e1", "element": "Order", "doubleClick": true}));
        assert!(matches!(
            parsed,
            Ok(PageAction::Click(ClickArgs {
                double_click: Some(true),
                ..
            }))
        ));
        for tool in &ACTIONS {
            assert_eq!(tool.input_schema()["type"], "object", "{}", tool.action);
        }
    }

    #[test]
    fn rules_know_every_tool() {
        let names = ACTIONS.map(|tool| format!("browser_{}", tool.action));
        assert_eq!(names, mimir_core::policy::BROWSER_TOOLS);
    }

    #[test]
    fn combined_tool_has_every_action() {
        let schema = &tool_schemas().combined;
        assert_eq!(
            schema["properties"]["action"]["enum"]
                .as_array()
                .unwrap()
                .len(),
            ACTIONS.len()
        );
        let (tool, arguments) =
            split_combined(json!({"action": "tabs", "operation": "select", "index": 1})).unwrap();
        assert!(matches!(
            tool.parse(arguments),
            Ok(PageAction::Tabs(TabsArgs {
                action: TabsOperation::Select,
                index: Some(1),
                ..
            }))
        ));
        assert!(split_combined(json!({"action": "fly"})).is_err());
    }
}
