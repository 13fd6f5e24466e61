//! The names of the user, the machine and this process, as people know them. They prove nothing.

/// Returns the name of the user of this process.
pub fn user_name() -> String {
    let names = ["USER", "LOGNAME", "USERNAME"].into_iter();
    let mut names = names.filter_map(|name| std::env::var(name).ok());
    // Services and containers often have none of these variables.
    let name = names
        .find(|name| !name.trim().is_empty())
        .or_else(account_name);
    name.map_or_else(
        || "an unknown user".to_owned(),
        |name| mimir_core::text::visible(name.trim()),
    )
}

/// Returns the name of this process's account in `/etc/passwd`, or its number.
#[cfg(unix)]
fn account_name() -> Option<String> {
    let id = rustix::process::getuid().as_raw();
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = account_of(&accounts, id).map(str::to_owned);
    Some(name.unwrap_or_else(|| format!("user {id}")))
}

#[cfg(not(unix))]
fn account_name() -> Option<String> {
    None
}

/// Returns the name of an account in the format of `/etc/passwd`: `NAME:PASSWORD:ID:…`.
#[cfg(unix)]
fn account_of(accounts: &str, id: u32) -> Option<&str> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let is_it = fields.nth(1)?.parse() == Ok(id);
        is_it.then_some(name)
    })
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

/// Returns the name of the user and the machine, for what is published in a cluster.
pub fn publisher() -> String {
    format!("{} on {}", user_name(), machine_name())
}

/// Returns the name of this process.
pub fn process_name() -> String {
    format!("process {} on {}", std::process::id(), machine_name())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn account_names_come_from_the_list_of_accounts() {
        let accounts =
            "root:x:0:0:root:/root:/bin/sh\n\nbroken\n:x:7::\nann:x:1000:1000::/home/ann:\n";
        assert_eq!(account_of(accounts, 0), Some("root"));
        assert_eq!(account_of(accounts, 1000), Some("ann"));
        assert_eq!(account_of(accounts, 7), None);
        assert_eq!(account_of("", 0), None);
    }
}
