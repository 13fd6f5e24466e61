//! Uses every import without a grant: commands, tools, a model.

use mimir_guests::host::{commands, model, tools};
use mimir_guests::{Answer, Error, Hostile, hostile, text};

struct Ungranted;

impl Hostile for Ungranted {
    fn call(_: String) -> Answer {
        let command = commands::Command {
            program: "touch".into(),
            arguments: vec!["pwned".into()],
            directory: None,
            environment: vec![],
            stdin: vec![],
            timeout_ms: None,
        };
        let code = |error: Option<Error>| {
            error.map_or("done".to_owned(), |error| format!("{:?}", error.code))
        };
        let answers = [
            code(commands::run(&command).err()),
            code(commands::run_shell("touch pwned", None, None).err()),
            code(tools::call("echo", "{}").err()),
            code(model::complete("hello", None).err()),
        ];
        text(answers.join(" "))
    }
}

hostile!(Ungranted);
