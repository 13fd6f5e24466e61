/** The answer no, with a reason for the model. */
import { html, useState } from '../base/html.js';
import { Dialog } from '../parts/dialog.js';

/** The reason that was being written when the question ended. */
export const unsent = { text: '' };

export function NoDialog({ title, onSend, onClose }) {
  const [reason, setReason] = useState('');
  const close = () => {
    unsent.text = '';
    onClose();
  };
  const send = (event) => {
    event.preventDefault();
    unsent.text = '';
    onSend(reason.trim() ? { answer: 'no', reason: reason.trim() } : { answer: 'no' });
  };
  return html`
    <${Dialog} title=${title} onClose=${close}>
      <form onSubmit=${send}>
        <label>Reason <span class="faint">(optional; the model reads it)</span>
          <input autofocus type="text" maxlength="500" placeholder="Such as: use the staging server" value=${reason} onInput=${(event) => setReason((unsent.text = event.currentTarget.value))} />
        </label>
        <div class="actions">
          <button type="button" onClick=${close}>Back</button>
          <button type="submit" class="danger">Answer no</button>
        </div>
      </form>
    <//>
  `;
}
