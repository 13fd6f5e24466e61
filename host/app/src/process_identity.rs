//! The names of the user, the machine and this process, as people know them. They prove nothing.

/// Returns the name of the user of this process.
pub fn user_name() -> String {
    let names = ["USER", "LOGNAME", "USERNAME"].into_iter();
    let mut names = names.filter_map(|name| std::env::var(name).ok());
    let name = names.find(|name| !name.trim().is_empty());
    name.map_or_else(
        || "an unknown user".to_owned(),
        |name| mimir_core::text::visible(name.trim()),
    )
}

/// Returns the name of this machine.
pub fn machine_name() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    #[cfg(windows)]
    let name = std::env::var("COMPUTERNAME").unwrap_or_default();
    if name.is_empty() {
        "an unknown machine".to_owned()
    } else {
        mimir_core::text::visible(&name)
    }
}

/// Returns the name of this process.
pub fn process_name() -> String {
    format!("process {} on {}", std::process::id(), machine_name())
}
