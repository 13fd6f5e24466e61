/** The card of a question: first what changes, then what runs, then why it is asked. */
import { html, useRef, useState } from '../base/html.js';
import { post, segment } from '../base/api.js';
import { ago, duration, millis, plural } from '../base/format.js';
import { announce } from '../base/notify.js';
import { href } from '../base/router.js';
import { endQuestion } from '../base/session.js';
import { useSeconds } from '../base/seconds.js';
import { Diff } from '../parts/diff.js';
import { AfterStrangers, Decision, Facts, Risk } from '../parts/controls.js';
import { HostText, isHostLayer } from '../parts/host_text.js';
import { Reasons } from '../parts/reasons.js';
import { Framed, Name, Names } from '../parts/text.js';
import { AgentButton } from '../live/stop_agent.js';
import { AnswerBar } from './answer_bar.js';

export function QuestionCard({ question, isEdited, onDone, canAnswer, position, onStep, agent, onStopAgent }) {
  const { id, card = {}, callId, session, preview, labels } = question;
  const [commands, hosts, secrets] = [question.commands ?? [], question.hosts ?? [], question.secrets ?? []];
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  // What was shown: an answer never counts for arguments or a difference that the person has not seen.
  const [shown, setShown] = useState({ fingerprint: card.fingerprint, preview: preview?.digest });
  const isChanged = shown.fingerprint !== card.fingerprint || (shown.preview ?? preview?.digest) !== preview?.digest;
  // The first difference arrives a moment after its question.
  if (!isChanged && shown.preview !== preview?.digest) setShown({ ...shown, preview: preview?.digest });
  const answer = async (given) => {
    setBusy(true);
    setError(null);
    try {
      // A no is for whatever the call asks now.
      await post(`questions/${segment(id)}/answer`, { ...shown, ...(given.answer === 'no' && { fingerprint: card.fingerprint }), ...given });
      announce('Your answer counts.');
      endQuestion({ id, state: 'answered', answer: given.answer, by: 'you' });
      onDone(given.answer);
      return null;
    } catch (fault) {
      setError(fault);
      setBusy(false);
      return fault;
    }
  };
  const why = useRef(null);
  // The host sorts the reasons: the first one says most.
  const asks = (card.reasons ?? []).filter(({ decision }) => decision !== 'allow');
  const others = (card.reasons ?? []).filter(({ decision }) => decision === 'allow');
  const [cause] = asks;
  const calls = (card.caller ?? '').split(' → ').filter(Boolean);
  return html`
    <article class="card" aria-labelledby=${`title-${id}`}>
      <div class="card-scroll" tabindex="-1">
        ${position &&
        html`
          <div class="pager" role="group" aria-label="Questions">
            <button aria-label="Previous question" disabled=${position[0] <= 0} onClick=${() => onStep(-1)}>‹</button>
            <span>${position[0] + 1} of ${position[1]}</span>
            <button aria-label="Next question" disabled=${position[0] >= position[1] - 1} onClick=${() => onStep(1)}>›</button>
          </div>
        `}
        <header class="card-head">
          <h2 id=${`title-${id}`}>May <${Name} text=${card.tool} max=${80} strong /> run?</h2>
          <${Risk} risk=${card.risk} />
          <${AfterStrangers} labels=${labels} />
        </header>
        ${isEdited && html`<p class="message">This call was edited, and waits again: it has not run with the edited arguments.</p>`}
        <p class="summary"><${Name} text=${card.summary} max=${400} /></p>
        <p class="faint small"><${Asked} question=${question}>${calls.length > 0 && html`, within ${calls.map((call, index) => html`<${Name} key=${index} text=${call} /> `)}`}<//> ${agent && html`<${AgentButton} agent=${agent} onStop=${onStopAgent} quiet />`}</p>
        ${cause && html`<p class="because"><span class="faint">Reason:</span> <${isHostLayer(cause.layer) ? HostText : Name} text=${cause.text} max=${240} /> <button class="link" onClick=${() => why.current.scrollIntoView({ block: 'start' })}>Why you are asked</button></p>`}
        ${card.changes?.length > 0 && html`<section class="message warn"><h3>Changed since you granted it</h3><${Names} texts=${card.changes} /></section>`}

        ${(preview?.diff?.length > 0 || preview?.note) &&
        html`<section><h3>What will change</h3>
          ${preview.diff?.length > 0 && html`<${Diff} files=${preview.diff} />`}
          ${preview.note && html`<p class="faint">${preview.note}</p>`}
        </section>`}
        ${commands.length > 0 && html`<section><h3>${commands.length > 1 ? 'Commands, one by one' : 'Command'}</h3><${Commands} commands=${commands} /></section>`}
        ${(hosts.length > 0 || secrets.length > 0) &&
        html`<div class="pair">
          ${hosts.length > 0 && html`<section><h3>Hosts in the arguments</h3><${Names} texts=${hosts} /></section>`}
          ${secrets.length > 0 && html`<section><h3>Secrets it may use</h3><${Names} texts=${secrets} /></section>`}
        </div>`}
        <section><h3>Exact arguments</h3><${Framed} text=${card.arguments} label="Exact arguments" /></section>
        <section ref=${why}>
          <h3>Why you are asked</h3>
          ${labels && html`<${Labels} labels=${labels} isSaid=${cause?.layer === 'taint'} />`}
          <${Reasons} reasons=${asks} said=${cause?.text} />
          ${others.length > 0 && html`<details><summary>Also considered (${others.length})</summary><${Reasons} reasons=${others} /></details>`}
        </section>
        ${card.risks?.length > 0 && html`<section><h3>What can go wrong</h3><${Names} texts=${card.risks} /></section>`}
        ${card.grants?.length > 0 && html`<section><h3>Yes also grants, for this call</h3><${Names} texts=${card.grants} /></section>`}
        ${card.proofs?.length > 0 && html`<section><h3>Its imports prove that the plugin</h3><${Names} texts=${card.proofs} /></section>`}
        <details>
          <summary>Where it comes from</summary>
          <${Facts}
            facts=${[
              ['Source', card.source],
              ['File', html`<${Name} text=${card.location} max=${300} />`],
              ['sha256', html`<${Name} text=${card.digest} max=${80} />`],
              ['Workspace', html`<${Name} text=${question.workspace} max=${120} />`],
              ['Session', session && html`<a href=${href('record', [], { session })}><${Name} text=${session} /></a>`],
              ['Call', callId && html`<a href=${href('live', [callId])}><${Name} text=${callId} /></a>`],
            ]}
          />
          ${card.wayOut?.length > 0 && html`<h3>Without a question next time</h3><${Names} texts=${card.wayOut} />`}
        </details>
      </div>
      <div class="answers">
        ${error && html`<div class="message bad" role="alert"><strong>Your answer did not count.</strong> ${error.message}</div>`}
        ${isChanged && html`<div class="message warn" role="alert">The question has changed since you read it. <button onClick=${() => { setShown({ fingerprint: card.fingerprint, preview: preview?.digest }); setError(null); }}>I have read it again</button></div>`}
        ${canAnswer
          ? html`<${AnswerBar} question=${question} isDisabled=${isBusy} isChanged=${isChanged} preview=${shown.preview} onAnswer=${answer} />`
          : html`<p class="message">Your role can see questions, but not answer them.</p>`}
      </div>
    </article>
  `;
}

