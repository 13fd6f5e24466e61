//! The bundled tools and language engines.

use mimir_script::LanguageEngineParts;
use mimir_testkit::BundledComponent;

/// Returns the bundled tool components.
pub fn builtins() -> Vec<BundledComponent> {
    mimir_builtins::ALL.to_vec()
}

/// Returns the bundled language engines.
pub fn engines() -> LanguageEngineParts {
    LanguageEngineParts {
        javascript: mimir_builtins::JAVASCRIPT,
        python: mimir_builtins::PYTHON,
        bash: mimir_builtins::BASH,
    }
}
