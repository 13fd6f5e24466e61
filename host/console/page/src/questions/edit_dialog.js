/** The answer with edited arguments. */
import { html, useId, useState } from '../base/html.js';
import { ErrorText } from '../parts/controls.js';
import { Dialog } from '../parts/dialog.js';

/** Checks edited arguments. Returns the value, or the fault in one sentence. */
export function checkArguments(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { fault: `Not valid JSON: ${error.message}` };
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return { fault: 'Arguments are a JSON object: { … }' };
  return { value };
}

export function EditDialog({ card, refusal, onSend, onClose }) {
  const [text, setText] = useState(card.arguments ?? '{}');
  const id = useId();
  const { value, fault } = checkArguments(text);
  const isSame = !fault && JSON.stringify(value) === JSON.stringify(checkArguments(card.arguments ?? '{}').value);
  const send = (event) => {
    event.preventDefault();
    if (value && !isSame) onSend({ answer: 'edit', arguments: value });
  };
  return html`
    <${Dialog} title="Run with other arguments" onClose=${onClose} wide>
      <form onSubmit=${send}>
        <label>Arguments as JSON
          <textarea
            autofocus
            class="code"
            rows="14"
            spellcheck=${false}
            autocapitalize="off"
            aria-invalid=${!!fault}
            aria-describedby=${id}
            value=${text}
            onInput=${(event) => setText(event.currentTarget.value)}
          ></textarea>
        </label>
        <p id=${id} class=${fault ? 'bad-text' : 'faint'} role="status">${fault ?? (isSame ? 'Not changed yet.' : 'Valid JSON. The edited call is checked again, and may be asked about again.')}</p>
        <${ErrorText} error=${refusal} />
        <div class="actions">
          <button type="button" onClick=${onClose}>Back</button>
          <button type="submit" class="primary" disabled=${!value || isSame}>Run with these arguments</button>
        </div>
      </form>
    <//>
  `;
}
