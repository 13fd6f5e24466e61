//! Tools in YAML files: the template for a new one, and the schema for editors.

use std::fs;

use crate::kit::run;
use crate::kit::scripts::{call, text, tool, workspace};
use serde_json::Value;

#[test]
fn script_types_match_the_runtime_context() {
    let home = workspace(&[]);
    let (code, types, _) = run(home.path(), &["tools", "types"]);
    assert_eq!(code, 0);
    let declared_members = declared_members(&types);
    let code = "
export function execute(args, context) {
  const found = [];
  const look = (value, path) => {
    for (const key of Object.keys(value)) {
      const inner = value[key];
      if (inner !== null && typeof inner === 'object') look(inner, `${path}${key}.`);
      else found.push(path + key);
    }
  };
  look(context, '');
  return found.sort();
}";
    let home = workspace(&[("looks.yml", &tool("looks", code))]);
    let actual: Vec<String> = serde_json::from_str(text(&call(home.path(), &["looks"]))).unwrap();
    assert_eq!(actual, declared_members);
}

/// The paths of the members of `context`, according to its types.
fn declared_members(types: &str) -> Vec<String> {
    let mut members: std::collections::BTreeMap<String, Vec<(String, String)>> = Default::default();
    let mut current = String::new();
    for line in types.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("export interface ") {
            current = name.trim_end_matches(" {").to_owned();
        }
        let end = line
            .find(|c: char| !c.is_alphanumeric())
            .unwrap_or_default();
        if end > 0 && matches!(line.as_bytes()[end], b'(' | b':' | b'?') {
            let kind = line[end..].trim_matches([':', ';', ' ']).to_owned();
            members
                .entry(current.clone())
                .or_default()
                .push((line[..end].to_owned(), kind));
        }
    }
    fn collect_paths(
        interfaces: &std::collections::BTreeMap<String, Vec<(String, String)>>,
        interface: &str,
        path: &str,
        paths: &mut Vec<String>,
    ) {
        for (name, kind) in &interfaces[interface] {
            match interfaces.contains_key(kind) {
                true => collect_paths(interfaces, kind, &format!("{path}{name}."), paths),
                false => paths.push(format!("{path}{name}")),
            }
        }
    }
    let mut paths = Vec::new();
    collect_paths(&members, "Context", "", &mut paths);
    paths.sort();
    paths.dedup();
    paths
}

#[test]
fn tools_new_yaml_script_runs_unchanged() {
    let home = workspace(&[]);
    for (lang, name) in [
        ("yaml-ts", "one"),
        ("yaml-js", "two"),
        ("yaml-python", "three"),
        ("yaml-bash", "four"),
    ] {
        let (code, out, err) = run(home.path(), &["tools", "new", name, "--lang", lang]);
        assert_eq!(code, 0, "{out}{err}");
        let trust = format!("&& mimir tools trust {name} && mimir call {name}");
        assert_eq!(out.contains(&trust), lang == "yaml-bash", "{out}");
        let file = format!(".mimir/tools/{name}.yml");
        let (code, out, err) = run(home.path(), &["tools", "check", &file]);
        assert_eq!(code, 0, "{out}{err}");
        let outcome = call(home.path(), &[name, "name=you"]);
        assert_eq!(text(&outcome), "Hello, you!", "{outcome:#}");
        let (code, _, err) = run(home.path(), &["tools", "new", name, "--lang", lang]);
        assert!(code == 2 && err.contains("taken"), "{err}");
    }
    // The files named in the first lines exist and equal the output of the command.
    let (_, schema, _) = run(home.path(), &["tools", "schema"]);
    assert_eq!(
        fs::read_to_string(home.path().join(".mimir/tool.schema.json")).unwrap(),
        schema
    );
    let first = fs::read_to_string(home.path().join(".mimir/tools/one.yml")).unwrap();
    assert!(
        first.starts_with("# yaml-language-server: $schema=../tool.schema.json\n"),
        "{first}"
    );
    assert!(home.path().join(".mimir/mimir.d.ts").exists());
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(
        schema["required"],
        serde_json::json!(["name", "description", "schema", "code"])
    );
}
