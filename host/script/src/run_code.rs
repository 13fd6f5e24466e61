//! The tool `run_code`, which runs code written by a model in the first available backend.
//!
//! Code in a WebAssembly engine needs no approval, because each of its calls is checked. The effects of an interpreter
//! cannot be predicted, so it is checked like any other command. It runs as a host program in the command sandbox, or
//! in a container of the image configured for the language.
//!
//! Out of scope: the engines, the sandboxes, and the policy for commands.

use std::sync::Arc;

use mimir_core::backend::{Backend, BoxFuture, RawResult, ResourceUsage};
use mimir_core::code_language::CodeLanguage;
use mimir_core::command::{CommandRequest, CommandTarget};
use mimir_core::needs::{CommandNeed, FileNeed};
use mimir_core::pipeline::EffectGate;
use mimir_core::tool::{InvalidToolName, ToolOrigin, ToolSource, ToolTrust};
use mimir_core::{
    Approved, Decision, DirectoryAccess, Needs, RiskLevel, Schema, Tool, ToolDefinition, ToolError,
    ToolErrorCode, ToolGroup, ToolHints, ToolName,
};
use mimir_wasm::Sha256Digest;
use mimir_wasm::family::proofs;
use schemars::generate::SchemaSettings;
use serde_json::Value;

mod arguments;
mod code_engine;
mod code_snippet;
mod report;

pub use code_engine::{CodeEngine, CodeResult};
pub use code_snippet::CodeSnippet;

use arguments::{CodeBackend, RunCodeArgs};
use report::{RunOutput, RunReport};

const NAME: &str = "run_code";

/// Location of the tool, in the same form as other built-in tools.
const LOCATION: &str = "built-in/run_code";

const DESCRIPTION: &str = "Runs code in Python, bash or JavaScript, and returns its output and exit code. The code \
    starts in the workspace, in a fresh process each time: no state is kept between calls, unless `session` \
    names a Python session. It runs in \
    WebAssembly if an engine supports the language, without network and without other programs (JavaScript there has \
    Node's fs, path, crypto and other usual modules, but no npm packages, and accepts TypeScript); otherwise with the interpreter \
    of this machine or of a container, which may need a person's approval. `backend` in the result names the backend. \
    In WebAssembly the code can call your other tools, under the same rules: `mimir TOOL '{...}'` in bash, \
    `import mimir; mimir.call(\"TOOL\", {...})` in Python, `await context.tools.call(\"TOOL\", {...})` in JavaScript.";

/// Backend of the tool `run_code`.
struct RunCode {
    engines: Vec<Arc<dyn CodeEngine>>,
}

/// Creates the tool with these engines. The first engine that supports a language is used.
pub(crate) fn run_code(engines: Vec<Arc<dyn CodeEngine>>) -> Result<Tool, InvalidToolName> {
    let definition = definition()?;
    let imports = [
        "mimir:tool/progress@1.0.0",
        "wasi:filesystem/types@0.2.6",
        "mimir:tool/commands@1.0.0",
    ];
    let imports: Vec<String> = imports.map(str::to_owned).into();
    // The tool is part of the binary: its digest covers its definition and the version.
    let identity = format!(
        "{} {} {}",
        env!("CARGO_PKG_VERSION"),
        definition.description,
        definition.input_schema.as_str()
    );
    let origin = ToolOrigin {
        plugin: NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        location: LOCATION.to_owned(),
        digest: Sha256Digest::of_bytes(identity.as_bytes()).to_string(),
        declares_needs: true,
        proofs: proofs(&imports).iter().map(ToString::to_string).collect(),
        imports,
        ..ToolOrigin::default()
    };
    Ok(Tool::new(
        definition,
        ToolSource::BuiltIn,
        Arc::new(origin),
        ToolTrust::Trusted,
        Arc::new(RunCode { engines }),
    ))
}

