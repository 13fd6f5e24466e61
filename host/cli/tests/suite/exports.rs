//! `mimir tools export`, and the components that it writes: started by `mimir serve --tools-from`, called by `mimir call
//! --tools-from`, added from folders.

use std::fs;
use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use crate::kit::agent::Agent;
use crate::kit::modules::built;
use crate::kit::{config, mimir, plugin, run};

/// A plugin whose tools need nothing, and a folder, a secret and a variable.
const KIT: &str = r#"
export const shout = {
  description: "Writes a text in capital letters.\nSecond line.",
  inputSchema: { type: "object", properties: { text: { type: "string", description: "The | text" } }, required: ["text"] },
  needsApproval: false,
  execute: ({ text }) => text.toUpperCase(),
};
export const firstLine = {
  description: "Reads the first line of a file.",
  inputSchema: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
  needs: {
    files: ["."],
    hosts: ["api.example.com"],
    secrets: [{ name: "SITE_KEY", host: "api.example.com", header: "Authorization" }],
    variables: ["REGION"],
  },
  needsApproval: false,
  execute: async ({ path }, { platform }) => (await platform.fs.readFile(path)).split("\n")[0],
};
"#;

const FORMATS: [&str; 8] = [
    "--oci",
    "out/oci",
    "--mcpb",
    "out/mcpb",
    "--claude-plugin",
    "out/plugin",
    "--skill",
    "out/kit",
];

/// A workspace with the plugin, and another one in which nothing is installed.
fn workspaces() -> (TempDir, TempDir) {
    let author = built(KIT);
    let user = tempfile::tempdir().unwrap();
    fs::write(user.path().join("notes.txt"), "first\nsecond\n").unwrap();
    (author, user)
}

fn done(home: &Path, args: &[&str]) -> Value {
    let (code, out, err) = run(home, &[args, &["--json"]].concat());
    assert_eq!(code, 0, "{args:?}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{args:?}: {out}{err}"))
}

fn export(home: &Path, more: &[&str]) -> Value {
    done(home, &[&["tools", "export", "shout"], more].concat())
}

fn read_json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap()
}

fn sha256(path: &Path) -> String {
    format!("{:x}", Sha256::digest(fs::read(path).unwrap()))
}

/// The only file in a folder with this extension.
fn only_file(folder: &Path, extension: &str) -> PathBuf {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let mut files = entries.map(|entry| entry.path());
    files
        .find(|path| path.extension().is_some_and(|found| found == extension))
        .unwrap_or_else(|| panic!("{folder:?} has no .{extension}"))
}

fn unzip(bundle: &Path) -> zip::ZipArchive<Cursor<Vec<u8>>> {
    zip::ZipArchive::new(Cursor::new(fs::read(bundle).unwrap())).unwrap()
}

fn entry(archive: &mut zip::ZipArchive<Cursor<Vec<u8>>>, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    archive
        .by_name(name)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}

/// Starts a server of the components in a folder.
fn serve(home: &Path, folder: &Path) -> Agent {
    let mut command = mimir(home, &["serve", "--tools-from"]);
    command
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut agent = Agent::attach(command.stderr(Stdio::piped()).spawn().unwrap());
    agent.hello(json!({}));
    agent
}

