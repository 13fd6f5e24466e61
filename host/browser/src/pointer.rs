//! The mouse: where an element is, what covers it, and clicks.

use std::time::Duration;

use mimir_core::{ToolError, ToolErrorCode};
use serde_json::{Value, json};

use crate::page::{Interrupted, Page};
use crate::snapshot::NodeKey;

/// Time to wait until an element is in view, does not move, and is not covered.
const READY_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two looks.
const READY_INTERVAL: Duration = Duration::from_millis(60);

/// A point of the page in CSS pixels, relative to the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

/// A kind of click.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClickKind {
    /// `left`, `right` or `middle`.
    pub(crate) button: &'static str,
    /// 1 or 2.
    pub(crate) count: u32,
    /// Bits of the modifier keys.
    pub(crate) modifiers: u32,
}

impl ClickKind {
    pub(crate) const LEFT: Self = Self {
        button: "left",
        count: 1,
        modifiers: 0,
    };
}

/// Returns the element in the way of a click, as a short text; empty if a click reaches the element. A label passes
/// clicks on to its field.
const COVER: &str = include_str!("scripts/cover.js");

impl Page<'_> {
    /// Scrolls an element into view, and waits until it does not move and nothing covers it. Returns its center.
    pub(crate) async fn ready_point(&self, key: &NodeKey) -> Result<Point, ToolError> {
        let deadline = tokio::time::Instant::now() + READY_TIMEOUT;
        let mut last: Option<Point> = None;
        let mut problem = "it is not visible".to_owned();
        loop {
            let params = json!({"backendNodeId": key.node});
            let scrolled = self
                .send_to(&key.session, "DOM.scrollIntoViewIfNeeded", params)
                .await;
            match scrolled {
                Ok(_) => match self.center(key).await? {
                    None => problem = "it has no size".to_owned(),
                    Some((inner, point)) if last == Some(point) => {
                        let arguments = [json!(inner.x), json!(inner.y)];
                        let cover = self.call(key, COVER, &arguments).await?;
                        problem = match cover.as_str().unwrap_or_default() {
                            "" => return Ok(point),
                            "gone" => "it was removed from the page".to_owned(),
                            "disabled" => "it is disabled".to_owned(),
                            "nothing" => "it is outside of the window".to_owned(),
                            cover => format!("{} covers it", mimir_core::text::visible(cover)),
                        };
                    }
                    Some((_, point)) => {
                        last = Some(point);
                        problem = "it keeps moving".to_owned();
                    }
                },
                Err(error) if error.code == ToolErrorCode::ExecutionError => last = None,
                Err(error) => return Err(error),
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(ToolError::execution(format!(
                    "the element cannot be reached with the mouse: {problem}"
                )));
            }
            tokio::time::sleep(READY_INTERVAL).await;
        }
    }

    /// Returns the center of the visible part of an element, relative to its frame's process and to the window.
    async fn center(&self, key: &NodeKey) -> Result<Option<(Point, Point)>, ToolError> {
        let params = json!({"backendNodeId": key.node});
        let quads = self
            .send_to(&key.session, "DOM.getContentQuads", params)
            .await?;
        let Some(quad) = quads["quads"]
            .as_array()
            .into_iter()
            .flatten()
            .find_map(quad_center)
        else {
            return Ok(None);
        };
        let own = self.session();
        let mut outer = quad;
        if key.session != own {
            let offset = self.frame_offset(&key.session).await?;
            outer = Point {
                x: quad.x + offset.x,
                y: quad.y + offset.y,
            };
        }
        // `elementFromPoint` counts from the frame's own corner.
        let corner = self.call(key, FRAME_CORNER, &[]).await?;
        let inner = Point {
            x: quad.x - corner["x"].as_f64().unwrap_or_default(),
            y: quad.y - corner["y"].as_f64().unwrap_or_default(),
        };
        Ok(Some((inner, outer)))
    }

    /// Returns the position of a frame of another process in the window.
    async fn frame_offset(&self, session: &str) -> Result<Point, ToolError> {
        let frame = {
            let state = self.browser.state();
            let mut frames = state.frame_sessions.iter();
            frames
                .find(|(_, of)| *of == session)
                .map(|(frame, _)| frame.clone())
        };
        let frame = frame.unwrap_or_default();
        let params = json!({"frameId": frame});
        let owner = self.send("DOM.getFrameOwner", params).await?;
        let params = json!({"backendNodeId": owner["backendNodeId"]});
        let model = self.send("DOM.getBoxModel", params).await?;
        let corner = model["model"]["content"].as_array();
        let number = |index: usize| corner.and_then(|quad| quad.get(index)?.as_f64());
        Ok(Point {
            x: number(0).unwrap_or_default(),
            y: number(1).unwrap_or_default(),
        })
    }

    async fn mouse(
        &self,
        kind: &str,
        at: Point,
        click: Option<ClickKind>,
    ) -> Result<(), ToolError> {
        let mut params = json!({"type": kind, "x": at.x, "y": at.y, "button": "none"});
        if let Some(click) = click {
            params["button"] = click.button.into();
            params["clickCount"] = click.count.into();
            params["modifiers"] = click.modifiers.into();
        }
        self.send("Input.dispatchMouseEvent", params)
            .await
            .map(drop)
    }

    /// Moves the mouse to a point.
    pub(crate) async fn move_mouse(&self, at: Point) -> Result<(), ToolError> {
        self.mouse("mouseMoved", at, None).await
    }

    /// Clicks at a point.
    pub(crate) async fn click_at(&self, at: Point, kind: ClickKind) -> Result<(), Interrupted> {
        self.until_dialog(async {
            self.move_mouse(at).await?;
            for count in 1..=kind.count {
                let click = Some(ClickKind { count, ..kind });
                self.mouse("mousePressed", at, click).await?;
                self.mouse("mouseReleased", at, click).await?;
            }
            Ok(())
        })
        .await
    }

    /// Drags from one element to another.
    pub(crate) async fn drag(&self, from: &NodeKey, to: &NodeKey) -> Result<(), Interrupted> {
        let start = self.ready_point(from).await?;
        self.until_dialog(async {
            self.move_mouse(start).await?;
            self.mouse("mousePressed", start, Some(ClickKind::LEFT))
                .await
        })
        .await?;
        // Scrolling to the end would lose the start, so the end only has to have a place.
        let end = self.center(to).await?;
        let (_, end) =
            end.ok_or_else(|| ToolError::execution("the end of the drag is not visible"))?;
        self.until_dialog(async {
            // Pages begin a drag after some movement.
            for step in 1..=5 {
                let part = f64::from(step) / 5.0;
                let at = Point {
                    x: start.x + (end.x - start.x) * part,
                    y: start.y + (end.y - start.y) * part,
                };
                let mut params =
                    json!({"type": "mouseMoved", "x": at.x, "y": at.y, "button": "left"});
                params["buttons"] = 1.into();
                self.send("Input.dispatchMouseEvent", params).await?;
            }
            self.mouse("mouseReleased", end, Some(ClickKind::LEFT))
                .await
        })
        .await
    }
}

