//! What the hostile guests share: the contract's bindings, and the shortest way to be a plugin of one tool.
//!
//! Each guest is one small file in `examples/`; its tool has the name of the file. Never here: the behaviour
//! itself, or anything a decent plugin would use (that is `mimir-sdk`).

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

/// What a tool gives back.
pub type Answer = Result<Output, Error>;

/// The name of the guest's file.
pub trait Named {
    /// The crate's own name.
    const NAME: &'static str;
}

/// A plugin that does something bad when it is called, or when it is described.
pub trait Hostile: Named {
    /// What it says of itself: by default one tool that takes anything, needs nothing and asks for no approval.
    fn describe() -> Manifest {
        manifest(vec![tool(Self::NAME)])
    }

    /// What it does; `arguments` is a JSON object.
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

/// Makes a type the guest.
#[macro_export]
macro_rules! hostile {
    ($guest:ident) => {
        impl $crate::Named for $guest {
            const NAME: &'static str = env!("CARGO_CRATE_NAME");
        }
        $crate::bindings::export!($guest);
    };
}

/// A plugin with these tools.
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

/// A tool that needs the whole workspace, as far as `access` says.
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

/// Nothing.
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

/// A result of one text.
pub fn text(text: impl Into<String>) -> Answer {
    Ok(Output {
        content: vec![Content::Text(text.into())],
        structured: None,
        exit_code: None,
    })
}

/// A result that is only structured, whatever the text is.
pub fn structured(json: impl Into<String>) -> Answer {
    Ok(Output {
        content: vec![],
        structured: Some(json.into()),
        exit_code: None,
    })
}
