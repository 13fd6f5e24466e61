use super::*;
use clap::Parser as _;
use serde_json::{Value, json};

/// The options of a command line.
fn args(words: &[&str]) -> McpAddArgs {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        add: McpAddArgs,
    }
    let words = ["x", "--registry", "io.example/files"]
        .into_iter()
        .chain(words.iter().copied());
    Line::try_parse_from(words).unwrap().add
}

/// The options after a server of the registry was looked up, while the secret `STORED` is stored.
fn complete(server: Value, words: &[&str]) -> Result<(McpAddArgs, Vec<String>), ToolError> {
    let entry: RegistryEntry = serde_json::from_value(server).unwrap();
    let is_stored = |name: &str| name == "STORED";
    let mut inputs = ServerInputs::new(&is_stored);
    let args = entry.complete(args(words), &mut inputs)?;
    Ok((args, inputs.missing_secrets))
}

fn npm(more: Value) -> Value {
    let mut package = json!({
        "registryType": "npm", "identifier": "@example/files", "version": "1.2.3",
        "transport": {"type": "stdio"},
    });
    for (key, value) in more.as_object().unwrap() {
        package[key] = value.clone();
    }
    json!({"name": "io.example/files", "version": "1.2.3", "packages": [package]})
}

#[test]
fn registry_package_becomes_a_pinned_command_with_secrets_by_name() {
    let server = npm(json!({
        "packageArguments": [
            {"type": "named", "name": "--mode", "value": "stdio"},
            {"type": "positional", "valueHint": "dir", "isRequired": true},
            {"type": "named", "name": "--verbose"},
        ],
        "environmentVariables": [
            {"name": "API_KEY", "isRequired": true, "isSecret": true, "default": "ignored"},
            {"name": "STORED", "isSecret": true},
            {"name": "OTHER_KEY", "isSecret": true},
            {"name": "REGION", "default": "eu"},
            {"name": "LEVEL"},
        ],
    }));
    let error = complete(server.clone(), &[]).unwrap_err();
    assert!(
        error.message.contains("`dir`") && error.remedies[0].contains("--"),
        "{error:?}"
    );
    let (added, missing) = complete(server, &["--env", "REGION=us", "--", "."]).unwrap();
    assert_eq!(added.name.as_deref(), Some("files"));
    assert_eq!(
        added.command,
        ["npx", "-y", "@example/files@1.2.3", "--mode", "stdio", "."]
    );
    let env: Vec<String> = added
        .env
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    // A stored secret is not picked up for an optional variable.
    assert_eq!(env, ["REGION=us", "API_KEY=${API_KEY}"]);
    assert_eq!(missing, ["API_KEY"]);
    let python = json!({"name": "io.example/files", "packages": [
        {"registryType": "pypi", "identifier": "files", "version": "1.0"}]});
    assert_eq!(
        complete(python, &[]).unwrap().0.command,
        ["uvx", "files==1.0"]
    );
}

#[test]
fn registry_package_takes_no_headers() {
    let error = complete(npm(json!({})), &["--header", "X-Key=1"]).unwrap_err();
    assert!(error.message.contains("--env"), "{error:?}");
}

