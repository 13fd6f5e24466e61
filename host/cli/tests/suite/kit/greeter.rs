//! A third-party MCP server that greets and counts its starts.

use std::path::Path;

use serde_json::Value;

use crate::kit::run;

/// A server as a shell script: it greets the given name, and reports what it was given.
pub const SERVER: &str = r#"#!/bin/sh
echo started >> started.log
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*)
      version=${line#*\"protocolVersion\":\"}; version=${version%%\"*}
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":\"$version\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"greeter\",\"version\":\"3\"}}}" ;;
    *'"method":"tools/list"'*)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"tools\":[{\"name\":\"greet\",\"description\":\"DESCRIPTION\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}}}}]}}" ;;
    *'"method":"tools/call"'*)
      home=$(ls "$HOME" 2>/dev/null | wc -l)
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"hello from $WHO, HIDDEN=$HIDDEN\"}]}}" ;;
  esac
done
"#;

/// A workspace with the server; `description` is that of its tool.
pub fn workspace(description: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    assert_eq!(run(home, &["init"]).0, 0);
    write(home, description);
    folder
}

/// Writes the server with another description.
pub fn write(home: &Path, description: &str) {
    std::fs::write(
        home.join("server.sh"),
        SERVER.replace("DESCRIPTION", description),
    )
    .unwrap();
}

/// Number of starts.
#[cfg(unix)]
pub fn starts(home: &Path) -> usize {
    let log = std::fs::read_to_string(home.join("started.log"));
    log.map_or(0, |log| log.lines().count())
}

/// The exit code and the JSON output of a command.
pub fn json_of(home: &Path, args: &[&str]) -> (i32, Value) {
    let mut args = args.to_vec();
    args.push("--json");
    let (code, out, err) = run(home, &args);
    let value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    (code, value)
}
