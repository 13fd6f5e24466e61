//! Statements of bc.

use super::super::lexer::BcToken;
use super::super::program::{BcInstruction, NameTable};
use super::expressions::{ExpressionKind, power};
use super::{BcCompiler, CompileStop, Compiled, OpenLoop};

impl BcCompiler<'_> {
    pub(super) fn compile_statement(&mut self, names: &mut NameTable) -> Compiled<()> {
        self.enter_nested()?;
        match self.token.clone() {
            BcToken::Text(text) => {
                self.advance();
                self.emit(BcInstruction::PrintText(text.into()));
            }
            BcToken::Symbol("{") => {
                self.advance();
                self.compile_block(names)?;
            }
            BcToken::Keyword("quit") => return Err(CompileStop::Quit),
            BcToken::Keyword("halt") => {
                self.advance();
                self.emit(BcInstruction::Halt);
            }
            BcToken::Keyword("if") => self.compile_if(names)?,
            BcToken::Keyword("while") => self.compile_while(names)?,
            BcToken::Keyword("for") => self.compile_for(names)?,
            BcToken::Keyword("print") => self.compile_print(names)?,
            BcToken::Keyword("return") => self.compile_return(names)?,
            BcToken::Keyword("break") => {
                let at = self.emit(BcInstruction::Jump(0));
                match self.loops.last_mut() {
                    Some(open) => open.breaks.push(at),
                    None => self.report("Break outside a for/while"),
                }
                self.advance();
            }
            BcToken::Keyword("continue") => {
                match self.loops.last().map(|open| open.continue_at) {
                    Some(target) => {
                        self.emit(BcInstruction::Jump(target));
                    }
                    None => self.report("Continue outside a for"),
                }
                self.advance();
            }
            _ => match self.compile_expression(names, power::OR)? {
                ExpressionKind::Value => {
                    self.emit(BcInstruction::PrintLine);
                }
                ExpressionKind::Assignment | ExpressionKind::Void => {
                    self.emit(BcInstruction::Discard);
                }
            },
        }
        self.nesting -= 1;
        Ok(())
    }

    fn compile_condition(&mut self, names: &mut NameTable) -> Compiled<usize> {
        self.expect_symbol("(")?;
        self.compile_operand(names, power::OR)?;
        self.expect_symbol(")")?;
        self.skip_newlines();
        Ok(self.emit(BcInstruction::JumpIfZero(0)))
    }

    fn compile_if(&mut self, names: &mut NameTable) -> Compiled<()> {
        self.advance();
        let skip = self.compile_condition(names)?;
        self.compile_statement(names)?;
        if self.token == BcToken::Keyword("else") {
            self.advance();
            self.skip_newlines();
            let end = self.emit(BcInstruction::Jump(0));
            self.land_jump(skip);
            self.compile_statement(names)?;
            self.land_jump(end);
        } else {
            self.land_jump(skip);
        }
        Ok(())
    }

    fn compile_while(&mut self, names: &mut NameTable) -> Compiled<()> {
        self.advance();
        let start = self.code.len();
        let leave = self.compile_condition(names)?;
        self.compile_loop_body(names, start)?;
        self.land_jump(leave);
        self.land_breaks();
        Ok(())
    }

    fn compile_for(&mut self, names: &mut NameTable) -> Compiled<()> {
        self.advance();
        self.expect_symbol("(")?;
        self.compile_optional(names, ";")?;
        let condition = self.code.len();
        let leave = if self.accept_symbol(";") {
            None
        } else {
            self.compile_operand(names, power::OR)?;
            self.expect_symbol(";")?;
            Some(self.emit(BcInstruction::JumpIfZero(0)))
        };
        let enter = self.emit(BcInstruction::Jump(0));
        let update = self.code.len();
        self.compile_optional(names, ")")?;
        self.emit(BcInstruction::Jump(condition));
        self.skip_newlines();
        self.land_jump(enter);
        self.compile_loop_body(names, update)?;
        if let Some(leave) = leave {
            self.land_jump(leave);
        }
        self.land_breaks();
        Ok(())
    }

    /// Compiles an optional expression before the symbol `end`. The value of the expression is discarded.
    fn compile_optional(&mut self, names: &mut NameTable, end: &str) -> Compiled<()> {
        if self.accept_symbol(end) {
            return Ok(());
        }
        self.compile_expression(names, power::OR)?;
        self.emit(BcInstruction::Discard);
        self.expect_symbol(end)
    }

    fn compile_loop_body(&mut self, names: &mut NameTable, continue_at: usize) -> Compiled<()> {
        self.loops.push(OpenLoop {
            continue_at,
            breaks: Vec::new(),
        });
        self.compile_statement(names)?;
        self.emit(BcInstruction::Jump(continue_at));
        Ok(())
    }

    fn land_breaks(&mut self) {
        let breaks = self.loops.pop().map(|open| open.breaks);
        for at in breaks.unwrap_or_default() {
            self.land_jump(at);
        }
    }

    fn compile_print(&mut self, names: &mut NameTable) -> Compiled<()> {
        self.advance();
        loop {
            if let BcToken::Text(text) = &self.token {
                let text = replace_escapes(text);
                self.advance();
                self.emit(BcInstruction::PrintText(text.into()));
            } else {
                self.compile_operand(names, power::OR)?;
                self.emit(BcInstruction::PrintNumber);
            }
            if !self.accept_symbol(",") {
                return Ok(());
            }
        }
    }

    fn compile_return(&mut self, names: &mut NameTable) -> Compiled<()> {
        self.advance();
        if !self.in_function {
            self.report("Return outside of a function.");
        }
        let ends = [
            BcToken::Symbol(";"),
            BcToken::Symbol("}"),
            BcToken::Keyword("else"),
            BcToken::Newline,
            BcToken::End,
        ];
        if ends.contains(&self.token) {
            self.emit(BcInstruction::Truth(false));
        } else if self.token == BcToken::Symbol("(") && self.peek_symbol(")") {
            self.advance();
            self.advance();
            self.emit(BcInstruction::Truth(false));
        } else {
            self.compile_operand(names, power::OR)?;
        }
        self.emit(BcInstruction::Return);
        Ok(())
    }
}

/// Replaces the escapes in a text of `print`. Unknown escapes are dropped.
fn replace_escapes(text: &str) -> String {
    let mut replaced = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            replaced.push(c);
            continue;
        }
        match chars.next() {
            Some('a') => replaced.push('\u{7}'),
            Some('b') => replaced.push('\u{8}'),
            Some('f') => replaced.push('\u{c}'),
            Some('n') => replaced.push('\n'),
            Some('q') => replaced.push('"'),
            Some('r') => replaced.push('\r'),
            Some('t') => replaced.push('\t'),
            Some('\\') => replaced.push('\\'),
            _ => {}
        }
    }
    replaced
}
