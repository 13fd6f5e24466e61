//! The report about a module that was imported on this machine, and its comparison with the finished component.

use mimir_core::needs::Needs;
use mimir_core::text::visible;
use mimir_core::{Tool, ToolError};
use serde::Deserialize;

use super::PythonWorld;
use crate::commands::tools_build::undeclared_needs::HostFeature;

/// The tools of a module, and the world that they need.
#[derive(Debug, PartialEq, Eq)]
pub struct ModuleReport {
    /// The interfaces that the component imports.
    pub world: PythonWorld,
    /// Features of the host that the code mentions.
    pub uses: Vec<HostFeature>,
    uses_storage: bool,
    /// Names of the tools.
    tools: Vec<String>,
}

/// The line that `mimir.describe` prints.
#[derive(Deserialize)]
#[serde(untagged)]
enum PrintedReport {
    Failed {
        error: String,
    },
    Described {
        manifest: ModuleManifest,
        storage: bool,
        #[serde(default)]
        uses: Vec<HostFeature>,
    },
}

#[derive(Deserialize)]
struct ModuleManifest {
    tools: Vec<DescribedTool>,
}

#[derive(Deserialize)]
struct DescribedTool {
    name: String,
    needs: Needs,
}

impl ModuleReport {
    /// Parses the output of `mimir.describe`. The inner error is the message of a module that cannot be imported, with file
    /// and line.
    ///
    /// # Errors
    ///
    /// Fails if there is no report, because the module has ended Python.
    pub fn parse(lines: &[String], file_name: &str) -> Result<Result<Self, String>, ToolError> {
        // The module may print lines while it is imported.
        let last = lines.last().map(String::as_str).unwrap_or_default();
        let printed = serde_json::from_str(last).map_err(|error| {
            let reason = if error.is_data() {
                format!("the description of its tools is not valid: {error}")
            } else {
                "Python ended before the module was imported".to_owned()
            };
            ToolError::execution(format!("{}: {reason}", visible(file_name)))
        })?;
        let (manifest, uses_storage, uses) = match printed {
            PrintedReport::Failed { error } => return Ok(Err(error)),
            PrintedReport::Described {
                manifest,
                storage,
                uses,
            } => (manifest, storage, uses),
        };
        let needs = manifest.tools.iter().map(|tool| &tool.needs);
        Ok(Ok(Self {
            world: PythonWorld::for_needs(needs, uses_storage),
            uses,
            uses_storage,
            tools: manifest.tools.into_iter().map(|tool| tool.name).collect(),
        }))
    }

    /// Fails if the component has other tools, or tools with other needs.
    pub fn compare(&self, built: &[Tool]) -> Result<(), ToolError> {
        let needs = built.iter().map(|tool| &tool.definition.needs);
        let world = PythonWorld::for_needs(needs, self.uses_storage);
        let names: Vec<&str> = built.iter().map(|tool| tool.name().as_str()).collect();
        self.compare_facts(&names, world)
    }

    fn compare_facts(&self, names: &[&str], world: PythonWorld) -> Result<(), ToolError> {
        let mut expected: Vec<&str> = self.tools.iter().map(String::as_str).collect();
        let mut found = names.to_vec();
        expected.sort_unstable();
        found.sort_unstable();
        let difference = if expected != found {
            format!("the tools {} there", found.join(", "))
        } else if world != self.world {
            "tools with other needs there".to_owned()
        } else {
            return Ok(());
        };
        Err(ToolError::execution(format!(
            "the module has the tools {} when Python imports it on this machine, but {difference} when it is imported in \
             WebAssembly: define tools without regard to the platform",
            expected.join(", ")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Result<ModuleReport, String>, ToolError> {
        ModuleReport::parse(&["printed".to_owned(), line.to_owned()], "tool.py")
    }

    fn report(line: &str) -> ModuleReport {
        parse(line).unwrap().unwrap()
    }

    const TWO_TOOLS: &str = r#"{"manifest": {"name": "x", "tools": [
        {"name": "a", "needs": {"files": [{"path": ".", "access": "read-write", "reason": ""}], "model": false}},
        {"name": "b", "needs": {"commands": [{"pattern": "git *", "reason": "x"}], "variables": [], "model": true}}
    ]}, "storage": true, "uses": ["hosts", "commands"]}"#;

    #[test]
    fn python_report_unites_the_needs() {
        let report = report(&TWO_TOOLS.replace('\n', ""));
        let expected = PythonWorld {
            commands: true,
            model: true,
            storage: true,
            ..PythonWorld::default()
        };
        assert_eq!(report.world, expected);
        assert_eq!(report.uses, [HostFeature::Hosts, HostFeature::Commands]);
    }

    #[test]
    fn python_report_has_the_error_of_the_module() {
        let error = parse(r#"{"error": "tool.py:3: NameError: x"}"#).unwrap();
        assert_eq!(error.unwrap_err(), "tool.py:3: NameError: x");
        let ended = parse("half a line").unwrap_err();
        assert!(ended.message.contains("Python ended before"), "{ended}");
        let invalid = parse(r#"{"manifest": {"tools": 5}, "storage": false}"#).unwrap_err();
        assert!(invalid.message.contains("is not valid"), "{invalid}");
        assert!(ModuleReport::parse(&[], "tool.py").is_err());
    }

    #[test]
    fn python_component_with_other_tools_is_refused() {
        let report = report(&TWO_TOOLS.replace('\n', ""));
        assert!(report.compare_facts(&["b", "a"], report.world).is_ok());
        let error = report.compare_facts(&["a"], report.world).unwrap_err();
        assert!(error.message.contains("but the tools a there"), "{error}");
        let world = PythonWorld::default();
        let error = report.compare_facts(&["a", "b"], world).unwrap_err();
        assert!(error.message.contains("other needs"), "{error}");
    }
}
