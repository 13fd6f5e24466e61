/** The record: the audit log as a timeline, its numbers, and what another rule would have changed. */
import { html } from '../base/html.js';
import { go, href, route } from '../base/router.js';
import { useStore } from '../base/store.js';
import { Tabs } from '../parts/controls.js';
import { Charts } from './charts.js';
import { Strangers } from './strangers.js';
import { Timeline } from './timeline.js';
import { WhatIf } from './what_if.js';

const TABS = [
  { id: 'timeline', text: 'Timeline' },
  { id: 'charts', text: 'Charts' },
  { id: 'strangers', text: 'Strangers’ text' },
  { id: 'what-if', text: 'What if' },
];

/** The filter of the timeline, for the way back to it. */
let filter = {};

export function RecordScreen() {
  const { parts, query } = useStore(route);
  const tab = TABS.some(({ id }) => id === parts[0]) ? parts[0] : 'timeline';
  if (tab === 'timeline') filter = query;
  return html`
    <div class="screen">
      <${Tabs} label="Record" tabs=${TABS} selected=${tab} onSelect=${(id) => go(id === 'timeline' ? href('record', [], filter) : href('record', [id]))} />
      ${tab === 'timeline' && html`<${Timeline} parts=${parts} filter=${query} />`}
      ${tab === 'charts' && html`<${Charts} />`}
      ${tab === 'strangers' && html`<${Strangers} />`}
      ${tab === 'what-if' && html`<div class="page-scroll"><${WhatIf} /></div>`}
    </div>
  `;
}