#[test]
fn registry_package_that_cannot_be_pinned_or_confined_is_refused() {
    for (more, words) in [
        (json!({"version": "latest"}), "pinned"),
        (json!({"version": null}), "pinned"),
        (json!({"identifier": "--registry=http://evil"}), "not valid"),
        (json!({"identifier": "a b"}), "not valid"),
        (
            json!({"registryBaseUrl": "https://evil.example"}),
            "evil.example",
        ),
        (
            json!({"runtimeArguments": [{"type": "named", "name": "--node-options", "value": "x"}]}),
            "runner",
        ),
        (
            json!({"packageArguments": [{"type": "named", "name": "--key", "isSecret": true}]}),
            "secret",
        ),
        (
            json!({"packageArguments": [{"type": "positional", "value": "${HOME_KEY}"}]}),
            "refers to",
        ),
        (
            json!({"packageArguments": [{"type": "named", "name": "--a=${KEY}", "value": "x"}]}),
            "refers to",
        ),
        (
            json!({"packageArguments": [{"type": "positional", "value": "{x}", "variables": {"x": {"value": "${KEY}"}}}]}),
            "refers to",
        ),
        (
            json!({"environmentVariables": [{"name": "A", "value": "{x}", "variables": {"x": {"default": "${KEY}"}}}]}),
            "refers to",
        ),
        (
            json!({"environmentVariables": [{"name": "A", "value": "{x}{y}", "variables": {"x": {"value": "$"}, "y": {"value": "{KEY}"}}}]}),
            "refers to",
        ),
        (
            json!({"environmentVariables": [{"name": "A", "value": "${x}", "variables": {"x": {"value": "KEY"}}}]}),
            "refers to",
        ),
        (
            json!({"environmentVariables": [{"name": "A", "default": "${KEY"}]}),
            "refers to",
        ),
        (json!({"registryType": "nuget"}), "nuget"),
        (json!({"registryType": "oci"}), "container image"),
        (
            json!({"environmentVariables": [{"name": "A=B", "value": "x"}]}),
            "not valid",
        ),
        (
            json!({"environmentVariables": [{"name": "STEAL", "value": "${GITHUB_TOKEN}"}]}),
            "GITHUB_TOKEN",
        ),
        (
            json!({"environmentVariables": [{"name": "REGION", "isRequired": true, "description": "where"}]}),
            "where",
        ),
    ] {
        let error = complete(npm(more.clone()), &[]).unwrap_err();
        assert!(error.message.contains(words), "{more}: {error}");
        assert!(!error.remedies.is_empty(), "{more}");
    }
    let image = npm(
        json!({"registryType": "oci", "identifier": "ghcr.io/example/files",
        "environmentVariables": [{"name": "REGION", "value": "eu"}]}),
    );
    let (added, _) = complete(image.clone(), &["--sandbox", "none"]).unwrap();
    let words = [
        "docker",
        "run",
        "-i",
        "--rm",
        "-e",
        "REGION",
        "ghcr.io/example/files:1.2.3",
    ];
    assert_eq!(added.command, words);
    for name in [
        "DOCKER_HOST",
        "LD_PRELOAD",
        "DYLD_INSERT_LIBRARIES",
        "PATH",
        "HOME",
        "https_proxy",
        "NODE_OPTIONS",
        "PYTHONSTARTUP",
    ] {
        let mut other = image.clone();
        other["packages"][0]["environmentVariables"][0]["name"] = name.into();
        let error = complete(other.clone(), &["--sandbox", "none"]).unwrap_err();
        assert!(error.message.contains(name), "{error}");
        // The person may set it.
        let own = format!("{name}=x");
        assert!(complete(other, &["--sandbox", "none", "--env", &own]).is_ok());
    }
}

#[test]
fn registry_remote_server_gets_its_headers_and_url() {
    let server = json!({"name": "io.example/files", "remotes": [
        {"type": "sse", "url": "https://old.example"},
        {"type": "streamable-http", "url": "https://{region}.example/mcp",
            "variables": {"region": {"default": "eu"}},
            "headers": [
                {"name": "Authorization", "value": "Bearer {token}", "isSecret": true,
                    "variables": {"token": {"isSecret": true, "isRequired": true}}},
                {"name": "X-Team", "isRequired": true},
            ]},
    ]});
    let error = complete(server.clone(), &[]).unwrap_err();
    assert!(
        error.remedies[0].contains("--header 'X-Team=VALUE'"),
        "{error:?}"
    );
    let (added, missing) = complete(server.clone(), &["--header", "X-Team=a"]).unwrap();
    assert_eq!(added.url.as_deref(), Some("https://eu.example/mcp"));
    let headers = [("X-Team", "a"), ("Authorization", "Bearer ${TOKEN}")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(added.headers, headers);
    assert_eq!(missing, ["TOKEN"]);
    assert!(complete(server, &["--", "word"]).is_err());
    for value in ["${GITHUB_TOKEN}", "$", "{"] {
        for mut remote in [
            json!({"url": "https://{x}.example", "variables": {"x": {"value": value}}}),
            json!({"url": "https://a.example", "headers": [{"name": "X-A", "value": value}]}),
            json!({"url": "https://a.example", "headers": [
                {"name": "X-A", "value": "{x}", "variables": {"x": {"default": value}}}]}),
        ] {
            remote["type"] = "streamable-http".into();
            let server = json!({"name": "io.example/files", "remotes": [remote]});
            let error = complete(server.clone(), &[]).unwrap_err();
            assert!(error.message.contains("refers to"), "{server}: {error}");
        }
    }
}
