//! Progress lines on stderr. Only this module draws them, so that no line overwrites a message or an open question.

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use mimir_core::text::prefix;
use parking_lot::Mutex;

use super::stderr_queue::is_output_held;

/// Delay before a line is shown. Shorter operations show no line.
const SHOW_DELAY: Duration = Duration::from_millis(500);

/// Time between two frames of a spinner.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);

/// Number of messages that stay visible below a line without a total.
const TAIL_LINES: usize = 6;

/// Indentation of these messages.
const TAIL_INDENT: &str = "  ";

/// Assumed width of a terminal that does not report its width.
const DEFAULT_WIDTH: usize = 80;

/// Steps of a bar that fills with time.
const BAR_STEPS: u64 = 100;

/// Position of a bar whose work usually takes `usual`. Work that takes longer waits before the end.
fn bar_position(elapsed: Duration, usual: Duration) -> u64 {
    let part = elapsed.as_secs_f64() / usual.as_secs_f64().max(f64::MIN_POSITIVE);
    // In this range, so the conversion is exact enough.
    (part * BAR_STEPS as f64).min(95.0) as u64
}

/// All progress lines. Created with the first one.
static LINES: OnceLock<MultiProgress> = OnceLock::new();

/// Number of open questions. Lines are drawn only while it is zero.
static PAUSES: Mutex<usize> = Mutex::new(0);

/// Runs `write` while the progress lines are removed.
pub fn suspend<T>(write: impl FnOnce() -> T) -> T {
    match LINES.get() {
        Some(lines) => lines.suspend(write),
        None => write(),
    }
}

/// Removes the progress lines from the terminal until the guard is dropped.
pub fn pause() -> ProgressPause {
    let mut pauses = PAUSES.lock();
    *pauses += 1;
    if let Some(lines) = LINES.get() {
        let _ = lines.clear();
        lines.set_draw_target(ProgressDrawTarget::hidden());
    }
    ProgressPause(())
}

/// Guard that keeps the progress lines off the terminal.
pub struct ProgressPause(());

impl Drop for ProgressPause {
    fn drop(&mut self) {
        let mut pauses = PAUSES.lock();
        *pauses -= 1;
        if let Some(lines) = LINES.get().filter(|_| *pauses == 0) {
            lines.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

/// Adds a line. It is not drawn while a question is open.
fn add_bar(bar: ProgressBar) -> ProgressBar {
    let pauses = PAUSES.lock();
    let lines = LINES.get_or_init(MultiProgress::new);
    if *pauses > 0 {
        lines.set_draw_target(ProgressDrawTarget::hidden());
    }
    lines.add(bar)
}

/// A progress line, removed when dropped.
pub struct ProgressLine {
    start: Instant,
    state: Arc<Mutex<ProgressLineState>>,
}

#[derive(Default)]
struct ProgressLineState {
    bar: Option<ProgressBar>,
    is_over: bool,
    /// The latest messages without a total, the oldest first.
    latest: VecDeque<String>,
}

impl ProgressLine {
    /// Creates a spinner with `message` and the elapsed time, shown after half a second. Returns `None` if stderr is
    /// not a terminal.
    pub fn spinner(message: String) -> Option<Self> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let state: Arc<Mutex<ProgressLineState>> = Arc::default();
        let delayed_state = Arc::clone(&state);
        // An error is ignored: without the thread, only the line is missing.
        let _ = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(SHOW_DELAY);
            let mut state = delayed_state.lock();
            if !state.is_over && state.bar.is_none() && !is_output_held() {
                let bar = ProgressBar::new_spinner().with_message(message);
                let bar = add_bar(with_template(bar, "{spinner} {msg} {elapsed}"));
                bar.enable_steady_tick(FRAME_INTERVAL);
                state.bar = Some(bar);
            }
        });
        Some(Self {
            start: Instant::now(),
            state,
        })
    }