/// Returns the corner of the element's frame, relative to the outermost frame of the same process.
const FRAME_CORNER: &str = include_str!("scripts/frame_corner.js");

/// Returns the center of a quadrilateral, given by eight numbers. `None` if it has no area.
fn quad_center(quad: &Value) -> Option<Point> {
    let numbers: Vec<f64> = quad.as_array()?.iter().filter_map(Value::as_f64).collect();
    let [x1, y1, x2, y2, x3, y3, x4, y4] = numbers.try_into().ok()?;
    // The shoelace formula.
    let area =
        (x1 * y2 - x2 * y1) + (x2 * y3 - x3 * y2) + (x3 * y4 - x4 * y3) + (x4 * y1 - x1 * y4);
    let center = Point {
        x: (x1 + x2 + x3 + x4) / 4.0,
        y: (y1 + y2 + y3 + y4) / 4.0,
    };
    (area.abs() / 2.0 >= 1.0).then_some(center)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quad_center_needs_an_area() {
        let quad = json!([0, 0, 10, 0, 10, 4, 0, 4]);
        assert_eq!(quad_center(&quad), Some(Point { x: 5.0, y: 2.0 }));
        assert_eq!(quad_center(&json!([0, 0, 10, 0, 10, 0, 0, 0])), None);
        assert_eq!(quad_center(&json!([1, 2])), None);
    }
}
