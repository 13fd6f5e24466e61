//! Derivation of tool names from file and function names.

use std::collections::HashMap;

use mimir_core::tool::ToolName;

use super::ExportPath;
use crate::family::InterfaceName;

/// Maximum length of a tool name, in characters.
const MAX_TOOL_NAME: usize = 64;

/// Returns the nearest valid tool name: lower case, with `_` for everything except letters and digits, and cut to 64
/// characters. `None` if nothing is left.
pub fn tool_name(text: &str) -> Option<ToolName> {
    ToolName::new(&to_snake_case(text)).ok()
}

fn to_snake_case(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        if name.len() == MAX_TOOL_NAME {
            break;
        }
        if c.is_ascii_alphanumeric() {
            name.push(c.to_ascii_lowercase());
        } else if !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
    }
    name.truncate(name.trim_end_matches('_').len());
    name
}

/// Assigns a unique name to each function: the function's own name, or `<interface>_<function>` if several functions
/// share that name, with a number if that is taken as well. A function of the world itself keeps its own name. `None`
/// if a name has no letters or digits.
pub(super) fn assign_names(exports: &[ExportPath]) -> Vec<Option<ToolName>> {
    let own_names: Vec<String> = exports
        .iter()
        .map(|export| to_snake_case(&export.function))
        .collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for name in &own_names {
        *counts.entry(name).or_default() += 1;
    }
    let preferred_name = |export: &ExportPath, own: &str| match &export.interface {
        Some(interface) if counts.get(own).is_some_and(|count| *count > 1) => {
            let short =
                InterfaceName::parse(interface).map_or(interface.as_str(), |parsed| parsed.name);
            to_snake_case(&format!("{short}-{own}"))
        }
        _ => own.to_owned(),
    };
    let mut taken: HashMap<String, usize> = HashMap::new();
    let mut assigned: Vec<Option<ToolName>> = vec![None; exports.len()];
    for is_world_function in [true, false] {
        for ((export, own), slot) in exports.iter().zip(&own_names).zip(&mut assigned) {
            if export.interface.is_none() == is_world_function {
                *slot = ToolName::new(&unique(preferred_name(export, own), &mut taken)).ok();
            }
        }
    }
    assigned
}

/// Returns the name itself, or the first of `name_2`, `name_3` … that is free.
fn unique(name: String, taken: &mut HashMap<String, usize>) -> String {
    if !taken.contains_key(&name) {
        taken.insert(name.clone(), 1);
        return name;
    }
    let mut count = taken.get(&name).copied().unwrap_or(1);
    loop {
        count += 1;
        let tail = format!("_{count}");
        let head = name
            .get(..name.len().min(MAX_TOOL_NAME - tail.len()))
            .unwrap_or(&name);
        let candidate = format!("{}{tail}", head.trim_end_matches('_'));
        if !taken.contains_key(&candidate) {
            taken.insert(name, count);
            taken.insert(candidate.clone(), 1);
            return candidate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(exports: &[(&str, &str)]) -> Vec<String> {
        let exports: Vec<ExportPath> = exports
            .iter()
            .map(|(interface, function)| ExportPath {
                interface: (!interface.is_empty()).then(|| (*interface).to_owned()),
                function: (*function).to_owned(),
            })
            .collect();
        assign_names(&exports)
            .into_iter()
            .map(|name| name.unwrap().into())
            .collect()
    }

    #[test]
    fn tool_name_converts_kebab_to_snake() {
        assert_eq!(
            tool_name("eval-expression").unwrap().as_str(),
            "eval_expression"
        );
        assert_eq!(tool_name("HTTP-get").unwrap().as_str(), "http_get");
        assert_eq!(
            tool_name("  my tool (2).final ").unwrap().as_str(),
            "my_tool_2_final"
        );
        assert_eq!(tool_name("größe").unwrap().as_str(), "gr_e");
        assert_eq!(tool_name(&"x".repeat(100)).unwrap().as_str().len(), 64);
        assert_eq!(tool_name("…"), None);
        assert_eq!(tool_name(""), None);
    }

    #[test]
    fn assign_adds_the_interface_to_shared_names() {
        assert_eq!(
            names(&[
                ("a:b/one@1.0.0", "run"),
                ("a:b/two@1.0.0", "run"),
                ("a:b/two@1.0.0", "stop"),
                ("", "run")
            ]),
            ["one_run", "two_run", "stop", "run"]
        );
        assert_eq!(
            names(&[
                ("a:b/one@1.0.0", "run"),
                ("c:d/one@1.0.0", "run"),
                ("", "one-run"),
                ("e:f/one", "run")
            ]),
            ["one_run_2", "one_run_3", "one_run", "one_run_4"]
        );
    }

    #[test]
    fn assign_keeps_long_names_unique() {
        let long = "x".repeat(80);
        let assigned = names(&[("a:b/one", &long), ("a:b/two", &long), ("", &long)]);
        let distinct: std::collections::HashSet<_> = assigned.iter().collect();
        assert_eq!(distinct.len(), 3, "{assigned:?}");
    }
}
