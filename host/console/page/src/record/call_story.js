/** The whole story of a call, from the record. */
import { html } from '../base/html.js';
import { segment, useLoad } from '../base/api.js';
import { bytes, clock, count, duration, moment, oneLine } from '../base/format.js';
import { href } from '../base/router.js';
import { live } from '../base/session.js';
import { Decision, Facts, Tag } from '../parts/controls.js';
import { Outcome } from '../parts/outcome.js';
import { Reasons } from '../parts/reasons.js';
import { DetailPane, LoadState } from '../parts/split.js';
import { useSome } from '../parts/some.js';
import { HostText } from '../parts/host_text.js';
import { Framed, Name } from '../parts/text.js';
import { endOf, eventName, isTimed } from './timeline.js';

const CHAIN = { intact: ['good', 'hash chain intact'], broken: ['bad', 'hash chain broken'], unknown: ['faint', 'hash chain not checked'] };

export function CallStory({ id, onClose }) {
  const load = useLoad(`record/calls/${segment(id)}`);
  const { data } = load;
  const entry = data?.entries?.findLast?.(({ event }) => event === 'call') ?? data?.entries?.at(-1);
  const [chainTone, chainText] = CHAIN[data?.chain?.state] ?? CHAIN.unknown;
  return html`
    <${DetailPane}
      label="Story of a call"
      title=${entry?.tool ? html`<${Name} text=${entry.tool} max=${70} strong />` : 'Call'}
      tags=${html`<${Outcome} outcome=${data?.outcome} />${entry?.ok === false && html`<${Tag} tone="faint">${oneLine(entry.code ?? 'failed', 30)}<//>`}`}
      actions=${live.calls.has(id) && html`<a class="button" href=${href('live', [id])}>Live</a>`}
      onClose=${onClose}
    >
      <${LoadState} load=${load} what="the story" />
      ${data &&
        html`
          ${data.subject && html`<p class="story-subject"><${Name} text=${data.subject} max=${200} /></p>`}
          <p class="story-chain"><${Tag} tone=${chainTone}>${chainText}<//> ${data.chain?.text && html`<span class="faint small">${data.chain.text}</span>`}</p>
          <h3>Story</h3>
          <ol class="story">
            ${(data.story ?? []).map(
              ({ stage, title, text, at, callId }, index) => html`
                <li key=${index}>
                  <div class="story-title">${title}${at && html` <span class="faint small">${clock(at)}</span>`}</div>
                  ${text && html`<${stage === 'effect' ? Name : HostText} text=${text} max=${500} />`}
                  ${callId && callId !== id && html` <a href=${href('record', ['call', callId])}>Show that call</a>`}
                </li>
              `,
            )}
          </ol>
          ${data.undo && html`<p><a class="button" href=${href('tools', ['undo', data.undo.id ?? ''])}>Show its change</a></p>`}
          ${data.undoElsewhere && html`<p class="message">If it changed files, they are on the worker <${Name} text=${data.undoElsewhere.host ?? data.undoElsewhere.node} max=${60} />. Run <code>${data.undoElsewhere.command}</code> there, in the folder of the workspace, to take the change back.</p>`}
          <h3>Why it was decided so</h3>
          <${Explanation} explanation=${data.explanation ?? entry ?? {}} />
          <p><a href=${href('policy', ['explain'], { tool: entry?.tool })}>Test such a call now</a>, or ask <a href=${href('record', ['what-if'], { tool: entry?.tool })}>what if a rule were different</a>.</p>
          ${entry && html`<h3>Facts</h3><${EntryFacts} entry=${entry} client=${data.client} />`}
          <${LedTo} calls=${data.ledTo ?? []} total=${data.ledToTotal} />
          <${Nested} calls=${data.nested ?? []} />
          <details><summary>Its lines in the record</summary><${Framed} text=${(data.entries ?? []).map((line) => JSON.stringify(line, null, 2)).join('\n')} label="Lines" /></details>
        `}
    <//>
  `;
}

