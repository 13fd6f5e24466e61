//! The built-in path rules, as data.
//!
//! Read-only paths are files that another program executes or follows automatically the next time a person opens a
//! shell, an editor, an agent or git: a tool that could write them could escape its sandbox. Text that only informs a
//! model (`AGENTS.md`, `.cursorrules`) and files that run at a person's request (`package.json`, `Makefile`) are part
//! of a tool's normal work and stay writable. Hidden paths contain secrets.

/// Paths that tools cannot create, change, remove, rename or link.
pub(super) const READ_ONLY: &[&str] = &[
    // Mimir's own files: only a person may change settings, grants and tools.
    ".mimir",
    "**/.config/mimir",
    "**/.cache/mimir",
    // Git runs hooks, and its config names programs to run. The other files lead git to another config.
    "**/.git/hooks",
    "**/.git/config",
    "**/.git/config.worktree",
    "**/.git/commondir",
    "**/.git/gitdir",
    "**/.git/modules",
    "**/.git/worktrees",
    ".gitconfig",
    "**/.config/git",
    // Folders in which projects have git look for hooks.
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
    // Instructions and scripts that several agents share and follow.
    "**/.agents/skills",
    ".github/skills",
    "crush.json",
    ".crush.json",
    // Editors: tasks that run when a folder is opened, programs named in settings.
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

/// Paths that are read-only unless they are directories. A `.git` file redirects git to an arbitrary folder, and git
/// treats a folder with a `HEAD` as a repository and follows its `config`. The exception is safe, because the config in
/// `.git` is protected by other rules, which follow these and so take precedence.
pub(super) const READ_ONLY_LEAF: &[&str] = &[".git", "HEAD", "!**/.git/HEAD"];

/// The folders of skills that other agents use, too, relative to the workspace root. The first one with a skill takes
/// precedence over the others.
pub const SHARED_SKILL_FOLDERS: [&str; 7] = [
    ".agents/skills",
    ".claude/skills",
    ".codex/skills",
    ".cursor/skills",
    ".gemini/skills",
    ".github/skills",
    ".opencode/skills",
];

/// The skills in all folders in which mimir finds them, and in folders of these names further down, which other agents use.
/// They are hidden, because text of a skill is untrusted until a
/// person trusts it, and only `load_skill` marks it. The folders of trusted skills are exceptions.
pub(super) const SKILLS: &[&str] = &[
    "**/.mimir/skills/*",
    "**/.mimir/team-skills/*",
    "**/.agents/skills/*",
    "**/.claude/skills/*",
    "**/.codex/skills/*",
    "**/.cursor/skills/*",
    "**/.gemini/skills/*",
    "**/.github/skills/*",
    "**/.opencode/skills/*",
];

/// Private state of mimir: the audit log, approvals, and the stored values of plugins. Memories are hidden, too,
/// because only the memory tools know a memory's author, which determines its trust level.
pub(super) const HIDDEN: &[&str] = &["**/.mimir/state", "**/.mimir/memory"];

/// Secret files and their exceptions. `id_*` is spelled out, so that files like `id_map.rs` stay visible.
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
    // The keys that `mimir cluster init` writes, and the credentials of other NATS clients.
    "*.nk",
    "*.creds",
    "serve.token",
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