    /// Creates a bar for work that usually takes `usual`, and says so. It fills with time, and waits at its end.
    pub fn timed_bar(message: String, usual: Duration) -> Option<Self> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let line = Self {
            start: Instant::now(),
            state: Arc::default(),
        };
        let (state, start) = (Arc::clone(&line.state), line.start);
        // Without the thread only the line is missing, so an error is ignored.
        let _ = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(SHOW_DELAY);
            loop {
                let mut state = state.lock();
                if state.is_over {
                    return;
                }
                if !is_output_held() {
                    let bar = state.bar.get_or_insert_with(|| {
                        let bar = ProgressBar::new(BAR_STEPS).with_message(message.clone());
                        add_bar(with_template(bar, "{bar:20} {msg} {elapsed}"))
                    });
                    bar.set_position(bar_position(start.elapsed(), usual));
                }
                drop(state);
                std::thread::sleep(FRAME_INTERVAL);
            }
        });
        Some(line)
    }

    /// Shows the progress made so far.
    pub fn progress(&self, done: u64, total: Option<u64>, message: Option<String>) {
        self.update(|bar, _| {
            let template = match total {
                Some(total) => {
                    bar.set_length(total);
                    "{bar:30} {pos}/{len} {msg}"
                }
                None => "{spinner} {pos} {msg} {elapsed}",
            };
            set_template(bar, template);
            bar.set_position(done);
            if let Some(message) = message {
                bar.set_message(message);
            }
        });
    }

    /// Adds a message, usually a line of a program's output. The latest messages stay visible below `title`.
    pub fn add_message(&self, title: &str, message: String) {
        self.state.lock().push_message(message);
        self.update(|bar, tail| {
            set_template(bar, "{spinner} {prefix} {elapsed}{msg}");
            bar.set_prefix(title.to_owned());
            bar.set_message(tail);
        });
    }

    /// Runs `change` with the bar and the text of the latest messages, unless it is too early to show a line.
    fn update(&self, change: impl FnOnce(&ProgressBar, String)) {
        if self.start.elapsed() < SHOW_DELAY || is_output_held() {
            return;
        }
        let mut state = self.state.lock();
        let tail = state.tail();
        let bar = state
            .bar
            .get_or_insert_with(|| add_bar(ProgressBar::new_spinner()));
        change(bar, tail);
    }
}

impl ProgressLineState {
    /// Adds the latest message, and removes one that is no longer visible.
    fn push_message(&mut self, message: String) {
        if self.latest.len() == TAIL_LINES {
            self.latest.pop_front();
        }
        self.latest.push_back(message);
    }

    /// Returns the latest messages, each on a line of its own that fits into the terminal.
    fn tail(&self) -> String {
        let size = terminal_size::terminal_size_of(std::io::stderr());
        let width = size.map_or(DEFAULT_WIDTH, |(width, _)| usize::from(width.0));
        let room = width.saturating_sub(TAIL_INDENT.len() + 1);
        let lines = self.latest.iter();
        lines
            .map(|line| format!("\n{TAIL_INDENT}{}", prefix(line, room)))
            .collect()
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.is_over = true;
        if let Some(bar) = state.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn set_template(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

fn with_template(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_tail_has_the_latest_messages_only() {
        let mut state = ProgressLineState::default();
        for number in 0..TAIL_LINES + 2 {
            state.push_message(format!("line {number} {}", "x".repeat(500)));
        }
        let tail = state.tail();
        let lines: Vec<&str> = tail.lines().skip(1).collect();
        assert_eq!(lines.len(), TAIL_LINES);
        assert!(
            lines[0].starts_with("  line 2 ") && lines[0].len() < 500,
            "{tail}"
        );
    }

    #[test]
    fn bar_fills_with_time_and_waits_before_its_end() {
        let usual = Duration::from_secs(10);
        for (seconds, position) in [(0, 0), (5, 50), (10, 95), (60, 95)] {
            assert_eq!(bar_position(Duration::from_secs(seconds), usual), position);
        }
        assert_eq!(bar_position(Duration::from_secs(1), Duration::ZERO), 95);
    }
}
