//! Tests of stored values, which have the label of the session that stored them.

use super::*;
use crate::outcome::DataClass;

/// Stores its argument `set`, or returns the stored value or the keys.
struct Keeper(tempfile::TempDir);

impl Backend for Keeper {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move {
            let storage = call.storage(self.0.path());
            let key = call.arguments()["key"].as_str().unwrap_or("key").to_owned();
            let done = async {
                if let Some(text) = call.arguments()["set"].as_str() {
                    storage.set(key, text.as_bytes().to_vec()).await?;
                    return Ok("kept".to_owned());
                }
                if call.arguments()["list"] == true {
                    return Ok(storage.keys(String::new()).await?.join(","));
                }
                let value = storage.get(key).await?.unwrap_or_default();
                Ok(String::from_utf8_lossy(&value).into_owned())
            };
            RawResult::from(done.await.map(|text| ToolOutput {
                content: vec![Content::text(text)],
                ..ToolOutput::default()
            }))
        })
    }
}

fn in_session(session: &str, tool: &str, arguments: Value) -> Call {
    let mut call = call(tool, arguments);
    call.context.session_id = session.to_owned();
    call
}

#[tokio::test]
async fn storage_values_have_the_label_they_were_stored_with() {
    let mut keeper = tool("keeper");
    keeper.trust = ToolTrust::Trusted;
    keeper.backend = Arc::new(Keeper(tempfile::tempdir().unwrap()));
    let labels = json!({"outputTrust": "untrusted", "outputDataClass": "sensitive"});
    let config = json!({
        "tools": {
            "reader": { "labels": labels },
            "keeper": { "labels": { "outputTrust": "user" } },
        },
    });
    let bench = bench(vec![tool("reader"), keeper], config, ApprovalAnswer::No);
    let ask = async |session: &str, tool: &str, arguments: Value| {
        bench
            .pipeline
            .call(in_session(session, tool, arguments))
            .await
    };
    // Stored by a session that had read nothing.
    ask("clean", "keeper", json!({"set": "mine"})).await;
    let read = ask("later", "keeper", json!({})).await;
    assert_eq!(
        (read.text().as_str(), read.label().trust),
        ("mine", TrustLevel::User)
    );
    assert_eq!(read.label().data_class, DataClass::Internal);
    // Stored by a session that had read untrusted content.
    ask("tainted", "reader", json!({})).await;
    ask("tainted", "keeper", json!({"set": "theirs"})).await;
    for arguments in [json!({}), json!({"list": true})] {
        let session = arguments.to_string();
        let read = ask(&session, "keeper", arguments).await;
        assert_eq!(read.label().trust, TrustLevel::Untrusted);
        assert_eq!(read.label().data_class, DataClass::Sensitive);
        // The session has read the value, whatever the tool made of it.
        let kept = bench.pipeline.0.sessions.get(&session).label();
        assert_eq!(kept.trust, TrustLevel::Untrusted);
        assert_eq!(kept.origin, "custom:reader");
    }
}

#[tokio::test]
async fn storage_derived_values_of_built_in_tools_stay_untainted() {
    for (source, trust) in [
        (ToolSource::BuiltIn, TrustLevel::User),
        (ToolSource::Custom, TrustLevel::Untrusted),
    ] {
        let mut keeper = tool("keeper");
        keeper.trust = ToolTrust::Trusted;
        keeper.source = source;
        keeper.backend = Arc::new(Keeper(tempfile::tempdir().unwrap()));
        let config = json!({"tools": {
            "reader": { "labels": { "outputTrust": "untrusted" } },
            "keeper": { "labels": { "outputTrust": "user" } },
        }});
        let bench = bench(vec![tool("reader"), keeper], config, ApprovalAnswer::No);
        let ask = async |session: &str, tool: &str, arguments: Value| {
            let call = in_session(session, tool, arguments);
            bench.pipeline.call(call).await.label().trust
        };
        ask("tainted", "reader", json!({})).await;
        let derived = json!({"key": "derived/x", "set": "1"});
        ask("tainted", "keeper", derived).await;
        ask("tainted", "keeper", json!({"key": "words", "set": "2"})).await;
        let read = ask("later", "keeper", json!({"key": "derived/x"})).await;
        assert_eq!(read, trust, "{source:?}");
        let read = ask("latest", "keeper", json!({"key": "words"})).await;
        assert_eq!(read, TrustLevel::Untrusted, "{source:?}");
    }
}
