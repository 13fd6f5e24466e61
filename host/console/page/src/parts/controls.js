/** Small parts: tags, tabs, messages, tables, icons. */
import { html, useEffect, useRef } from '../base/html.js';
import { oneLine } from '../base/format.js';
import { Name } from './text.js';

/** A word with a tone: good, warn, bad, accent or faint. */
export const Tag = ({ tone = '', children }) => html`<span class=${`tag ${tone}`}>${children}</span>`;

const DECISION_TONE = { allow: 'good', ask: 'warn', deny: 'bad' };

/** The decision of a rule, in the words of the settings: allow, ask, deny. */
export function Decision({ decision }) {
  if (!decision) return null;
  return html`<${Tag} tone=${DECISION_TONE[decision] ?? ''}>${oneLine(decision, 20)}<//>`;
}

const RISK_TONE = { low: 'faint', medium: 'accent', high: 'warn', critical: 'bad' };

/** The level of risk. */
export function Risk({ risk }) {
  if (!risk) return null;
  return html`<${Tag} tone=${RISK_TONE[risk] ?? ''}>${RISK_TONE[risk] ? `${risk} risk` : 'risk unknown'}<//>`;
}

/** Marks what an agent does after it has read text of strangers. */
export const AfterStrangers = ({ labels }) => labels?.trust === 'untrusted' && html`<${Tag} tone="warn">after strangers’ text<//>`;

/** An error of a request. */
export function ErrorText({ error, onRetry }) {
  if (!error) return null;
  return html`
    <p class="message bad" role="alert">
      ${error.message} ${onRetry && html`<button class="link" onClick=${onRetry}>Try again</button>`}
    </p>
  `;
}

/** The reason why buttons are off for the role of the person. */
export const RoleNote = ({ text }) => (text ? html`<p class="message slim role-note">${text}</p>` : null);

/** A list without entries says what would be there. */
export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2><p>${children}</p></div>`;

/** A place for a text that is being loaded. */
export const Loading = ({ what }) => html`<p class="loading faint" role="status">Loading ${what}…</p>`;

/**
 * Tabs within a screen.
 * @param {{ label: string, tabs: { id: string, text: string, badge?: number }[], selected: string, onSelect: (id: string) => void }} props
 */
export function Tabs({ label, tabs, selected, onSelect }) {
  const list = useRef(null);
  // On a phone, not all tabs fit.
  useEffect(() => {
    list.current.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  }, [selected]);
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const index = tabs.findIndex(({ id }) => id === selected);
    const next = (index + step + tabs.length) % tabs.length;
    onSelect(tabs[next].id);
    list.current.children[next].focus();
  };
  return html`
    <div class="tabs" role="tablist" aria-label=${label} ref=${list} onKeyDown=${move}>
      ${tabs.map(
        ({ id, text, badge }) => html`
          <button
            key=${id}
            role="tab"
            aria-selected=${id === selected}
            tabindex=${id === selected ? 0 : -1}
            onClick=${() => onSelect(id)}
          >
            ${text}${badge ? html`<span class="badge">${badge}</span>` : null}
          </button>
        `,
      )}
    </div>
  `;
}

/** A switch. */
export function Switch({ label, isOn, isDisabled, onChange }) {
  return html`
    <button class="switch" role="switch" aria-checked=${isOn} aria-label=${label} disabled=${isDisabled} onClick=${() => onChange(!isOn)}>
      <span class="knob"></span>
    </button>
  `;
}

/** A list of terms. Terms without a value are left out. */
export function Facts({ facts }) {
  const given = facts.filter(([, value]) => value !== undefined && value !== null && value !== '');
  return html`<dl class="facts">${given.map(([term, value]) => html`<div key=${term}><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** A table of a server's list with columns that the page does not know. */
export function PlainTable({ label, columns, rows }) {
  return html`
    <div class="table-box" role="region" aria-label=${label} tabindex="0">
      <table>
        <thead><tr>${columns.map((column, index) => html`<th key=${index} scope="col">${String(column)}</th>`)}</tr></thead>
        <tbody>
          ${rows.slice(0, 1000).map(
            (row, index) => html`<tr key=${index}>${columns.map((column, place) => html`<td key=${place}>${cell(Array.isArray(row) ? row[place] : row?.[column])}</td>`)}</tr>`,
          )}
        </tbody>
      </table>
    </div>
  `;
}

const cell = (value) => (value === null || value === undefined ? '–' : html`<${Name} text=${value} max=${240} />`);

const PATHS = {
  live: 'M2 9h3l2-5 4 10 2-5h3',
  questions: 'M6.5 6.5a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.8M9 13.4v.1M9 1.5a7.5 7.5 0 1 1 0 15 7.5 7.5 0 0 1 0-15z',
  record: 'M4 2.5h10v13H4zM6.5 6h5M6.5 9h5M6.5 12h3',
  tools: 'M3 3h5v5H3zM10 3h5v5h-5zM3 10h5v5H3zM12.5 10v5M10 12.5h5',
  policy: 'M9 1.8 15 4v5c0 3.6-2.6 6-6 7.2C5.600 15 3 12.600 3 9V4zM6.500 9l1.800 1.800L11.800 7.200',
  stop: 'M6 2h6l4 4v6l-4 4H6l-4-4V6z',
  back: 'M11 3.500 5.500 9l5.500 5.500',
  theme: 'M9 2a7 7 0 1 0 0 14zM9 2a7 7 0 0 1 0 14',
  phone: 'M5.500 1.500h7v15h-7zM8.500 14h1',
  bell: 'M4.500 12.500V8a4.500 4.500 0 0 1 9 0v4.500l1 1h-11zM7.500 15.500h3',
};

/** A drawing of 18 by 18. It says nothing that the text beside it does not. */
export const Icon = ({ name }) => html`
  <svg class="icon" viewBox="0 0 18 18" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>
`;