fn listed(agent: &mut Agent) -> Vec<String> {
    let answer = agent.request("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn export_formats_have_the_same_component() {
    let (author, _) = workspaces();
    let home = author.path();
    let installed = sha256(&only_file(&home.join(".mimir/tools"), "wasm"));
    let report = export(home, &[&FORMATS[..], &["--author", "Ada"]].concat());
    assert_eq!(report["digest"], json!(installed));
    let out = home.join("out");

    let index = read_json(&out.join("oci/index.json"));
    let blob = |digest: &Value| {
        let (_, hex) = digest.as_str().unwrap().split_once(':').unwrap();
        out.join("oci/blobs/sha256").join(hex)
    };
    let entry_digest = &index["manifests"][0]["digest"];
    assert_eq!(*entry_digest, report["exported"]["oci"]["manifest"]);
    let manifest = read_json(&blob(entry_digest));
    assert_eq!(
        manifest["layers"][0]["digest"],
        json!(format!("sha256:{installed}"))
    );
    for blob_of in [
        entry_digest,
        &manifest["config"]["digest"],
        &manifest["layers"][0]["digest"],
    ] {
        assert_eq!(format!("sha256:{}", sha256(&blob(blob_of))), *blob_of);
    }

    let bundle = only_file(&out.join("mcpb"), "mcpb");
    assert_eq!(json!(sha256(&bundle)), report["exported"]["mcpb"]["sha256"]);
    let mut archive = unzip(&bundle);
    let manifest: Value = serde_json::from_slice(&entry(&mut archive, "manifest.json")).unwrap();
    let component = manifest["server"]["entry_point"].as_str().unwrap();
    assert_eq!(
        format!("{:x}", Sha256::digest(entry(&mut archive, component))),
        installed
    );
    assert_eq!(manifest["author"]["name"], "Ada");
    let names: Vec<_> = manifest["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| &tool["name"])
        .collect();
    assert_eq!(names, ["first_line", "shout"]);
    let (config, environment) = (
        &manifest["user_config"],
        &manifest["server"]["mcp_config"]["env"],
    );
    assert_eq!(config["secret_site_key"]["sensitive"], json!(true));
    assert_eq!(
        environment["MIMIR_SECRETS__SITE_KEY__ENV"],
        "SECRET_SITE_KEY"
    );
    assert_eq!(
        environment["SECRET_SITE_KEY"],
        "${user_config.secret_site_key}"
    );
    assert_eq!(environment["REGION"], "${user_config.variable_region}");

    let plugin = out.join("plugin");
    assert_eq!(sha256(&only_file(&plugin.join("tools"), "wasm")), installed);
    let name = read_json(&plugin.join(".claude-plugin/plugin.json"))["name"].clone();
    let servers = read_json(&plugin.join(".mcp.json"));
    let server = &servers["mcpServers"][name.as_str().unwrap()];
    assert_eq!(
        server["args"],
        json!(["serve", "--tools-from", "${CLAUDE_PLUGIN_ROOT}/tools"])
    );

    let skill = out.join("kit");
    assert_eq!(sha256(&only_file(&skill.join("tools"), "wasm")), installed);
    let text = fs::read_to_string(skill.join("SKILL.md")).unwrap();
    for part in [
        "---\nname: kit\n",
        "allowed-tools: \"Bash(mimir call --approve ask --tools-from:*)\"\n",
        "mimir call --approve ask --tools-from SKILL_DIR/tools shout text=TEXT\n",
        "| `text` | string | The \\| text |",
        "- read the workspace",
        "mimir secrets set SITE_KEY",
        &installed,
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let reference = read_json(&skill.join("references/shout.json"));
    assert_eq!(reference["inputSchema"]["required"], json!(["text"]));
    // Another export has the same bytes, so nothing is replaced.
    assert_eq!(
        export(home, &[&FORMATS[..], &["--author", "Ada"]].concat()),
        report
    );
}

#[test]
fn export_writes_all_formats_or_none() {
    let (author, _) = workspaces();
    let home = author.path();
    let own = home.join("out/plugin/README.md");
    fs::create_dir_all(own.parent().unwrap()).unwrap();
    fs::write(&own, "mine").unwrap();
    let args = [&["tools", "export", "shout"], &FORMATS[..]].concat();
    let (code, _, err) = run(home, &args);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("README.md") && err.contains("--force"),
        "{err}"
    );
    let written: Vec<_> = fs::read_dir(home.join("out")).unwrap().flatten().collect();
    assert_eq!(written.len(), 1, "{written:?}");
    assert_eq!(fs::read_to_string(&own).unwrap(), "mine");
    export(home, &[&FORMATS[..], &["--force"]].concat());
    assert_ne!(fs::read_to_string(&own).unwrap(), "mine");
    // The name of a skill is that of its folder.
    let (code, _, err) = run(
        home,
        &["tools", "export", "shout", "--skill", "out/My_Skill"],
    );
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("the folder of a skill") && !home.join("out/My_Skill").exists(),
        "{err}"
    );
}

#[test]
fn export_of_other_tools_is_refused() {
    let (author, _) = workspaces();
    let home = author.path();
    let script =
        "name: lines\ndescription: b\nschema: {type: object}\ncode: 'export default () => 1'\n";
    fs::write(home.join(".mimir/tools/lines.yml"), script).unwrap();
    for (name, part) in [
        ("read_file", "only components"),
        ("lines", "only components"),
        ("nothing", "unknown tool"),
    ] {
        let (code, _, err) = run(home, &["tools", "export", name, "--oci", "out"]);
        assert!(code == 2 && err.contains(part), "{name}: {code} {err}");
    }
    let (code, _, err) = run(home, &["tools", "export", "shout"]);
    assert!(code == 2 && err.contains("--mcpb"), "{err}");
    let entry = ["tools", "export", "shout", "--server-json", "out"];
    let (code, _, err) = run(home, &entry);
    assert!(code == 2 && err.contains("--bundle-url"), "{err}");
    assert!(!home.join("out").exists());
}

#[test]
fn export_of_a_registry_entry_names_the_bundle() {
    let (author, _) = workspaces();
    let home = author.path();
    let url = "https://example.com/kit.mcpb";
    export(
        home,
        &[
            "--mcpb",
            "out",
            "--server-json",
            "out",
            "--server-name",
            "com.example/kit",
            "--bundle-url",
            url,
        ],
    );
    let bundle = only_file(&home.join("out"), "mcpb");
    let entry = read_json(&home.join("out/server.json"));
    let package = &entry["packages"][0];
    assert_eq!(package["fileSha256"], json!(sha256(&bundle)));
    assert_eq!(package["identifier"], url);
    assert_eq!(entry["name"], "com.example/kit");
}

#[test]
fn bundle_server_has_only_its_tools_and_asks_for_rights() {
    let (author, user) = workspaces();
    export(author.path(), &["--claude-plugin", "out"]);
    let folder = author.path().join("out/tools");
    let home = user.path();
    let mut agent = serve(home, &folder);
    assert_eq!(listed(&mut agent), ["first_line", "shout"]);
    let text = |result: &Value| result["content"][0]["text"].as_str().unwrap().to_owned();
    // `shout` is in a component with needs, so a person has to grant them first.
    let first = json!({"path": "notes.txt"});
    for (tool, arguments) in [("first_line", &first), ("shout", &json!({"text": "a"}))] {
        let refused = agent.call(tool, arguments.clone());
        assert_eq!(
            refused["_meta"]["mimir/outcome"]["code"], "APPROVAL_DENIED",
            "{refused}"
        );
    }
    let unknown = agent.request(
        "tools/call",
        json!({"name": "read_file", "arguments": first}),
    );
    let unknown = unknown.to_string();
    assert!(
        unknown.contains("unknown tool") || unknown.contains("NOT_FOUND"),
        "{unknown}"
    );

    let component = only_file(&folder, "wasm");
    let component = component.to_str().unwrap();
    let (code, _, err) = run(home, &["tools", "trust", component]);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("read the workspace"), "{err}");
    let digest = sha256(Path::new(component));
    // The command of the server's message works in any folder.
    let elsewhere = tempfile::tempdir().unwrap();
    let (root, trust) = (home.to_str().unwrap(), ["tools", "trust", component]);
    let args = [&["-C", root], &trust[..], &["--digest", &digest]].concat();
    let mut command = mimir(elsewhere.path(), &args);
    let trusted = command.env("MIMIR_CONFIG_DIR", config(home)).output();
    assert!(trusted.unwrap().status.success());
    // The running server has the grant at once.
    let called = text(&agent.call("first_line", first.clone()));
    assert!(called.contains("\nfirst\n"), "{called}");
    let (_, output) = agent.wait_for_exit();
    assert!(
        output.contains("mimir -C ")
            && output.contains(" tools trust ")
            && output.contains(".wasm"),
        "{output}"
    );

    // Another workspace has no grant, and neither has another component in the same place.
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("notes.txt"), "first\n").unwrap();
    let call = |home: &Path| {
        let args = [
            "call",
            "--tools-from",
            folder.to_str().unwrap(),
            "first_line",
            "path=notes.txt",
        ];
        run(home, &args)
    };
    assert_eq!(call(home).0, 0);
    assert_eq!(call(other.path()).0, 3);
    let mut bytes = fs::read(component).unwrap();
    bytes.extend([0, 3, 1, b'x', 1]);
    fs::write(component, bytes).unwrap();
    assert_eq!(call(home).0, 3);
}

