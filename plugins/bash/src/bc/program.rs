//! Compiled bc programs: instructions of a stack machine.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Table of names and their numbers. A variable, an array and a function with the same name are different objects that
/// share a number.
#[derive(Debug, Default)]
pub struct NameTable {
    numbers: HashMap<String, usize>,
    names: Vec<String>,
    /// Functions that were defined with `void`, and have no value.
    pub void_functions: HashSet<usize>,
}

impl NameTable {
    /// Returns the number of a name.
    pub fn intern_name(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len();
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// Returns the name that has a number.
    pub fn resolve_number(&self, number: usize) -> &str {
        self.names.get(number).map_or("", String::as_str)
    }
}

/// A location that holds a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberLocation {
    Variable(usize),
    /// An element of an array. Its index is on the stack.
    Element(usize),
    Scale,
    InputBase,
    OutputBase,
    Last,
}

/// A name in the head of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalName {
    Variable(usize),
    Array(usize),
    /// An array parameter that shares the array of the caller.
    SharedArray(usize),
}

/// An argument of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallArgument {
    /// A number on the stack.
    Value,
    Array(usize),
}

/// An operator of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Raise,
}

impl BinaryOperator {
    /// Returns the operator that a symbol stands for.
    pub fn from_symbol(symbol: &str) -> Option<Self> {
        Some(match symbol {
            "+" => Self::Add,
            "-" => Self::Subtract,
            "*" => Self::Multiply,
            "/" => Self::Divide,
            "%" => Self::Remainder,
            "^" => Self::Raise,
            _ => return None,
        })
    }
}

/// A relation of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberRelation {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl NumberRelation {
    /// Returns the relation that a symbol stands for.
    pub fn from_symbol(symbol: &str) -> Option<Self> {
        Some(match symbol {
            "==" => Self::Equal,
            "!=" => Self::Unequal,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    /// Returns true if the relation includes an ordering.
    pub fn includes(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Unequal => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// A function of one number that is part of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LanguageFunction {
    Length,
    Scale,
    SquareRoot,
}

/// An instruction, which pops its operands from the stack and pushes its result.
#[derive(Debug, Clone)]
pub enum BcInstruction {
    /// Pushes a literal, parsed in the current input base.
    Literal(Rc<str>),
    /// Pushes 0 or 1.
    Truth(bool),
    Duplicate,
    Discard,
    Load(NumberLocation),
    /// Stores the number on top of the stack, which stays there.
    Store(NumberLocation),
    /// Adds to a number in place, and pushes the number before or after the addition.
    Step {
        location: NumberLocation,
        amount: i64,
        leaves_old: bool,
    },
    Binary(BinaryOperator),
    Compare(NumberRelation),
    Negate,
    Not,
    Apply(LanguageFunction),
    Call {
        function: usize,
        arguments: Rc<[CallArgument]>,
    },
    /// Ends a function with the number on the stack.
    Return,
    Jump(usize),
    JumpIfZero(usize),
    JumpIfNonzero(usize),
    /// Writes a number and a newline, and remembers it as `last`.
    PrintLine,
    /// Writes a number as `print` does.
    PrintNumber,
    PrintText(Rc<str>),
    Read,
    Halt,
}

/// A compiled function.
#[derive(Debug)]
pub struct FunctionBody {
    pub parameters: Vec<LocalName>,
    pub locals: Vec<LocalName>,
    pub code: Rc<[BcInstruction]>,
}

/// A part of a program that is executed at once.
#[derive(Debug)]
pub enum ProgramItem {
    /// The statements of a line.
    Statements(Rc<[BcInstruction]>),
    Definition(usize, FunctionBody),
}