/** The commands of a call, each with its decision. */
export function Commands({ commands }) {
  return html`
    <ol class="commands">
      ${commands.map(
        ({ text, verdict, reason }, index) => html`
          <li key=${index}><${Decision} decision=${verdict} /><div class="grow"><${Framed} text=${text} label=${`Command ${index + 1}`} /><div class="small faint">${reason && html`<${Name} text=${reason} max=${300} />`}</div></div></li>
        `,
      )}
    </ol>
  `;
}

/** Since when, who asks, and for how long. */
function Asked({ question, children }) {
  const { askedAt, expiresAt } = question;
  const now = useSeconds();
  const left = millis(expiresAt) - now;
  return html`Asked ${ago(askedAt, now)} by <${Asker} question=${question} />${children}${Number.isFinite(left) && html`, ${left > 0 ? html`open for <span class=${left < 30_000 ? 'warn-text' : ''}>${duration(left)}</span> more` : 'expired'}`}`;
}

/** Who asks: the agent by its own name, if it has one, and the process. */
export function Asker({ question: { client, process }, short }) {
  const shown = html`<${Name} text=${process} max=${60} />`;
  return client ? html`<${Name} text=${client} max=${64} />${!short && html` (${shown})`}` : shown;
}

const READ = { system: 'no text of strangers', user: 'no text of strangers', verified: 'no text of strangers', untrusted: 'text of strangers' };
const DATA = { sensitive: ' and sensitive data', secret: ' and secrets' };

/** The beginning of a cause, which the sentence above the causes says already. */
const FROM = /^the session has read content of strangers, from (.+)$/s;

function Cause({ text }) {
  const from = FROM.exec(text ?? '')?.[1];
  return html`${from && 'from '}<${Name} text=${from ?? text} max=${300} />`;
}

/** The labels of what the session has read, with the calls that brought it. With `isSaid`, the reason above says that it is text of strangers. */
function Labels({ labels: { trust, dataClass, why: causes }, isSaid }) {
  const why = causes ?? [];
  const isOnlyLink = isSaid && trust === 'untrusted' && !DATA[dataClass] && why.length > 0;
  return html`
    <div class=${trust === 'untrusted' || DATA[dataClass] ? 'message warn' : 'message'}>
      <p>${isOnlyLink ? 'Where the text of strangers came from:' : READ[trust] ? `This session has read ${READ[trust]}${DATA[dataClass] ?? ''}.` : 'It is not known whether this session has read text of strangers.'}</p>
      ${why.length > 0 &&
      html`<ul class="why" aria-label=${plural(why.length, 'cause')}>
        ${why.map(
          ({ text, callId }, index) => html`<li key=${index}><${Cause} text=${text} /> ${callId && html`<a href=${href('record', ['call', callId])}>Show that call</a>`}</li>`,
        )}
      </ul>`}
    </div>
  `;
}
