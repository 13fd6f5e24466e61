/** The form for an edit of the settings: a file, a key and a value. */
import { html, useId, useState } from '../base/html.js';
import { useLoad } from '../base/api.js';
import { findKey, suggestKeys } from './setting_keys.js';

const FILES = [{ name: 'user' }, { name: 'project' }];
const FILE_NAME = { user: 'Your settings', project: 'Project settings' };
const EXAMPLES = [
  ['tools.exec.approval', 'ask'],
  ['policy.deny', '[web_fetch]'],
  ['network.allowedHosts', '[docs.rs]'],
];

/**
 * @param {{
 *   action: string,
 *   onEdit: (edit: { file: string, changes: object[] }) => void,
 *   start?: { file?: string, key?: string, yaml?: string },
 *   fault?: { field: 'key' | 'value', text: string, expected?: string } | null,
 *   isBusy?: boolean,
 *   children?: any,
 * }} props
 */
export function EditForm({ action, onEdit, start, fault, isBusy, children }) {
  const { data } = useLoad('policy', 'policy');
  const { data: known } = useLoad('tools', 'tools');
  const files = (data?.files ?? FILES).filter(({ editable }) => editable !== false);
  const [file, setFile] = useState(start?.file ?? 'user');
  const [key, setKey] = useState(start?.key ?? '');
  const [text, setText] = useState(start?.yaml ?? '');
  // The fault of a request is about what was sent, and not about what has been typed since.
  const [sent, setSent] = useState(null);
  const id = useId();
  const keys = data?.keys ?? [];
  const suggested = suggestKeys(keys, key, (known?.tools ?? []).map(({ name }) => name));
  const about = findKey(keys, key);
  const current = JSON.stringify([file, key, text]);
  const shown = fault && sent === current ? fault : null;
  const [atKey, atValue] = ['key', 'value'].map((field) => (shown?.field === field ? shown : null));
  const send = (event) => {
    event.preventDefault();
    if (!key.trim()) return;
    setSent(current);
    onEdit({ file, changes: [text.trim() ? { key: key.trim(), yaml: text } : { key: key.trim(), value: null }] });
  };
  return html`
    <form class="edit-form" onSubmit=${send}>
      <div class="edit-row">
        <label>File
          <select value=${file} onChange=${(event) => setFile(event.currentTarget.value)}>
            ${files.map(({ name, path }) => html`<option key=${name} value=${name}>${FILE_NAME[name] ?? name}${path ? ` (${path})` : ''}</option>`)}
          </select>
        </label>
        ${children}
      </div>
      <label>Key<input type="text" required list=${`${id}-keys`} spellcheck=${false} autocapitalize="off" autocomplete="off" class="code" placeholder="tools.exec.approval" aria-invalid=${!!atKey} aria-describedby=${`${id}-key`} value=${key} onInput=${(event) => setKey(event.currentTarget.value)} /></label>
      <datalist id=${`${id}-keys`}>${suggested.map(({ key: one, expected }) => html`<option key=${one} value=${one} label=${expected} />`)}</datalist>
      <p id=${`${id}-key`} class=${atKey ? 'bad-text small' : 'faint small'} role="status">${atKey ? atKey.text : (about?.purpose ?? '')}</p>
      <label>Value <span class="faint">(YAML; empty removes the key)</span>
        <textarea class="code" rows="3" spellcheck=${false} autocapitalize="off" placeholder=${about?.expected ?? ''} aria-invalid=${!!atValue} aria-describedby=${`${id}-value`} value=${text} onInput=${(event) => setText(event.currentTarget.value)}></textarea>
      </label>
      <p id=${`${id}-value`} class=${atValue ? 'bad-text small' : 'faint small'} role="status">${atValue ? valueFault(atValue) : about ? `Expected: ${about.expected}.` : ''}</p>
      <div class="edit-row">
        <span class="faint small">Examples: ${EXAMPLES.map(([name, example], index) => html`<button key=${index} type="button" class="link" onClick=${() => { setKey(name); setText(example); }}>${name}: ${example}</button> `)}</span>
        <span class="spacer"></span>
        <button type="submit" class="primary" disabled=${!key.trim() || isBusy}>${action}</button>
      </div>
    </form>
  `;
}

/** The fault of a value, with what is expected unless the text says so. */
const valueFault = ({ text, expected }) => (expected && !/ must be |Known: /.test(text) ? `${text.replace(/[^.]$/, '$&.')} Expected: ${expected}.` : text);
