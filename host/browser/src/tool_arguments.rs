//! The arguments of the tools.

use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct NavigateArgs {
    /// The URL to navigate to
    pub(crate) url: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct SnapshotArgs {
    /// Ref or selector of the element to capture; default: the page
    pub(crate) target: Option<String>,
    /// Limit the depth of the snapshot tree
    pub(crate) depth: Option<u32>,
    /// Include each element's box as [box=x,y,width,height]
    pub(crate) boxes: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct FindArgs {
    /// Text to search for, ignoring case
    pub(crate) text: Option<String>,
    /// Regular expression to search for; `/error/i` ignores case
    pub(crate) regex: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ClickArgs {
    /// Ref from the snapshot, such as e12, or a unique CSS selector
    pub(crate) target: String,
    /// Human-readable description of the element
    #[serde(default)]
    pub(crate) element: Option<String>,
    /// Double click
    #[serde(default)]
    pub(crate) double_click: Option<bool>,
    /// Default: left
    #[serde(default)]
    pub(crate) button: Option<MouseButton>,
    /// Modifier keys to hold
    #[serde(default)]
    pub(crate) modifiers: Vec<ModifierKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MouseButton {
    Left,
    Right,
    Middle,
}

impl MouseButton {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
            Self::Middle => "middle",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub(crate) enum ModifierKey {
    Alt,
    Control,
    ControlOrMeta,
    Meta,
    Shift,
}

impl ModifierKey {
    /// The keys of a keyboard.
    pub(crate) const KEYS: [Self; 4] = [Self::Alt, Self::Control, Self::Meta, Self::Shift];

    /// Returns the key with this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let keys = Self::KEYS.into_iter().chain([Self::ControlOrMeta]);
        let mut keys = keys.filter(|key| key.name() == name);
        keys.next()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Alt => "Alt",
            Self::Control => "Control",
            Self::ControlOrMeta => "ControlOrMeta",
            Self::Meta => "Meta",
            Self::Shift => "Shift",
        }
    }

    /// Returns the bit of the key in events.
    pub(crate) fn bit(self) -> u32 {
        match self {
            Self::Alt => 1,
            Self::Control | Self::ControlOrMeta => 2,
            Self::Meta => 4,
            Self::Shift => 8,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct TargetArgs {
    /// Ref from the snapshot, or a unique CSS selector
    pub(crate) target: String,
    /// Human-readable description of the element
    #[serde(default)]
    pub(crate) element: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct DragArgs {
    /// Ref or selector of the element to drag
    pub(crate) start_target: String,
    /// Its human-readable description
    #[serde(default)]
    pub(crate) start_element: Option<String>,
    /// Ref or selector of the element to drop on
    pub(crate) end_target: String,
    /// Its human-readable description
    #[serde(default)]
    pub(crate) end_element: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct TypeArgs {
    /// Ref from the snapshot, or a unique CSS selector
    pub(crate) target: String,
    /// Human-readable description of the element
    #[serde(default)]
    pub(crate) element: Option<String>,
    /// Text to enter, in place of the field's content
    #[serde(default)]
    pub(crate) text: Option<String>,
    /// Name of a secret to enter in place of `text`; you never see its value
    #[serde(default)]
    pub(crate) secret: Option<String>,
    /// Press Enter afterwards
    #[serde(default)]
    pub(crate) submit: Option<bool>,
    /// Press one key after the other, for pages that react to keys
    #[serde(default)]
    pub(crate) slowly: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct FillFormArgs {
    /// Fields to fill in
    pub(crate) fields: Vec<FormField>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct FormField {
    /// Ref from the snapshot, or a unique CSS selector
    pub(crate) target: String,
    /// Human-readable name of the field
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Human-readable description of the element
    #[serde(default)]
    pub(crate) element: Option<String>,
    /// Kind of the field
    #[serde(rename = "type")]
    pub(crate) kind: FieldKind,
    /// Value; true or false for a check box, the text of the option for a combobox
    pub(crate) value: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FieldKind {
    Textbox,
    Checkbox,
    Radio,
    Combobox,
    Slider,
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct SelectArgs {
    /// Ref from the snapshot, or a unique CSS selector
    pub(crate) target: String,
    /// Human-readable description of the element
    #[serde(default)]
    pub(crate) element: Option<String>,
    /// Texts or values of the options to select
    pub(crate) values: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PressArgs {
    /// Name of a key, or a character, such as ArrowLeft, a or Control+a
    pub(crate) key: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct WaitArgs {
    /// Seconds to wait, at most 30
    #[schemars(range(min = 0.0, max = 30.0))]
    pub(crate) time: Option<f64>,
    /// Text to wait for
    pub(crate) text: Option<String>,
    /// Text to wait for to disappear
    pub(crate) text_gone: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct DialogArgs {
    /// True accepts the dialog, false dismisses it
    pub(crate) accept: bool,
    /// Answer to a prompt
    #[serde(default)]
    pub(crate) prompt_text: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct UploadArgs {
    /// Files of the workspace to upload; left out: the file chooser is cancelled
    pub(crate) paths: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct DownloadArgs {
    /// Number of the download to return as a file; left out: lists the downloads
    pub(crate) index: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct TabsArgs {
    /// Operation to perform
    pub(crate) action: TabsOperation,
    /// Tab index, for close and select; close without it closes the current tab
    #[serde(default)]
    pub(crate) index: Option<u32>,
    /// URL to open in the new tab
    #[serde(default)]
    pub(crate) url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TabsOperation {
    List,
    New,
    Close,
    Select,
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct EvaluateArgs {
    /// () => { … }, or (element) => { … } with a target
    pub(crate) function: String,
    /// Ref or selector of the element to pass
    #[serde(default)]
    pub(crate) target: Option<String>,
    /// Its human-readable description
    #[serde(default)]
    pub(crate) element: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ScreenshotArgs {
    /// Ref or selector of the element to show
    pub(crate) target: Option<String>,
    /// Its human-readable description
    pub(crate) element: Option<String>,
    /// Image format; default: png
    #[serde(rename = "type")]
    pub(crate) format: Option<ImageFormat>,
    /// The whole page instead of the window
    pub(crate) full_page: Option<bool>,
    /// File of the workspace to save the image in, besides returning it
    pub(crate) filename: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct PdfArgs {
    /// File of the workspace to save the PDF in, besides returning it
    pub(crate) filename: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ImageFormat {
    Png,
    Jpeg,
    Webp,
}

impl ImageFormat {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Webp => "webp",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ConsoleArgs {
    /// Least severe level to return; default: info
    pub(crate) level: Option<LevelArg>,
    /// Messages of all pages of the tab, not just of this one
    pub(crate) all: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LevelArg {
    Error,
    Warning,
    Info,
    Debug,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RequestsArgs {
    /// Include images, fonts, scripts and the like that succeeded
    #[serde(rename = "static")]
    pub(crate) include_static: Option<bool>,
    /// Only requests whose URL matches this regular expression
    pub(crate) filter: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RequestArgs {
    /// Number of the request in browser_network_requests
    pub(crate) index: u32,
    /// Only this part
    #[serde(default)]
    pub(crate) part: Option<RequestPart>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RequestPart {
    RequestHeaders,
    RequestBody,
    ResponseHeaders,
    ResponseBody,
}

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ResizeArgs {
    /// Width of the window
    #[schemars(range(min = 1, max = 8000))]
    pub(crate) width: u32,
    /// Height of the window
    #[schemars(range(min = 1, max = 8000))]
    pub(crate) height: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NoArgs {}
