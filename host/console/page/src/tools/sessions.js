/** The sessions of clients, and the agents behind them. */
import { html, useState } from '../base/html.js';
import { useLoad } from '../base/api.js';
import { ago, count, moment, plural } from '../base/format.js';
import { href } from '../base/router.js';
import { live, liveVersion } from '../base/session.js';
import { useStore } from '../base/store.js';
import { agentKey, stopOf, stoppedAgents } from '../live/agents.js';
import { AgentButton, StopAgentDialog } from '../live/stop_agent.js';
import { Empty, Tag } from '../parts/controls.js';
import { isNarrow } from '../parts/narrow.js';
import { LoadState } from '../parts/split.js';
import { Name } from '../parts/text.js';

export function SessionList() {
  const load = useLoad('sessions', 'agents');
  useStore(liveVersion);
  const stopped = useStore(stoppedAgents);
  const [agent, setAgent] = useState(null);
  const narrow = useStore(isNarrow);
  const { data } = load;
  const sessions = data?.sessions ?? [];
  return html`
    <div class="page-scroll">
      <${LoadState} load=${load} what="sessions" />
      ${data && !sessions.length && html`<${Empty} title="No sessions">Clients that have called a tool appear here.<//>`}
      ${sessions.length > 0 && narrow && html`<ul class="session-cards" aria-label="Sessions">${sessions.slice(0, 500).map((session) => html`<${SessionCard} key=${session.id} session=${session} stop=${stopOf(stopped, agentOf(session))} onStop=${setAgent} />`)}</ul>`}
      ${sessions.length > 0 && !narrow &&
      html`
        <div class="table-box" role="region" aria-label="Sessions" tabindex="0"><table>
          <thead><tr>
            <th scope="col">Session</th><th scope="col">Client</th><th scope="col">Now</th><th scope="col">Agent</th><th scope="col">Process</th>
            <th scope="col">User</th><th scope="col" class="right">Calls</th><th scope="col">Has read</th><th scope="col">First</th><th scope="col">Last</th>
          </tr></thead>
          <tbody>
            ${sessions.slice(0, 500).map((session) => html`<${SessionRow} key=${session.id} session=${session} stop=${stopOf(stopped, agentOf(session))} onStop=${setAgent} />`)}
          </tbody>
        </table></div>
      `}
      ${agent && html`<${StopAgentDialog} agent=${agent} onClose=${() => setAgent(null)} />`}
    </div>
  `;
}

const agentOf = ({ id, process, client }) => ({ session: id, process, client });

function SessionRow({ session, stop, onStop }) {
  const { id, client, process, user, calls, labels, first, last } = session;
  const agent = agentOf(session);
  return html`
    <tr>
      <td><a href=${href('record', [], { session: id })}><${Name} text=${id} max=${60} /></a></td>
      <td>${client ? html`<${Name} text=${client} max=${40} />` : '–'}</td>
      <td>${process ? html`<${Now} counts=${live.countsOf(agentKey(agent))} stop=${stop} />` : '–'}</td>
      <td>${process && html`<${AgentButton} agent=${agent} onStop=${() => onStop(agent)} />`}</td>
      <td>${process ? html`<${Name} text=${`${process.name} (${process.pid})`} max=${40} />` : html`<span class="faint">ended</span>`}</td>
      <td>${user ? html`<${Name} text=${user} max=${40} />` : '–'}</td>
      <td class="right">${count(calls)}</td>
      <td><${LabelTags} labels=${labels} /></td>
      <td>${moment(first)}</td>
      <td>${ago(last)}</td>
    </tr>
  `;
}

/** The same on a phone. */
function SessionCard({ session, stop, onStop }) {
  const { id, client, process, calls, labels, last } = session;
  const agent = agentOf(session);
  return html`
    <li class="panel">
      <div class="panel-head">
        <${Name} text=${client || process?.name || 'agent'} max=${40} strong />
        ${process ? html`<${Now} counts=${live.countsOf(agentKey(agent))} stop=${stop} />` : html`<span class="faint">ended</span>`}
        <span class="spacer"></span>
        ${process && html`<${AgentButton} agent=${agent} onStop=${() => onStop(agent)} />`}
      </div>
      <p class="small"><a href=${href('record', [], { session: id })}><${Name} text=${id} max=${60} /></a></p>
      <p class="small"><span class="faint">${plural(calls, 'call')}, last ${ago(last)}; has read:</span> <${LabelTags} labels=${labels} /></p>
    </li>
  `;
}

/** What the calls of an agent do now. */
function Now({ counts: { running, waiting }, stop }) {
  if (stop) return html`<${Tag} tone="faint">stopped<//>`;
  if (!running && !waiting) return html`<span class="faint">idle</span>`;
  return html`${running > 0 && html`<${Tag} tone="accent">${running} running<//> `}${waiting > 0 && html`<${Tag} tone="warn">${waiting} waiting<//>`}`;
}

/** The labels of what a session has read: a list of labels, or an object with trust and data class. */
function LabelTags({ labels }) {
  if (!labels) return 'unknown';
  const all = Array.isArray(labels) ? labels : [labels.trust, labels.dataClass];
  const special = all.filter((label) => ['untrusted', 'sensitive', 'secret'].includes(label));
  if (!special.length) return html`<span class="faint">nothing special</span>`;
  return special.map((label) => html`<${Tag} key=${label} tone="warn">${label === 'untrusted' ? 'strangers' : label}<//> `);
}
