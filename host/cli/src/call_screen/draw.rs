//! Drawing of the screen, for any size.

use std::time::Duration;

use jiff::Timestamp;
use mimir::live_calls::{LiveCall, LiveCallStatus};
use mimir::shared_questions::SharedQuestion;
use mimir_core::audit::OutcomeKind;
use mimir_core::text::{bytes, sanitize, visible, wrapped};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use serde_json::Value;

use super::changes;
use super::keys::agent_name;
use super::state::{CallRow, CallScreen, RowKey, ScreenOrder};
use crate::terminal::list_screen::{colour_style, draw_frame, row_line, scrolled_to, visible_page};
use crate::terminal::render_card;

/// Prefix of every line with text from a tool, so that it cannot look like a line of mimir.
const GUTTER: &str = "  │ ";

/// Widths of the columns with the tool and the person.
const TOOL_WIDTH: usize = 18;
const WHO_WIDTH: usize = 10;

/// Draws the whole screen.
pub fn draw_calls(frame: &mut Frame<'_>, screen: &mut CallScreen) {
    let width = frame.area().width;
    let Some(body) = draw_frame(frame, title(screen), footer(screen, width)) else {
        return;
    };
    screen.height = usize::from(body.height);
    let lines = if screen.page.is_some() {
        page_lines(screen, body)
    } else {
        list_lines(screen, body)
    };
    frame.render_widget(Paragraph::new(lines), body);
}

fn title(screen: &CallScreen) -> Line<'static> {
    let strong = Style::new().add_modifier(Modifier::BOLD);
    if let Some(stop) = &screen.stop {
        let by = visible(&stop.by);
        let text = format!("ALL CALLS ARE STOPPED by {by}; S allows them again");
        return Line::styled(text, strong.add_modifier(Modifier::REVERSED));
    }
    let count = |state| {
        screen
            .calls
            .iter()
            .filter(|call| call.state == state)
            .count()
    };
    let running = count(LiveCallStatus::Running);
    let waiting = count(LiveCallStatus::Waiting);
    let calls = screen.calls.iter();
    let behind = calls
        .filter(|call| screen.waits_behind_another(call))
        .count();
    let behind = match behind {
        0 => String::new(),
        count => format!(" ({count} behind another)"),
    };
    let questions = screen.questions.len();
    let mut text =
        format!("Calls: {running} running, {waiting} waiting{behind}   Questions: {questions}");
    match screen.stopped_agents.as_slice() {
        [] => {}
        [agent] => text.push_str(&format!("   STOPPED: {}", agent_name(agent))),
        agents => text.push_str(&format!("   STOPPED: {} agents", agents.len())),
    }
    let mut stops = screen
        .stopped_agents
        .iter()
        .filter_map(|agent| agent.stop.as_ref());
    if let Some(unshared) = stops.find_map(|stop| stop.unshared.as_deref()) {
        text.push_str(&format!(" ({})", visible(unshared)));
    }
    if screen.dropped > 0 {
        text.push_str(&format!("   ({} not shown)", screen.dropped));
    }
    Line::styled(text, strong)
}

fn footer(screen: &CallScreen, width: u16) -> Line<'static> {
    if let Some(order) = &screen.asks {
        let text = match order {
            ScreenOrder::StopAll => {
                "Stop all your calls on this machine, and refuse new ones? y/n".to_owned()
            }
            ScreenOrder::StartAll => "Allow all your calls on this machine again? y/n".to_owned(),
            ScreenOrder::StopAgent(_, name) => {
                format!("Stop the calls of `{name}`, and refuse new ones? y/n")
            }
            ScreenOrder::StartAgent(_, name) => format!("Let `{name}` work again? y/n"),
            ScreenOrder::Undo(id, tool) => match screen.changed_files(id) {
                Some(files) => fitting(&format!("Undo the changes of `{tool}` to "), files, width),
                None => format!("Undo the changes of `{tool}`? y/n"),
            },
            ScreenOrder::AnswerAlways(id) => always_text(screen.question(id), width),
        };
        return Line::styled(text, Style::new().add_modifier(Modifier::BOLD));
    }
    if !screen.message.is_empty() {
        return Line::raw(screen.message.clone());
    }
    let keys: [String; 3] = match (&screen.page, screen.open_question()) {
        (_, Some(question)) => {
            let (names, letters) = answer_keys(question);
            [
                format!(
                    "{}   t stop agent   arrows scroll   esc back",
                    names.join("   ")
                ),
                format!("{}  t stop  esc back", names.join("  ")),
                format!("{letters} answer  esc"),
            ]
        }
        (Some(_), None) => [
            "c cancel  t stop agent  u undo  arrows scroll  esc back  x stop all".to_owned(),
            "c cancel  t stop agent  u undo  esc back".to_owned(),
            "c t u x esc".to_owned(),
        ],
        (None, None) => {
            let letters = screen
                .selected_question()
                .map(|question| answer_keys(question).1);
            let (answers, short) = match letters {
                Some(letters) => (format!("{letters} answer  "), format!("{letters} ")),
                None => Default::default(),
            };
            [
                format!("enter read  c cancel  t stop agent  u undo  {answers}x stop all  q quit"),
                format!("enter read  {answers}c cancel  t u x  q quit"),
                format!("enter {short}c t u x q"),
            ]
        }
    };
    let mut shown = keys.iter().filter(|keys| keys.len() <= usize::from(width));
    let keys = shown.next().unwrap_or(&keys[2]).clone();
    Line::styled(keys, Style::new().add_modifier(Modifier::DIM))
}

