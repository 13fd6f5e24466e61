//! The rules that are always on, as data.
//!
//! What is read-only here is what some other program *runs* or *obeys* by itself the next time that a person
//! opens a shell, an editor, an agent or git: a tool that could write it would have left its sandbox. Text that
//! only informs a model (`AGENTS.md`, `.cursorrules`) and files that run when a person asks for it
//! (`package.json`, `Makefile`) are a tool's normal work and stay free. What is hidden holds secrets.

/// Never created, changed, removed, renamed or linked by a tool.
pub(super) const READ_ONLY: &[&str] = &[
    // Ours: settings, grants and tools are a person's to change.
    ".mimir",
    "**/.config/mimir",
    "**/.cache/mimir",
    // Git runs hooks, and config names programs to run. The other files lead git to another config.
    "**/.git/hooks",
    "**/.git/config",
    "**/.git/config.worktree",
    "**/.git/commondir",
    "**/.git/gitdir",
    "**/.git/modules",
    "**/.git/worktrees",
    ".gitconfig",
    "**/.config/git",
    // Where projects have git look for hooks.
    ".husky",
    ".githooks",
    // Shells and sessions.
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".pam_environment",
    "*profile.ps1",
    "**/.config/fish",
    "**/.config/nushell",
    "**/.config/powershell",
    "**/.config/autostart",
    "**/.config/systemd",
    "**/.config/environment.d",
    "**/Library/LaunchAgents",
    // Agents: servers to start, hooks to run, permissions to skip.
    ".claude",
    ".claude.json",
    ".codex",
    ".cursor",
    ".gemini",
    ".opencode",
    "**/.config/opencode",
    "opencode.json",
    "opencode.jsonc",
    ".mcp.json",
    ".roo",
    ".kiro",
    ".windsurf",
    ".continue",
    ".amazonq",
    ".aider.conf.yml",
    ".qwen",
    ".goose",
    "crush.json",
    ".crush.json",
    // Editors: tasks that run when a folder is opened, programs that settings name.
    "**/.vscode/tasks.json",
    "**/.vscode/settings.json",
    "**/.vscode/launch.json",
    "**/.vscode/mcp.json",
    "*.code-workspace",
    ".devcontainer",
    ".vimrc",
    ".nvimrc",
    ".exrc",
    ".emacs",
    ".emacs.d",
    "**/.config/nvim",
    ".tmux.conf",
    ".inputrc",
    ".zed",
    ".idea",
];

/// Read-only when it is not a directory: a `.git` file sends git to a folder of someone's choice, and a folder with
/// a `HEAD` of its own is a repository to git, whose `config` it obeys. In `.git` the config is closed already. What
/// stands here is read before the rest, so that the exception opens nothing else.
pub(super) const READ_ONLY_LEAF: &[&str] = &[".git", "HEAD", "!**/.git/HEAD"];

/// Ours and nobody's business: audit, approvals, and the storage that each plugin has to itself. So are the memories: what
/// one says is no more trusted than whoever saved it, and only the tools of memory know who that was.
pub(super) const HIDDEN: &[&str] = &["**/.mimir/state", "**/.mimir/memory"];

/// Secrets files, with their exceptions after them. `id_*` of the design is spelled out, so that `id_map.rs`
/// stays visible.
pub(super) const SECRETS: &[&str] = &[
    ".env",
    ".env.*",
    "*.env",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    "!.env.dist",
    "!.env.defaults",
    "!example.env",
    "!sample.env",
    "!template.env",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "!id_*.pub",
    ".ssh",
    ".gnupg",
    ".aws",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    "**/.docker/config.json",
    "**/.kube/config",
    "**/.config/gcloud",
    "**/.config/gh",
];
