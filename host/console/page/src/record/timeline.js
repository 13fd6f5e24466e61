/** The lines of the record, newest first, loaded while scrolling. */
import { html, useEffect, useRef, useState } from '../base/html.js';
import { get, query as queryText } from '../base/api.js';
import { clock, count, day, duration, millis, oneLine, plural, visible } from '../base/format.js';
import { go, href } from '../base/router.js';
import { isAdmin, session } from '../base/session.js';
import { useStore } from '../base/store.js';
import { Empty, ErrorText, Loading, Tag } from '../parts/controls.js';
import { isNarrow } from '../parts/narrow.js';
import { Outcome } from '../parts/outcome.js';
import { Split, useListKeys } from '../parts/split.js';
import { VirtualList } from '../parts/virtual_list.js';
import { Filters } from './filters.js';
import { NEW_MAX, useNewLines } from './new_entries.js';
import { CallStory, LineDetail } from './call_story.js';
import { VerifyButton } from './verify.js';

const PAGE = 200;

/** Lines that are kept. The search or the time narrows down more than that. */
const LINES_MAX = 10_000;

/** Loads lines page by page. Another filter starts again. */
function useRecord(filter) {
  const key = JSON.stringify(filter);
  const [state, setState] = useState({ key: null, rows: [], next: null, total: null, error: null, isLoading: true });
  const turn = useRef(0);
  const load = async (before, rows) => {
    const own = ++turn.current;
    setState({ ...state, key, rows, error: null, isLoading: true });
    try {
      const page = await get('record', { ...filter, before, limit: PAGE });
      if (own !== turn.current) return;
      const more = (page.entries ?? []).map((entry) => ({ id: String(entry.position ?? entry.seq), entry }));
      setState({ key, rows: [...rows, ...more], next: page.next ?? null, total: page.total ?? null, error: null, isLoading: false });
    } catch (error) {
      if (own === turn.current) setState({ ...state, key, rows, error, isLoading: false });
    }
  };
  const reload = () => load(undefined, []);
  useEffect(reload, [key]);
  const isFull = state.rows.length >= LINES_MAX;
  const more = () => {
    if (!state.isLoading && !state.error && state.next !== null && state.key === key && !isFull) load(state.next, state.rows);
  };
  return { ...state, isFull, reload, more, isLoaded: state.key === key && !state.isLoading };
}