#[test]
fn bundle_component_does_not_take_the_name_of_a_built_in_tool() {
    let user = tempfile::tempdir().unwrap();
    let home = user.path();
    let bundle = tempfile::tempdir().unwrap();
    let mut search = plugin::search();
    plugin::swap(&mut search, b"ProbSearch", b"FileSearch");
    fs::write(bundle.path().join("search.wasm"), search).unwrap();
    fs::write(home.join("notes.txt"), "secret").unwrap();
    // The rule is about the built-in tool.
    run(home, &["init"]);
    run(
        home,
        &["config", "set", "tools.file_search.approval", "allow"],
    );
    let mut agent = serve(home, bundle.path());
    assert_eq!(listed(&mut agent), [""; 0]);
    let folder = bundle.path().to_str().unwrap();
    let call = [
        "call",
        "--tools-from",
        folder,
        "file_search",
        "mode=glob",
        "query=*",
    ];
    let (code, out, err) = run(home, &call);
    assert!(code == 2 && !out.contains("notes.txt"), "{code} {out}{err}");
    assert!(err.contains("left out"), "{err}");
}

#[test]
fn skill_command_cannot_approve_itself() {
    let (author, user) = workspaces();
    export(author.path(), &["--skill", "out/kit"]);
    let folder = author.path().join("out/kit/tools");
    let folder = folder.to_str().unwrap();
    let allowed = [
        "call",
        "--approve",
        "ask",
        "--tools-from",
        folder,
        "first_line",
        "path=notes.txt",
    ];
    let (code, _, err) = run(user.path(), &allowed);
    assert_eq!(code, 3, "{err}");
    let (code, _, err) = run(
        user.path(),
        &[&allowed[..], &["--approve", "always"]].concat(),
    );
    assert!(
        code == 2 && err.contains("cannot be used multiple times"),
        "{err}"
    );
    let (code, _, err) = run(
        user.path(),
        &["call", "--tools-from", "nowhere", "shout", "text=a"],
    );
    assert!(code != 0 && err.contains("nowhere"), "{err}");
}

