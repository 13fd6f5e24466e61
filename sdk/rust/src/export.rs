//! The macro that makes a crate a plugin, and the functions it expands to.

use std::marker::PhantomData;

use crate::bindings::assessor::Assessment as WitAssessment;
use crate::bindings::mimir::tool::types as wit;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::output::{IntoOutput, Output};
use crate::tool::{self, Assess, Assessment, Tool};

/// Exports tools as a plugin. Call it once, in a crate of type `cdylib`.
///
/// List the tools that implement [`Assess`](crate::Assess) after `assessed`. A plugin without such tools exports no
/// assessor, which saves the host one call of the component per tool call.
///
/// ```
/// # use mimir_sdk::prelude::*;
/// # /// Counts.
/// # #[derive(Deserialize, JsonSchema)]
/// # struct Count {}
/// # impl Tool for Count { type Output = (); fn run(self, _: &Context) -> Result<()> { Ok(()) } }
/// # /// Forgets.
/// # #[derive(Deserialize, JsonSchema)]
/// # struct Forget {}
/// # impl Tool for Forget { type Output = (); fn run(self, _: &Context) -> Result<()> { Ok(()) } }
/// # impl Assess for Forget { fn assess(&self, _: &Context) -> Assessment { Assessment::ask("forgets") } }
/// mimir_sdk::export!(Count; assessed Forget);
/// ```
///
/// A tool that implements `Assess` but is not listed after `assessed` does not compile:
///
/// ```compile_fail
/// # use mimir_sdk::prelude::*;
/// # /// Forgets.
/// # #[derive(Deserialize, JsonSchema)]
/// # struct Forget {}
/// # impl Tool for Forget { type Output = (); fn run(self, _: &Context) -> Result<()> { Ok(()) } }
/// # impl Assess for Forget { fn assess(&self, _: &Context) -> Assessment { Assessment::ask("forgets") } }
/// mimir_sdk::export!(Forget);
/// ```
#[macro_export]
macro_rules! export {
    ($($tool:ty),+ $(,)?) => { $crate::export!(@plugin [$($tool),+] []); };
    (assessed $($assessed:ty),+ $(,)?) => { $crate::export!(@plugin [] [$($assessed),+]); };
    ($($tool:ty),+ ; assessed $($assessed:ty),+ $(,)?) => { $crate::export!(@plugin [$($tool),+] [$($assessed),+]); };
    (@plugin [$($tool:ty),*] [$($assessed:ty),*]) => {
        const _: () = {
            $({
                use $crate::runtime::NotAssessed as _;
                assert!(
                    !<$crate::runtime::Probe<$tool>>::ASSESSED,
                    concat!("`", stringify!($tool), "` implements Assess: list it after `assessed` in export!"),
                );
            })*
        };
        const _: () = {
            /// The tools of this plugin.
            static TOOLS: &[$crate::runtime::Entry] = &[
                $($crate::runtime::Entry::plain::<$tool>(),)*
                $($crate::runtime::Entry::assessed::<$assessed>(),)*
            ];
            /// Package metadata from Cargo.toml.
            static PACKAGE: $crate::runtime::Package = $crate::runtime::Package {
                name: env!("CARGO_PKG_NAME"),
                version: env!("CARGO_PKG_VERSION"),
                description: env!("CARGO_PKG_DESCRIPTION"),
                license: env!("CARGO_PKG_LICENSE"),
                homepage: env!("CARGO_PKG_HOMEPAGE"),
            };
            struct Plugin;
            impl $crate::bindings::toolset::Guest for Plugin {
                fn describe() -> $crate::bindings::mimir::tool::types::Manifest {
                    $crate::runtime::describe(&PACKAGE, TOOLS)
                }
                fn call(
                    tool: String,
                    arguments: String,
                    context: $crate::bindings::mimir::tool::types::CallContext,
                ) -> ::core::result::Result<
                    $crate::bindings::mimir::tool::types::Output,
                    $crate::bindings::mimir::tool::types::Error,
                > {
                    $crate::runtime::call(TOOLS, &tool, &arguments, context)
                }
            }
            // Natively the plugin is an ordinary library that tests can link.
            #[cfg(target_family = "wasm")]
            $crate::bindings::export_toolset!(Plugin with_types_in $crate::bindings::tool);
            $crate::export!(@assessor Plugin [$($assessed),*]);
        };
    };
    (@assessor $plugin:ident []) => {};
    (@assessor $plugin:ident [$($assessed:ty),+]) => {
        impl $crate::bindings::assessor::Guest for $plugin {
            fn assess(
                tool: String,
                arguments: String,
                context: $crate::bindings::mimir::tool::types::CallContext,
            ) -> $crate::bindings::assessor::Assessment {
                $crate::runtime::assess(TOOLS, &tool, &arguments, context)
            }
        }
        #[cfg(target_family = "wasm")]
        $crate::bindings::export_assessor!($plugin with_types_in $crate::bindings::assessing);
    };
}

