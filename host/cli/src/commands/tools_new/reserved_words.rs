//! Words that a language, its SDK or the template of a plugin reserve, so that a tool cannot have them as its name.

use crate::args::PluginLanguage;

/// Names that a Rust plugin cannot have: those of Cargo, of crates that every plugin uses, and of types in the template.
const RUST_NAMES: &str = "\
    alloc approval assess assessment build context core deps deserialize error examples group hints incremental \
    into_output json json_schema mimir_sdk needs ok option output proc_macro result risk schemars serde \
    serde_json serialize std string test tool worded";

/// Rust keywords of all editions so far.
const RUST_KEYWORDS: &str = "\
    abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen \
    if impl in let loop macro match mod move mut override priv pub ref return self static struct super trait \
    true try type typeof union unsafe unsized use virtual where while yield";

/// Python keywords, in lower case.
const PYTHON_KEYWORDS: &str = "\
    and as assert async await break case class continue def del elif else except false finally for from global \
    if import in is lambda match none nonlocal not or pass raise return true try type while with yield";

/// Names that a Python plugin cannot have: its modules, and names in the template.
const PYTHON_NAMES: &str = "\
    annotated main mimir name str test_tool tool typing unittest";

/// Go keywords.
const GO_KEYWORDS: &str = "\
    break case chan const continue default defer else fallthrough for func go goto if import interface map \
    package range return select struct switch type var";

/// Names that a Go plugin cannot have: those in the template, and folders that Go treats differently.
const GO_NAMES: &str = "\
    error false init internal main mimir nil string strings test testing true vendor";

/// C and C++ keywords, in lower case.
const C_KEYWORDS: &str = "\
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class \
    co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype \
    default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline \
    int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public \
    register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast \
    struct switch template this thread_local throw true try typedef typeid typename typeof union unsigned using \
    virtual void volatile wchar_t";

/// Names that a C plugin cannot have: those of the C library in the template, and those of `mimir.h`.
const C_NAMES: &str = "\
    args assert call code cx errno exit free main malloc name memcpy memset printf stderr stdin stdout strcmp \
    strlen test";

/// Zig keywords.
const ZIG_KEYWORDS: &str = "\
    addrspace align allowzero and anyframe anytype asm async await break callconv catch comptime const continue \
    defer else enum errdefer error export extern fn for if inline linksection noalias noinline nosuspend opaque \
    or orelse packed pub resume return struct suspend switch test threadlocal try undefined union unreachable \
    usingnamespace var volatile";

/// Prefix of the names in `mimir.h`.
const C_PREFIX: &str = "mimir";

/// Returns the reason why a language does not allow this name of a tool, or `None`.
pub fn reserved_by(language: PluginLanguage, tool: &str) -> Option<String> {
    let (keywords, names, owner) = match language {
        PluginLanguage::Rust => (RUST_KEYWORDS, RUST_NAMES, "Cargo or the SDK"),
        PluginLanguage::Python => (PYTHON_KEYWORDS, PYTHON_NAMES, "Python or the template"),
        PluginLanguage::Go => (GO_KEYWORDS, GO_NAMES, "Go or the template"),
        PluginLanguage::C | PluginLanguage::Cpp => {
            (C_KEYWORDS, C_NAMES, "the C library or the template")
        }
        PluginLanguage::Zig => (ZIG_KEYWORDS, "", ""),
        // The name is only a string in the template.
        PluginLanguage::TypeScript | PluginLanguage::JavaScript => return None,
    };
    let contains = |words: &str| words.split_whitespace().any(|word| word == tool);
    if contains(keywords) {
        return Some(format!("it is a {} keyword", language.title()));
    }
    let is_c = matches!(language, PluginLanguage::C | PluginLanguage::Cpp);
    let is_taken = contains(names) || is_c && tool.starts_with(C_PREFIX);
    is_taken.then(|| format!("{owner} uses that name"))
}
