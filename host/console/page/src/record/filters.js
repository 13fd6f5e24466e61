/** The search fields of the record. */
import { html, useEffect, useRef, useState } from '../base/html.js';
import { moment } from '../base/format.js';
import { href } from '../base/router.js';
import { OUTCOMES } from '../parts/outcome.js';
import { Name } from '../parts/text.js';
import { EVENTS, eventName } from './timeline.js';

const FIELDS = [
  ['tool', 'Tool'],
  ['code', 'Error code'],
  ['client', 'Agent'],
  ['session', 'Session'],
  ['host', 'Host'],
  ['file', 'File'],
];
const NAMES = { text: 'Text', outcome: 'Outcome', tool: 'Tool', decision: 'Decision', event: 'Kind', code: 'Error code', client: 'Agent', session: 'Session', host: 'Host', file: 'File', since: 'Since', until: 'Until' };
const TIMES = new Set(['since', 'until']);
const TYPING_MS = 350;

/** Writes a time for an input of date and time, in the person's time zone. */
function localTime(iso) {
  const date = new Date(iso);
  if (Number.isNaN(date.getTime())) return '';
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

const QUICK = [['refused', 'Refused, last 7 days'], ['failed', 'Failed'], ['stopped', 'Stopped']];
const WEEK_MS = 7 * 86_400_000;

/** What people look for most, while no filter is set. */
function QuickLinks({ filter }) {
  if (Object.keys(filter).length) return null;
  // To the minute, so that the address does not change with each look.
  const since = new Date(Math.floor((Date.now() - WEEK_MS) / 60_000) * 60_000).toISOString();
  return html`
    <ul class="chips" aria-label="Quick filters">
      ${QUICK.map(([outcome, text]) => html`<li key=${outcome}><a href=${href('record', [], outcome === 'refused' ? { outcome, since } : { outcome })}>${text}</a></li>`)}
    </ul>
  `;
}

export function Filters({ filter, onChange, children }) {
  const [text, setText] = useState(filter.text ?? '');
  const [isOpen, setOpen] = useState(false);
  const typing = useRef(null);
  useEffect(() => setText(filter.text ?? ''), [filter.text]);
  const set = (name, value) => {
    const { [name]: _, ...rest } = filter;
    onChange(value ? { ...rest, [name]: value } : rest);
  };
  const type = (value) => {
    setText(value);
    clearTimeout(typing.current);
    typing.current = setTimeout(() => set('text', value.trim()), TYPING_MS);
  };
  const time = (name) => html`
    <label>${NAMES[name]}<input type="datetime-local" value=${filter[name] ? localTime(filter[name]) : ''} onChange=${({ currentTarget: { value } }) => set(name, value ? new Date(value).toISOString() : '')} /></label>
  `;
  const given = Object.entries(filter).filter(([name]) => name in NAMES && name !== 'text');
  return html`
    <div class="toolbar" role="search" aria-label="Record">
      <input data-search type="search" class="search" placeholder="Search the record" aria-label="Search the record" value=${text} onInput=${(event) => type(event.currentTarget.value)} />
      <button aria-expanded=${isOpen} class=${given.length ? 'toggled' : ''} onClick=${() => setOpen(!isOpen)}>Filters${given.length ? ` (${given.length})` : ''}</button>
      <span class="spacer"></span>
      ${children}
      ${isOpen &&
      html`
        <fieldset class="filters">
          <legend class="visually-hidden">Filters</legend>
          <label>Outcome
            <select value=${filter.outcome ?? ''} onChange=${(event) => set('outcome', event.currentTarget.value)}>
              <option value="">any</option>
              ${OUTCOMES.map(([name, , text]) => html`<option key=${name} value=${name}>${text}</option>`)}
            </select>
          </label>
          <label>Decision of the rules
            <select value=${filter.decision ?? ''} onChange=${(event) => set('decision', event.currentTarget.value)}>
              <option value="">any</option><option>allow</option><option>ask</option><option>deny</option>
            </select>
          </label>
          <label>Kind
            <select value=${filter.event ?? ''} onChange=${(event) => set('event', event.currentTarget.value)}>
              <option value="">any</option>
              ${EVENTS.map((event) => html`<option key=${event} value=${event}>${eventName(event)}</option>`)}
            </select>
          </label>
          ${FIELDS.map(([name, label]) => html`<label key=${name}>${label}<input type="text" spellcheck=${false} autocapitalize="off" value=${filter[name] ?? ''} onChange=${(event) => set(name, event.currentTarget.value.trim())} /></label>`)}
          ${time('since')} ${time('until')}
        </fieldset>
      `}
      <${QuickLinks} filter=${filter} />
      ${given.length > 0 &&
      html`
        <ul class="chips" aria-label="Active filters">
          ${given.map(([name, value]) => html`<li key=${name}>${NAMES[name]} ${TIMES.has(name) && moment(value) !== '– –' ? moment(value) : html`<${Name} text=${value} max=${40} />`}<button class="link" aria-label=${`Remove the filter ${NAMES[name]}`} onClick=${() => set(name, '')}>×</button></li>`)}
          <li><button class="link" onClick=${() => onChange({})}>Remove all</button></li>
        </ul>
      `}
    </div>
  `;
}