export function Timeline({ parts, filter }) {
  const { rows, next, total, error, isLoading, isLoaded, isFull, reload, more } = useRecord(filter);
  const narrow = useStore(isNarrow);
  const added = useNewLines(filter, isLoaded ? (rows[0]?.id ?? '0') : null);
  const [kind, id] = parts;
  const isOpen = (kind === 'call' || kind === 'line') && !!id;
  const selected = kind === 'line' ? id : (rows.find(({ entry }) => entry.event === 'call' && entry.id === id)?.id ?? null);
  const open = (seq) => {
    const entry = rows.find((row) => row.id === seq)?.entry;
    if (entry) go(href('record', entry.event === 'call' && entry.id ? ['call', entry.id] : ['line', seq], filter), isOpen);
  };
  const close = () => go(href('record', [], filter));
  useListKeys(rows.map((row) => row.id), selected, open, isOpen && close);
  const isFiltered = Object.keys(filter).length > 0;
  const list = html`
    <${Filters} filter=${filter} onChange=${(changed) => go(href('record', [], changed), true)}>
      <${VerifyButton} />
      <a class="button" href=${`api/record/export${queryText(filter)}`} download>Export</a>
    <//>
    ${added > 0 && html`<p class="message slim" role="status">${added >= NEW_MAX ? `${count(added)} or more new lines` : plural(added, 'new line')}${isFiltered ? (added === 1 ? ' that matches' : ' that match') : ''} <button class="link" onClick=${reload}>Show</button></p>`}
    <${ErrorText} error=${error} onRetry=${reload} />
    <div class="columns record-columns" aria-hidden="true"><span>Time</span><span>What</span><span>Tool or subject</span><span>Agent</span><span>Result</span><span class="right">Took</span></div>
    ${rows.length > 0 &&
    html`
      <${VirtualList}
        rows=${rows}
        rowHeight=${narrow ? 54 : 34}
        label="Record, newest first"
        role="listbox"
        selected=${selected}
        onSelect=${open}
        onNearEnd=${more}
        render=${({ entry }) => html`<${Line} entry=${entry} />`}
      />
    `}
    ${!rows.length && isLoading && html`<${Loading} what="the record" />`}
    ${!rows.length && !isLoading && !error && html`<${Empty} title=${isFiltered ? 'Nothing found' : 'Nothing recorded yet'}>${isFiltered ? html`Change or remove a filter.${(filter.text || filter.file || filter.host) && html`<br /><${Unrecorded} />`}` : 'Each call of a tool adds a line here.'}<//>`}
    <p class="footnote faint" role="status">
      ${plural(rows.length, 'line')} loaded${total ? ` of ${count(total)}` : ''}${isLoading && rows.length ? ', loading more…' : ''}${next === null && rows.length > 0 ? ', to the beginning' : ''}
      ${isFull && html` – narrow the search, or <a href=${href('record', [], { ...filter, until: rows.at(-1).entry.time })}>continue before ${day(rows.at(-1).entry.time)} ${clock(rows.at(-1).entry.time)}</a>`}
    </p>
  `;
  let detail = null;
  if (isOpen && kind === 'call') detail = html`<${CallStory} key=${id} id=${id} onClose=${close} />`;
  else if (isOpen) detail = html`<${LineDetail} key=${id} entry=${rows.find((row) => row.id === id)?.entry} onClose=${close} />`;
  return html`<${Split} label="Lines of the record" list=${list} detail=${detail} />`;
}

/** Says why a name that a call had among its arguments may not be found. */
function Unrecorded() {
  const state = useStore(session);
  const setting = 'audit.logArgs: true';
  return html`
    Arguments of calls, such as names of files, are found only if they are on record, which is off unless <code>${setting}</code> is set.
    ${isAdmin(state) && state.local && html` <a href=${href('policy', ['edit'], { file: 'user', key: 'audit.logArgs', yaml: 'true' })}>Record arguments from now on…</a>`}
  `;
}

const EVENT = {
  call: 'call',
  attempt: 'attempt',
  approval: 'approval',
  grant: 'grant',
  revoke: 'revoked',
  effect: 'effect',
  'config-change': 'settings',
  'console-login': 'login',
  'secret-set': 'secret set',
  'secret-removed': 'secret gone',
  undo: 'undo',
  'redaction-exception': 'unmasked',
  canary: 'canary',
  rotated: 'next file',
  recovered: 'recovered',
  announced: 'announced',
  opened: 'opened',
  closed: 'closed',
};

/** Names a kind of line for people. */
export const eventName = (event) => EVENT[event] ?? 'line';

export const EVENTS = Object.keys(EVENT);

/** Returns true for the line of a call, which is written when the call ends but has the time of its start. */
export const isTimed = ({ event, durationMs }) => event === 'call' && Number.isFinite(durationMs);

/** Returns the time at which a line was written, so that times are in the order of the lines. */
export const endOf = (entry) => (isTimed(entry) ? millis(entry.time) + entry.durationMs + (entry.waitedMs || 0) : entry.time);

/** A fingerprint says nothing to a person; the detail does. */
const isDigest = (text) => /^[0-9a-f]{64}$/.test(text ?? '');

function Line({ entry }) {
  const { event, tool, subject, about, detail, session, client, decision, answer, ok, code, outcome, durationMs } = entry;
  const time = endOf(entry);
  const isCall = event === 'call' && !!outcome;
  const text = oneLine([event === 'call' ? about : isDigest(subject) ? '' : subject, detail].filter(Boolean).join(' – '), 160);
  // How it was decided, if that was no rule that simply allowed it; then why it did not succeed.
  const decided = [decision && decision !== 'allow' ? decision : '', answer].filter(Boolean).join(': ');
  const result = [decided, ok === false ? code || 'failed' : ''].filter(Boolean).join(', ');
  return html`
    <div class="record-row record-columns">
      <span class="cell-time faint"><span class="date">${day(time).slice(5)} </span>${clock(time)}</span>
      <span class="cell-event">${isCall ? html`<${Outcome} outcome=${outcome} />` : html`<${Tag} tone="faint">${eventName(event)}<//>`}</span>
      <span class="cell-subject">${tool && html`<code class="name strong" translate="no">${oneLine(tool, 70)}</code> `}<span class="inline-foreign" translate="no">${text}</span></span>
      <span class="cell-session inline-foreign" translate="no" title=${client ? visible(session) : undefined}>${oneLine(client || session, 40)}</span>
      <span class="cell-result">${!isCall && outcome && outcome !== 'ok' ? html`<${Outcome} outcome=${outcome} /> ` : ''}<span class=${ok === false ? 'bad-text' : 'faint'}>${oneLine(result, 40)}</span></span>
      <span class="cell-took right">${Number.isFinite(durationMs) ? duration(durationMs) : ''}</span>
    </div>
  `;
}
