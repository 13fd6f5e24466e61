//! Imports of servers from agents' settings.

use serde_json::json;

use super::*;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn import_reads_the_config_format_of_each_agent() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(
        root,
        ".mcp.json",
        r#"{"mcpServers": {"a": {"type": "stdio", "command": "npx", "args": ["x"], "env": {"API_KEY": "plain"}}}}"#,
    );
    write(
        root,
        ".codex/config.toml",
        "model = \"x\"\n[mcp_servers.b]\ncommand = \"b\"\nargs = [\"1\"]\n[mcp_servers.c]\nurl = \"https://c.example/mcp\"\nbearer_token_env_var = \"C_TOKEN\"\n",
    );
    write(
        root,
        ".cursor/mcp.json",
        r#"{"mcpServers": {"d": {"url": "https://d.example", "headers": {"X": "${env:D}"}}, "e f": {"type": "sse", "url": "https://e.example"}}}"#,
    );
    write(
        root,
        ".vscode/mcp.json",
        "{\n // mine\n \"servers\": {\"g\": {\"command\": \"g\", \"disabled\": true, \"args\": [\"//\", \"a,\"],},},\n /* end */}",
    );
    let found: Vec<_> = [
        CodingAgent::Claude,
        CodingAgent::Codex,
        CodingAgent::Cursor,
        CodingAgent::Vscode,
    ]
    .into_iter()
    .flat_map(|agent| {
        let files = settings_files(agent, root, None);
        files.into_iter().flat_map(|(path, own)| {
            assert!(!own, "a project file counts as the user's own");
            let text = std::fs::read_to_string(&path).unwrap();
            let (blocks, inputs) = formats::parse_file(&path, &text, root).unwrap();
            let from = BlockContext {
                place: "x",
                own,
                inputs: &inputs,
                workspace: root,
                home: None,
            };
            let each = blocks.iter();
            each.map(|(name, block)| import_server(name, block, &from))
                .collect::<Vec<_>>()
        })
    })
    .collect();
    let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "e-f", "g"]);
    let hints = found[0].hints().join("\n");
    assert!(
        hints.contains("mimir mcp install a") && hints.contains("`API_KEY`"),
        "{hints}"
    );
    assert_eq!(found[1].block, json!({"command": "b", "args": ["1"]}));
    assert_eq!(
        found[2].block["headers"]["Authorization"],
        "Bearer ${C_TOKEN}"
    );
    assert_eq!(found[3].block["headers"]["X"], "${D}");
    assert!(found[4].fault.is_some());
    assert_eq!(found[5].block["enabled"], false);
    assert_eq!(found[5].block["args"], json!(["//", "a,"]));
    let sound = found.iter().filter(|one| one.fault.is_none());
    assert_eq!(sound.count(), 5);
}
#[test]
fn import_expands_placeholders_and_env_files() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, "server.js", "");
    write(root, ".env", "MODE=fast\nDB_PASSWORD=hunter2\n");
    write(root, "sub/.env", "");
    let outside = tempfile::NamedTempFile::new().unwrap();
    let text = json!({
        "inputs": [{"id": "pin", "password": true}],
        "servers": {
            "a": {"command": "node", "args": ["${workspaceFolder}/server.js"], "envFile": "${workspaceFolder}/.env",
                "env": {"PIN": "${input:pin}", "MODE": "slow"}},
            "b": {"command": "node", "args": ["x"], "cwd": "${workspaceFolder}/sub", "env": {"AT": "${workspaceFolder}"}},
            "c": {"command": "node", "envFile": outside.path()},
            "d": {"command": "node", "envFile": "nowhere.env"},
            "e": {"url": "https://${NOBODY_HAS_THIS:-e.example}/mcp"},
        },
    });
    let (blocks, inputs) = formats::parse_json(&text.to_string(), root).unwrap();
    let from = |own| BlockContext {
        place: "x",
        own,
        inputs: &inputs,
        workspace: root,
        home: None,
    };
    let all: Vec<ImportedServer> = blocks
        .iter()
        .map(|(name, block)| import_server(name, block, &from(false)))
        .collect();
    let a = json!({"command": "node", "args": ["./server.js"], "cwd": ".",
        "env": {"DB_PASSWORD": "${DB_PASSWORD}", "MODE": "slow", "PIN": "${PIN}"}});
    assert_eq!((&all[0].block, &all[0].fault), (&a, &None));
    let hints = all[0].hints().join("\n");
    for name in ["PIN", "DB_PASSWORD"] {
        assert!(
            hints.contains(&format!("mimir secrets set {name}")),
            "{hints}"
        );
    }
    assert!(!hints.contains("hunter2"), "{hints}");
    assert_eq!(all[1].block["cwd"], "sub");
    assert_eq!(all[1].block["env"]["AT"], root.display().to_string());
    // A file outside the project is read only for the user's own settings.
    let fault = all[2].fault.as_ref().unwrap();
    assert!(fault.contains("not in the project"), "{fault}");
    let own = import_server("c", &blocks[2].1, &from(true));
    assert_eq!(own.fault, None);
    assert!(
        all[3].hints[0].contains("cannot be read"),
        "{:?}",
        all[3].hints
    );
    assert_eq!(all[4].block["url"], "https://e.example/mcp");
}