/// Package metadata from Cargo.toml; missing fields are empty.
#[derive(Debug)]
pub struct Package {
    /// `package.name`.
    pub name: &'static str,
    /// `package.version`.
    pub version: &'static str,
    /// `package.description`.
    pub description: &'static str,
    /// `package.license`.
    pub license: &'static str,
    /// `package.homepage`.
    pub homepage: &'static str,
}

/// One tool with its type erased.
#[derive(Debug)]
pub struct Entry {
    name: fn() -> String,
    define: fn() -> wit::Definition,
    run: fn(&str, &Context) -> Result<Output>,
    assess: fn(&str, &Context) -> Assessment,
}

impl Entry {
    /// Creates the entry of a tool whose declared approval and risk apply to every call.
    pub const fn plain<T: Tool>() -> Self {
        Self {
            name: tool::name::<T>,
            define: tool::definition::<T>,
            run: run::<T>,
            assess: assess_as_declared::<T>,
        }
    }

    /// Creates the entry of a tool that assesses its calls.
    pub const fn assessed<T: Assess>() -> Self {
        Self {
            assess: assess_own::<T>,
            ..Self::plain::<T>()
        }
    }
}

/// Detects at compile time if a type implements [`Assess`]: if it does, the inherent constant takes precedence over the
/// constant of [`NotAssessed`].
#[derive(Debug)]
pub struct Probe<T>(PhantomData<T>);

impl<T: Assess> Probe<T> {
    /// True: the type implements [`Assess`].
    pub const ASSESSED: bool = true;
}

/// Fallback of [`Probe`] for types that do not implement [`Assess`].
pub trait NotAssessed {
    /// False: the type does not implement [`Assess`].
    const ASSESSED: bool = false;
}

impl<T> NotAssessed for Probe<T> {}

/// Returns the manifest of a plugin for the host.
pub fn describe(package: &Package, tools: &[Entry]) -> wit::Manifest {
    let non_empty = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    wit::Manifest {
        name: package.name.into(),
        version: package.version.into(),
        description: package.description.into(),
        license: non_empty(package.license),
        homepage: non_empty(package.homepage),
        tools: tools.iter().map(|entry| (entry.define)()).collect(),
    }
}

/// Runs one call. Fails with `not-found` if the plugin has no tool of this name.
pub fn call(
    tools: &[Entry],
    tool: &str,
    arguments: &str,
    context: wit::CallContext,
) -> std::result::Result<wit::Output, wit::Error> {
    let entry = find(tools, tool)
        .ok_or_else(|| Error::not_found(format_args!("no tool `{tool}` in this plugin")))?;
    let output = (entry.run)(arguments, &Context::from(context))?;
    Ok(output.into())
}

/// Assesses a call without running it. A call of an unknown tool is denied.
pub fn assess(
    tools: &[Entry],
    tool: &str,
    arguments: &str,
    context: wit::CallContext,
) -> WitAssessment {
    match find(tools, tool) {
        Some(entry) => (entry.assess)(arguments, &Context::from(context)).into(),
        None => Assessment::deny(format!("no tool `{tool}` in this plugin")).into(),
    }
}

fn find<'a>(tools: &'a [Entry], name: &str) -> Option<&'a Entry> {
    tools.iter().find(|entry| (entry.name)() == name)
}

fn run<T: Tool>(arguments: &str, cx: &Context) -> Result<Output> {
    parse::<T>(arguments)?.run(cx)?.into_output()
}

fn assess_own<T: Assess>(arguments: &str, cx: &Context) -> Assessment {
    match parse::<T>(arguments) {
        Ok(tool) => tool.assess(cx),
        // `ask` is safe: the call would fail on the same arguments before it changes anything.
        Err(error) => Assessment::ask(error.to_string()),
    }
}

fn assess_as_declared<T: Tool>(_: &str, _: &Context) -> Assessment {
    let name = tool::name::<T>();
    match tool::approval::<T>() {
        tool::Approval::Allow => Assessment::allow(name),
        tool::Approval::Ask => Assessment::ask(name),
        tool::Approval::Deny => Assessment::deny(name),
    }
    .risk(T::RISK)
}

/// Parses the arguments; the error contains the path of the invalid one.
fn parse<T: Tool>(arguments: &str) -> Result<T> {
    let text = if arguments.trim().is_empty() {
        "{}"
    } else {
        arguments
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let at = if path == "." {
            "arguments".to_owned()
        } else {
            path
        };
        let reason = error.into_inner().to_string();
        // The position in the JSON text is dropped, because the text was not written by hand.
        let reason = reason
            .split(" at line ")
            .next()
            .unwrap_or(&reason)
            .to_owned();
        Error::invalid_input(format_args!("{at}: {reason}"))
            .with_details(serde_json::json!([{ "path": at, "message": reason }]))
    })?;
    json.end()
        .map_err(|e| Error::invalid_input(format_args!("arguments: {e}")))?;
    Ok(parsed)
}

#[cfg(test)]
mod tests;
