/** Stop all: the dialog that asks, and the banner that stays while everything is stopped. */
import { html, useState } from '../base/html.js';
import { post } from '../base/api.js';
import { connection } from '../base/events.js';
import { ago, oneLine, plural } from '../base/format.js';
import { announce } from '../base/notify.js';
import { live, liveVersion, loadState, session, isAdmin } from '../base/session.js';
import { useStore } from '../base/store.js';
import { ErrorText } from '../parts/controls.js';
import { Dialog } from '../parts/dialog.js';
import { Name } from '../parts/text.js';
import { agentKey, agentName, stopOf, stoppedAgents } from '../live/agents.js';
import { AgentButton, StopAgentDialog } from '../live/stop_agent.js';
import { StopInTerminal } from './gone.js';

/** Asks for the reason, and stops everything; people who may not do that can stop single agents. */
export function StopDialog({ onClose }) {
  const state = useStore(session);
  if (state?.stop) {
    return html`<${Dialog} title="Everything is stopped already" onClose=${onClose}><div class="actions"><button autofocus onClick=${onClose}>Close</button></div><//>`;
  }
  return isAdmin(state) || !state ? html`<${StopAll} onClose=${onClose} />` : html`<${StopOne} role=${state.role} onClose=${onClose} />`;
}

function StopAll({ onClose }) {
  const [reason, setReason] = useState('');
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const isLost = useStore(connection) === 'lost';
  const { running, waiting } = live.counts();
  const active = [running && plural(running, 'running call'), waiting && plural(waiting, 'waiting call')].filter(Boolean);
  const stop = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
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
  return html`
    <${Dialog} title="Stop all calls?" onClose=${onClose} tone="bad">
      <p>
        ${isLost ? '' : active.length ? `${active.join(' and ')} will be cancelled. ` : 'No call runs now. '}
        New calls in all your workspaces are refused until you allow them again. Changes already made stay.
      </p>
      ${(isLost || error?.code === 'NETWORK') && html`<${StopInTerminal} />`}
      <form onSubmit=${stop}>
        <label>Reason <span class="faint">(optional; callers see it, and it is recorded)</span>
          <input autofocus type="text" maxlength="500" value=${reason} onInput=${(event) => setReason(event.currentTarget.value)} />
        </label>
        <${ErrorText} error=${error} />
        <div class="actions">
          <button type="button" onClick=${onClose}>Cancel</button>
          <button type="submit" class="danger" disabled=${isBusy}>Stop all calls</button>
        </div>
      </form>
    <//>
  `;
}

/** What a person without the role admin can do. */
function StopOne({ role, onClose }) {
  const [agent, setAgent] = useState(null);
  useStore(liveVersion);
  const stopped = useStore(stoppedAgents);
  const isLost = useStore(connection) === 'lost';
  if (agent) return html`<${StopAgentDialog} agent=${agent} onClose=${onClose} />`;
  const mayStop = role === 'approver';
  const agents = mayStop ? live.agents().filter((one) => !stopOf(stopped, one)) : [];
  return html`
    <${Dialog} title=${mayStop ? 'Stop an agent' : 'Stop'} onClose=${onClose} tone="bad">
      <p>Stopping all calls needs the role admin; yours is ${oneLine(role, 20)}. ${mayStop ? (agents.length ? 'You can stop single agents:' : 'You can stop single agents; none is active now.') : 'Ask an admin.'}</p>
      ${isLost && html`<${StopInTerminal} />`}
      <ul class="stop-list">${agents.map((one) => html`<li key=${agentKey(one)}><div class="grow"><${Name} text=${agentName(one)} strong /> <span class="faint small">session</span> <${Name} text=${one.session} max=${60} /></div><${AgentButton} agent=${one} onStop=${() => setAgent(one)} /></li>`)}</ul>
      <div class="actions"><button autofocus onClick=${onClose}>Close</button></div>
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
