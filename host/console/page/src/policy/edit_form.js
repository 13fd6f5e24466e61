/** The form for an edit of the settings: a file, a key and a value. */
import { html, useId, useState } from '../base/html.js';
import { useLoad } from '../base/api.js';

/** Reads a value. Text that is not JSON is an error, so that a typo is not stored as a text. */
export function readValue(text) {
  if (!text.trim()) return { value: null };
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { fault: `Not valid JSON: ${error.message}. Write texts in quotes.` };
  }
}

const FILES = [{ name: 'user' }, { name: 'project' }];
const EXAMPLES = [
  ['tools.exec.approval', '"ask"'],
  ['policy.deny', '["web_fetch"]'],
  ['execApprovals.allow', '["cargo test *"]'],
];

/**
 * @param {{ action: string, onEdit: (edit: { file: string, changes: { key: string, value: unknown }[] }) => void, start?: { key: string, value: string }, isBusy?: boolean, children?: any }} props
 */
export function EditForm({ action, onEdit, start, isBusy, children }) {
  const { data } = useLoad('policy', 'policy');
  const files = (data?.files ?? FILES).filter(({ editable }) => editable !== false);
  const [file, setFile] = useState('user');
  const [key, setKey] = useState(start?.key ?? '');
  const [text, setText] = useState(start?.value ?? '');
  const id = useId();
  const { value, fault } = readValue(text);
  const send = (event) => {
    event.preventDefault();
    if (!fault && key.trim()) onEdit({ file, changes: [{ key: key.trim(), value }] });
  };
  return html`
    <form class="edit-form" onSubmit=${send}>
      <div class="edit-row">
        <label>File
          <select value=${file} onChange=${(event) => setFile(event.currentTarget.value)}>
            ${files.map(({ name, path }) => html`<option key=${name} value=${name}>${name}${path ? ` (${path})` : ''}</option>`)}
          </select>
        </label>
        ${children}
      </div>
      <label>Key<input type="text" required spellcheck=${false} autocapitalize="off" class="code" placeholder="tools.exec.approval" value=${key} onInput=${(event) => setKey(event.currentTarget.value)} /></label>
      <label>Value as JSON <span class="faint">(empty removes the key)</span>
        <textarea class="code" rows="3" spellcheck=${false} autocapitalize="off" aria-invalid=${!!fault} aria-describedby=${id} value=${text} onInput=${(event) => setText(event.currentTarget.value)}></textarea>
      </label>
      <p id=${id} class="bad-text small" role="status">${fault ?? ''}</p>
      <div class="edit-row">
        <span class="faint small">Such as ${EXAMPLES.map(([name, example], index) => html`<button key=${index} type="button" class="link" onClick=${() => { setKey(name); setText(example); }}>${name}: ${example}</button>`)}</span>
        <span class="spacer"></span>
        <button type="submit" class="primary" disabled=${!!fault || !key.trim() || isBusy}>${action}</button>
      </div>
    </form>
  `;
}
