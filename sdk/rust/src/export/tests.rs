use schemars::JsonSchema;
use serde::Deserialize;

use super::*;
use crate::error::Code;
use crate::needs::Needs;
use crate::tool::{Approval, Risk};

/// Repeats a text.
#[derive(Deserialize, JsonSchema)]
struct Repeat {
    /// The text.
    text: String,
    /// The number of repetitions and the separator.
    how: How,
}

#[derive(Deserialize, JsonSchema)]
struct How {
    times: u8,
}

impl Tool for Repeat {
    type Output = String;
    fn run(self, _cx: &Context) -> Result<String> {
        Ok(self.text.repeat(self.how.times.into()))
    }
}

/// Deletes a thing.
#[derive(Deserialize, JsonSchema)]
struct Forget {
    what: String,
}

impl Tool for Forget {
    type Output = ();
    const NAME: Option<&'static str> = Some("forget_it");
    const RISK: Risk = Risk::High;
    fn needs() -> Needs {
        Needs::none().write(".", "to forget")
    }
    fn run(self, _cx: &Context) -> Result<()> {
        Err(Error::permission_denied(format_args!("not {}", self.what)))
    }
}

impl Assess for Forget {
    fn assess(&self, _cx: &Context) -> Assessment {
        Assessment::ask(format!("forgets {}", self.what)).because("it is gone")
    }
}

static TOOLS: &[Entry] = &[Entry::plain::<Repeat>(), Entry::assessed::<Forget>()];

fn context() -> wit::CallContext {
    wit::CallContext {
        request_id: "r".into(),
        session_id: "s".into(),
        conversation_id: None,
        user: None,
        workspace: "/".into(),
    }
}

#[test]
fn manifest_is_derived_from_the_types() {
    let package = Package {
        name: "demo",
        version: "1.2.3",
        description: "d",
        license: "MIT",
        homepage: "",
    };
    let manifest = describe(&package, TOOLS);
    assert_eq!(
        (manifest.license.as_deref(), manifest.homepage),
        (Some("MIT"), None)
    );
    let [repeat, forget] = &manifest.tools[..] else {
        panic!("two tools")
    };
    assert_eq!(
        (repeat.name.as_str(), repeat.description.as_str()),
        ("repeat", "Repeats a text.")
    );
    assert_eq!(repeat.approval, Approval::Allow.into());
    assert_eq!(forget.name, "forget_it");
    assert_eq!(
        forget.approval,
        Approval::Ask.into(),
        "a tool with needs asks unless it says otherwise"
    );
    assert_eq!(forget.needs.files[0].reason, "to forget");
}

#[test]
fn call_is_dispatched_to_its_tool() {
    let output = call(
        TOOLS,
        "repeat",
        r#"{"text":"ab","how":{"times":2}}"#,
        context(),
    )
    .unwrap();
    assert!(matches!(&output.content[..], [wit::Content::Text(text)] if text == "abab"));
    let error = call(TOOLS, "forget_it", r#"{"what":"me"}"#, context()).unwrap_err();
    assert_eq!(*Error::from(error).code(), Code::PermissionDenied);
}

#[test]
fn call_with_bad_arguments_names_the_path() {
    let error: Error = call(
        TOOLS,
        "repeat",
        r#"{"text":"ab","how":{"times":300}}"#,
        context(),
    )
    .unwrap_err()
    .into();
    assert_eq!(*error.code(), Code::InvalidInput);
    assert_eq!(error.details().unwrap()[0]["path"], "how.times");
    assert!(error.message().starts_with("how.times: "), "{error}");
    for broken in ["", "[]", "{", r#"{"text":"a","how":{"times":1}} x"#] {
        let error: Error = call(TOOLS, "repeat", broken, context()).unwrap_err().into();
        assert_eq!(*error.code(), Code::InvalidInput, "{broken}");
    }
}

#[test]
fn call_of_an_unknown_tool_is_not_found() {
    let error: Error = call(TOOLS, "nope", "{}", context()).unwrap_err().into();
    assert_eq!(*error.code(), Code::NotFound);
}

#[test]
fn assessments_come_from_the_tool_or_its_declaration() {
    let own = assess(TOOLS, "forget_it", r#"{"what":"me"}"#, context());
    assert_eq!((own.summary.as_str(), own.risks.len()), ("forgets me", 1));
    let declared = assess(TOOLS, "repeat", "{}", context());
    assert_eq!(declared.approval, Approval::Allow.into());
    let broken = assess(TOOLS, "forget_it", "{}", context());
    assert_eq!(broken.approval, Approval::Ask.into());
}
