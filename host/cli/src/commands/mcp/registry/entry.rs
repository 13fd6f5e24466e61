//! The description of a server in a registry (`server.json`), and its conversion to options of `mimir mcp add`.

use mimir_core::ToolError;
use mimir_core::config::SandboxMode;
use mimir_core::text::{prefix, visible};
use serde::Deserialize;

use crate::args::McpAddArgs;

/// Package registries whose packages are downloaded from where npm or pip is configured to.
const NPM: &str = "npm";
const PYPI: &str = "pypi";
const OCI: &str = "oci";

/// Maximum length of a text that is shown, in bytes.
const MAX_TEXT_LENGTH: usize = 300;

/// A server.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RegistryEntry {
    pub name: String,
    description: String,
    pub version: String,
    repository: EntryRepository,
    packages: Vec<EntryPackage>,
    remotes: Vec<EntryRemote>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EntryRepository {
    url: String,
}

/// A package that runs on this machine.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EntryPackage {
    registry_type: String,
    registry_base_url: Option<String>,
    identifier: String,
    version: Option<String>,
    transport: EntryTransport,
    runtime_arguments: Vec<EntryArgument>,
    package_arguments: Vec<EntryArgument>,
    environment_variables: Vec<EntryInput>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EntryTransport {
    r#type: String,
}

/// A server that is reached over HTTP.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EntryRemote {
    r#type: String,
    url: String,
    headers: Vec<EntryInput>,
    variables: std::collections::BTreeMap<String, EntryInput>,
}

/// An argument of a program.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EntryArgument {
    r#type: String,
    value_hint: Option<String>,
    #[serde(flatten)]
    input: EntryInput,
}

/// A value that the registry gives or describes: of an argument, a variable or a header.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EntryInput {
    name: String,
    description: String,
    is_required: bool,
    is_secret: bool,
    value: Option<String>,
    default: Option<String>,
    variables: std::collections::BTreeMap<String, EntryInput>,
}

/// Results of the conversion for the person: notes and missing secrets.
pub struct ServerInputs<'a> {
    is_stored: &'a dyn Fn(&str) -> bool,
    /// True if programs run without a sandbox unless an option says otherwise.
    pub is_unsandboxed: bool,
    /// Lines about values that were left out.
    pub notes: Vec<String>,
    /// Secrets that the server needs and that are not stored.
    pub missing_secrets: Vec<String>,
}

impl<'a> ServerInputs<'a> {
    /// Creates an empty record. `is_stored` tells whether a secret is stored.
    pub fn new(is_stored: &'a dyn Fn(&str) -> bool) -> Self {
        Self {
            is_stored,
            is_unsandboxed: false,
            notes: Vec::new(),
            missing_secrets: Vec::new(),
        }
    }

    /// Returns the reference to a secret, and records it if it is not stored.
    fn secret(&mut self, name: &str) -> String {
        let name = secret_name(name);
        if !(self.is_stored)(&name) && !self.missing_secrets.contains(&name) {
            self.missing_secrets.push(name.clone());
        }
        format!("${{{name}}}")
    }

    /// Returns the value of an input, or `None` if it is optional and has none. `option` gives the option with which a
    /// person gives the value.
    fn value(
        &mut self,
        input: &EntryInput,
        what: &str,
        option: &str,
    ) -> Result<Option<String>, ToolError> {
        let fixed = input.value.as_ref().or(input.default.as_ref());
        if let Some(template) = fixed.filter(|_| input.value.is_some() || !input.is_secret) {
            return self
                .fill(template, &input.variables, what, option)
                .map(Some);
        }
        if input.is_required && input.is_secret {
            return Ok(Some(self.secret(&input.name)));
        }
        if input.is_required {
            return Err(missing(what, &input.description, option));
        }
        let described = text(&input.description);
        self.notes.push(format!("not set: {what}. {described}"));
        // A stored secret may be for another server, so only the person decides that this server gets it.
        if input.is_secret && (self.is_stored)(&secret_name(&input.name)) {
            let option = option.replace("=VALUE", &format!("=${{{}}}", secret_name(&input.name)));
            self.notes.push(format!(
                "a secret of this name is stored: `{option}`, in single quotes, passes it on"
            ));
        }
        Ok(None)
    }

