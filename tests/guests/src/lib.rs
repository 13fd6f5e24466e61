//! Shared code of the hostile guests: the contract's bindings, and a short way to write a plugin with one tool.
//!
//! Each guest is one small file in `examples/`; its tool has the name of the file. Out of scope: the behaviour itself,
//! and anything a normal plugin would use (that is `mimir-sdk`).

#[expect(
    missing_docs,
    reason = "generated from the contract, which documents itself"
)]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "tool",
        pub_export_macro: true,
        default_bindings_module: "mimir_guests::bindings",
    });
}

pub use bindings::exports::mimir::tool::toolset::Guest as Toolset;
pub use bindings::mimir::tool as host;
pub use bindings::mimir::tool::types::{
    Approval, CallContext, Content, Definition, Error, ErrorCode, FileAccess, FileNeed, Group,
    Hints, HostNeed, Manifest, Media, Needs, Output, Risk, SecretNeed,
};

/// Result of a tool.
pub type Answer = Result<Output, Error>;

/// The name of the guest's file.
pub trait Named {
    /// The crate's own name.
    const NAME: &'static str;
}

/// A plugin that misbehaves when it is called, or when it is described.
pub trait Hostile: Named {
    /// The manifest: by default one tool that takes any object, needs nothing and asks for no approval.
    fn describe() -> Manifest {
        manifest(vec![tool(Self::NAME)])
    }

    /// Runs a call; `arguments` is a JSON object.
    fn call(arguments: String) -> Answer;
}

impl<T: Hostile> Toolset for T {
    fn describe() -> Manifest {
        <T as Hostile>::describe()
    }

    fn call(_: String, arguments: String, _: CallContext) -> Answer {
        <T as Hostile>::call(arguments)
    }
}

/// Exports a type as the guest.
#[macro_export]
macro_rules! hostile {
    ($guest:ident) => {
        impl $crate::Named for $guest {
            const NAME: &'static str = env!("CARGO_CRATE_NAME");
        }
        $crate::bindings::export!($guest);
    };
}

/// The manifest of a plugin with these tools.
pub fn manifest(tools: Vec<Definition>) -> Manifest {
    Manifest {
        name: "guest".into(),
        version: "1.0.0".into(),
        description: "A guest that does not mean well.".into(),
        license: None,
        homepage: None,
        tools,
    }
}

/// A tool that takes any object, needs nothing and asks for no approval.
pub fn tool(name: &str) -> Definition {
    Definition {
        name: name.into(),
        title: None,
        description: "Does something that the host has to bound.".into(),
        group: Group::System,
        input_schema: r#"{"type":"object"}"#.into(),
        output_schema: None,
        approval: Approval::Allow,
        risk: Risk::Low,
        hints: Hints::empty(),
        needs: no_needs(),
    }
}

/// A tool that needs the whole workspace with this access.
pub fn file_tool(name: &str, access: FileAccess) -> Definition {
    let mut definition = tool(name);
    definition.group = Group::Fs;
    definition.needs.files = vec![FileNeed {
        path: ".".into(),
        access,
        reason: "to try what it can reach".into(),
    }];
    definition
}

/// No needs.
pub fn no_needs() -> Needs {
    Needs {
        files: vec![],
        hosts: vec![],
        commands: vec![],
        secrets: vec![],
        variables: vec![],
        tools: vec![],
        model: false,
    }
}

/// A result with one text.
pub fn text(text: impl Into<String>) -> Answer {
    Ok(Output {
        content: vec![Content::Text(text.into())],
        structured: None,
        exit_code: None,
    })
}

/// A result with structured content only.
pub fn structured(json: impl Into<String>) -> Answer {
    Ok(Output {
        content: vec![],
        structured: Some(json.into()),
        exit_code: None,
    })
}
