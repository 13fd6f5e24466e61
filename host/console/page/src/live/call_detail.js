/** One call: its arguments, decision, effects, output and receipt. */
import { Component, html, useLayoutEffect, useRef, useState } from '../base/html.js';
import { post, segment, useLoad } from '../base/api.js';
import { bytes, clock, count, duration, oneLine, plural, short, visible } from '../base/format.js';
import { useKeys } from '../base/keys.js';
import { announce } from '../base/notify.js';
import { href } from '../base/router.js';
import { liveVersion, mayAnswer, questions, session } from '../base/session.js';
import { useSeconds } from '../base/seconds.js';
import { useStore } from '../base/store.js';
import { Decision, Empty, ErrorText, Facts, Tag } from '../parts/controls.js';
import { useAction } from '../parts/action.js';
import { Dialog } from '../parts/dialog.js';
import { Reasons } from '../parts/reasons.js';
import { DetailPane } from '../parts/split.js';
import { Framed, Name } from '../parts/text.js';
import { EFFECTS_MAX, questionBefore, runTime, stateOf, waitTime } from './live_calls.js';
import { ANSWER } from '../questions/ended_card.js';
import { AgentButton } from './stop_agent.js';

const EFFECTS = new Set(['command', 'request', 'file', 'storage', 'secret', 'model']);