/// Returns the answers that a question offers: each key with its name, and the keys alone.
fn answer_keys(question: &SharedQuestion) -> (Vec<&'static str>, String) {
    let card = &question.card;
    let session = card.offers_session().then_some("s session");
    let always = card.always.as_ref().map(|_| "a always");
    let names = [Some("o once"), session, always, Some("n no")];
    let names: Vec<_> = names.into_iter().flatten().collect();
    let letters: Vec<_> = names.iter().map(|name| &name[..1]).collect();
    let letters = letters.join("/");
    (names, letters)
}

/// Asks about a text of a tool, which is cut so that the keys stay visible.
fn fitting(before: &str, text: &str, width: u16) -> String {
    const KEYS: &str = "? y/n";
    let used = Line::raw(before).width() + KEYS.len();
    let room = usize::from(width).saturating_sub(used).max(8);
    format!("{before}{}{KEYS}", fit(&visible(text), room).trim_end())
}

/// Asks whether to answer a question with "always", and says what that covers.
fn always_text(question: Option<&SharedQuestion>, width: u16) -> String {
    match question.and_then(|question| question.card.always.as_ref()) {
        Some(always) => {
            let text = format!("Always: {}? y/n", visible(&always.text));
            if Line::raw(text.as_str()).width() <= usize::from(width) {
                text
            } else {
                // Nothing is approved that is only shown in part.
                "Always, for all that the card lists below \"always\"? y/n".to_owned()
            }
        }
        None => "The question has ended (any key goes on)".to_owned(),
    }
}

fn list_lines(screen: &mut CallScreen, body: Rect) -> Vec<Line<'static>> {
    let height = usize::from(body.height);
    let selected = screen.selected_line();
    screen.top = scrolled_to(selected, screen.top, height);
    let styles = CallStyles::find();
    let width = usize::from(body.width);
    let questions = screen
        .questions
        .iter()
        .map(|question| question_line(question, screen.previews.get(&question.id), styles));
    let calls = screen.listed_calls().map(|call| {
        let mut parts = call_line(call, styles);
        if screen.waits_behind_another(call) {
            parts.2.push_str("waits behind another question");
        }
        parts
    });
    let lines: Vec<_> = questions
        .chain(calls)
        .enumerate()
        .skip(screen.top)
        .take(height)
        .map(|(at, (mark, style, rest))| {
            let rest = mimir_core::text::prefix(&rest, width).to_owned();
            row_line(mark, style, rest, at == selected)
        })
        .collect();
    if lines.is_empty() {
        return vec![Line::raw(
            "  (no calls yet: those of other mimir processes appear here within a second)",
        )];
    }
    lines
}

