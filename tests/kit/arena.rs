//! Runs a hostile guest next to an honest one.

use std::time::{Duration, Instant};

use mimir_core::{Outcome, ToolError, ToolErrorCode};
use mimir_testkit::{Approve, Quarantined, Testkit, Value, json};

use crate::{Guest, guests};

/// Most time that anything may take beyond the limits of a test: generous, for a slow machine and a debug build.
pub const BOUND: Duration = Duration::from_secs(20);

/// Most memory that this process may ever have used. All guests of all concurrent tests need much less; a successful
/// attack would need far more.
const MEMORY_MAX: u64 = 6 << 30;

/// A kit with a hostile guest and an honest one.
pub struct Arena {
    kit: Testkit,
    guest: Guest,
    wall: Duration,
}

impl Arena {
    /// Loads both guests. Loading must end in time, too.
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

    /// Sets the person's answer.
    pub fn person(mut self, approve: Approve) -> Self {
        self.kit = self.kit.approve(approve);
        self
    }

    /// Sets the whole config.
    pub fn settings(mut self, config: Value) -> Self {
        self.kit = self.kit.settings(config).unwrap();
        self
    }

    /// The kit.
    pub fn kit(&self) -> &Testkit {
        &self.kit
    }

    /// Calls the guest. Asserts that the call ends in time, that the host's memory has not grown, and that the next
    /// call of another tool works.
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

    /// Calls the guest and asserts that it is stopped, or refused, with this code.
    pub fn stopped(&self, arguments: Value, code: ToolErrorCode) -> ToolError {
        let outcome = self.call(arguments);
        let error = match outcome.result() {
            Err(error) => error.clone(),
            Ok(_) => panic!("`{}` was not stopped: {}", self.guest.name, outcome.text()),
        };
        assert_eq!(error.code, code, "{error}");
        error
    }

    /// Asserts that the guest was quarantined when it was loaded, and that the honest one was not.
    pub fn assert_quarantined(&self, code: ToolErrorCode) -> Quarantined {
        let left = self.kit.quarantined();
        let is_own = |left: &&Quarantined| left.location.contains(self.guest.name);
        let left = left
            .iter()
            .find(is_own)
            .unwrap_or_else(|| panic!("`{}` was not quarantined", self.guest.name));
        assert_eq!(left.code, code, "{}", left.reason);
        self.check();
        left.clone()
    }

    /// Checks that the host works.
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
            "after `{}` the host is slow",
            self.guest.name
        );
        let peak = peak_memory();
        assert!(
            peak < MEMORY_MAX,
            "`{}` made the host hold {} MB",
            self.guest.name,
            peak >> 20
        );
    }

    /// The guest's tool: the one with its own name, or the only one of its file.
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

/// Time limits of the host for describing a plugin and for compiling it unoptimised.
const LOADING: Duration = Duration::from_secs(10);

/// The peak memory of this process in bytes; 0 if the system does not report it.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .and_then(|text| text.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}