    /// Replaces `{NAME}` in a value by the variable of that name. All references to secrets in the result are from
    /// [`Self::secret`]: other text of the registry must not contain any.
    fn fill(
        &mut self,
        template: &str,
        variables: &std::collections::BTreeMap<String, EntryInput>,
        what: &str,
        option: &str,
    ) -> Result<String, ToolError> {
        let (mut out, mut rest) = (String::new(), template);
        while let Some((before, (name, after))) = rest
            .split_once('{')
            .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            check_literal(before, template, what)?;
            out.push_str(before);
            let Some(variable) = variables.get(name) else {
                return Err(unsupported(&format!(
                    "{what} refers to `{{{}}}`, which the registry does not describe",
                    text(name)
                )));
            };
            let fixed = variable.value.as_ref().or(variable.default.as_ref());
            match fixed {
                Some(fixed) if !variable.is_secret => {
                    check_literal(fixed, fixed, what)?;
                    out.push_str(fixed);
                }
                _ if variable.is_secret => out.push_str(&self.secret(name)),
                _ => {
                    let what = format!("`{{{}}}` in {what}", text(name));
                    return Err(missing(&what, &variable.description, option));
                }
            }
            rest = after;
        }
        check_literal(rest, template, what)?;
        out.push_str(rest);
        Ok(out)
    }
}

