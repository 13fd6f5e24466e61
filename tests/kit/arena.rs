//! Runs a hostile guest next to an honest one.

use std::time::{Duration, Instant};

use mimir_core::{Outcome, ToolError, ToolErrorCode};
use mimir_testkit::{Approve, Quarantined, Testkit, Value, json};

use crate::{Guest, guests};

/// Maximum time that an operation may take beyond a test's own limits. Generous, for slow machines and debug builds.
pub const BOUND: Duration = Duration::from_secs(20);

/// Maximum peak memory of this process, in bytes. All guests of all concurrent tests use much less; a successful attack
/// would use far more.
const MEMORY_MAX: u64 = 6 << 30;

/// A test kit with a hostile guest and an honest one (`echo`).
pub struct Arena {
    kit: Testkit,
    guest: Guest,
    wall: Duration,
}

impl Arena {
    /// Loads both guests, with a wall clock limit of three seconds. Asserts that loading ends in time.
    pub fn new(guest: Guest) -> Self {
        let kit = Testkit::empty().unwrap();
        kit.add(guests::ECHO.path).unwrap();
        let start = Instant::now();
        kit.add(guest.path).unwrap();
        let took = start.elapsed();
        assert!(
            took < BOUND + LOADING,
            "{} took {took:?} to load",
            guest.name
        );
        let arena = Self {
            kit,
            guest,
            wall: Duration::from_secs(3),
        };
        let millis = arena.wall.as_millis() as u64;
        arena
            .settings(json!({"limits": {"timeMs": millis}}))
            .check_host()
    }

    /// Sets limits, replacing the default wall clock limit of three seconds.
    pub fn limits(mut self, limits: Value) -> Self {
        if let Some(millis) = limits["timeMs"].as_u64() {
            self.wall = Duration::from_millis(millis);
        }
        self.settings(json!({ "limits": limits }))
    }

    /// Sets the answer to approval questions.
    pub fn person(mut self, approve: Approve) -> Self {
        self.kit = self.kit.approve(approve);
        self
    }

    /// Replaces all settings.
    pub fn settings(mut self, config: Value) -> Self {
        self.kit = self.kit.settings(config).unwrap();
        self
    }

    /// Returns the test kit.
    pub fn kit(&self) -> &Testkit {
        &self.kit
    }

    /// Calls the guest. Asserts that the call ends in time, that the host's peak memory is below the maximum, and that
    /// the honest guest still works.
    pub fn call(&self, arguments: Value) -> Outcome {
        let tool = self.tool();
        let start = Instant::now();
        let outcome = self.kit.call(&tool, arguments);
        let took = start.elapsed();
        let output = outcome.text();
        assert!(
            took < self.wall + BOUND,
            "`{tool}` ended after {took:?}: {output}"
        );
        self.check();
        outcome
    }

    /// Calls the guest and asserts that the call fails with `code`.
    pub fn stopped(&self, arguments: Value, code: ToolErrorCode) -> ToolError {
        let outcome = self.call(arguments);
        let error = match outcome.result() {
            Err(error) => error.clone(),
            Ok(_) => panic!("`{}` was not stopped: {}", self.guest.name, outcome.text()),
        };
        assert_eq!(error.code, code, "{error}");
        error
    }

    /// Asserts that the guest was quarantined with `code` when it was loaded, and that the honest guest works.
    pub fn assert_quarantined(&self, code: ToolErrorCode) -> Quarantined {
        let all = self.kit.quarantined();
        let is_own = |one: &&Quarantined| one.location.contains(self.guest.name);
        let quarantined = all
            .iter()
            .find(is_own)
            .unwrap_or_else(|| panic!("`{}` was not quarantined", self.guest.name));
        assert_eq!(quarantined.code, code, "{}", quarantined.reason);
        self.check();
        quarantined.clone()
    }

    /// Asserts that the host works.
    fn check_host(self) -> Self {
        self.check();
        self
    }

    fn check(&self) {
        let start = Instant::now();
        let outcome = self.kit.call("echo", json!({"still": "here"}));
        assert!(
            outcome.is_ok(),
            "after `{}`: {}",
            self.guest.name,
            outcome.text()
        );
        assert_eq!(outcome.text(), r#"{"still":"here"}"#);
        assert!(
            start.elapsed() < BOUND,
            "the host is slow after `{}`",
            self.guest.name
        );
        let peak = peak_memory();
        assert!(
            peak < MEMORY_MAX,
            "`{}` raised the host's peak memory to {} MB",
            self.guest.name,
            peak >> 20
        );
    }

    /// Returns the name of the guest's tool: the tool named like the guest, or else the first tool of its file.
    fn tool(&self) -> String {
        let tools = self.kit.tools();
        let own_tools: Vec<_> = tools
            .iter()
            .filter(|tool| tool.origin.location.contains(self.guest.name))
            .collect();
        let named = own_tools
            .iter()
            .find(|tool| tool.name().as_str() == self.guest.name);
        match named.or(own_tools.first()) {
            Some(tool) => tool.name().to_string(),
            None => panic!(
                "`{}` has no tool: {:?}",
                self.guest.name,
                self.kit.quarantined()
            ),
        }
    }
}

/// Maximum time for describing a plugin and compiling it without optimization.
const LOADING: Duration = Duration::from_secs(10);

/// Returns the peak memory of this process in bytes; 0 if the system does not report it.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .and_then(|text| text.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}