/** The calls that content of strangers in the result of this one may have caused. */
function LedTo({ calls, total }) {
  const [shown, more] = useSome(calls, { total, what: 'calls' });
  if (!calls.length) return null;
  return html`
    <h3>What its content of strangers led to</h3>
    <ul class="names" aria-label="What it led to">${shown.map(({ callId, tool, subject, decision, outcome }) => html`<li key=${callId}><a href=${href('record', ['call', callId])}><${Name} text=${tool} strong /></a> ${subject && html`<${Name} text=${subject} max=${120} /> `}<${Decision} decision=${decision} /> <${Outcome} outcome=${outcome} /></li>`)}</ul>
    ${more}
  `;
}

function Nested({ calls }) {
  const [shown, more] = useSome(calls, { what: 'calls' });
  if (!calls.length) return null;
  return html`
    <h3>Calls that it made</h3>
    <ul class="names">${shown.map((nested) => html`<li key=${nested}><a href=${href('record', ['call', nested])}><${Name} text=${nested} /></a></li>`)}</ul>
    ${more}
  `;
}

/** Why a call was decided so: all reasons where they are known, else what is on record. */
function Explanation({ explanation: { decision, reasons, rule, answer, argumentsRecorded } }) {
  if (reasons) return html`<${Reasons} decision=${decision} reasons=${reasons} />`;
  return html`
    <p>${decision ? html`Decision: <${Decision} decision=${decision} />` : 'No decision is on record.'}${rule && html`, by the rule <${Name} text=${rule} max=${200} />`}</p>
    ${answer && html`<p><${Name} text=${answer} max=${200} /></p>`}
    ${!argumentsRecorded && html`<p class="faint small">Its arguments are not on record (audit.logArgs).</p>`}
  `;
}

function EntryFacts({ entry, client }) {
  const agent = entry.client ?? client;
  return html`
    <${Facts}
      facts=${[
        [isTimed(entry) ? 'Started' : 'Time', moment(entry.time)],
        ['Ended', isTimed(entry) ? moment(endOf(entry)) : null],
        ['Took', Number.isFinite(entry.durationMs) ? duration(entry.durationMs) : null],
        ['Answer', entry.answer && html`${oneLine(entry.answer, 20)}${Number.isFinite(entry.waitedMs) ? `, after ${duration(entry.waitedMs)}` : ''}`],
        ['Session', entry.session && html`<a href=${href('record', [], { session: entry.session })}><${Name} text=${entry.session} /></a>`],
        ['Agent', agent && html`<a href=${href('record', [], { client: agent })}><${Name} text=${agent} max=${80} /></a>`],
        ['User', entry.user && html`<${Name} text=${entry.user} />`],
        ['Tool', entry.tool && html`<a href=${href('record', [], { tool: entry.tool })}><${Name} text=${entry.tool} max=${80} /></a>`],
        ['Subject', entry.subject && html`<${Name} text=${entry.subject} max=${300} />`],
        ['Detail', entry.detail && html`<${Name} text=${entry.detail} max=${1000} />`],
        ['In, out', Number.isFinite(entry.bytesOut) ? `${bytes(entry.bytesIn)}, ${bytes(entry.bytesOut)}` : null],
        ['Tokens', Number.isFinite(entry.tokens) ? count(entry.tokens) : null],
        ['Secrets masked', entry.secretsFound],
        ['sha256 of the tool', entry.digest && html`<${Name} text=${entry.digest} />`],
        ['Recorded by', entry.node?.id && html`${entry.node.role ?? 'node'} <${Name} text=${entry.node.id} max=${64} />${entry.node.host && html` on <${Name} text=${entry.node.host} max=${60} />`}`],
        ['Line', entry.seq],
      ]}
    />
  `;
}

/** A line that is not about a call. */
export function LineDetail({ entry, onClose }) {
  return html`
    <${DetailPane} label="Line of the record" title=${eventName(entry?.event)} onClose=${onClose}>
        ${entry
          ? html`
              <h3>Facts</h3><${EntryFacts} entry=${entry} />
              ${entry.id && html`<p><a class="button" href=${href('record', ['call', entry.id])}>Show its call</a></p>`}
              <h3>The line</h3><${Framed} text=${JSON.stringify({ ...entry, outcome: undefined, about: undefined }, null, 2)} label="Line" />
            `
          : html`<p class="faint">This line is not loaded. Search for it.</p>`}
    <//>
  `;
}
