/** Texts of strangers. They are in monospace within a frame, so that none can pass for mimir's own words. */
import { html, useState } from '../base/html.js';
import { bytes, oneLine, visible } from '../base/format.js';
import { LineView, splitLines } from './line_view.js';

/** A longer text starts collapsed. */
const COLLAPSED_CHARS = 2_400;
const COLLAPSED_LINES = 24;

/** A longer text is shown in a view that renders only the lines in sight. */
const VIEW_CHARS = 40_000;

/** A short text in the line: a name, a path, a host. */
export function Name({ text, max = 120, strong = false }) {
  const shown = oneLine(text, max);
  return html`<code class=${strong ? 'name strong' : 'name'} translate="no">${shown || '(empty)'}</code>`;
}

/**
 * A text of any length in a frame.
 * @param {{ text: string, label: string, note?: string, truncated?: boolean }} props `label` names the text for screen
 *   readers.
 */
export function Framed({ text, label, truncated = false, collapse = true }) {
  const [isOpen, setOpen] = useState(!collapse);
  const whole = String(text ?? '');
  const isLong = whole.length > COLLAPSED_CHARS || countLines(whole) > COLLAPSED_LINES;
  if (!whole) return html`<p class="faint">Empty.</p>`;
  let body;
  if (!isLong) body = html`<${Pre} text=${whole} label=${label} />`;
  else if (!isOpen) body = html`<${Pre} text=${firstLines(whole)} label=${`${label}, beginning`} cut />`;
  else if (whole.length > VIEW_CHARS) body = html`<${LineView} lines=${splitLines(whole)} label=${label} />`;
  else body = html`<${Pre} text=${whole} label=${label} />`;
  return html`
    <div class="framed">
      ${body}
      ${isLong &&
      html`<button class="link" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        ${isOpen ? 'Show less' : `Show all (${bytes(whole.length)})`}
      </button>`}
      ${truncated && html`<p class="faint small">The server has cut this text.</p>`}
    </div>
  `;
}

function Pre({ text, label, cut = false }) {
  return html`<pre class=${cut ? 'foreign cut' : 'foreign'} tabindex="0" role="group" aria-label=${label} translate="no">${visible(text)}</pre>`;
}

function countLines(text) {
  let lines = 1;
  for (let at = text.indexOf('\n'); at >= 0 && lines <= COLLAPSED_LINES; at = text.indexOf('\n', at + 1)) lines++;
  return lines;
}

function firstLines(text) {
  let end = 0;
  for (let line = 0; line < COLLAPSED_LINES; line++) {
    const next = text.indexOf('\n', end);
    if (next < 0 || next > COLLAPSED_CHARS) return text.slice(0, COLLAPSED_CHARS);
    end = next + 1;
  }
  return text.slice(0, end - 1);
}

/** A list of short texts of strangers. */
export function Names({ texts, max = 300 }) {
  return html`<ul class="names">${texts.map((text, index) => html`<li key=${index}><${Name} text=${text} max=${max} /></li>`)}</ul>`;
}