impl RegistryEntry {
    /// Returns lines about the server for the person.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = vec![format!("{} {}", text(&self.name), text(&self.version))];
        if !self.description.is_empty() {
            lines.push(text(&self.description));
        }
        if !self.repository.url.is_empty() {
            lines.push(format!("repository: {}", text(&self.repository.url)));
        }
        lines
    }

    /// Completes the options that the person gave. Fails if the person has to give a value, or if the server cannot be
    /// run.
    pub fn complete(
        &self,
        mut args: McpAddArgs,
        inputs: &mut ServerInputs<'_>,
    ) -> Result<McpAddArgs, ToolError> {
        if args.name.is_none() {
            args.name = Some(local_name(&self.name));
        }
        let of_kind = |kind: &str| {
            let mut packages = self.packages.iter();
            packages.find(|package| {
                package.registry_type == kind && matches!(&*package.transport.r#type, "" | "stdio")
            })
        };
        if let Some(package) = of_kind(NPM)
            .or_else(|| of_kind(PYPI))
            .or_else(|| of_kind(OCI))
        {
            return package.complete(args, inputs);
        }
        let mut remotes = self.remotes.iter();
        if let Some(remote) = remotes.find(|remote| remote.r#type == "streamable-http") {
            return remote.complete(args, inputs);
        }
        let kinds = self
            .packages
            .iter()
            .map(|package| text(&package.registry_type));
        let remotes = self.remotes.iter().map(|remote| text(&remote.r#type));
        let kinds: Vec<String> = kinds.chain(remotes).collect();
        Err(unsupported(&format!(
            "the server is only available as: {}",
            if kinds.is_empty() {
                "nothing".to_owned()
            } else {
                kinds.join(", ")
            }
        )))
    }
}

impl EntryPackage {
    fn complete(
        &self,
        mut args: McpAddArgs,
        inputs: &mut ServerInputs<'_>,
    ) -> Result<McpAddArgs, ToolError> {
        if !args.headers.is_empty() {
            return Err(ToolError::invalid_input(
                "the server is a package, which gets no headers: use --env NAME=VALUE for its variables",
            ));
        }
        check_word(&self.identifier, "the name of the package")?;
        let version = self
            .version
            .as_deref()
            .filter(|version| !version.is_empty());
        if let Some(version) = version {
            check_word(version, "the version of the package")?;
        }
        let mut command = match (&*self.registry_type, version) {
            (OCI, version) => self.container_command(&args, version)?,
            (_, None | Some("latest")) => {
                return Err(unsupported(
                    "the registry does not name a version of the package, so it cannot be pinned",
                ));
            }
            (PYPI, Some(version)) => {
                vec!["uvx".to_owned(), format!("{}=={version}", self.identifier)]
            }
            (_, Some(version)) => vec![
                "npx".to_owned(),
                "-y".to_owned(),
                format!("{}@{version}", self.identifier),
            ],
        };
        self.check_source()?;
        let mut given = std::mem::take(&mut args.command).into_iter();
        for argument in &self.package_arguments {
            argument.append(&mut command, &mut given, inputs)?;
        }
        command.extend(given);
        for variable in &self.environment_variables {
            check_word(&variable.name, "the name of a variable")?;
            if args.env.iter().any(|(name, _)| *name == variable.name) {
                continue;
            }
            let what = format!("the variable {}", variable.name);
            let option = format!("--env {}=VALUE", variable.name);
            if let Some(value) = inputs.value(variable, &what, &option)? {
                let is_unsandboxed = args
                    .sandbox
                    .map_or(inputs.is_unsandboxed, |mode| mode == SandboxMode::None);
                if is_unsandboxed && changes_programs(&variable.name) {
                    return Err(unsupported(&format!(
                        "it sets {what}, which changes how programs outside of a sandbox run"
                    )));
                }
                args.env.push((variable.name.clone(), value));
            }
        }
        if self.registry_type == OCI {
            let names = args
                .env
                .iter()
                .flat_map(|(name, _)| ["-e".to_owned(), name.clone()]);
            let names: Vec<String> = names.collect();
            // After `docker run -i --rm`.
            command.splice(4..4, names);
        }
        args.command = command;
        Ok(args)
    }

    /// Returns the command that runs a container image. The container engine runs it, so mimir cannot confine it.
    fn container_command(
        &self,
        args: &McpAddArgs,
        version: Option<&str>,
    ) -> Result<Vec<String>, ToolError> {
        if args.sandbox != Some(SandboxMode::None) {
            let message = "the server is a container image, which the container engine runs outside of mimir's sandbox";
            return Err(ToolError::permission_denied(message).with_remedies([
                "give `--sandbox none` to run it with the rights of your container engine"
                    .to_owned(),
            ]));
        }
        let last = self.identifier.rsplit('/').next().unwrap_or_default();
        let image = match version {
            _ if last.contains(':') || last.contains('@') => self.identifier.clone(),
            Some(version) => format!("{}:{version}", self.identifier),
            None => {
                return Err(unsupported(
                    "the registry does not name a version of the image, so it cannot be pinned",
                ));
            }
        };
        let words = ["docker", "run", "-i", "--rm"].map(str::to_owned);
        Ok(words.into_iter().chain([image]).collect())
    }

    /// Fails if the package would not come from the registry that npm or pip is configured to use, or needs options
    /// of its runner.
    fn check_source(&self) -> Result<(), ToolError> {
        let base = self.registry_base_url.as_deref().unwrap_or_default();
        let base = base.trim_end_matches('/');
        let is_default = matches!(
            base,
            "" | "https://registry.npmjs.org" | "https://pypi.org" | "https://pypi.org/simple"
        );
        if !is_default && self.registry_type != OCI {
            return Err(unsupported(&format!(
                "its package comes from {}, but packages are downloaded from the registry that npm or pip is configured to use",
                text(base)
            )));
        }
        let is_yes = |argument: &EntryArgument| {
            let word = argument
                .input
                .value
                .as_deref()
                .unwrap_or(&argument.input.name);
            matches!(word, "-y" | "--yes")
        };
        if self.runtime_arguments.iter().all(is_yes) {
            return Ok(());
        }
        Err(unsupported("its package needs options of its runner"))
    }
}

impl EntryRemote {
    fn complete(
        &self,
        mut args: McpAddArgs,
        inputs: &mut ServerInputs<'_>,
    ) -> Result<McpAddArgs, ToolError> {
        if !args.command.is_empty() || !args.env.is_empty() || !args.network.is_empty() {
            return Err(ToolError::invalid_input(
                "the server is reached over HTTP: arguments, --env and --network do not apply to it",
            ));
        }
        let url = inputs.fill(
            &self.url,
            &self.variables,
            "its URL",
            "--url URL instead of --registry",
        )?;
        if url.contains("${") {
            return Err(unsupported(
                "its URL contains a secret, which logs of others would show",
            ));
        }
        for header in &self.headers {
            check_word(&header.name, "the name of a header")?;
            let mut known = args.headers.iter();
            if known.any(|(name, _)| name.eq_ignore_ascii_case(&header.name)) {
                continue;
            }
            let what = format!("the header {}", header.name);
            let option = format!("--header '{}=VALUE'", header.name);
            if let Some(value) = inputs.value(header, &what, &option)? {
                args.headers.push((header.name.clone(), value));
            }
        }
        args.url = Some(url);
        Ok(args)
    }
}

impl EntryArgument {
    /// Appends the words of the argument. Positional arguments without a value take the words that the person gave.
    fn append(
        &self,
        command: &mut Vec<String>,
        given: &mut impl Iterator<Item = String>,
        inputs: &mut ServerInputs<'_>,
    ) -> Result<(), ToolError> {
        let hint = self.value_hint.as_deref().unwrap_or(&self.input.name);
        let what = format!("the argument `{}`", text(hint));
        let is_named = self.r#type == "named";
        if is_named {
            check_literal(&self.input.name, &self.input.name, &what)?;
        }
        if self.input.is_secret {
            return Err(unsupported(&format!(
                "{what} is a secret, which other programs of this machine could read"
            )));
        }
        let has_value = self.input.value.is_some() || self.input.default.is_some();
        if is_named && !has_value {
            // An option without a value.
            if self.input.is_required {
                command.push(self.input.name.clone());
            } else {
                inputs.notes.push(format!(
                    "not set: {what}. {}",
                    text(&self.input.description)
                ));
            }
            return Ok(());
        }
        let takes_given = !is_named && self.input.value.is_none();
        let word = if takes_given { given.next() } else { None };
        let value = match word {
            Some(word) => Some(word),
            None => inputs.value(&self.input, &what, "a value after `--`")?,
        };
        if let Some(value) = value {
            if value.contains("${") {
                return Err(unsupported(&format!("{what} contains a secret")));
            }
            command.extend(Some(self.input.name.clone()).filter(|_| is_named));
            command.push(value);
        }
        Ok(())
    }
}

/// Returns the name in the settings: the last part of the name in the registry.
fn local_name(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let plain: String = last
        .chars()
        .map(|c| if is_plain(c) { c } else { '-' })
        .collect();
    prefix(&plain, 40).to_owned()
}

/// Returns the name of a secret for a variable or a header.
fn secret_name(name: &str) -> String {
    let chars = name.chars();
    chars
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() => c.to_ascii_uppercase(),
            _ => '_',
        })
        .collect()
}

