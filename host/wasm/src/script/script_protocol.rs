//! Protocol of script engines: the value that an engine returns when a script cannot continue without results. A script
//! can forge this value.

use serde::Deserialize;

/// The return value of one turn.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ScriptTurn {
    /// The script has ended.
    Done(ScriptResult),
    /// The script continues when these requests are answered, along with earlier ones.
    #[serde(rename = "wishes")]
    Requests(Vec<ScriptRequest>),
}

/// The result of a script.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ScriptResult {
    Text(String),
    /// The result exceeds the size limit.
    TooLarge {},
    Error(ScriptError),
}

/// An error thrown by a script.
#[derive(Debug, Deserialize)]
pub(super) struct ScriptError {
    pub name: Option<String>,
    pub message: String,
    pub stack: Option<String>,
    /// The thrown value, if it is not an `Error`.
    pub thrown: Option<String>,
    /// The number of the request whose failure the script has thrown.
    #[serde(rename = "wish")]
    pub request: Option<u32>,
}

/// A request of a script to the host.
#[derive(Debug, Deserialize)]
pub(super) struct ScriptRequest {
    pub id: u32,
    #[serde(flatten)]
    pub kind: ScriptRequestKind,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "of", rename_all = "camelCase")]
pub(super) enum ScriptRequestKind {
    Files(FileRequest),
    Other(AsyncRequest),
    /// A reply after a delay.
    Sleep {
        millis: f64,
    },
    /// Cancels the request with this number, whose result is not needed any more.
    Wake,
}

/// File requests.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(super) enum FileRequest {
    Read {
        path: String,
        /// True if the content is requested as text.
        text: bool,
    },
    Write {
        path: String,
        #[serde(flatten)]
        data: ByteData,
    },
    Exists {
        path: String,
    },
    List {
        path: String,
    },
    Stat {
        path: String,
    },
    Remove {
        path: String,
        recursive: bool,
    },
    Mkdir {
        path: String,
    },
}

/// Bytes in JSON, as text or as base64.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ByteData {
    pub text: Option<String>,
    pub base64: Option<String>,
}

/// Asynchronous requests.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum AsyncRequest {
    Execute {
        command: String,
        args: Vec<String>,
        cwd: Option<String>,
        timeout: Option<f64>,
        env: Vec<(String, String)>,
        stdin: Option<String>,
    },
    Fetch {
        url: String,
        method: String,
        headers: Vec<(String, String)>,
        #[serde(flatten)]
        data: ByteData,
    },
    Call {
        name: String,
        args: serde_json::Value,
    },
    Complete {
        prompt: String,
        most: Option<u32>,
    },
    Keep(StorageRequest),
}

/// Storage requests.
#[derive(Debug, Deserialize)]
#[serde(tag = "how", rename_all = "camelCase")]
pub(crate) enum StorageRequest {
    Get {
        key: String,
    },
    /// The value is JSON.
    Set {
        key: String,
        value: serde_json::Value,
    },
    Delete {
        key: String,
    },
    Keys {
        prefix: String,
    },
}
