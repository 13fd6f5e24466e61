//! The parser moves on or fails.
//!
//! As published, what no command begins with is asked for again and again in a `case` item, a subshell and a group, until
//! the fuel of the call is used up.

use super::Edit;

pub const EDITS: &[Edit] = &[
    (
        "src/parser/mod.rs",
        "                if let Some(cmd) = self.parse_command_list()? {
                    commands.push(*cmd);
                }
                self.skip_newlines()?;",
        1,
        "                match self.parse_command_list()? {
                    Some(cmd) => commands.push(*cmd),
                    None => self.must_have_ended()?,
                }
                self.skip_newlines()?;",
    ),
    (
        "src/parser/mod.rs",
        "            if let Some(cmd) = self.parse_command_list()? {
                commands.push(*cmd);
            }
        }
",
        2,
        "            match self.parse_command_list()? {
                Some(cmd) => commands.push(*cmd),
                None => self.must_have_ended()?,
            }
        }
",
    ),
    (
        "src/parser/mod.rs",
        "    /// Parse a command list (commands connected by && or ||)\n",
        1,
        "    /// Fails unless the input ended: what is there begins no command.
    fn must_have_ended(&mut self) -> Result<()> {
        self.check_error_token()?;
        match self.current_token {
            Some(_) => Err(self.error(\"unexpected token\")),
            None => Ok(()),
        }
    }

    /// Parse a command list (commands connected by && or ||)\n",
    ),
];
