//! Expressions of bc, by the binding powers of their operators.

use super::super::lexer::BcToken;
use super::super::program::{
    BcInstruction, BinaryOperator, CallArgument, LanguageFunction, NameTable, NumberLocation,
    NumberRelation,
};
use super::{BcCompiler, CompileStop, Compiled};

/// Binding powers, from weak to strong. Assignments bind stronger than relations, and a sign stronger than `^`.
pub(super) mod power {
    pub const OR: u8 = 1;
    pub const AND: u8 = 2;
    pub const NOT: u8 = 3;
    pub const RELATION: u8 = 4;
    pub const ASSIGNMENT: u8 = 5;
    pub const SUM: u8 = 6;
    pub const PRODUCT: u8 = 7;
    pub const RAISE: u8 = 8;
    pub const SIGN: u8 = 9;
}

/// The kind of an expression, which decides what its statement prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpressionKind {
    Value,
    Assignment,
    /// A call of a function without a value.
    Void,
}

impl BcCompiler<'_> {
    /// Returns true if the token after the current one is a symbol.
    pub(super) fn peek_symbol(&self, symbol: &str) -> bool {
        let mut ahead = self.lexer.clone();
        matches!(ahead.read_token(), BcToken::Symbol(found) if found == symbol)
    }

    /// Compiles an expression whose value is used.
    pub(super) fn compile_operand(&mut self, names: &mut NameTable, min_power: u8) -> Compiled<()> {
        if self.compile_expression(names, min_power)? == ExpressionKind::Void {
            self.report("void expression: the function has no value");
        }
        Ok(())
    }

    /// Compiles an expression whose operators bind at least as strongly as `min_power`.
    pub(super) fn compile_expression(
        &mut self,
        names: &mut NameTable,
        min_power: u8,
    ) -> Compiled<ExpressionKind> {
        self.enter_nested()?;
        let mut kind = self.compile_prefix(names)?;
        while let BcToken::Symbol(symbol) = self.token {
            let strength = match symbol {
                "||" => power::OR,
                "&&" => power::AND,
                "+" | "-" => power::SUM,
                "*" | "/" | "%" => power::PRODUCT,
                "^" => power::RAISE,
                _ if NumberRelation::from_symbol(symbol).is_some() => power::RELATION,
                _ => break,
            };
            if strength < min_power {
                break;
            }
            if kind == ExpressionKind::Void {
                self.report("void expression: the function has no value");
            }
            kind = ExpressionKind::Value;
            self.advance();
            if strength <= power::AND {
                self.compile_logic(names, symbol, strength)?;
                continue;
            }
            let right = if symbol == "^" {
                strength
            } else {
                strength + 1
            };
            self.compile_operand(names, right)?;
            if let Some(operator) = BinaryOperator::from_symbol(symbol) {
                self.emit(BcInstruction::Binary(operator));
            } else if let Some(relation) = NumberRelation::from_symbol(symbol) {
                self.emit(BcInstruction::Compare(relation));
            }
        }
        self.nesting -= 1;
        Ok(kind)
    }

    /// Compiles the right side of `&&` or `||`, which is not evaluated if the left side decides.
    fn compile_logic(&mut self, names: &mut NameTable, symbol: &str, strength: u8) -> Compiled<()> {
        let decides = symbol == "||";
        let jump = if decides {
            BcInstruction::JumpIfNonzero(0)
        } else {
            BcInstruction::JumpIfZero(0)
        };
        let left = self.emit(jump.clone());
        self.compile_operand(names, strength + 1)?;
        let right = self.emit(jump);
        self.emit(BcInstruction::Truth(!decides));
        let end = self.emit(BcInstruction::Jump(0));
        self.land_jump(left);
        self.land_jump(right);
        self.emit(BcInstruction::Truth(decides));
        self.land_jump(end);
        Ok(())
    }

    fn compile_prefix(&mut self, names: &mut NameTable) -> Compiled<ExpressionKind> {
        let begins = match self.token {
            BcToken::Number(_) | BcToken::Name(_) | BcToken::Keyword(_) => true,
            BcToken::Symbol(symbol) => ["(", "-", "!", "++", "--"].contains(&symbol),
            BcToken::Text(_) | BcToken::Newline | BcToken::End => false,
        };
        // The token is not read, so that error recovery skips the line from it on.
        if !begins {
            return Err(CompileStop::Syntax);
        }
        match self.advance() {
            BcToken::Number(text) => {
                self.emit(BcInstruction::Literal(text.into()));
            }
            BcToken::Symbol("(") => {
                self.compile_operand(names, power::OR)?;
                self.expect_symbol(")")?;
            }
            BcToken::Symbol("-") => {
                self.compile_operand(names, power::SIGN)?;
                self.emit(BcInstruction::Negate);
            }
            BcToken::Symbol("!") => {
                self.compile_operand(names, power::NOT + 1)?;
                self.emit(BcInstruction::Not);
            }
            BcToken::Symbol(symbol @ ("++" | "--")) => {
                if !matches!(self.token, BcToken::Name(_) | BcToken::Keyword(_)) {
                    return Err(CompileStop::Syntax);
                }
                let token = self.advance();
                let location = self.compile_location(names, token)?;
                self.emit_step(location, symbol, false);
            }
            BcToken::Name(name) if self.token == BcToken::Symbol("(") => {
                return self.compile_call(names, &name);
            }
            BcToken::Keyword("scale") if self.token == BcToken::Symbol("(") => {
                self.compile_application(names, LanguageFunction::Scale)?;
            }
            BcToken::Keyword("length") => {
                self.compile_application(names, LanguageFunction::Length)?;
            }
            BcToken::Keyword("sqrt") => {
                self.compile_application(names, LanguageFunction::SquareRoot)?;
            }
            BcToken::Keyword("read") => {
                self.expect_symbol("(")?;
                self.expect_symbol(")")?;
                self.emit(BcInstruction::Read);
            }
            token => {
                let location = self.compile_location(names, token)?;
                return self.compile_named(names, location);
            }
        }
        Ok(ExpressionKind::Value)
    }

    /// Compiles the argument of a function that is part of the language.
    fn compile_application(
        &mut self,
        names: &mut NameTable,
        function: LanguageFunction,
    ) -> Compiled<()> {
        self.expect_symbol("(")?;
        self.compile_operand(names, power::OR)?;
        self.expect_symbol(")")?;
        self.emit(BcInstruction::Apply(function));
        Ok(())
    }

    fn compile_call(&mut self, names: &mut NameTable, name: &str) -> Compiled<ExpressionKind> {
        self.expect_symbol("(")?;
        let function = names.intern_name(name);
        let mut arguments = Vec::new();
        if !self.accept_symbol(")") {
            loop {
                arguments.push(self.compile_argument(names)?);
                if !self.accept_symbol(",") {
                    break;
                }
            }
            self.expect_symbol(")")?;
        }
        self.emit(BcInstruction::Call {
            function,
            arguments: arguments.into(),
        });
        if names.void_functions.contains(&function) {
            Ok(ExpressionKind::Void)
        } else {
            Ok(ExpressionKind::Value)
        }
    }

    fn compile_argument(&mut self, names: &mut NameTable) -> Compiled<CallArgument> {
        if let BcToken::Name(name) = &self.token {
            let mut ahead = self.lexer.clone();
            let is_array = ahead.read_token() == BcToken::Symbol("[")
                && ahead.read_token() == BcToken::Symbol("]");
            if is_array {
                let number = names.intern_name(name);
                for _ in 0..3 {
                    self.advance();
                }
                return Ok(CallArgument::Array(number));
            }
        }
        self.compile_operand(names, power::OR)?;
        Ok(CallArgument::Value)
    }

    /// Compiles a location whose first token was already read. Leaves the index of an array element on the stack.
    fn compile_location(
        &mut self,
        names: &mut NameTable,
        token: BcToken,
    ) -> Compiled<NumberLocation> {
        Ok(match token {
            BcToken::Name(name) => {
                let number = names.intern_name(&name);
                if !self.accept_symbol("[") {
                    return Ok(NumberLocation::Variable(number));
                }
                self.compile_operand(names, power::OR)?;
                self.expect_symbol("]")?;
                NumberLocation::Element(number)
            }
            BcToken::Keyword("scale") => NumberLocation::Scale,
            BcToken::Keyword("ibase") => NumberLocation::InputBase,
            BcToken::Keyword("obase") => NumberLocation::OutputBase,
            BcToken::Keyword("last") => NumberLocation::Last,
            _ => return Err(CompileStop::Syntax),
        })
    }

    /// Compiles the rest of an expression that begins with a location: an assignment, `++` or `--`, or nothing.
    fn compile_named(
        &mut self,
        names: &mut NameTable,
        location: NumberLocation,
    ) -> Compiled<ExpressionKind> {
        let BcToken::Symbol(symbol) = self.token else {
            self.emit(BcInstruction::Load(location));
            return Ok(ExpressionKind::Value);
        };
        if symbol == "++" || symbol == "--" {
            self.advance();
            self.emit_step(location, symbol, true);
            return Ok(ExpressionKind::Value);
        }
        let operator = symbol
            .strip_suffix('=')
            .and_then(BinaryOperator::from_symbol);
        if symbol != "=" && operator.is_none() {
            self.emit(BcInstruction::Load(location));
            return Ok(ExpressionKind::Value);
        }
        self.advance();
        if operator.is_some() {
            if matches!(location, NumberLocation::Element(_)) {
                self.emit(BcInstruction::Duplicate);
            }
            self.emit(BcInstruction::Load(location));
        }
        self.compile_operand(names, power::ASSIGNMENT)?;
        if let Some(operator) = operator {
            self.emit(BcInstruction::Binary(operator));
        }
        self.emit(BcInstruction::Store(location));
        Ok(ExpressionKind::Assignment)
    }

    fn emit_step(&mut self, location: NumberLocation, symbol: &str, leaves_old: bool) {
        let amount = if symbol == "++" { 1 } else { -1 };
        self.emit(BcInstruction::Step {
            location,
            amount,
            leaves_old,
        });
    }
}
