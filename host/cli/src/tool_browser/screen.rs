//! Full-screen mode of the terminal. The terminal is always restored, even after a panic.

use std::io::{self, Stdout, Write as _};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::{Frame, Terminal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::draw;
use super::list::ToolBrowser;

/// The terminal in full-screen mode. Dropping it restores the terminal.
pub struct BrowserScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl BrowserScreen {
    /// Switches the terminal to full-screen mode.
    pub fn open() -> io::Result<Self> {
        restore_in_panics();
        TAKEN_OVER.store(true, Ordering::Relaxed);
        enable_raw_mode()?;
        // Dropping this guard restores the terminal if a later step fails.
        let mut screen = Self {
            terminal: Terminal::new(CrosstermBackend::new(io::stdout()))
                .inspect_err(|_| restore())?,
        };
        execute!(screen.terminal.backend_mut(), EnterAlternateScreen)?;
        screen.terminal.clear()?;
        Ok(screen)
    }

    /// Draws a frame of the tool browser.
    pub fn draw(&mut self, browser: &mut ToolBrowser) -> io::Result<()> {
        self.render(|frame| draw::draw_browser(frame, browser))
    }

    /// Draws a frame.
    pub fn render(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }

    /// Returns a channel of key and resize events. It closes when the terminal closes.
    pub fn events() -> UnboundedReceiver<Event> {
        let (send, events) = unbounded_channel();
        // `event::read` blocks, so the thread ends with the program.
        std::thread::spawn(move || {
            while let Ok(event) = event::read() {
                if send.send(event).is_err() {
                    return;
                }
            }
        });
        events
    }
}

impl Drop for BrowserScreen {
    fn drop(&mut self) {
        restore();
    }
}

/// True while the terminal is in full-screen mode.
static TAKEN_OVER: AtomicBool = AtomicBool::new(false);

/// Restores the terminal if it is in full-screen mode. Errors are ignored, because the terminal may have closed.
fn restore() {
    // Leaving the alternate screen moves the cursor back to its earlier position. If that happened again after a panic
    // message, later output would overwrite the message.
    if !TAKEN_OVER.swap(false, Ordering::Relaxed) {
        return;
    }
    let _ = disable_raw_mode();
    let mut out = io::stdout();
    let _ = execute!(out, LeaveAlternateScreen, Show);
    let _ = out.flush();
}

/// Installs a panic hook that restores the terminal before the message is printed.
fn restore_in_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous_hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            previous_hook(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    /// Child process of the test below: panics in full-screen mode.
    #[test]
    #[ignore = "needs a terminal"]
    fn tool_browser_child_panics_in_full_screen() {
        if std::env::var_os("MIMIR_TEST_PANIC").is_none() {
            return;
        }
        let _screen = super::BrowserScreen::open().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        panic!("as it has to");
    }

    #[cfg(unix)]
    #[test]
    #[ignore = "needs tmux"]
    fn tool_browser_restores_the_terminal_after_a_panic() {
        use std::process::Command;
        let folder = tempfile::tempdir().unwrap();
        let (out, socket) = (folder.path().join("out"), folder.path().join("socket"));
        let own = std::env::current_exe().unwrap();
        let test = "tool_browser::screen::tests::tool_browser_child_panics_in_full_screen";
        let script = format!(
            "stty -g > '{0}'; MIMIR_TEST_PANIC=1 RUST_BACKTRACE=0 '{1}' --ignored --exact --nocapture {test}; stty -g >> '{0}'; read wait",
            out.display(),
            own.display()
        );
        let tmux = |words: &[&str]| {
            let output = Command::new("tmux")
                .arg("-S")
                .arg(&socket)
                .args(words)
                .output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            "--",
            "sh",
            "-c",
            &script,
        ]);
        let mut screen = String::new();
        for _ in 0..200 {
            std::thread::sleep(std::time::Duration::from_millis(50));
            screen = tmux(&["capture-pane", "-p"]);
            let modes = std::fs::read_to_string(&out).unwrap_or_default();
            if modes.lines().count() == 2 {
                break;
            }
        }
        let modes = std::fs::read_to_string(&out).unwrap();
        let seen = tmux(&["display-message", "-p", "#{alternate_on}"]);
        tmux(&["kill-server"]);
        let modes: Vec<&str> = modes.lines().collect();
        assert!(modes.len() == 2 && modes[0] == modes[1], "{modes:?}");
        assert_eq!(seen.trim(), "0");
        assert!(screen.contains("as it has to"), "{screen}");
    }
}
