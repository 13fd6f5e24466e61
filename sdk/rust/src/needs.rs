//! Needs of a tool. Declaring a need grants nothing: a person grants it.

use crate::bindings::mimir::tool::types as wit;

/// The needs of a tool, built up from [`Needs::none`].
///
/// Each need has a reason, written for the person who is asked to grant it.
///
/// ```
/// use mimir_sdk::Needs;
///
/// let needs = Needs::none()
///     .read(".", "to find the translations")
///     .write("locales", "to write the missing ones")
///     .host("api.example.com", ["POST"], "to translate")
///     .secret("EXAMPLE_KEY", "api.example.com", "Authorization", "to sign in");
/// assert!(!needs.is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Needs {
    files: Vec<wit::FileNeed>,
    hosts: Vec<wit::HostNeed>,
    commands: Vec<wit::CommandNeed>,
    secrets: Vec<wit::SecretNeed>,
    variables: Vec<String>,
    tools: Vec<String>,
    model: bool,
}

impl Needs {
    /// Creates an empty set of needs, for a tool that only computes.
    pub fn none() -> Self {
        Self::default()
    }

    /// Requests to read and list the files in a directory, relative to the workspace root; `.` is the whole workspace.
    #[must_use]
    pub fn read(self, path: impl Into<String>, reason: impl Into<String>) -> Self {
        self.files(path, wit::FileAccess::Read, reason)
    }

    /// Requests to read, create, change and remove the files in a directory, relative to the workspace root.
    #[must_use]
    pub fn write(self, path: impl Into<String>, reason: impl Into<String>) -> Self {
        self.files(path, wit::FileAccess::ReadWrite, reason)
    }

    fn files(
        mut self,
        path: impl Into<String>,
        access: wit::FileAccess,
        reason: impl Into<String>,
    ) -> Self {
        self.files.push(wit::FileNeed {
            path: path.into(),
            access,
            reason: reason.into(),
        });
        self
    }

    /// Requests access to a host (`api.example.com`, `*.example.com`, optionally with `:port`) with these HTTP methods.
    /// `*` stands for any host: hosts allowed by the user's settings are reached directly, others need approval.
    #[must_use]
    pub fn host<M: Into<String>>(
        mut self,
        host: impl Into<String>,
        methods: impl IntoIterator<Item = M>,
        reason: impl Into<String>,
    ) -> Self {
        let methods = methods.into_iter().map(Into::into).collect();
        self.hosts.push(wit::HostNeed {
            host: host.into(),
            methods,
            reason: reason.into(),
        });
        self
    }

    /// Requests to run commands that match a pattern such as `git status *`, word by word.
    #[must_use]
    pub fn command(mut self, pattern: impl Into<String>, reason: impl Into<String>) -> Self {
        self.commands.push(wit::CommandNeed {
            pattern: pattern.into(),
            reason: reason.into(),
        });
        self
    }

    /// Requests a credential for `header` in requests to `host`. The tool never sees the credential: the environment
    /// variable `name` holds a placeholder, which changes with each call. Put the placeholder into the header, as in
    /// `Bearer {placeholder}`; the host replaces it with the credential. It is sent only over https or to localhost.
    #[must_use]
    pub fn secret(
        mut self,
        name: impl Into<String>,
        host: impl Into<String>,
        header: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        let (name, host, header, reason) = (name.into(), host.into(), header.into(), reason.into());
        self.secrets.push(wit::SecretNeed {
            name,
            host,
            header,
            reason,
        });
        self
    }

    /// Requests the value of an environment or configuration variable.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>) -> Self {
        self.variables.push(name.into());
        self
    }

    /// Requests to call another tool.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>) -> Self {
        self.tools.push(name.into());
        self
    }

    /// Requests completions from the host's language model.
    #[must_use]
    pub fn model(mut self) -> Self {
        self.model = true;
        self
    }

    /// Returns true if no needs are declared.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
            && self.hosts.is_empty()
            && self.commands.is_empty()
            && self.secrets.is_empty()
            && self.variables.is_empty()
            && self.tools.is_empty()
            && !self.model
    }
}

impl From<Needs> for wit::Needs {
    fn from(needs: Needs) -> Self {
        let Needs {
            files,
            hosts,
            commands,
            secrets,
            variables,
            tools,
            model,
        } = needs;
        Self {
            files,
            hosts,
            commands,
            secrets,
            variables,
            tools,
            model,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_of_any_kind_are_not_empty() {
        assert!(Needs::none().is_empty());
        let one_of_each = [
            Needs::none().read(".", ""),
            Needs::none().write("out", ""),
            Needs::none().host("a.example", ["GET"], ""),
            Needs::none().command("git status *", ""),
            Needs::none().secret("KEY", "a.example", "Authorization", ""),
            Needs::none().variable("LANG"),
            Needs::none().tool("read_file"),
            Needs::none().model(),
        ];
        for needs in one_of_each {
            assert!(!needs.is_empty(), "{needs:?}");
        }
    }
}
