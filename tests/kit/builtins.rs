//! The bundled tools and engines, in the form of a toolbox and a script loader.

use mimir_script::Engines;
use mimir_testkit::Bundled;
use mimir_wasm::program::{Packed, ProgramParts};
use mimir_wasm::script::EngineParts;

/// The components in the binary.
pub fn builtins() -> Vec<Bundled> {
    let all = mimir_builtins::ALL.iter();
    all.map(|builtin| Bundled {
        name: builtin.name,
        bytes: builtin.bytes,
        sha256: builtin.sha256,
        keeps_backups: builtin.keeps_backups,
        keeps_memory: builtin.keeps_memory,
        aliases: builtin.aliases,
        description: Some(builtin.description),
    })
    .collect()
}

/// The engines in the binary.
pub fn engines() -> Engines {
    let javascript = mimir_builtins::JAVASCRIPT;
    Engines {
        javascript: EngineParts {
            name: javascript.name,
            component: javascript.component,
            prelude: javascript.prelude,
        },
        python: program(mimir_builtins::PYTHON, true),
        bash: program(mimir_builtins::BASH, false),
    }
}

fn program(engine: mimir_builtins::Program, records: bool) -> ProgramParts {
    ProgramParts {
        name: engine.name,
        component: match engine.packed {
            [] => Packed::Plain(engine.before),
            module => Packed::Around {
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