/// The parts of a line in the list: the mark with its style, and the rest.
type LineParts = (&'static str, Style, String);

fn question_line(
    question: &SharedQuestion,
    preview: Option<&Value>,
    styles: CallStyles,
) -> LineParts {
    let left = question.expires_at.duration_since(Timestamp::now());
    let left = Duration::try_from(left).unwrap_or_default();
    let tool = fit(&visible(&question.card.tool), TOOL_WIDTH);
    let facts = &question.card.facts;
    let who = facts.client.as_deref().unwrap_or(&question.process);
    let who = fit(&visible(who), WHO_WIDTH);
    let warning = match facts.untrusted.as_slice() {
        [] => "",
        _ => "after strangers' text: ",
    };
    let summary = preview.and_then(changes::summary);
    let summary = summary.unwrap_or_else(|| visible(&question.card.summary));
    let rest = format!(
        " {tool} {who} {:>7} left  {warning}{summary}",
        duration(left)
    );
    ("?", styles.question, rest)
}

fn call_line(call: &CallRow, styles: CallStyles) -> LineParts {
    let is_ok = call.outcome == Some(OutcomeKind::Ok);
    let (mark, style) = match call.state {
        LiveCallStatus::Waiting => ("?", styles.question),
        LiveCallStatus::Running => (">", styles.running),
        LiveCallStatus::Finished if is_ok => ("-", Style::new()),
        LiveCallStatus::Finished => ("x", styles.failed),
        LiveCallStatus::Lost => ("!", styles.failed),
    };
    let state = match call.state {
        LiveCallStatus::Waiting => "waiting",
        LiveCallStatus::Running => "running",
        LiveCallStatus::Finished if is_ok => "done",
        LiveCallStatus::Finished => match call.outcome {
            // The column has room for a short word.
            None | Some(OutcomeKind::Unavailable) => "failed",
            Some(kind) => kind.as_str(),
        },
        LiveCallStatus::Lost => "lost",
    };
    let indent = if call.is_nested { "└ " } else { "" };
    let tool = fit(&format!("{indent}{}", call.tool), TOOL_WIDTH);
    let who = fit(&call.who, WHO_WIDTH);
    let effects = match call.effects {
        0 => String::new(),
        count => format!("{count}e"),
    };
    let time = duration(call.time);
    let rest = format!(
        " {tool} {who} {state:<7} {time:>7} {effects:>4}  {}",
        call.last
    );
    (mark, style, rest)
}

/// Cuts or pads a text to `width` columns.
fn fit(text: &str, width: usize) -> String {
    let mut cut = String::new();
    let mut used = 0;
    for character in text.chars() {
        let size = Span::raw(character.to_string()).width();
        if used + size > width {
            cut.pop();
            cut.push('…');
            break;
        }
        cut.push(character);
        used += size;
    }
    let used = Line::raw(cut.as_str()).width();
    cut.extend(std::iter::repeat_n(' ', width.saturating_sub(used)));
    cut
}

/// Formats a time for display, such as `1.2 s`.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{} ms", time.as_millis()),
        1..10 => format!("{:.1} s", time.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

fn page_lines(screen: &mut CallScreen, body: Rect) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(body.width).max(1), usize::from(body.height));
    let lines = match screen.page.as_ref().map(|page| (&page.key, &page.call)) {
        Some((RowKey::Question(_), _)) => match screen.open_question() {
            Some(question) => {
                let preview = screen.previews.get(&question.id);
                question_page(question, preview, width)
            }
            None => Vec::new(),
        },
        Some((RowKey::Call(_), Some(call))) => call_page(call, width),
        _ => Vec::new(),
    };
    let Some(page) = &mut screen.page else {
        return Vec::new();
    };
    visible_page(lines, &mut page.top, height)
}

/// The card of a question. Styles are removed, because the screen has its own.
fn question_page(question: &SharedQuestion, preview: Option<&Value>, width: usize) -> Vec<String> {
    let card = render_card(&question.card, width);
    let mut page = PageText {
        lines: Vec::new(),
        width,
    };
    let untrusted = &question.card.facts.untrusted;
    if !untrusted.is_empty() {
        page.title("the session has read strangers' text, which may have caused this call:");
        for read in untrusted {
            page.quote(&format!("from {}", visible(&read.origin)));
        }
    }
    if let Some(preview) = preview {
        page.change(preview);
    }
    let (head, rest) = (card.head, card.arguments.into_iter().chain(card.tail));
    let head = head.into_iter().map(sanitize).skip_while(String::is_empty);
    let lines = head.chain(page.lines).chain(rest.map(sanitize));
    let mut lines: Vec<_> = lines.collect();
    let process = visible(&question.process);
    lines.push(match &question.card.facts.client {
        Some(client) => format!("  asked by {} ({process})", visible(client)),
        None => format!("  asked by {process}"),
    });
    let id = visible(&question.id);
    lines.push(format!(
        "  `mimir approvals answer {id} no --reason TEXT` gives the model a reason"
    ));
    lines
}