/// Imports servers from a file in Claude's format.
fn import_claude(place: &str, root: &Path, servers: Value) -> Vec<ImportedServer> {
    import_json(place, root, &json!({ "mcpServers": servers }))
}

/// Imports the servers of a JSON file.
fn import_json(place: &str, root: &Path, file: &Value) -> Vec<ImportedServer> {
    let (blocks, inputs) = formats::parse_json(&file.to_string(), root).unwrap();
    let from = BlockContext {
        place,
        own: true,
        inputs: &inputs,
        workspace: root,
        home: None,
    };
    let each = blocks.iter();
    each.map(|(name, block)| import_server(name, block, &from))
        .collect()
}

#[test]
fn import_refuses_plain_text_secrets_in_arguments_and_urls() {
    let folder = tempfile::tempdir().unwrap();
    let token = "ghp_Zx8Kq2Lm9Rt4Vw7Yp3Bn6Hc1Jd5Fs0Ga2QeU";
    for (secret, block) in [
        (token, json!({"command": "node", "args": ["s.js", token]})),
        (
            "abc",
            json!({"command": "node", "args": ["--token", "abc"]}),
        ),
        (
            "hunter2",
            json!({"command": "node", "args": ["--password=hunter2"]}),
        ),
        (
            "hunter2",
            json!({"command": "node", "args": ["postgresql://bob:hunter2@db.example/x"]}),
        ),
        (
            "Zx8Kq2",
            json!({"command": "node", "args": ["--header", "Authorization: Bearer Zx8Kq2"]}),
        ),
        // The expanded placeholder makes the argument a secret.
        (
            "Zx8Kq2",
            json!({"command": "node", "args": ["--header", "Authorization: Bearer ${NOBODY_HAS_MYWORD:-Zx8Kq2}"]}),
        ),
        (
            "Zx8Kq2",
            json!({"command": "node", "args": ["--token", "${NOBODY_HAS_MYWORD:-Zx8Kq2}"]}),
        ),
        (
            "abcdef",
            json!({"url": "https://x.example/mcp?token=abcdef"}),
        ),
        (
            "hunter2",
            json!({"url": "https://bob:hunter2@x.example/mcp"}),
        ),
    ] {
        let one = import_claude("x", folder.path(), json!({ "a": block })).remove(0);
        let fault = one.fault.clone().unwrap_or_default();
        assert!(
            fault.contains("plain-text secret") && fault.contains("${NAME}"),
            "{block}: {fault}"
        );
        let shown =
            server_card::block_lines(&one.block).join("\n") + &fault + &one.hints().join("\n");
        assert!(!shown.contains(secret), "{shown}");
    }
    for block in [
        json!({"command": "node", "args": ["--sort", "key", "--key-file", "/etc/x.pem", "-p", "80"]}),
        json!({"url": "https://x.example/mcp?mode=fast"}),
    ] {
        let one = import_claude("x", folder.path(), json!({ "a": block })).remove(0);
        assert_eq!(one.fault, None);
    }
}

