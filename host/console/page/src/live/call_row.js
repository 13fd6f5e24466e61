/** A call in the list. */
import { html } from '../base/html.js';
import { clock, duration, oneLine } from '../base/format.js';
import { Tag } from '../parts/controls.js';
import { runTime, stateOf, waitTime } from './live_calls.js';
import { AgentButton } from './stop_agent.js';

/** Returns who called: the client, or the user, or the process. */
export const who = ({ client, user, process }) => client || user || process?.name || '';

export function CallRow({ row, onToggle, onStopAgent }) {
  const { call, depth, nested, isCollapsed } = row;
  const { word, tone } = stateOf(call);
  return html`
    <div class="call-row call-columns">
      <span class="cell-state"><${Tag} tone=${tone}>${word}<//></span>
      <span class="cell-tool" style=${{ paddingLeft: `${Math.min(depth, 8) * 16}px` }}>
        ${nested > 0 &&
        html`<span
          class=${isCollapsed ? 'twist closed' : 'twist'}
          onClick=${(event) => {
            event.stopPropagation();
            onToggle(call.id, !isCollapsed);
          }}
        ></span>`}
        ${depth > 0 && nested === 0 && html`<span class="branch"></span>`}
        <code class="name strong" translate="no">${oneLine(call.tool, 80)}</code>
      </span>
      <span class="cell-arguments"><span class="inline-foreign" translate="no">${progressOrArguments(call)}</span></span>
      <span class="cell-who">
        <span class="inline-foreign" translate="no">${oneLine(who(call), 40)}</span>
        ${call.state !== 'finished' && html`<${AgentButton} agent=${call} onStop=${() => onStopAgent(call)} quiet />`}
      </span>
      <span class="cell-effects right">${call.effectCount ? html`${call.effectCount}<span class="visually-hidden"> ${call.effectCount === 1 ? 'effect' : 'effects'}</span>` : ''}</span>
      <span class="cell-took right">${duration(call.state === 'waiting' ? waitTime(call) : runTime(call))}</span>
      <span class="cell-time right faint">${clock(call.at)}</span>
    </div>
  `;
}

const argumentsLine = new WeakMap();

function progressOrArguments(call) {
  if (call.state !== 'finished' && call.progress) {
    const { done, total, message } = call.progress;
    return `${total ? `${Math.floor((100 * done) / total)} % ` : ''}${oneLine(message, 120)}`;
  }
  const given = call.edited ?? call;
  if (!argumentsLine.has(given)) argumentsLine.set(given, oneLine(given.arguments, 200));
  return argumentsLine.get(given);
}
