//! The bundled tools and engines, in the form of a toolbox and a script loader.

use mimir_script::LanguageEngineParts;
use mimir_testkit::BundledComponent;
use mimir_wasm::program::{PackedComponent, ProgramParts};
use mimir_wasm::script::EngineParts;

/// The components in the binary.
pub fn builtins() -> Vec<BundledComponent> {
    let all = mimir_builtins::ALL.iter();
    all.map(|builtin| BundledComponent {
        name: builtin.name,
        bytes: builtin.bytes,
        sha256: builtin.sha256,
        requires_undo: builtin.requires_undo,
        keeps_memory: builtin.keeps_memory,
        aliases: builtin.aliases,
        description: Some(builtin.description),
    })
    .collect()
}

/// The engines in the binary.
pub fn engines() -> LanguageEngineParts {
    let javascript = mimir_builtins::JAVASCRIPT;
    LanguageEngineParts {
        javascript: EngineParts {
            name: javascript.name,
            component: javascript.component,
            prelude: javascript.prelude,
        },
        python: program(mimir_builtins::PYTHON, true),
        bash: program(mimir_builtins::BASH, false),
    }
}

fn program(engine: mimir_builtins::ProgramEngineAssets, records: bool) -> ProgramParts {
    ProgramParts {
        name: engine.name,
        component: match engine.packed {
            [] => PackedComponent::Plain(engine.before),
            module => PackedComponent::Around {
                before: engine.before,
                module,
                after: engine.after,
            },
        },
        sha256: engine.sha256,
        files: engine.files,
        main: engine.main,
        argv: engine.argv,
        imports: engine.imports,
        records,
    }
}