#[test]
fn exported_folder_is_added_again_with_the_same_digest() {
    let (author, user) = workspaces();
    let report = export(author.path(), &FORMATS);
    let out = author.path().join("out");
    for folder in ["oci", "plugin", "kit"] {
        let folder = out.join(folder);
        let added = done(
            user.path(),
            &["tools", "add", "--force", folder.to_str().unwrap()],
        );
        assert_eq!(added["digest"], report["digest"], "{folder:?}");
    }
    // As a skill, with its component and the command that it requests.
    let skill = out.join("kit");
    let added = done(user.path(), &["skills", "add", skill.to_str().unwrap()]);
    assert_eq!(added["added"], "kit");
    let request = added["requests"][0]["meaning"].as_str().unwrap();
    assert!(request.starts_with("commands `mimir call"), "{request}");
    // A changed blob has another digest than its name.
    let digest = report["digest"].as_str().unwrap();
    let blob = out.join("oci/blobs/sha256").join(digest);
    let mut bytes = fs::read(&blob).unwrap();
    bytes.extend([0, 3, 1, b'x', 1]);
    fs::write(&blob, bytes).unwrap();
    let tampered = out.join("oci");
    let (code, _, err) = run(
        user.path(),
        &["tools", "add", "--force", tampered.to_str().unwrap()],
    );
    assert!(code == 3 && err.contains("digest mismatch"), "{code} {err}");
    let sources = author.path().join("sources");
    fs::create_dir(&sources).unwrap();
    fs::write(sources.join("tools.ts"), KIT).unwrap();
    let (code, _, err) = run(user.path(), &["tools", "add", sources.to_str().unwrap()]);
    assert!(
        code == 1 && err.contains("mimir tools build"),
        "{code} {err}"
    );
}