#[test]
fn import_gives_different_secrets_different_names() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let with = |env: Value| json!({"command": "node", "env": env});
    let mut all = import_claude(
        "one",
        root,
        json!({
            "twin1": with(json!({"API_KEY": "key-of-one"})),
            "twin2": with(json!({"API_KEY": "key-of-two", "SHARED_TOKEN": "same"})),
            "third": with(json!({"SHARED_TOKEN": "same", "OLD_TOKEN": "x", "VAR": "${MY_TOKEN}"})),
            "inner": with(json!({"apiKey": "a", "APIKEY": "b"})),
        }),
    );
    let ask = |place: &str| {
        let file = json!({"inputs": [{"id": "token", "password": true}],
            "servers": {place: with(json!({"T": "${input:token}"}))}});
        import_json(place, root, &file)
    };
    all.extend(["asks-one", "asks-two"].into_iter().flat_map(ask));
    let used = ["OLD_TOKEN", "MY_TOKEN"].map(str::to_owned).into();
    rename_conflicting(&mut all.iter_mut().collect::<Vec<_>>(), &used);
    let env = |name: &str| {
        let one = all.iter().find(|one| one.name == name).unwrap();
        (one.block["env"].clone(), one.hints().join("\n"))
    };
    let (block, hints) = env("twin1");
    assert_eq!(block, json!({"API_KEY": "${TWIN1_API_KEY}"}));
    assert!(hints.contains("mimir secrets set TWIN1_API_KEY"), "{hints}");
    assert_eq!(
        env("twin2").0,
        json!({"API_KEY": "${TWIN2_API_KEY}", "SHARED_TOKEN": "${SHARED_TOKEN}"})
    );
    // A name that a configured server uses is not given to another secret; a variable keeps its name.
    assert_eq!(
        env("third").0,
        json!({"SHARED_TOKEN": "${SHARED_TOKEN}", "OLD_TOKEN": "${THIRD_OLD_TOKEN}", "VAR": "${MY_TOKEN}"})
    );
    let inner = env("inner").0;
    assert_ne!(inner["apiKey"], inner["APIKEY"]);
    assert_eq!(env("asks-one").0, json!({"T": "${ASKS_ONE_TOKEN}"}));
    assert_eq!(env("asks-two").0, json!({"T": "${ASKS_TWO_TOKEN}"}));
}

#[test]
fn import_parse_errors_name_the_line_or_key() {
    let root = Path::new("/nowhere");
    let json = Path::new("x.json");
    for (path, text, words) in [
        (json, "{\n /* a\n */ \"a\": 1,\n \"b\": }", "line 4"),
        (json, "{\"mcpServers\": [1]}", "`mcpServers`"),
        (Path::new("x.toml"), "a = 1\ntoken = ghp_x y\n", "line 2"),
        (Path::new("x.toml"), "mcp_servers = 3\n", "`mcp_servers`"),
    ] {
        let why = formats::parse_file(path, text, root).unwrap_err();
        assert!(why.contains(words) && !why.contains("ghp_x"), "{why}");
    }
    let fine = "\u{feff}{\"mcpServers\": {\"a\": {\"args\": [\",]\", 1 , /* x */ ], }, }, }";
    let (blocks, _) = formats::parse_file(json, fine, root).unwrap();
    assert_eq!(blocks[0].1, json!({"args": [",]", 1]}));
    assert!(formats::parse_file(json, " ", root).unwrap().0.is_empty());
}

#[test]
fn import_skips_mimir_itself() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = json!({"mcpServers": {
        "mimir": {"command": "/usr/local/bin/mimir", "args": ["serve", "-C", "/x"]},
        "other": {"command": "mimir-other", "args": ["serve"]},
    }});
    std::fs::write(folder.path().join(".mcp.json"), theirs.to_string()).unwrap();
    let found = find_servers(folder.path(), Some(crate::args::CodingAgent::Claude));
    let names = found.servers.iter().filter(|one| !one.own);
    let names: Vec<&str> = names.map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["other"]);
}
