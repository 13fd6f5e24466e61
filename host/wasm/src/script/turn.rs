//! What an engine returns when a script has nothing left to compute. The script can write any of it.

use serde::Deserialize;

/// One turn.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Turn {
    /// It is over.
    Done(Told),
    /// It goes on when these are answered, and the ones before them.
    Wishes(Vec<Wish>),
}

/// What a script came to.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Told {
    Text(String),
    /// A result that is longer than it may be.
    TooLarge {},
    Error(Fault),
}

/// What a script threw.
#[derive(Debug, Deserialize)]
pub(super) struct Fault {
    pub name: Option<String>,
    pub message: String,
    pub stack: Option<String>,
    /// What it is, where it is no error.
    pub thrown: Option<String>,
    /// The wish whose failure it is.
    pub wish: Option<u32>,
}

/// Something that a script wants of the outside.
#[derive(Debug, Deserialize)]
pub(super) struct Wish {
    pub id: u32,
    #[serde(flatten)]
    pub kind: Kind,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "of", rename_all = "camelCase")]
pub(super) enum Kind {
    Files(Files),
    Other(Other),
    /// To be answered after a time.
    Sleep {
        millis: f64,
    },
    /// The end of the wish of the same number: nobody waits for its answer.
    Wake,
}

/// Wishes about files.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(super) enum Files {
    Read {
        path: String,
        /// Whether it is wanted as text.
        text: bool,
    },
    Write {
        path: String,
        #[serde(flatten)]
        data: Data,
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

/// Bytes, in one of the two forms that fit into JSON.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Data {
    pub text: Option<String>,
    pub base64: Option<String>,
}

/// Wishes that take their time.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum Other {
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
        data: Data,
    },
    Call {
        name: String,
        args: serde_json::Value,
    },
    Complete {
        prompt: String,
        most: Option<u32>,
    },
    Keep(Keep),
}

/// Wishes about what a tool keeps between calls.
#[derive(Debug, Deserialize)]
#[serde(tag = "how", rename_all = "camelCase")]
pub(crate) enum Keep {
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