fn definition() -> Result<ToolDefinition, InvalidToolName> {
    Ok(ToolDefinition {
        name: ToolName::new(NAME)?,
        title: Some("Run code".to_owned()),
        description: DESCRIPTION.to_owned(),
        group: ToolGroup::Runtime,
        input_schema: schema::<RunCodeArgs>(),
        output_schema: Some(schema::<RunReport>()),
        silent: false,
        // Code that no engine runs is a command, and approved as one.
        approval: Decision::Allow,
        risk: RiskLevel::Medium,
        hints: ToolHints {
            destructive: true,
            ..ToolHints::default()
        },
        needs: Needs {
            files: vec![FileNeed {
                path: ".".to_owned(),
                access: DirectoryAccess::ReadWrite,
                reason: "for the code to work on".to_owned(),
            }],
            commands: vec![CommandNeed {
                pattern: "*".to_owned(),
                reason: "for code that no engine in WebAssembly runs".to_owned(),
            }],
            ..Needs::default()
        },
    })
}

/// Returns the schema of a type with all definitions inlined, without `$schema`, title and description.
fn schema<T: schemars::JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    for word in ["title", "description"] {
        schema.remove(word);
    }
    Schema::unchecked(schema.to_value().to_string())
}

impl Backend for RunCode {
    fn run(&self, call: Approved) -> BoxFuture<'_, RawResult> {
        Box::pin(async move { self.attempt(&call).await.unwrap_or_else(RawResult::failed) })
    }

    fn command_in_arguments(&self, arguments: &Value) -> Option<CommandRequest> {
        arguments::command_in_arguments(arguments)
    }
}

/// The result of running code, with the backend that ran it.
struct CodeRunResult {
    /// Name of the backend.
    backend: &'static str,
    /// Note on the backend, for the model.
    note: String,
    result: CodeResult,
}

impl RunCode {
    async fn attempt(&self, call: &Approved) -> Result<RawResult, ToolError> {
        let request = RunCodeArgs::parse(call.arguments())?;
        let backend = request.backend;
        let snippet = request.into_snippet();
        check_snippet(&snippet)?;
        if snippet.session.is_some() && self.engine_for(snippet.language).is_none() {
            let message = "`session` needs an engine that runs Python in WebAssembly, which is not available here";
            return Err(ToolError::new(ToolErrorCode::Unavailable, message));
        }
        let run = match backend {
            CodeBackend::Auto => self.run_in_first_backend(call, &snippet).await?,
            CodeBackend::Wasm => self.run_in_engine(call, &snippet).await?,
            backend => run_with_interpreter(call, &snippet, backend).await?,
        };
        let usage = run.result.usage;
        let result = match run.result.result {
            Ok(finished) => RunReport::new(&finished, run.backend, run.note)
                .in_session(run.result.session)
                .into_output(),
            Err(error) => Err(with_backend(error, run.backend)),
        };
        let raw = match result {
            Ok(RunOutput { output, truncated }) => RawResult {
                truncated,
                ..RawResult::from(Ok(output))
            },
            Err(error) => RawResult::failed(error),
        };
        Ok(RawResult { usage, ..raw })
    }

    /// Runs code in the first available backend: an engine, the host's interpreter, an interpreter in a container.
    async fn run_in_first_backend(
        &self,
        call: &Approved,
        snippet: &CodeSnippet,
    ) -> Result<CodeRunResult, ToolError> {
        let language = snippet.language;
        if self.engine_for(language).is_some() {
            return self.run_in_engine(call, snippet).await;
        }
        let effects = call.effects();
        let mut why = vec![no_engine_message(language)];
        for backend in [CodeBackend::Process, CodeBackend::Container] {
            match find_sandbox(&effects, language, backend).await {
                Ok(_) => {
                    let mut run = run_with_interpreter(call, snippet, backend).await?;
                    run.note = why.join("; ");
                    return Ok(run);
                }
                Err(error) => why.push(format!("{}: {}", backend.as_str(), error.message)),
            }
        }
        Err(unavailable_error(language, &why))
    }

    /// Returns the first engine that supports the language.
    fn engine_for(&self, language: CodeLanguage) -> Option<&Arc<dyn CodeEngine>> {
        let mut engines = self.engines.iter();
        engines.find(|engine| engine.languages().contains(&language))
    }

