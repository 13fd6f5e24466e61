/** Stop all: the dialog that asks, and the banner that stays while everything is stopped. */
import { html, useState } from '../base/html.js';
import { post } from '../base/api.js';
import { ago, plural } from '../base/format.js';
import { announce } from '../base/notify.js';
import { live, loadState, session, isAdmin } from '../base/session.js';
import { useStore } from '../base/store.js';
import { ErrorText } from '../parts/controls.js';
import { Dialog } from '../parts/dialog.js';
import { Name } from '../parts/text.js';

/** Asks for the reason, and stops everything. */
export function StopDialog({ onClose }) {
  const state = useStore(session);
  const [reason, setReason] = useState('');
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const { running, waiting } = live.counts();
  const active = [running && plural(running, 'running call'), waiting && plural(waiting, 'waiting call')].filter(Boolean);
  const stop = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await post('stop', reason.trim() ? { reason: reason.trim() } : {});
      announce('Everything is stopped.');
      await loadState().catch(() => {});
      onClose();
    } catch (fault) {
      setError(fault);
      setBusy(false);
    }
  };
  if (state?.stop) {
    return html`<${Dialog} title="Everything is stopped already" onClose=${onClose}><div class="actions"><button autofocus onClick=${onClose}>Close</button></div><//>`;
  }
  return html`
    <${Dialog} title="Stop all calls?" onClose=${onClose} tone="bad">
      <p>
        ${active.length ? `${active.join(' and ')} will be cancelled. ` : 'No call runs now. '}
        New calls in all your workspaces are refused until you allow them again. Changes already made stay.
      </p>
      <form onSubmit=${stop}>
        <label>Reason <span class="faint">(optional; callers see it, and it is recorded)</span>
          <input autofocus type="text" maxlength="500" value=${reason} onInput=${(event) => setReason(event.currentTarget.value)} />
        </label>
        <${ErrorText} error=${error} />
        ${!isAdmin(state) && html`<p class="message warn">Your role is ${state?.role ?? 'unknown'}; stopping needs the role admin.</p>`}
        <div class="actions">
          <button type="button" onClick=${onClose}>Cancel</button>
          <button type="submit" class="danger" disabled=${isBusy || !isAdmin(state)}>Stop all calls</button>
        </div>
      </form>
    <//>
  `;
}

/** Says that everything is stopped, by whom and why. */
export function StopBanner() {
  const state = useStore(session);
  const [isAsking, setAsking] = useState(false);
  const [error, setError] = useState(null);
  if (!state?.stop) return null;
  const { by, atMs, reason } = state.stop;
  const start = async () => {
    try {
      await post('start');
      announce('Calls may run again.');
      await loadState().catch(() => {});
    } catch (fault) {
      setError(fault);
    }
    setAsking(false);
  };
  return html`
    <section class="banner" role="alert" aria-label="Stopped">
      <div>
        <strong>Everything is stopped.</strong> All calls are refused.
        <div class="small">By <${Name} text=${by || 'unknown'} /> ${ago(atMs)}${reason ? html`, because: <${Name} text=${reason} max=${500} />` : ''}</div>
        <${ErrorText} error=${error} />
      </div>
      <span class="spacer"></span>
      ${isAdmin(state) && html`<button onClick=${() => setAsking(true)}>Start again…</button>`}
      ${isAsking &&
      html`
        <${Dialog} title="Let calls run again?" onClose=${() => setAsking(false)}>
          <p>Agents that still work will call tools again at once. Rules and questions apply as before.</p>
          <div class="actions">
            <button autofocus onClick=${() => setAsking(false)}>Cancel</button>
            <button class="primary" onClick=${start}>Start again</button>
          </div>
        <//>
      `}
    </section>
  `;
}
