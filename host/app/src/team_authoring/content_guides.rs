//! `README.md` files of a team's folder, which say what the folders `workers`, `prompts` and `skills` are for.

use super::folder_content::{PROMPTS, SKILLS, WORKERS};

/// Name of these files. They are not published.
pub const GUIDE: &str = "README.md";

/// Returns the text of the guide in a folder of the bundle's files; `None` for other folders.
pub fn guide(folder: &str) -> Option<&'static str> {
    match folder {
        WORKERS => Some(WORKERS_GUIDE),
        PROMPTS => Some(PROMPTS_GUIDE),
        SKILLS => Some(SKILLS_GUIDE),
        _ => None,
    }
}

const WORKERS_GUIDE: &str = "\
# Workers

Agents for all members: one file `NAME.yml` for each (`mimir help workers`). This README is not published.

Example, `review.yml`:

```yaml
description: Reviews a change and says what is wrong with it.
instructions: You review changes. Name the file and line of each mistake.
toolsets:
  filesystem: {readOnly: true}
```

Members use it with:

```sh
mimir run --worker review \"review the last commit\"
```
";

const PROMPTS_GUIDE: &str = "\
# Prompts

Texts that members send often: one file `NAME.md` for each. This README is not published.

Example, `standup.md`:

```markdown
Read the commits of the last working day and write a report of at most five lines: what was done, and what is open.
```

In `mimir chat`, `/prompt` lists the prompts, and `/prompt standup only the API` sends this text, followed by
\"only the API\".
";

const SKILLS_GUIDE: &str = "\
# Skills

Instructions for a kind of task, which models load when they need them: one folder for each, with a file `SKILL.md` and
the files that it names (`mimir help skills`). This README, hidden files and backups of editors are not published.

Example, `release-notes/SKILL.md`. The name is that of the folder:

```markdown
---
name: release-notes
description: Writes release notes. Use it when a version is released.
---
List the changes since the last tag, in the words of users. One line for each, the most important first.
```

Members have it without installing it; `mimir skills` lists it with the state `team`.
";
