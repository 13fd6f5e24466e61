/** A long text of which only the lines in sight are rendered. */
import { html, useLayoutEffect, useRef, useState } from '../base/html.js';
import { visible } from '../base/format.js';

const LINE_HEIGHT = 18;
const CHAR_WIDTH = 7.4;
const HEIGHT = 420;
const SPARE = 12;

/** Splits a text into lines. */
export const splitLines = (text) => text.replaceAll('\r\n', '\n').split('\n').map((line) => ({ text: line }));

/** Cuts lines into pieces that fit the width. */
function wrap(lines, columns) {
  const pieces = [];
  lines.forEach(({ text, type }, line) => {
    for (let start = 0; start === 0 || start < text.length; start += columns) {
      pieces.push({ line, type, start, text });
    }
  });
  return pieces;
}

/**
 * @param {{ lines: { text: string, type?: string }[], label: string }} props
 */
export function LineView({ lines, label }) {
  const box = useRef(null);
  const [columns, setColumns] = useState(0);
  const [top, setTop] = useState(0);
  const wrapped = useRef({ lines: null, columns: 0, pieces: [] });
  useLayoutEffect(() => {
    const measure = () => setColumns(Math.max(20, Math.floor((box.current.clientWidth - 76) / CHAR_WIDTH)));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  if (wrapped.current.lines?.length !== lines.length || wrapped.current.columns !== columns) {
    wrapped.current = { lines, columns, pieces: columns ? wrap(lines, columns) : [] };
  }
  const { pieces } = wrapped.current;
  const first = Math.max(0, Math.floor(top / LINE_HEIGHT) - SPARE);
  const shown = pieces.slice(first, first + Math.ceil(HEIGHT / LINE_HEIGHT) + 2 * SPARE);
  return html`
    <div
      class="foreign line-view"
      ref=${box}
      tabindex="0"
      role="group"
      aria-label=${label}
      translate="no"
      style=${{ height: `${Math.min(HEIGHT, Math.max(1, pieces.length) * LINE_HEIGHT + 16)}px` }}
      onScroll=${(event) => setTop(event.currentTarget.scrollTop)}
    >
      <div class="lines" style=${{ height: `${pieces.length * LINE_HEIGHT}px` }}>
        <div class="window" style=${{ transform: `translateY(${first * LINE_HEIGHT}px)` }}>
          ${shown.map(
            ({ line, type, start, text }, index) => html`
              <div class=${`line ${type ?? ''}`} key=${first + index}>
                <span class="number" aria-hidden="true">${start === 0 ? line + 1 : '↪'}</span>
                <span class="text">${visible(text.slice(start, start + columns))}</span>
              </div>
            `,
          )}
        </div>
      </div>
    </div>
  `;
}
