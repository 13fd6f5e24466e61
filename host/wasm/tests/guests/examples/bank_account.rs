//! A component with a resource.

wit_bindgen::generate!({
    inline: r#"
        package test:guest;

        interface bank {
            record entry { label: string, amount: s64 }
            resource account {
                constructor(owner: string, balance: option<s64>);
                deposit: func(amount: s64) -> s64;
                withdraw: func(amount: s64) -> result<s64, string>;
                history: func() -> list<entry>;
                clear: func();
                merge: func(other: account) -> s64;
                spin: func();
                bank-name: static func() -> string;
            }
            resource vault {
                open: func() -> u32;
            }
            resource safe {
                empty: static func() -> account;
                from-code: static func(code: string) -> result<safe, string>;
                again: static func() -> safe;
                code: func() -> string;
            }
            inspect: func(account: borrow<account>) -> string;
        }

        world guest {
            export bank;
        }
    "#,
    world: "guest",
});

use std::cell::{Cell, RefCell};

use exports::test::guest::bank::{
    Account, AccountBorrow, Entry, Guest, GuestAccount, GuestSafe, GuestVault, Safe,
};

struct Component;

struct Book {
    owner: String,
    balance: Cell<i64>,
    entries: RefCell<Vec<Entry>>,
}

struct Vault;

struct Code(String);

impl GuestSafe for Code {
    fn empty() -> Account {
        Account::new(Book {
            owner: String::new(),
            balance: Cell::new(0),
            entries: RefCell::default(),
        })
    }

    fn from_code(code: String) -> Result<Safe, String> {
        if code.is_empty() {
            return Err("a safe needs a code".to_owned());
        }
        Ok(Safe::new(Code(code)))
    }

    fn again() -> Safe {
        Safe::new(Code("again".to_owned()))
    }

    fn code(&self) -> String {
        self.0.clone()
    }
}

impl Book {
    fn add(&self, label: &str, amount: i64) -> i64 {
        self.balance.set(self.balance.get() + amount);
        let label = label.to_owned();
        self.entries.borrow_mut().push(Entry { label, amount });
        self.balance.get()
    }
}

impl Drop for Book {
    fn drop(&mut self) {
        assert!(self.owner != "trap on drop", "on purpose");
        println!("{} is closed", self.owner);
    }
}

impl GuestAccount for Book {
    fn new(owner: String, balance: Option<i64>) -> Self {
        Self {
            owner,
            balance: Cell::new(balance.unwrap_or(0)),
            entries: RefCell::default(),
        }
    }

    fn deposit(&self, amount: i64) -> i64 {
        self.add("deposit", amount)
    }

    fn withdraw(&self, amount: i64) -> Result<i64, String> {
        if amount > self.balance.get() {
            return Err("not enough money".to_owned());
        }
        Ok(self.add("withdrawal", -amount))
    }

    fn history(&self) -> Vec<Entry> {
        self.entries.borrow().clone()
    }

    fn clear(&self) {
        self.entries.borrow_mut().clear();
    }

    fn merge(&self, other: Account) -> i64 {
        other.get::<Book>().balance.get()
    }

    fn spin(&self) {
        loop {
            std::hint::black_box(0);
        }
    }

    fn bank_name() -> String {
        "First".to_owned()
    }
}

impl GuestVault for Vault {
    fn open(&self) -> u32 {
        0
    }
}

impl Guest for Component {
    type Account = Book;
    type Vault = Vault;
    type Safe = Code;

    fn inspect(account: AccountBorrow<'_>) -> String {
        account.get::<Book>().owner.clone()
    }
}

export!(Component);
