/** Stopping one agent: the button, the dialog that asks, and the strip of stopped agents. */
import { html, useState } from '../base/html.js';
import { post } from '../base/api.js';
import { ago, oneLine, plural } from '../base/format.js';
import { announce } from '../base/notify.js';
import { href } from '../base/router.js';
import { live, mayAnswer, session } from '../base/session.js';
import { useStore } from '../base/store.js';
import { useAction } from '../parts/action.js';
import { ErrorText } from '../parts/controls.js';
import { Dialog } from '../parts/dialog.js';
import { Name } from '../parts/text.js';
import { agentKey, agentName, loadAgents, stopOf, stoppedAgents } from './agents.js';

const order = ({ process, session: id }) => ({ pid: process?.pid, session: id });

async function letWork(agent) {
  await post('agents/start', order(agent));
  announce(`${oneLine(agentName(agent), 40)} may work again.`);
  await loadAgents().catch(() => {});
}

/**
 * The button that stops the agent of a call or session, or lets it work again.
 * @param {{ agent: { process: object, session: string, client?: string }, onStop: () => void, quiet?: boolean }} props
 */
export function AgentButton({ agent, onStop, quiet = false }) {
  const state = useStore(session);
  const stop = useStore(stoppedAgents, (stopped) => stopOf(stopped, agent));
  const start = useAction(() => letWork(agent));
  if (!mayAnswer(state) || !agent.process?.pid) return null;
  if (stop) {
    return html`
      <button disabled=${start.isBusy} onClick=${start.run}>Let it work again</button>
      <${ErrorText} error=${start.error} />
    `;
  }
  const stopThis = (event) => {
    event.stopPropagation();
    onStop();
  };
  return html`<button class=${quiet ? 'danger-quiet small' : 'danger-quiet'} aria-label=${`Stop agent ${oneLine(agentName(agent), 40)}`} onClick=${stopThis}>Stop agent</button>`;
}

/** Asks for the reason, and stops one agent. */
export function StopAgentDialog({ agent, onClose }) {
  const [reason, setReason] = useState('');
  const { running, waiting } = live.countsOf(agentKey(agent));
  const active = [running && plural(running, 'running call'), waiting && plural(waiting, 'waiting call')].filter(Boolean);
  const stop = useAction(async () => {
    await post('agents/stop', { ...order(agent), ...(reason.trim() && { reason: reason.trim() }) });
    announce(`${oneLine(agentName(agent), 40)} is stopped.`);
    await loadAgents().catch(() => {});
    onClose();
  });
  const submit = (event) => {
    event.preventDefault();
    stop.run();
  };
  return html`
    <${Dialog} title="Stop this agent?" onClose=${onClose} tone="bad">
      <p><${Name} text=${agentName(agent)} strong /> in session <${Name} text=${agent.session} max=${60} />, process <${Name} text=${`${agent.process?.name} (${agent.process?.pid})`} /></p>
      <p>
        ${active.length ? `${active.join(' and ')} will end. ` : 'None of its calls runs now. '}
        Its new calls are refused until you let it work again. Other agents go on. Changes already made stay.
      </p>
      <form onSubmit=${submit}>
        <label>Reason <span class="faint">(optional; the agent sees it, and it is recorded)</span>
          <input autofocus type="text" maxlength="300" value=${reason} onInput=${(event) => setReason(event.currentTarget.value)} />
        </label>
        <${ErrorText} error=${stop.error} />
        <div class="actions">
          <button type="button" onClick=${onClose}>Cancel</button>
          <button type="submit" class="danger" disabled=${stop.isBusy}>Stop agent</button>
        </div>
      </form>
    <//>
  `;
}

const AGENTS_MAX = 50;

/** The agents of the last minutes: calls may be too short to be stopped in their rows. */
export function ActiveAgents({ agents, onStop }) {
  if (!agents.length) return null;
  return html`
    <ul class="agents" tabindex="0" aria-label="Agents of the last minutes">
      ${agents.slice(0, AGENTS_MAX).map(
        (agent) => html`<li key=${agentKey(agent)}><${Name} text=${agentName(agent)} max=${30} /> <span class="faint small">${plural(agent.recent, 'call')}</span> <${AgentButton} agent=${agent} onStop=${() => onStop(agent)} quiet /></li>`,
      )}
      ${agents.length > AGENTS_MAX && html`<li class="small">and ${agents.length - AGENTS_MAX} more, in <a href=${href('tools', ['sessions'])}>Sessions</a></li>`}
    </ul>
  `;
}

/** The agents that are stopped, each with the way to let it work again. */
export function StoppedAgents() {
  const stopped = useStore(stoppedAgents);
  if (!stopped.length) return null;
  return html`
    <section class="stopped-agents" aria-label="Stopped agents">
      <ul>
        ${stopped.map(
          (agent) => html`
            <li key=${agentKey(agent)}>
              <div>
                <strong>Stopped:</strong> <${Name} text=${agentName(agent)} strong /> <span class="faint">session</span> <${Name} text=${agent.session} max=${60} />
                <div class="small">By <${Name} text=${agent.stop.by || 'unknown'} /> ${ago(agent.stop.atMs)}${agent.stop.reason ? html`, because: <${Name} text=${agent.stop.reason} max=${300} />` : ''}</div>
                ${agent.stop.unshared && html`<div class="bad-text small" role="status"><${Name} text=${agent.stop.unshared} max=${300} /></div>`}
              </div>
              <span class="spacer"></span>
              <${AgentButton} agent=${agent} />
            </li>
          `,
        )}
      </ul>
    </section>
  `;
}