    async fn run_in_engine(
        &self,
        call: &Approved,
        snippet: &CodeSnippet,
    ) -> Result<CodeRunResult, ToolError> {
        let language = snippet.language;
        let Some(engine) = self.engine_for(language) else {
            let remedy = format!(
                "use `backend: process` or `container` to run it with `{}`",
                language.interpreter()
            );
            return Err(
                ToolError::new(ToolErrorCode::Unavailable, no_engine_message(language))
                    .with_remedies([remedy]),
            );
        };
        let result = engine.run(call, snippet).await;
        // Missing features are only worth a note if the code failed.
        let failed = !matches!(&result.result, Ok(finished) if finished.exit_code == 0);
        Ok(CodeRunResult {
            backend: CodeBackend::Wasm.as_str(),
            note: if failed {
                engine.lacks(language).to_owned()
            } else {
                String::new()
            },
            result,
        })
    }
}

/// Rejects arguments and variables that no process can receive. Some backends would truncate or misread them.
fn check_snippet(snippet: &CodeSnippet) -> Result<(), ToolError> {
    let refused = |message: &str| Err(ToolError::new(ToolErrorCode::InvalidInput, message));
    let has_nul = |text: &str| text.contains('\0');
    if snippet.arguments.iter().any(|argument| has_nul(argument)) {
        return refused(
            "`args`: an argument contains a NUL character, which cannot be passed to a program",
        );
    }
    for (name, value) in &snippet.environment {
        if name.is_empty() || name.contains('=') || has_nul(name) {
            return refused("`env`: a variable name must not be empty or contain `=` or NUL");
        }
        if has_nul(value) {
            return refused(
                "`env`: a value contains a NUL character, which cannot be passed to a program",
            );
        }
    }
    Ok(())
}

/// Returns the name and the target of the sandbox for a language's interpreter. Fails if the sandbox or, on the host,
/// the interpreter is not available.
async fn find_sandbox(
    effects: &EffectGate,
    language: CodeLanguage,
    backend: CodeBackend,
) -> Result<(&'static str, CommandTarget), ToolError> {
    let target = backend.target(language).unwrap_or_default();
    let sandbox = effects.sandbox_name(target, language.interpreter()).await?;
    Ok((sandbox, target))
}

/// Runs code with an interpreter, subject to the command policy.
async fn run_with_interpreter(
    call: &Approved,
    snippet: &CodeSnippet,
    backend: CodeBackend,
) -> Result<CodeRunResult, ToolError> {
    let effects = call.effects();
    let (sandbox, target) = find_sandbox(&effects, snippet.language, backend).await?;
    let result = effects.run_shown(snippet.command(target)?).await;
    Ok(CodeRunResult {
        backend: sandbox,
        note: String::new(),
        result: CodeResult {
            result: result
                .map_err(|error| hint_missing_interpreter(error, snippet.language, backend)),
            usage: ResourceUsage::default(),
            session: None,
        },
    })
}

/// Adds a remedy to the error for an interpreter that is missing in the container image.
fn hint_missing_interpreter(
    error: ToolError,
    language: CodeLanguage,
    backend: CodeBackend,
) -> ToolError {
    if backend != CodeBackend::Container || error.code != ToolErrorCode::NotFound {
        return error;
    }
    let remedy = format!(
        "set `sandbox.images: {{{}: IMAGE}}` in the settings to an image that has `{}`",
        language.as_str(),
        language.interpreter()
    );
    error.with_remedies([remedy])
}

fn no_engine_message(language: CodeLanguage) -> String {
    format!("no engine runs {} in WebAssembly here", language.as_str())
}

fn unavailable_error(language: CodeLanguage, why: &[String]) -> ToolError {
    let (name, interpreter) = (language.as_str(), language.interpreter());
    let message = format!("cannot run {name} here: {}", why.join("; "));
    ToolError::new(ToolErrorCode::Unavailable, message).with_remedies([
        format!("install `{interpreter}`, or name an image that has it: `sandbox.images: {{{name}: IMAGE}}`"),
        "run `mimir doctor` to see what each sandbox provides".to_owned(),
    ])
}

/// Adds the backend to the details of an error with output, such as that of stopped code. Other errors stay unchanged.
fn with_backend(mut error: ToolError, backend: &str) -> ToolError {
    if let Some(Value::Object(details)) = &mut error.details
        && details.contains_key("output")
    {
        details.insert("backend".to_owned(), backend.into());
    }
    error
}

#[cfg(test)]
mod tests;
