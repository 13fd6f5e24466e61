//! Skills as resources of the server: the extension `io.modelcontextprotocol/skills`.

use std::sync::Arc;

use mimir_core::outcome::{Content, ToolOutput};
use mimir_core::{RawResult, Tool, ToolError};
use mimir_mcp::{ServedSkill, ServedSkillFile, SkillSource};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::kit::{TestServer, fake, tool};

const DOCUMENT: &str = "---\nname: forms\ndescription: Fills forms.\nlicense: MIT\n---\nDo it.\n";
const URI: &str = "skill://forms/SKILL.md";

/// The skills of a test, which it can change.
struct ChangeableSkills(Mutex<Vec<ServedSkill>>);

impl SkillSource for ChangeableSkills {
    fn skills(&self) -> Vec<ServedSkill> {
        self.0.lock().clone()
    }
}

fn forms() -> ServedSkill {
    let file = |path: &str, bytes: &[u8]| ServedSkillFile {
        path: path.to_owned(),
        digest: format!("{:x}", Sha256::digest(bytes)),
        size: bytes.len() as u64,
        mime_type: "text/markdown",
    };
    let frontmatter = json!({"name": "forms", "description": "Fills forms.", "license": "MIT"});
    ServedSkill {
        name: "forms".to_owned(),
        description: "Fills forms.".to_owned(),
        frontmatter: frontmatter.as_object().unwrap().clone(),
        files: vec![
            file("SKILL.md", DOCUMENT.as_bytes()),
            file("assets/logo.bin", &[0xff, 0]),
            file("long.md", b"changed after it was listed"),
        ],
    }
}

/// The tool that reads skills.
fn reader() -> Tool {
    tool(
        "load_skill",
        fake(|call| async move {
            let content = match call.arguments()["file"].as_str() {
                Some("SKILL.md") => Content::text(DOCUMENT),
                Some("assets/logo.bin") => Content::File {
                    data: vec![0xff, 0],
                    mime_type: "application/octet-stream".to_owned(),
                    name: "logo.bin".to_owned(),
                },
                Some("long.md") => Content::text("another text"),
                _ => return RawResult::failed(ToolError::not_found("no such file")),
            };
            RawResult::from(Ok(ToolOutput {
                content: vec![content],
                ..ToolOutput::default()
            }))
        }),
    )
}

fn server(tools: Vec<Tool>, skills: Vec<ServedSkill>) -> (TestServer, Arc<ChangeableSkills>) {
    let skills = Arc::new(ChangeableSkills(Mutex::new(skills)));
    let mut test_server = TestServer::new(tools);
    test_server.server = (test_server.server).with_skills(Arc::clone(&skills) as Arc<_>);
    (test_server, skills)
}

#[tokio::test]
async fn skills_are_declared_listed_and_read_with_their_digests() {
    let (test_server, _) = server(vec![reader()], vec![forms()]);
    let (mut wire, _) = test_server.connect();
    let hello = wire.handshake("2025-11-25", json!({})).await;
    let extensions = &hello["capabilities"]["extensions"];
    let extension = &extensions["io.modelcontextprotocol/skills"];
    assert_eq!(*extension, json!({"directoryRead": true}));
    assert!(hello["capabilities"]["resources"].is_object(), "{hello}");
    assert!(hello["capabilities"].get("prompts").is_none(), "{hello}");
    let listed = wire.request("skills/list", json!({})).await;
    let entry = &listed["result"]["skills"][0];
    assert_eq!(entry["uri"], URI);
    assert_eq!(entry["frontmatter"]["license"], "MIT");
    let got = wire.request("skills/get", json!({"uri": URI})).await;
    assert_eq!(got["result"]["skill"], *entry);
    let read = wire.request("resources/read", json!({"uri": URI})).await;
    let contents = &read["result"]["contents"][0];
    assert_eq!(contents["text"], DOCUMENT);
    assert_eq!(contents["mimeType"], "text/markdown");
    let digest = format!("sha256:{:x}", Sha256::digest(DOCUMENT));
    assert_eq!(entry["resources"][0]["digest"], digest);
    let logo = json!({"uri": "skill://forms/assets/logo.bin"});
    let logo = wire.request("resources/read", logo).await;
    assert_eq!(logo["result"]["contents"][0]["blob"], "/wA=");
    let resources = wire.request("resources/list", json!({})).await;
    let resources = resources["result"]["resources"].as_array().unwrap();
    assert_eq!((resources.len(), &resources[0]["uri"]), (3, &json!(URI)));
    let folder = json!({"uri": "skill://forms/assets"});
    let folder = wire.request("resources/directory/read", folder).await;
    let children = folder["result"]["resources"].as_array().unwrap();
    assert_eq!(children[0]["uri"], "skill://forms/assets/logo.bin");
    // Reads are calls: they are on record.
    assert_eq!(test_server.audit.codes(), [Value::Null, Value::Null]);
}

#[tokio::test]
async fn skills_unknown_or_with_other_content_are_errors() {
    let (test_server, skills) = server(vec![reader()], vec![forms()]);
    let mut wire = test_server.client(json!({})).await;
    for (method, uri, code) in [
        ("skills/get", "skill://other/SKILL.md", -32602),
        ("skills/get", "skill://forms/assets/logo.bin", -32602),
        ("resources/read", "skill://forms/../../etc/passwd", -32002),
        ("resources/read", "skill://forms/none.md", -32002),
        ("resources/directory/read", URI, -32602),
        ("resources/directory/read", "skill://forms/none", -32602),
        // Its content is not the one that its digest promises.
        ("resources/read", "skill://forms/long.md", -32603),
    ] {
        let answer = wire.request(method, json!({ "uri": uri })).await;
        assert_eq!(answer["error"]["code"], code, "{method} {uri}: {answer}");
    }
    // A skill that was changed is not served any more.
    skills.0.lock().clear();
    let answer = wire.request("resources/read", json!({ "uri": URI })).await;
    assert!(answer["error"].is_object(), "{answer}");
}

#[tokio::test]
async fn skills_are_hidden_without_the_tool_that_reads_them() {
    for (tools, skills) in [(vec![], vec![forms()]), (vec![reader()], vec![])] {
        let (test_server, _) = server(tools, skills);
        let (mut wire, _) = test_server.connect();
        let hello = wire.handshake("2025-11-25", json!({})).await;
        assert!(hello["capabilities"].get("resources").is_none(), "{hello}");
        let extension = &hello["capabilities"]["extensions"]["io.modelcontextprotocol/skills"];
        assert!(extension.is_null(), "{hello}");
        let answer = wire.request("skills/list", json!({})).await;
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
}