export function CallDetail({ id, call, onStopAgent, onClose }) {
  const state = useStore(session);
  const now = useSeconds();
  const asked = useStore(questions, (list) => list.find(({ callId }) => callId === id));
  const before = useStore(questions, (list) => questionBefore(call, list));
  const [isAsking, setAsking] = useState(false);
  const isActive = call && call.state !== 'finished';
  const mayCancel = isActive && mayAnswer(state);
  useKeys({ ...(mayCancel && { c: () => setAsking(true) }) });
  const cancel = useAction(async () => {
    setAsking(false);
    await post(`calls/${segment(id)}/cancel`);
    announce('The call is being cancelled.');
  });
  if (!call) {
    return html`
      <${DetailPane} label="Call" title="Call" onClose=${onClose}>
        <${Empty} title="Not in the live list">This call ended a while ago. <a href=${href('record', ['call', id])}>Show it in the record</a>.<//>
      <//>
    `;
  }
  const { finished } = call;
  const { receipt, label } = finished ?? {};
  return html`
    <${DetailPane}
      label="Call"
      title=${html`<${Name} text=${call.tool} max=${80} strong />`}
      tags=${html`<${Tag} tone=${stateOf(call).tone}>${stateOf(call).word}<//>`}
      actions=${html`
        ${mayCancel && html`<button class="danger-quiet" onClick=${() => setAsking(true)}>Cancel call</button>`}
        ${call.session && html`<${AgentButton} agent=${call} onStop=${() => onStopAgent(call)} />`}
      `}
      onClose=${onClose}
    >
        <${ErrorText} error=${cancel.error} />
        ${asked && html`<p class="message warn">This call waits for an answer. <a class="button primary" href=${href('questions', [asked.id])}>Answer</a></p>`}
        ${before && html`<p class="message warn">This call waits behind <a href=${href('questions', [before.id])}>another question</a> of its agent about the same tool. It is asked about, or covered by that answer, next.</p>`}
        ${finished && !finished.ok && html`
          <div class="message bad">
            <strong>${finished.lost ? 'The process that ran this call is gone.' : finished.code}</strong>
            ${finished.message && html`<${Framed} text=${finished.message} label="Error message" />`}
          </div>`}
        <h3>Arguments</h3>
        ${call.edited && html`<p class="message slim">A person has edited the arguments${call.answered?.answer === 'edit' && call.answered.by ? html`: <${Name} text=${call.answered.by} />` : ''}.</p>`}
        <${Framed} text=${(call.edited ?? call).arguments} label="Arguments" truncated=${(call.edited ?? call).argumentsTruncated} />
        ${call.edited && html`
          <details><summary>Arguments before the edit</summary>
            <${Framed} text=${call.arguments} label="Arguments before the edit" truncated=${call.argumentsTruncated} />
          </details>`}
        ${call.progress && isActive && html`<${Progress} progress=${call.progress} />`}
        ${(call.output.length > 0 || call.state === 'running') && html`<h3>Output</h3><${Output} output=${call.output} />`}
        <h3>Effects <span class="faint">${call.effectCount || 'none'}</span></h3>
        ${call.effects.length > 0 && html`<${Effects} effects=${call.effects} total=${call.effectCount} />`}
        ${finished?.undo && html`<p><a class="button" href=${href('tools', ['undo', finished.undo])}>Show and undo the change</a></p>`}
        <h3>Decision</h3>
        ${call.decided
          ? html`<${Reasons} decision=${call.decided.decision} reasons=${call.decided.reasons} />`
          : html`<p class="faint">Not decided yet.</p>`}
        ${call.decided?.decision === 'ask' && call.state !== 'waiting' && html`<${Answered} call=${call} />`}
        <h3>Facts</h3>
        <${Facts}
          facts=${[
            ['Started', clock(call.at)],
            ['Waiting for', call.state === 'waiting' ? duration(waitTime(call, now)) : null],
            [isActive ? 'Running for' : 'Took', call.state === 'waiting' && !call.ranMs ? null : duration(runTime(call, now))],
            ['Fuel', receipt?.fuel === undefined ? null : short(receipt.fuel)],
            ['Peak memory', receipt?.peakMemory === undefined ? null : bytes(receipt.peakMemory)],
            ['In, out', receipt ? `${bytes(receipt.bytesIn)}, ${bytes(receipt.bytesOut)}` : null],
            ['Tokens', receipt ? count(receipt.tokens) : null],
            ['Result is', label ? html`${label.trust}, ${label.dataClass}; from <${Name} text=${label.origin} />` : null],
            ['Client', call.client && html`<${Name} text=${call.client} />`],
            ['User', call.user && html`<${Name} text=${call.user} />`],
            ['Session', call.session && html`<a href=${href('record', [], { session: call.session })}><${Name} text=${call.session} /></a>`],
            ['Process', call.process && html`<${Name} text=${`${call.process.name} (${call.process.pid})`} />`],
            ['Tool is from', html`${call.source}${call.location ? html` <${Name} text=${call.location} max=${200} />` : ''}`],
            ['Called by', call.parent && html`<a href=${href('live', [call.parent])}><${Name} text=${call.parent} /></a>`],
            ['Call', html`<a href=${href('record', ['call', id])}><${Name} text=${id} /></a>`],
          ]}
        />
      ${isAsking &&
      html`
        <${Dialog} title="Cancel this call?" onClose=${() => setAsking(false)}>
          <p><${Name} text=${call.tool} strong /> ends now. Changes that it has made stay. The model is told that a person cancelled the call.</p>
          <div class="actions">
            <button onClick=${() => setAsking(false)}>Let it run</button>
            <button class="danger" autofocus onClick=${cancel.run}>Cancel call</button>
          </div>
        <//>
      `}
    <//>
  `;
}

/** Who has answered the question of a call. What this page has not seen is on record once the call has ended. */
function Answered({ call: { id, answered, finished } }) {
  const { data } = useLoad(!answered && finished ? `record/calls/${segment(id)}` : null);
  const step = data?.story?.findLast?.(({ stage }) => stage?.startsWith?.('answer'));
  if (answered) return html`<p class="answered">Answered: <strong>${ANSWER[answered.answer] ?? 'answered'}</strong>${answered.by ? html`, by <${Name} text=${answered.by} />` : ''}</p>`;
  return step?.text ? html`<p class="answered">Answer: <${Name} text=${step.text} max=${200} /></p>` : null;
}

function Progress({ progress: { done, total, message } }) {
  return html`
    <div class="progress">
      <progress aria-label="Progress" value=${total ? done : undefined} max=${total || undefined}></progress>
      ${message && html`<${Name} text=${oneLine(message)} />`}
    </div>
  `;
}

function Effects({ effects, total }) {
  return html`
    <ol class="effects" tabindex="0" role="list" aria-label="Effects">
      ${effects.map(
        ({ at, effect, subject, decision }, index) => html`
          <li key=${total - effects.length + index}>
            <span class="faint time">${clock(at)}</span>
            <span class="verb">${EFFECTS.has(effect) ? effect : 'effect'}</span>
            <${Name} text=${subject} max=${300} />
            ${decision && decision !== 'allow' && html`<${Decision} decision=${decision} />`}
          </li>
        `,
      )}
    </ol>
    ${total > EFFECTS_MAX && html`<p class="faint small">The last ${EFFECTS_MAX} of ${plural(total, 'effect')}.</p>`}
  `;
}

/** The streamed output. It follows the end, unless a person has scrolled up. */
function Output({ output }) {
  const box = useRef(null);
  const follows = useRef(true);
  useStore(liveVersion);
  useLayoutEffect(() => {
    if (follows.current) box.current.scrollTop = box.current.scrollHeight;
  });
  const scrolled = ({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
    follows.current = scrollTop + clientHeight > scrollHeight - 24;
  };
  return html`
    <div class="foreign output" ref=${box} onScroll=${scrolled} tabindex="0" role="log" aria-live="off" aria-label="Output" translate="no">
      ${(output.dropped > 0 || output.isCut) && html`<div class="faint">(what came before this is not kept)</div>`}
      ${output.length === 0 && html`<div class="faint">(nothing yet)</div>`}
      ${output.chunks.map(({ key, stream, text }) => html`<${Chunk} key=${key} stream=${stream} text=${text} />`)}
    </div>
  `;
}

const STREAMS = new Set(['stdout', 'stderr', 'log']);

/** A part of the output. It renders only when its text has grown. */
class Chunk extends Component {
  shouldComponentUpdate({ text }) {
    return text.length !== this.props.text.length;
  }

  render({ stream, text }) {
    return html`<div class=${STREAMS.has(stream) ? `chunk ${stream}` : 'chunk'}>${visible(text)}</div>`;
  }
}
