/** The changes of files as a diff. */
import { html, useState } from '../base/html.js';
import { plural, visible } from '../base/format.js';
import { LineView } from './line_view.js';
import { Name } from './text.js';

/** Lines that are shown before a person asks for the rest. */
const COLLAPSED = 60;

/** More lines are shown in a view that renders only those in sight. */
const VIEW = 400;

const SIGN = { add: '+', remove: '−', context: ' ', hunk: ' ' };
const KIND = { added: 'new file', removed: 'deleted', changed: 'changed' };
const KIND_TONE = { added: 'good', removed: 'bad', changed: 'accent' };

/**
 * @param {{ files: { path: string, kind: string, lines: { type: string, text: string }[], truncated?: boolean }[], folded?: boolean }} props
 *   With `folded`, each file is one line that opens.
 */
export function Diff({ files, folded = false }) {
  if (!files?.length) return html`<p class="faint">No file changes.</p>`;
  return html`<div class="diff">${files.map((file, index) => html`<${FileDiff} key=${`${index} ${file.path}`} file=${file} folded=${folded} />`)}</div>`;
}

function FileDiff({ file, folded }) {
  const lines = file.lines ?? [];
  const [isOpen, setOpen] = useState(false);
  const [isShown, setShown] = useState(!folded);
  const number = (type) => lines.filter((line) => line.type === type).length;
  const { added = number('add'), removed = number('remove') } = file;
  const isLong = lines.length > COLLAPSED;
  const shown = isLong && !isOpen ? lines.slice(0, COLLAPSED) : lines;
  const label = `Changes of ${visible(file.path).slice(0, 200)}`;
  const head = html`
    <${Name} text=${file.path} max=${200} strong />
    <span class=${`tag ${KIND_TONE[file.kind] ?? ''}`}>${KIND[file.kind] ?? 'changed'}</span>
    <span class="spacer"></span>
    ${!file.unknown && html`<span class="good-text" aria-label=${plural(added, 'added line')}>+${added}</span><span class="bad-text" aria-label=${plural(removed, 'removed line')}>−${removed}</span>`}
  `;
  const body =
    isShown &&
    html`
      ${lines.length > 0 && (shown.length > VIEW
        ? html`<${LineView} lines=${shown.map(({ type, text }) => ({ type, text: `${SIGN[type] ?? ' '} ${text ?? ''}` }))} label=${label} />`
        : html`
            <div class="foreign diff-lines" role="group" tabindex="0" aria-label=${label} translate="no">
              ${shown.map(
                ({ type, text }, index) => html`
                  <div class=${`line ${type in SIGN ? type : ''}`} key=${index}>
                    <span class="sign">${SIGN[type] ?? ' '}</span><span class="text">${visible(text)}</span>
                  </div>
                `,
              )}
            </div>
          `)}
      ${isLong &&
      html`<button class="link" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        ${isOpen ? 'Show less' : `Show all ${plural(lines.length, 'line')}`}
      </button>`}
      ${file.unknown && html`<p class="faint small"><${Name} text=${file.unknown} max=${200} /></p>`}
      ${file.truncated && html`<p class="faint small">More lines follow; the server has cut this diff.</p>`}
    `;
  if (folded) return html`<details class="file" onToggle=${(event) => setShown(event.currentTarget.open)}><summary class="file-head">${head}</summary>${body}</details>`;
  return html`<section class="file" aria-label=${label}><div class="file-head">${head}</div>${body}</section>`;
}
