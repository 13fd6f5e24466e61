//! The bundled tools and engines, in the form of a toolbox and a script loader.

use mimir_script::LanguageEngineParts;
use mimir_testkit::BundledComponent;

/// The components in the binary.
pub fn builtins() -> Vec<BundledComponent> {
    mimir_builtins::ALL.to_vec()
}

/// The engines in the binary.
pub fn engines() -> LanguageEngineParts {
    LanguageEngineParts {
        javascript: mimir_builtins::JAVASCRIPT,
        python: mimir_builtins::PYTHON,
        bash: mimir_builtins::BASH,
    }
}