fn call_page(call: &LiveCall, width: usize) -> Vec<String> {
    let started = &call.started;
    let mut page = PageText {
        lines: Vec::new(),
        width,
    };
    page.field("call", started.id.as_str());
    page.field("tool", &started.tool);
    if let Some(location) = &started.location {
        let source = started.source.map_or("", |source| source.as_str());
        page.field("source", &format!("{source}, {location}"));
    }
    if let Some(client) = &started.client {
        page.field("client", client);
    }
    page.field("process", &started.process.to_string());
    page.field("session", &started.session);
    if let Some(user) = &started.user {
        page.field("user", user);
    }
    if let Some(parent) = &started.parent {
        page.field("made by", parent.as_str());
    }
    page.field("started", &format!("{:.0}", started.at));
    let state = match call.state {
        LiveCallStatus::Waiting => "waiting for an answer",
        LiveCallStatus::Running => "running",
        LiveCallStatus::Finished => "has ended",
        LiveCallStatus::Lost => "lost: its process has ended or is unreachable",
    };
    page.field("state", state);
    let now = Timestamp::now();
    let ran = duration(call.run_time(now));
    match call.waiting_time(now) {
        Some(waiting) => page.field(
            "time",
            &format!("waiting {}, ran {ran} before", duration(waiting)),
        ),
        None => page.field("time", &ran),
    }
    if let Some(decided) = &call.decided {
        let rule = decided.rule.as_deref().unwrap_or_default();
        page.field("decision", &format!("{} {rule}", decided.decision.as_str()));
        for reason in &decided.reasons {
            page.quote(&format!("{}: {}", reason.decision.as_str(), reason.text));
        }
    }
    if let Some(edited) = &call.edited {
        page.title("arguments, edited by a person");
        page.quote(&edited.arguments);
        if edited.arguments_truncated {
            page.title("(the arguments are longer)");
        }
        page.title("arguments before the edit");
    } else {
        page.title("arguments");
    }
    page.quote(&started.arguments);
    if started.arguments_truncated {
        page.title("(the arguments are longer)");
    }
    if !call.effects.is_empty() {
        page.title(&format!("effects ({})", call.effect_count));
        for effect in &call.effects {
            page.quote(&format!("{} {}", effect.decision.as_str(), effect.subject));
        }
    }
    if let Some(progress) = &call.progress {
        let total = progress
            .total
            .map_or(String::new(), |total| format!(" of {total}"));
        page.field("progress", &format!("{}{total}", progress.done));
    }
    if let Some(finished) = &call.finished {
        let code = finished.code.map_or("ok", |code| code.as_str());
        page.field("result", code);
        if let Some(message) = &finished.message {
            page.quote(message);
        }
        let receipt = &finished.receipt;
        page.field(
            "cost",
            &format!(
                "{:.1} ms, {} in, {} out, {} tokens",
                receipt.duration_ms,
                bytes(receipt.bytes_in),
                bytes(receipt.bytes_out),
                receipt.tokens
            ),
        );
    }
    if !call.output.is_empty() {
        let cut = if call.output_truncated {
            ", the end"
        } else {
            ""
        };
        page.title(&format!("output{cut}"));
        page.quote(&call.output);
    }
    page.lines
}

/// The lines of a page.
struct PageText {
    lines: Vec<String>,
    width: usize,
}

impl PageText {
    /// Adds a line that mimir has written.
    fn title(&mut self, text: &str) {
        self.lines.push(format!("  {text}"));
    }

    /// Adds a name and a short value.
    fn field(&mut self, name: &str, value: &str) {
        let value = visible(value);
        let width = self.width.saturating_sub(13).max(10);
        for (at, part) in wrapped(&value, width).into_iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            self.lines.push(format!("  {name:<9} {part}"));
        }
    }

    /// Adds the change that a call would make.
    fn change(&mut self, preview: &Value) {
        for diff in preview["diff"].as_array().into_iter().flatten() {
            let kind = match diff["kind"].as_str() {
                Some("added") => "would create",
                Some("removed") => "would delete",
                _ => "would change",
            };
            self.title(kind);
            self.quote(&changes::heading(diff));
            for line in changes::diff_lines(diff) {
                self.quote(&line);
            }
        }
        if let Some(note) = preview["note"].as_str() {
            self.field("change", note);
        }
    }

    /// Adds a text of a tool or a model, with a gutter before each line.
    fn quote(&mut self, text: &str) {
        let width = self.width.saturating_sub(5).max(10);
        for line in sanitize(text.replace('\t', "    ")).lines() {
            for part in wrapped(line, width) {
                self.lines.push(format!("{GUTTER}{part}"));
            }
        }
    }
}

/// Styles of the list. All are plain if colours are off; the marks say the same.
#[derive(Clone, Copy)]
struct CallStyles {
    question: Style,
    running: Style,
    failed: Style,
}

impl CallStyles {
    fn find() -> Self {
        Self {
            question: colour_style(Color::Yellow),
            running: colour_style(Color::Green),
            failed: colour_style(Color::Red),
        }
    }
}