/// Checks that a fixed text of the registry cannot refer to a secret, not even together with the text next to it.
/// `whole` is the text to show, of which `literal` is a part.
fn check_literal(literal: &str, whole: &str, what: &str) -> Result<(), ToolError> {
    if !literal.contains(['$', '{']) {
        return Ok(());
    }
    Err(unsupported(&format!(
        "{what} contains `$` or `{{`, so it refers to something that the registry does not describe: `{}`",
        text(whole)
    )))
}

/// Returns true for a variable that makes a program run other code or use another server, such as that of the container
/// engine.
fn changes_programs(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let prefixes = ["DOCKER_", "LD_", "DYLD_", "PYTHON"];
    matches!(&*name, "PATH" | "HOME" | "NODE_OPTIONS")
        || name.ends_with("_PROXY")
        || prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Checks that a word cannot be taken for an option, and has no unusual characters.
fn check_word(word: &str, what: &str) -> Result<(), ToolError> {
    let is_word_char = |c: char| c.is_ascii_alphanumeric() || "@/._-+:".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(is_word_char) {
        return Ok(());
    }
    let shown = text(word);
    Err(unsupported(&format!("{what}, `{shown}`, is not valid")))
}

fn text(theirs: &str) -> String {
    visible(prefix(theirs, MAX_TEXT_LENGTH))
}

fn missing(what: &str, description: &str, option: &str) -> ToolError {
    let mut message = format!("the server needs a value for {what}");
    if !description.is_empty() {
        message = format!("{message}: {}", text(description));
    }
    ToolError::invalid_input(message).with_remedies([format!("give {option}")])
}

fn unsupported(why: &str) -> ToolError {
    ToolError::unavailable(format!(
        "mimir cannot add this server of the registry: {why}"
    ))
    .with_remedies([
        "add it by hand, as its documentation says: `mimir mcp add NAME -- COMMAND`".to_owned(),
    ])
}

#[cfg(test)]
mod tests;
