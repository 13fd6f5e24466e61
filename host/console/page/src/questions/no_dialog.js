/** The answer no, with a reason for the model. */
import { html, useState } from '../base/html.js';
import { Dialog } from '../parts/dialog.js';

export function NoDialog({ title, onSend, onClose }) {
  const [reason, setReason] = useState('');
  const send = (event) => {
    event.preventDefault();
    onSend(reason.trim() ? { answer: 'no', reason: reason.trim() } : { answer: 'no' });
  };
  return html`
    <${Dialog} title=${title} onClose=${onClose}>
      <form onSubmit=${send}>
        <label>Reason <span class="faint">(optional; the model reads it)</span>
          <input autofocus type="text" maxlength="500" placeholder="Such as: use the staging server" value=${reason} onInput=${(event) => setReason(event.currentTarget.value)} />
        </label>
        <div class="actions">
          <button type="button" onClick=${onClose}>Back</button>
          <button type="submit" class="danger">Answer no</button>
        </div>
      </form>
    <//>
  `;
}
